//! The group rbac.authorization.k8s.io: roles and who has them.

mod authorizer;
mod bootstrap;
mod printers;
mod rules;
mod validation;

use std::sync::Arc;

use auth::Authorizer;
use generic_server::{
    admission::Admission,
    registry::{ByResource, Registries},
    resource::Resource,
    tasks::Task,
};

pub use authorizer::Rbac;
pub(crate) use authorizer::{Rule, same_but_for_owners};
pub(crate) use bootstrap::node_rules;

use crate::row::{GroupVersion, Row};

const GROUP: &str = "rbac.authorization.k8s.io";

const V1: GroupVersion = GroupVersion(GROUP, "v1");

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

/// Cluster roles, cluster role bindings, roles and role bindings.
fn sources<T: Clone>(all: &ByResource<T>) -> [T; 4] {
    ["clusterroles", "clusterrolebindings", "roles", "rolebindings"].map(|plural| all.of(GROUP, plural).clone())
}

/// Makes the roles and bindings that every cluster has.
pub(crate) fn bootstrap(registries: &Registries) -> Task {
    bootstrap::bootstrap_roles(sources(registries))
}

/// The check that nobody grants more than they hold. It is no plugin: it is always on.
pub fn no_escalation(rbac: Arc<Rbac>, authorizer: Arc<dyn Authorizer>) -> Arc<dyn Admission> {
    Arc::new(authorizer::NoEscalation { rbac, authorizer })
}
