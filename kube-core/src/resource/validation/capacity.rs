//! Validates the capacity of devices, and how much of it may be requested.

use std::collections::HashSet;

use machinery::{
    Value,
    meta::{Quantity, field_error::FieldError},
};

use super::attributes::entries;
use crate::validation::{Errors, Field};

const MOST_VALUES: usize = 10;

/// A device's capacity, unless it is the old one.
pub(super) fn capacity(device: &Field<'_>, old: Option<&Value>, errors: &mut Errors) {
    let capacity = device.at("capacity");
    let before = old.map(|old| old.get("capacity").unwrap_or(&Value::Null));
    if before.is_some_and(|before| before.semantic_eq(capacity.value())) {
        return;
    }
    let shared = device.at("allowMultipleAllocations").is_true();
    let rule = |amount: &Field<'_>, errors: &mut Errors| {
        let policy = amount.at("requestPolicy");
        if !policy.is_set() {
            return;
        }
        if shared {
            request_policy(&policy, &amount.at("value").quantity(), errors);
        } else {
            policy.forbidden("allowMultipleAllocations must be true", errors);
        }
    };
    entries(&capacity, rule, errors);
}

fn request_policy(policy: &Field<'_>, most: &Quantity, errors: &mut Errors) {
    let (values, range, default) = (policy.at("validValues"), policy.at("validRange"), policy.at("default"));
    match (!values.is_empty(), range.is_set()) {
        (true, true) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the \
                          same time";
            policy.forbidden(detail, errors);
        }
        (true, false) if !default.is_set() => default.required("required when validValues is defined", errors),
        (true, false) => valid_values(&values, &default.quantity(), most, errors),
        (false, true) if !default.is_set() => default.required("required when validRange is defined", errors),
        (false, true) => valid_range(&range, &default.quantity(), most, errors),
        (false, false) => {}
    }
}

fn valid_values(values: &Field<'_>, default: &Quantity, most: &Quantity, errors: &mut Errors) {
    for i in 1..values.len() {
        if values.index(i - 1).quantity() > values.index(i).quantity() {
            let value = values.index(i);
            value.invalid_as(value.quantity_text(), "values must be sorted in ascending order", errors);
        }
    }
    let mut found = false;
    let option = |option: Field<'_>, errors: &mut Errors| {
        let value = option.quantity();
        if value > *most {
            let detail = format!("option is larger than capacity value: {}", most.text());
            option.invalid_as(value.text(), detail, errors);
        }
        found |= value == *default;
    };
    if super::list(values, MOST_VALUES, option, errors) {
        let mut seen = HashSet::new();
        for i in 0..values.len() {
            let whole = values.index(i).quantity().value();
            if !seen.insert(whole) {
                errors.push(FieldError::duplicate(values.index(i), whole.to_string()));
            }
        }
    }
    if !found {
        values.invalid_as(default.text(), "default value is not valid according to the requestPolicy", errors);
    }
}

fn valid_range(range: &Field<'_>, default: &Quantity, most: &Quantity, errors: &mut Errors) {
    let (min, max, step) = (range.at("min"), range.at("max"), range.at("step"));
    if !min.is_set() {
        return min.required("required when validRange is defined", errors);
    }
    let least = min.quantity();
    if least > *most {
        let detail = format!("min is larger than capacity value: {}", most.text());
        min.invalid_as(least.text(), detail, errors);
    }
    if *default < least {
        min.invalid_as(default.text(), format!("default is less than min: {}", least.text()), errors);
    }
    if max.is_set() {
        let limit = max.quantity();
        if least > limit {
            max.invalid_as(least.text(), format!("min is larger than max: {}", limit.text()), errors);
        }
        if limit > *most {
            let detail = format!("max is larger than capacity value: {}", most.text());
            max.invalid_as(limit.text(), detail, errors);
        }
        if *default > limit {
            max.invalid_as(default.text(), format!("default is more than max: {}", limit.text()), errors);
        }
    }
    if step.is_set() {
        steps(&step, &least, &[Some(default.clone()), max.is_set().then(|| max.quantity())], most, errors);
    }
}

/// From the least amount the step leads to these amounts.
fn steps(step: &Field<'_>, least: &Quantity, amounts: &[Option<Quantity>], most: &Quantity, errors: &mut Errors) {
    let size = step.quantity();
    if size.sign() <= 0 {
        return step.invalid_as(size.text(), "must be greater than zero", errors);
    }
    let mut first = least.clone();
    first.add(&size);
    if first > *most {
        let detail = format!("one step {} is larger than capacity value: {}", first.text(), most.text());
        step.invalid_as(size.text(), detail, errors);
    }
    for amount in amounts.iter().flatten() {
        let distance = i128::from(amount.value()) - i128::from(least.value());
        if distance % i128::from(size.value()) != 0 {
            let detail = format!("value is not a multiple of a given step ({}) from ({})", size.text(), least.text());
            step.invalid_as(amount.text(), detail, errors);
        }
    }
}
