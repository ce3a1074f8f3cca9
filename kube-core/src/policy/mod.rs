//! The group policy: how many pods may be disrupted at once.

use generic_server::resource::Resource;

use crate::{
    printer,
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("policy", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.namespaced("poddisruptionbudgets", "PodDisruptionBudget", "EVWiDmWqyJw=")
        .table(printer::DISRUPTION_BUDGETS)
        .strategy(Rules::WORKLOAD.conditional())
        .short(&["pdb"])
        .status()]
    .into_iter()
    .map(Row::build)
    .collect()
}
