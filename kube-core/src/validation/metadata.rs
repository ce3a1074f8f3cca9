//! How each kind's rules of updates look at the metadata, where they do not look at what changed alone.

use generic_server::resource::SecondLook;

/// Kinds by `group/Kind`.
const LOOKS: &[(SecondLook, &[&str])] = &[
    (
        SecondLook::ChangesThenWhole,
        &[
            "/ConfigMap",
            "/Endpoints",
            "/PersistentVolumeClaim",
            "/Pod",
            "/Secret",
            "/ServiceAccount",
            "apps/ControllerRevision",
            "networking.k8s.io/Ingress",
            "networking.k8s.io/IngressClass",
            "storage.k8s.io/VolumeAttributesClass",
        ],
    ),
    (
        SecondLook::WholeThenChanges,
        &[
            "/Namespace",
            "/Node",
            "batch/Job",
            "certificates.k8s.io/CertificateSigningRequest",
            "certificates.k8s.io/ClusterTrustBundle",
            "networking.k8s.io/IPAddress",
            "node.k8s.io/RuntimeClass",
            "rbac.authorization.k8s.io/ClusterRole",
            "rbac.authorization.k8s.io/ClusterRoleBinding",
            "rbac.authorization.k8s.io/Role",
            "rbac.authorization.k8s.io/RoleBinding",
            "resource.k8s.io/DeviceClass",
            "resource.k8s.io/ResourceClaim",
            "resource.k8s.io/ResourceClaimTemplate",
            "storage.k8s.io/CSIStorageCapacity",
            "storage.k8s.io/StorageClass",
            "storagemigration.k8s.io/StorageVersionMigration",
        ],
    ),
    (
        SecondLook::Whole,
        &[
            "/LimitRange",
            "admissionregistration.k8s.io/MutatingAdmissionPolicy",
            "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding",
            "admissionregistration.k8s.io/MutatingWebhookConfiguration",
            "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
            "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
            "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
            "discovery.k8s.io/EndpointSlice",
            "flowcontrol.apiserver.k8s.io/FlowSchema",
            "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
            "storage.k8s.io/CSINode",
            "storage.k8s.io/VolumeAttachment",
        ],
    ),
    (SecondLook::WholeTwice, &["/PersistentVolume"]),
    (SecondLook::Nothing, &["/Event", "internal.apiserver.k8s.io/StorageVersion", "policy/PodDisruptionBudget"]),
];

/// What a kind's rules of updates look at in the metadata.
pub(crate) fn second_look(group: &str, kind: &str) -> SecondLook {
    let is_named = |name: &&str| name.split_once('/') == Some((group, kind));
    let found = LOOKS.iter().find(|(_, kinds)| kinds.iter().any(is_named));
    found.map_or(SecondLook::Changes, |(look, _)| *look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_not_listed_look_at_changes() {
        assert_eq!(second_look("", "ConfigMap"), SecondLook::ChangesThenWhole);
        assert_eq!(second_look("apps", "Deployment"), SecondLook::Changes);
        assert_eq!(second_look("other", "ConfigMap"), SecondLook::Changes);
    }
}
