//! The group flowcontrol.apiserver.k8s.io: how many requests of whom at once.

use generic_server::resource::Resource;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("flowcontrol.apiserver.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("flowschemas", "FlowSchema", "GJVAJZSZBIw=").strategy(Rules::WORKLOAD).status(),
        V1.cluster("prioritylevelconfigurations", "PriorityLevelConfiguration", "Kir5PVfvNeI=")
            .strategy(Rules::WORKLOAD)
            .status(),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
