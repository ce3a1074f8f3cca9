//! The group rbac.authorization.k8s.io: roles and who has them.

mod authorizer;
mod bootstrap;
mod printers;
mod rules;
mod validation;

use std::{collections::HashMap, sync::Arc};

use auth::Authorizer;
use generic_server::{admission::Admission, registry::Registry, resource::Resource, tasks::Task};
use machinery::Str;

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

/// The registries of cluster roles, cluster role bindings, roles and role bindings.
pub(crate) fn sources(registries: &HashMap<(Str, Str), Arc<Registry>>) -> [Arc<Registry>; 4] {
    ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
        .map(|plural| registries[&(Str::new_static(GROUP), Str::new_static(plural))].clone())
}

/// Gives the authoriser what it reads, and names what runs beside the requests.
pub(crate) fn start(rbac: &Rbac, registries: &HashMap<(Str, Str), Arc<Registry>>) -> Task {
    let sources = sources(registries);
    rbac.attach(sources.clone());
    bootstrap::bootstrap_roles(sources)
}

/// The check that nobody grants more than they hold. It is no plugin: it is always on.
pub fn no_escalation(rbac: Arc<Rbac>, authorizer: Arc<dyn Authorizer>) -> Arc<dyn Admission> {
    Arc::new(authorizer::NoEscalation { rbac, authorizer })
}
