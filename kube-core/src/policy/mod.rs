//! The group policy: how many pods may be disrupted at once.

mod validation;

use generic_server::resource::Resource;
use machinery::meta::names;

use crate::{
    printer,
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("policy", "v1");

const RULES: Rules = Rules::WORKLOAD
    .conditional()
    .names(names::name_is_path_segment)
    .any_finalizers()
    .validate(|_, budget, errors| validation::budget(budget, None, errors))
    .validate_update(|_, new, old, errors| validation::budget(new, Some(old), errors))
    .validate_status(validation::status);

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [V1.namespaced("poddisruptionbudgets", "PodDisruptionBudget", "EVWiDmWqyJw=")
        .table(printer::DISRUPTION_BUDGETS)
        .strategy(RULES)
        .short(&["pdb"])
        .status()]
    .into_iter()
    .map(Row::build)
    .collect()
}
