//! Validates policy/v1 PodDisruptionBudgets.

use generic_server::resource::WriteContext;
use machinery::meta::{
    int_or_percent::{validate_at_most_100_percent, validate_int_or_percent},
    validation::validate_conditions,
};

use crate::validation::{Errors, Field, Go, Member, shown};

const SPEC: &[Member] = &[
    Member("MinAvailable", "minAvailable", Go::Plain),
    Member("Selector", "selector", Go::Selector),
    Member("MaxUnavailable", "maxUnavailable", Go::Plain),
    Member("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", Go::Plain),
];

pub(super) fn budget(budget: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let spec = budget.at("spec");
    let bounds = ["minAvailable", "maxUnavailable"];
    if bounds.iter().all(|bound| spec.at(bound).is_set()) {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        spec.invalid_as(shown(spec.value(), SPEC), detail, errors);
    }
    for bound in bounds {
        let bound = spec.at(bound);
        if bound.is_set() {
            errors.extend(validate_int_or_percent(bound.value(), bound));
            errors.extend(validate_at_most_100_percent(bound.value(), bound));
        }
    }
    let old_spec = old.map(|old| old.at("spec"));
    let old_selector = old_spec.as_ref().map(|spec| spec.at("selector"));
    spec.at("selector").label_selector_as_before(old_selector.as_ref(), errors);
    let policy = spec.at("unhealthyPodEvictionPolicy");
    if policy.is_set() {
        policy.one_of(&["AlwaysAllow", "IfHealthyBudget"], errors);
    }
}

pub(super) fn status(_cx: &WriteContext<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let conditions = status.at("conditions");
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
    status.none_negative(&["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"], errors);
}
