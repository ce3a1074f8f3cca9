//! Admission plugins that are about built-in kinds, one file each.

mod certificates;
mod claim_resize;
mod default_classes;
mod limit_ranger;
mod node_restriction;
mod parsed;
mod pod_resize;
mod pod_security;
mod priority;
mod quota;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taints;
mod tolerations;
mod topology_labels;

use std::{collections::HashMap, sync::Arc};

use generic_server::{
    admission::{Admission, Attributes, Operation},
    auth::Authorizer,
    registry::Registry,
};
use machinery::{Str, Value};

pub use pod_security::PodSecuritySettings;
pub(crate) use priority::system_classes;
pub use quota::LimitedResource;

/// What the plugins are set up with.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How long pods stay on a node that is not ready, in seconds.
    pub not_ready_toleration_seconds: i64,
    /// How long pods stay on a node that cannot be reached, in seconds.
    pub unreachable_toleration_seconds: i64,
    /// What pods and others may use only where a quota covers it.
    pub limited_resources: Vec<LimitedResource>,
    /// What is asked of pods where their namespace says nothing.
    pub pod_security: PodSecuritySettings,
}

impl Settings {
    /// Takes up what the file of `--admission-control-config-file` says to a plugin. Answers whether the plugin has a use for it.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn configure(&mut self, plugin: &str, config: &Value) -> Result<bool, String> {
        match plugin {
            "PodSecurity" => self.pod_security = PodSecuritySettings::read(config)?,
            "ResourceQuota" => self.limited_resources = LimitedResource::all_of(config)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The plugin called `name`; `None` if it is not one of these.
pub fn plugin(
    name: &str,
    registries: &HashMap<(Str, Str), Arc<Registry>>,
    authorizer: &Arc<dyn Authorizer>,
    settings: &Settings,
) -> Option<Arc<dyn Admission>> {
    let registry = |group: &str, plural: &str| registries[&(Str::from(group), Str::from(plural))].clone();
    Some(match name {
        "LimitRanger" => Arc::new(limit_ranger::LimitRanger::new(registry("", "limitranges"))),
        "ServiceAccount" => Arc::new(service_account::ServiceAccount { accounts: registry("", "serviceaccounts") }),
        "PodSecurity" => Arc::new(pod_security::PodSecurity::new(
            registry("", "namespaces"),
            registry("", "pods"),
            settings.pod_security.clone(),
        )),
        "NodeRestriction" => {
            Arc::new(node_restriction::NodeRestriction { pods: registry("", "pods"), nodes: registry("", "nodes") })
        }
        "TaintNodesByCondition" => Arc::new(taints::TaintNodes),
        "Priority" => Arc::new(priority::Priority { classes: registry("scheduling.k8s.io", "priorityclasses") }),
        "RuntimeClass" => Arc::new(runtime_class::RuntimeClass { classes: registry("node.k8s.io", "runtimeclasses") }),
        "DefaultTolerationSeconds" => Arc::new(tolerations::DefaultTolerations::new(settings)),
        "CertificateApproval" => Arc::new(certificates::Approval(authorizer.clone())),
        "CertificateSigning" => Arc::new(certificates::Signing(authorizer.clone())),
        "CertificateSubjectRestriction" => Arc::new(certificates::SubjectRestriction),
        "PodTopologyLabels" => Arc::new(topology_labels::TopologyLabels { nodes: registry("", "nodes") }),
        "PodResizeValidator" => Arc::new(pod_resize::PodResize { nodes: registry("", "nodes") }),
        "DefaultStorageClass" => Arc::new(default_classes::DefaultClass {
            classes: registry("storage.k8s.io", "storageclasses"),
            kind: &default_classes::STORAGE,
        }),
        "DefaultIngressClass" => Arc::new(default_classes::DefaultClass {
            classes: registry("networking.k8s.io", "ingressclasses"),
            kind: &default_classes::INGRESS,
        }),
        "PersistentVolumeClaimResize" => {
            Arc::new(claim_resize::ClaimResize { classes: registry("storage.k8s.io", "storageclasses") })
        }
        "ResourceQuota" => {
            Arc::new(quota::ResourceQuota::new(registry("", "resourcequotas"), &settings.limited_resources))
        }
        "StorageObjectInUseProtection" => Arc::new(storage_protection::StorageProtection),
        _ => return None,
    })
}

/// Whether a write makes an object of this core resource.
fn creates(a: &Attributes<'_>, plural: &str) -> bool {
    a.operation == Operation::Create && a.subresource.is_empty() && a.row.group.is_empty() && a.row.plural == plural
}

/// Whether a pod stands for one that a kubelet runs from a file.
fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some()
}

/// Several findings as one refusal, in upstream's form: each is told once, and one needs no brackets.
fn aggregated(findings: Vec<String>) -> String {
    let mut told: Vec<String> = Vec::with_capacity(findings.len());
    for finding in findings {
        if !told.contains(&finding) {
            told.push(finding);
        }
    }
    match told.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
