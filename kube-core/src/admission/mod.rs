//! Admission plugins that are about built-in kinds, one file each.

mod always_pull_images;
mod anti_affinity;
mod certificates;
mod claim_resize;
mod declared_features;
mod default_classes;
mod event_rate;
mod extended_resources;
mod external_ips;
mod image_policy;
mod limit_ranger;
mod mountable_secrets;
mod namespace_lifecycle;
mod namespaces;
mod node_restriction;
mod node_selectors;
mod owners;
mod parsed;
mod plugin_config;
mod pod_groups;
mod pod_resize;
mod pod_security;
mod priority;
mod quota;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taints;
mod toleration_coverage;
mod toleration_limits;
mod tolerations;
mod topology_labels;

use std::{collections::HashSet, sync::Arc};

use auth::Authorizer;
use generic_server::{
    admission::{Admission, AlwaysAdmit, Attributes, Operation, OwnChain},
    features::Features,
    registry::{Lister, Listers, Registry},
};
use machinery::{
    Value,
    meta::{GroupResource, status::Status},
};
use policies::Tables;

pub use event_rate::EventLimit;
pub use image_policy::ImagePolicySettings;
pub use namespace_lifecycle::NamespaceLifecycle;
pub use node_selectors::NodeSelectorSettings;
pub use plugin_config::PluginConfigError;
pub use pod_security::PodSecuritySettings;
pub(crate) use priority::system_classes;
pub use quota::{LimitedResource, Recount};
pub use toleration_limits::TolerationSettings;

/// What the plugins are set up with.
#[derive(Clone, Debug, Default)]
pub struct PluginSettings {
    /// How long pods stay on a node that is not ready, in seconds.
    pub not_ready_toleration_seconds: i64,
    /// How long pods stay on a node that cannot be reached, in seconds.
    pub unreachable_toleration_seconds: i64,
    /// What pods and others may use only where a quota covers it.
    pub limited_resources: Vec<LimitedResource>,
    /// What is asked of pods where their namespace says nothing.
    pub pod_security: PodSecuritySettings,
    /// On which nodes the pods of namespaces run.
    pub node_selectors: NodeSelectorSettings,
    /// What pods tolerate where their namespace says nothing.
    pub tolerations: TolerationSettings,
    /// How fast events may come; EventRateLimit needs some.
    pub event_limits: Option<Vec<EventLimit>>,
    /// Who says which images may run; ImagePolicyWebhook needs somebody.
    pub image_policy: Option<ImagePolicySettings>,
    /// Which features are on.
    pub features: Features,
}

impl PluginSettings {
    /// Takes up what the file of `--admission-control-config-file` says to a plugin. Answers whether the plugin has a use for it.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn configure(&mut self, plugin: &str, config: &Value) -> Result<bool, PluginConfigError> {
        match plugin {
            "EventRateLimit" => self.event_limits = Some(EventLimit::all_of(config)?),
            "ImagePolicyWebhook" => self.image_policy = Some(ImagePolicySettings::read(config)?),
            "PodNodeSelector" => self.node_selectors = node_selectors::read(config)?,
            "PodSecurity" => self.pod_security = PodSecuritySettings::read(config)?,
            "PodTolerationRestriction" => self.tolerations = TolerationSettings::read(config)?,
            "ResourceQuota" => self.limited_resources = LimitedResource::all_of(config)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What plugins are made of.
pub struct Surroundings<'a> {
    /// What the plugins read.
    pub listers: &'a Listers,
    /// The chain that they will be part of, for what they write themselves.
    pub chain: OwnChain,
    /// Who says what users may do.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// All resources that are served.
    pub tables: &'a Tables,
    /// What the plugins are set up with.
    pub settings: &'a PluginSettings,
}

/// Plugins that are about features, and the gates of those.
const GATED: [(&str, &[&str]); 7] = [
    ("ClusterTrustBundleAttest", &["ClusterTrustBundle"]),
    ("PodGroupProtection", &["GenericWorkload"]),
    ("PodGroupWorkloadExists", &["GenericWorkload"]),
    ("JobValidation", &["GenericWorkload", "WorkloadWithJob"]),
    ("MutatingAdmissionPolicy", &["MutatingAdmissionPolicy"]),
    ("NodeDeclaredFeatureValidator", &["NodeDeclaredFeatures"]),
    ("PodTopologyLabels", &["PodTopologyLabelsAdmission"]),
];

/// Whether a plugin has nothing to do, as no feature that it is about is on.
pub fn is_idle(name: &str, features: &Features) -> bool {
    GATED.iter().any(|(plugin, gates)| *plugin == name && !gates.iter().any(|gate| features.is_on(gate)))
}

/// The plugin called `name`; `None` if it is not one of these.
pub fn plugin(name: &str, surroundings: &Surroundings<'_>) -> Option<Arc<dyn Admission>> {
    let Surroundings { listers, authorizer, settings, .. } = surroundings;
    let served = |group: &str, plural: &str| listers.get(group, plural).cloned();
    let lister = |group: &str, plural: &str| listers.of(group, plural).clone();
    let writer = |group: &str, plural: &str| {
        Arc::new(Registry::new(lister(group, plural), Arc::new(surroundings.chain.clone())))
    };
    Some(match name {
        "AlwaysPullImages" => Arc::new(always_pull_images::AlwaysPullImages),
        "NamespaceLifecycle" => Arc::new(NamespaceLifecycle::new(lister("", "namespaces"))),
        "NamespaceAutoProvision" => Arc::new(namespaces::AutoProvision(writer("", "namespaces"))),
        "NamespaceExists" => Arc::new(namespaces::Exists(lister("", "namespaces"))),
        "LimitPodHardAntiAffinityTopology" => Arc::new(anti_affinity::LimitAntiAffinity),
        "PodNodeSelector" => Arc::new(node_selectors::NodeSelectors {
            namespaces: lister("", "namespaces"),
            settings: settings.node_selectors.clone(),
        }),
        "PodTolerationRestriction" => Arc::new(toleration_limits::TolerationLimits {
            namespaces: lister("", "namespaces"),
            settings: settings.tolerations.clone(),
        }),
        "EventRateLimit" => Arc::new(event_rate::EventRate::new(settings.event_limits.as_deref().unwrap_or_default())),
        "ImagePolicyWebhook" => Arc::new(image_policy::ImagePolicy::new(settings.image_policy.clone()?)),
        "ExtendedResourceToleration" => Arc::new(extended_resources::ExtendedResources),
        "OwnerReferencesPermissionEnforcement" => {
            Arc::new(owners::Owners { authorizer: (*authorizer).clone(), tables: surroundings.tables.clone() })
        }
        "DenyServiceExternalIPs" => Arc::new(external_ips::DenyExternalIps),
        "ClusterTrustBundleAttest" => Arc::new(certificates::Attesting((*authorizer).clone())),
        "PodGroupProtection" => Arc::new(pod_groups::Protection),
        // Where they are not served there are none of either.
        "PodGroupWorkloadExists" => match served("scheduling.k8s.io", "workloads") {
            Some(workloads) => Arc::new(pod_groups::WorkloadExists(workloads)),
            None => Arc::new(AlwaysAdmit),
        },
        "JobValidation" => match served("scheduling.k8s.io", "podgroups") {
            Some(groups) => Arc::new(pod_groups::Jobs(groups)),
            None => Arc::new(AlwaysAdmit),
        },
        "NodeDeclaredFeatureValidator" => Arc::new(declared_features::DeclaredFeatures(lister("", "nodes"))),
        "LimitRanger" => Arc::new(limit_ranger::LimitRanger::new(lister("", "limitranges"))),
        "ServiceAccount" => Arc::new(service_account::ServiceAccount { accounts: lister("", "serviceaccounts") }),
        "PodSecurity" => Arc::new(pod_security::PodSecurity::new(
            lister("", "namespaces"),
            lister("", "pods"),
            settings.pod_security.clone(),
        )),
        "NodeRestriction" => Arc::new(node_restriction::NodeRestriction::new(lister, authorizer, &settings.features)),
        "TaintNodesByCondition" => Arc::new(taints::TaintNodes),
        "Priority" => Arc::new(priority::Priority {
            classes: lister("scheduling.k8s.io", "priorityclasses"),
            groups: settings.features.is_on("WorkloadAwarePreemption"),
        }),
        "RuntimeClass" => Arc::new(runtime_class::RuntimeClass { classes: lister("node.k8s.io", "runtimeclasses") }),
        "DefaultTolerationSeconds" => Arc::new(tolerations::DefaultTolerations::new(settings)),
        "CertificateApproval" => Arc::new(certificates::Approval((*authorizer).clone())),
        "CertificateSigning" => Arc::new(certificates::Signing((*authorizer).clone())),
        "CertificateSubjectRestriction" => Arc::new(certificates::SubjectRestriction),
        "PodTopologyLabels" => Arc::new(topology_labels::TopologyLabels { nodes: lister("", "nodes") }),
        "PodResizeValidator" => Arc::new(pod_resize::PodResize { nodes: lister("", "nodes") }),
        "DefaultStorageClass" => Arc::new(default_classes::DefaultClass {
            classes: lister("storage.k8s.io", "storageclasses"),
            kind: &default_classes::STORAGE,
        }),
        "DefaultIngressClass" => Arc::new(default_classes::DefaultClass {
            classes: lister("networking.k8s.io", "ingressclasses"),
            kind: &default_classes::INGRESS,
        }),
        "PersistentVolumeClaimResize" => {
            Arc::new(claim_resize::ClaimResize { classes: lister("storage.k8s.io", "storageclasses") })
        }
        "ResourceQuota" => {
            Arc::new(quota::ResourceQuota::new(writer("", "resourcequotas"), &settings.limited_resources))
        }
        "StorageObjectInUseProtection" => Arc::new(storage_protection::StorageProtection),
        _ => return None,
    })
}

/// Whether a write makes an object of this core resource.
fn creates(a: &Attributes<'_>, plural: &str) -> bool {
    a.operation == Operation::Create && a.subresource.is_empty() && a.row.group.is_empty() && a.row.plural == plural
}

/// Whether a write is one of a pod itself: a new one, or a changed one.
fn writes_pod(a: &Attributes<'_>) -> bool {
    matches!(a.operation, Operation::Create | Operation::Update) && a.subresource.is_empty() && a.is_of("", "pods")
}

/// The resource that is written, as errors name it.
fn resource_of(a: &Attributes<'_>) -> GroupResource {
    GroupResource::new(a.row.group.clone(), a.row.plural.clone())
}

/// The latest state of an object. One that is not there is called by its kind, in small letters: upstream's plugins look it
/// up so.
async fn found(lister: &Lister, namespace: &str, name: &str) -> Result<Value, Status> {
    lister.get_value(namespace, name).await.map_err(|status| match status.code {
        404 => {
            let kind = lister.row.kind.to_ascii_lowercase();
            Status::not_found(&GroupResource::new(lister.row.group.clone(), kind), name)
        }
        _ => status,
    })
}

/// Checks that a configuration is of one of these kinds (apiVersion and kind); `expected` says what it should be.
fn expect_kind(config: &Value, known: &[(&str, &str)], expected: &'static str) -> Result<(), PluginConfigError> {
    let text = |member: &str| config.str_at(&[member]).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    match known.contains(&(api_version, kind)) {
        true => Ok(()),
        false => {
            Err(PluginConfigError::OtherKind { api_version: api_version.to_owned(), kind: kind.to_owned(), expected })
        }
    }
}

/// Whether a pod stands for one that a kubelet runs from a file.
fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some()
}

/// Several findings as one refusal, in upstream's form: each is told once, and one needs no brackets.
fn aggregated(mut findings: Vec<String>) -> String {
    let mut told = HashSet::with_capacity(findings.len());
    findings.retain(|finding| told.insert(finding.clone()));
    match findings.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
