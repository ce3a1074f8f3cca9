//! Taints of devices, what tolerates them, and conditions that a device waits for.

use machinery::{
    Value,
    meta::{field_error::FieldError, names, validation::validate_conditions},
};

use super::list;
use crate::validation::{Content, Errors, Field, Seen};

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];
const MOST_TAINTS: usize = 16;
const MOST_CONDITIONS: usize = 4;
const MOST_RULE_CONDITIONS: usize = 8;

/// What a request tolerates.
pub(super) fn toleration(toleration: &Field<'_>, errors: &mut Errors) {
    toleration.at("key").check_some(names::qualified_name, errors);
    let (operator, value) = (toleration.at("operator"), toleration.at("value"));
    match operator.text() {
        "Exists" if !value.is_empty() => value.invalid("must be empty for operator `Exists`", errors),
        "Exists" => {}
        "Equal" => value.check(names::label_value, errors),
        _ => operator.required_one_of(&["Equal", "Exists"], errors),
    }
    let effect = toleration.at("effect");
    if !effect.is_empty() {
        effect.one_of(EFFECTS, errors);
    }
}

/// A device's taints, unless they are the old ones.
pub(super) fn taints(taints: &Field<'_>, old: Option<&Value>, errors: &mut Errors) {
    if old.is_some_and(|old| taints.value().semantic_eq(old.get("taints").unwrap_or(&Value::Null))) {
        return;
    }
    list(taints, MOST_TAINTS, |taint, errors| self::taint(&taint, None, errors), errors);
}

/// A taint; an effect that was there before is let be.
fn taint(taint: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    taint.at("key").check(names::qualified_name, errors);
    taint.at("value").check_some(names::label_value, errors);
    let effect = taint.at("effect");
    if old.is_none_or(|old| old.at("effect").text() != effect.text()) {
        effect.required_one_of(EFFECTS, errors);
    }
}

/// A rule that gives devices a taint.
pub(in crate::resource) fn taint_rule(rule: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let spec = rule.at("spec");
    let selector = spec.at("deviceSelector");
    let [driver, pool, device] = ["driver", "pool", "device"].map(|member| selector.at(member));
    if driver.is_set() {
        super::names::driver(&driver, errors);
    }
    if pool.is_set() {
        super::names::pool(&pool, errors);
    }
    if device.is_set() {
        super::names::label(&device, errors);
    }
    let old_spec = old.map(|old| old.at("spec"));
    let old_taint = old_spec.as_ref().map(|spec| spec.at("taint"));
    taint(&spec.at("taint"), old_taint.as_ref(), errors);
}

/// What has become of a rule.
pub(in crate::resource) fn taint_rule_status(rule: &Field<'_>, errors: &mut Errors) {
    let status = rule.at("status");
    let conditions = status.at("conditions");
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
    if conditions.len() > MOST_RULE_CONDITIONS {
        errors.push(FieldError::too_many(conditions, conditions.len(), MOST_RULE_CONDITIONS));
    }
}

/// The conditions that binding waits for, and those that make it fail.
pub(super) fn binding_conditions(holder: &Field<'_>, errors: &mut Errors) {
    let (good, bad) = (holder.at("bindingConditions"), holder.at("bindingFailureConditions"));
    for conditions in [&good, &bad] {
        let name = |name: Field<'_>, errors: &mut Errors| name.check(names::qualified_name, errors);
        list(conditions, MOST_CONDITIONS, name, errors);
    }
    good.unique_texts(errors);
    let mut seen = std::collections::HashSet::new();
    let waited_for: Seen<Content<'_>> = good.items().iter().map(Content).collect();
    for (i, item) in bad.items().iter().enumerate() {
        if !seen.insert(item.as_str()) {
            bad.index(i).duplicate(errors);
        }
        if waited_for.contains(Content(item)) {
            bad.index(i).invalid("bindingFailureConditions must not overlap with bindingConditions", errors);
        }
    }
    if good.is_empty() && !bad.is_empty() {
        good.invalid("bindingConditions are required to use bindingFailureConditions", errors);
    }
    if bad.is_empty() && !good.is_empty() {
        bad.invalid("bindingFailureConditions are required to use bindingConditions", errors);
    }
}
