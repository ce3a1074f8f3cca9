//! The group rbac.authorization.k8s.io: roles and who has them.

mod printers;
mod rules;
mod validation;

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("rbac.authorization.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("clusterrolebindings", "ClusterRoleBinding", "48tpQ8gZHFc=")
            .table(printers::CLUSTER_ROLE_BINDINGS)
            .strategy(rules::CLUSTER_ROLE_BINDINGS),
        V1.cluster("clusterroles", "ClusterRole", "bYE5ZWDrJ44=").strategy(rules::CLUSTER_ROLES),
        V1.namespaced("rolebindings", "RoleBinding", "eGsCzGH6b1g=")
            .table(printers::ROLE_BINDINGS)
            .strategy(rules::ROLE_BINDINGS),
        V1.namespaced("roles", "Role", "7FuwZcIIItM=").strategy(rules::ROLES),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
