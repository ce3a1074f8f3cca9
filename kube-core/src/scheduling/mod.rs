//! The group scheduling.k8s.io: how important pods are.

use generic_server::resource::Resource;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("scheduling.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.cluster("priorityclasses", "PriorityClass", "1QwjyaZjj3Y=").strategy(Rules::PLAIN.counts(&[])).short(&["pc"])]
        .into_iter()
        .map(Row::build)
        .collect()
}
