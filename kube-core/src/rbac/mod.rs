//! The group rbac.authorization.k8s.io: roles and who has them.

use generic_server::resource::Resource;
use machinery::meta::names;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("rbac.authorization.k8s.io", "v1");

/// Role names may be what they like, as long as they fit a path.
const RBAC: Rules = Rules::PLAIN.create_on_update().names(names::name_is_path_segment);

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("clusterrolebindings", "ClusterRoleBinding", "48tpQ8gZHFc=").strategy(RBAC),
        V1.cluster("clusterroles", "ClusterRole", "bYE5ZWDrJ44=").strategy(RBAC),
        V1.namespaced("rolebindings", "RoleBinding", "eGsCzGH6b1g=").strategy(RBAC),
        V1.namespaced("roles", "Role", "7FuwZcIIItM=").strategy(RBAC),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
