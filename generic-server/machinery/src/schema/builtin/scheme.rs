//! Which kinds upstream's decoders know, served or not: a document of one that is known is refused as of another kind, and
//! only if it can be read, any other as unknown.

/// The registered kinds of one of upstream's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The built-in groups.
    Core,
    /// Definitions of custom resources.
    Extensions,
    /// API services.
    Aggregator,
}

/// The groups of the two small servers.
const EXTENSIONS: &str = "apiextensions.k8s.io";
const AGGREGATOR: &str = "apiregistration.k8s.io";

/// Versions that are not served (or only if asked for), and kinds that are no resources. A star stands for the kind's list.
const OTHERS: &[(&str, &str, &str)] = &[
    (
        "",
        "v1",
        "List NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions PodPortForwardOptions PodProxyOptions \
         PodStatusResult RangeAllocation SerializedReference ServiceProxyOptions",
    ),
    ("admission.k8s.io", "v1", "AdmissionReview"),
    ("admission.k8s.io", "v1beta1", "AdmissionReview"),
    ("admissionregistration.k8s.io", "v1alpha1", "ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding*"),
    (
        "admissionregistration.k8s.io",
        "v1beta1",
        "MutatingWebhookConfiguration* ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding* ValidatingWebhookConfiguration*",
    ),
    (EXTENSIONS, "v1beta1", "CustomResourceDefinition*"),
    (AGGREGATOR, "v1beta1", "APIService*"),
    ("apps", "v1beta1", "ControllerRevision* Deployment* DeploymentRollback Scale StatefulSet*"),
    ("apps", "v1beta2", "ControllerRevision* DaemonSet* Deployment* ReplicaSet* Scale StatefulSet*"),
    ("authentication.k8s.io", "v1alpha1", "SelfSubjectReview"),
    ("authentication.k8s.io", "v1beta1", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io",
        "v1beta1",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    ("batch", "v1beta1", "CronJob*"),
    ("certificates.k8s.io", "v1beta1", "CertificateSigningRequest*"),
    ("coordination.k8s.io", "v1beta1", "Lease*"),
    ("discovery.k8s.io", "v1beta1", "EndpointSlice*"),
    ("events.k8s.io", "v1beta1", "Event*"),
    ("extensions", "v1beta1", "DaemonSet* Deployment* DeploymentRollback Ingress* NetworkPolicy* ReplicaSet* Scale"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1", "FlowSchema* PriorityLevelConfiguration*"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2", "FlowSchema* PriorityLevelConfiguration*"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3", "FlowSchema* PriorityLevelConfiguration*"),
    ("imagepolicy.k8s.io", "v1alpha1", "ImageReview"),
    ("networking.k8s.io", "v1beta1", "Ingress* IngressClass*"),
    ("node.k8s.io", "v1alpha1", "RuntimeClass*"),
    ("node.k8s.io", "v1beta1", "RuntimeClass*"),
    ("policy", "v1beta1", "Eviction PodDisruptionBudget*"),
    ("rbac.authorization.k8s.io", "v1alpha1", "ClusterRole* ClusterRoleBinding* Role* RoleBinding*"),
    ("rbac.authorization.k8s.io", "v1beta1", "ClusterRole* ClusterRoleBinding* Role* RoleBinding*"),
    ("scheduling.k8s.io", "v1alpha1", "PriorityClass*"),
    ("scheduling.k8s.io", "v1beta1", "PriorityClass*"),
    ("storage.k8s.io", "v1alpha1", "CSIStorageCapacity* VolumeAttachment* VolumeAttributesClass*"),
    ("storage.k8s.io", "v1beta1", "CSIDriver* CSINode* CSIStorageCapacity* StorageClass* VolumeAttachment*"),
];

/// Kinds of the meta API that belong to every group version.
const OF_GROUP_VERSIONS: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"];

/// Kinds without a version: whatever a document says, it is of theirs.
const UNVERSIONED: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// Whether a kind is among those of a group version that is not in the table.
fn is_other(group: &str, version: &str, kind: &str) -> bool {
    let of_version = OTHERS.iter().filter(|(g, v, _)| (*g, *v) == (group, version));
    of_version.flat_map(|(_, _, kinds)| kinds.split_ascii_whitespace()).any(|known| match known.strip_suffix('*') {
        Some(known) => kind.strip_suffix("List").unwrap_or(kind) == known,
        None => kind == known,
    })
}

fn is_group_version(group: &str, version: &str) -> bool {
    super::is_served(group, version) || OTHERS.iter().any(|(g, v, _)| (*g, *v) == (group, version))
}

/// Whether a kind is one of the meta API's that belong to every group version, and this is one.
pub(super) fn is_of_meta(group: &str, version: &str, kind: &str) -> bool {
    OF_GROUP_VERSIONS.contains(&kind) && (is_group_version(group, version) || (group, version) == ("meta.k8s.io", "v1"))
}

impl Scheme {
    /// The one that knows the kinds of a group.
    pub fn of_group(group: &str) -> Self {
        match group {
            EXTENSIONS => Scheme::Extensions,
            AGGREGATOR => Scheme::Aggregator,
            _ => Scheme::Core,
        }
    }

    /// How upstream's errors call it: where it is made.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Core => "pkg/api/legacyscheme/scheme.go:30",
            Scheme::Extensions => "pkg/apiserver/apiserver.go:55",
            Scheme::Aggregator => "pkg/apiserver/scheme/scheme.go:28",
        }
    }

    /// The versions of a group that know a kind, in no order.
    pub fn versions_of(group: &str, kind: &str) -> Vec<&'static str> {
        let served = super::kinds().iter().filter(|k| k.group == group && k.kind == kind).map(|k| k.version);
        let others = OTHERS.iter().filter(|(g, v, _)| *g == group && is_other(g, v, kind)).map(|(_, v, _)| *v);
        let mut versions: Vec<&str> = served.chain(others).collect();
        versions.sort_unstable();
        versions.dedup();
        versions
    }

    /// Whether it knows a kind.
    pub fn knows(self, group: &str, version: &str, kind: &str) -> bool {
        if UNVERSIONED.contains(&kind) {
            return true;
        }
        let meta = OF_GROUP_VERSIONS.contains(&kind);
        // The small servers know their own group, and of v1 what belongs to every version.
        let own = Scheme::of_group(group) == self && (self != Scheme::Core || group != "meta.k8s.io");
        match self {
            Scheme::Core => {
                own && (super::find(group, version, kind).is_some() || is_other(group, version, kind))
                    || own && meta && is_group_version(group, version)
            }
            Scheme::Extensions | Scheme::Aggregator => {
                let known = super::by_gvk(group, version, kind).is_some() || is_other(group, version, kind);
                own && known || meta && (own && is_group_version(group, version) || (group, version) == ("", "v1"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scheme::{Aggregator, Core, Extensions};

    #[test]
    fn a_kind_has_its_versions() {
        assert_eq!(super::Scheme::versions_of("apps", "Deployment"), ["v1", "v1beta1", "v1beta2"]);
        assert_eq!(super::Scheme::versions_of("resource.k8s.io", "DeviceTaintRule"), ["v1alpha3", "v1beta2"]);
        assert_eq!(super::Scheme::versions_of("", "Pod"), ["v1"]);
    }

    #[test]
    fn each_server_knows_its_kinds() {
        for (scheme, group, version, kind, known) in [
            (Core, "apps", "v1", "Deployment", true),
            (Core, "extensions", "v1beta1", "Deployment", true),
            (Core, "extensions", "v1beta1", "DeploymentList", true),
            (Core, "extensions", "v1", "Deployment", false),
            (Core, "", "v1", "List", true),
            (Core, "", "v1", "PodList", true),
            (Core, "", "v1", "PodExecOptions", true),
            (Core, "", "v1", "Deployment", false),
            (Core, "apps", "v1beta1", "ScaleList", false),
            (Core, "resource.k8s.io", "v1beta1", "ResourceClaim", true),
            (Core, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", false),
            (Core, "apiregistration.k8s.io", "v1beta1", "APIService", false),
            (Core, "meta.k8s.io", "v1", "Table", false),
            (Core, "batch", "v1beta1", "WatchEvent", true),
            (Core, "example.com", "v1", "Status", true),
            (Core, "example.com", "v1", "ListOptions", false),
            (Extensions, "apiextensions.k8s.io", "v1", "CustomResourceDefinition", true),
            (Extensions, "apiextensions.k8s.io", "v1beta1", "CustomResourceDefinitionList", true),
            (Extensions, "", "v1", "Pod", false),
            (Extensions, "", "v1", "DeleteOptions", true),
            (Extensions, "apps", "v1", "DeleteOptions", false),
            (Extensions, "apiregistration.k8s.io", "v1", "APIService", false),
            (Aggregator, "apiregistration.k8s.io", "v1beta1", "APIService", true),
            (Aggregator, "apps", "v1", "Deployment", false),
            (Aggregator, "x", "y", "APIGroup", true),
        ] {
            assert_eq!(scheme.knows(group, version, kind), known, "{scheme:?} {group}/{version} {kind}");
        }
    }
}
