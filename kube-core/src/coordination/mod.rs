//! The group coordination.k8s.io: leases, which leaders and nodes renew.

use generic_server::resource::Resource;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("coordination.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.namespaced("leases", "Lease", "gqkMMb/YqFM=").strategy(Rules::PLAIN.create_on_update().conditional())]
        .into_iter()
        .map(Row::build)
        .collect()
}
