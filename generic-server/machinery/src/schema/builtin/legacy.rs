//! Kinds that upstream's scheme still knows though they are not served: documents of theirs are refused as of another
//! version or kind, not as unknown.

/// Versions of other days, and their kinds.
const LEGACY: &[(&str, &str, &[&str])] = &[
    ("", "v1", &["List"]),
    ("admissionregistration.k8s.io", "v1beta1", &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]),
    ("apiextensions.k8s.io", "v1beta1", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", "v1beta1", &["APIService"]),
    ("apps", "v1beta1", &["ControllerRevision", "Deployment", "DeploymentRollback", "Scale", "StatefulSet"]),
    ("apps", "v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "Scale", "StatefulSet"]),
    ("authentication.k8s.io", "v1beta1", &["SelfSubjectReview", "TokenReview"]),
    (
        "authorization.k8s.io",
        "v1beta1",
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"],
    ),
    ("batch", "v1beta1", &["CronJob"]),
    ("certificates.k8s.io", "v1beta1", &["CertificateSigningRequest"]),
    ("coordination.k8s.io", "v1beta1", &["Lease"]),
    ("discovery.k8s.io", "v1beta1", &["EndpointSlice"]),
    ("events.k8s.io", "v1beta1", &["Event"]),
    (
        "extensions",
        "v1beta1",
        &["DaemonSet", "Deployment", "DeploymentRollback", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"],
    ),
    ("networking.k8s.io", "v1beta1", &["Ingress", "IngressClass"]),
    ("node.k8s.io", "v1alpha1", &["RuntimeClass"]),
    ("node.k8s.io", "v1beta1", &["RuntimeClass"]),
    ("policy", "v1beta1", &["Eviction", "PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io", "v1alpha1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("rbac.authorization.k8s.io", "v1beta1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("scheduling.k8s.io", "v1alpha1", &["PriorityClass"]),
    ("scheduling.k8s.io", "v1beta1", &["PriorityClass"]),
    ("storage.k8s.io", "v1beta1", &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"]),
];

/// Kinds of the meta API that belong to every group version.
const OF_GROUP_VERSIONS: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"];

/// Kinds without a version: whatever a document says, it is of theirs.
const UNVERSIONED: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// Whether a kind is one of the meta API's that belong to every group version, and this is one.
pub(super) fn is_of_meta(group: &str, version: &str, kind: &str) -> bool {
    OF_GROUP_VERSIONS.contains(&kind)
        && (super::is_served(group, version)
            || (group, version) == ("meta.k8s.io", "v1")
            || LEGACY.iter().any(|(g, v, _)| (*g, *v) == (group, version)))
}

/// Whether a kind is served, or was.
pub fn is_registered(group: &str, version: &str, kind: &str) -> bool {
    super::by_gvk(group, version, kind).is_some()
        || is_of_meta(group, version, kind)
        || UNVERSIONED.contains(&kind)
        || LEGACY.iter().any(|(g, v, kinds)| (*g, *v) == (group, version) && kinds.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::is_registered;

    #[test]
    fn kinds_of_old_versions_are_known_and_made_up_ones_are_not() {
        assert!(is_registered("apps", "v1", "Deployment"));
        assert!(is_registered("extensions", "v1beta1", "Deployment"));
        assert!(is_registered("", "v1", "List"));
        assert!(!is_registered("extensions", "v1", "Deployment"));
        assert!(!is_registered("", "v1", "Deployment"));
        assert!(is_registered("batch", "v1beta1", "WatchEvent"));
        assert!(is_registered("example.com", "v1", "Status"));
        assert!(!is_registered("example.com", "v1", "ListOptions"));
    }
}
