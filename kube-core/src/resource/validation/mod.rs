//! Validates resource.k8s.io DeviceClasses, ResourceClaims and ResourceSlices.

mod attributes;
mod capacity;
mod claim;
mod class;
mod config;
mod names;
mod requests;
mod selector;
mod slice;
mod status;
mod taints;
#[cfg(test)]
mod tests;

pub(super) use claim::{claim, claim_update, template, template_update};
pub(super) use class::{class, class_update};
pub(super) use slice::{slice, slice_update, slice_warnings};
pub(super) use status::claim_status;
pub(super) use taints::{taint_rule, taint_rule_status};

use machinery::{Value, meta::field_error::FieldError};

use crate::validation::{Errors, Field, Seen};

/// A list of at most `most` items, each by a rule. A longer one is not looked into. Answers whether it was.
fn list(list: &Field<'_>, most: usize, mut rule: impl FnMut(Field<'_>, &mut Errors), errors: &mut Errors) -> bool {
    if list.len() > most {
        errors.push(FieldError::too_many(list, list.len(), most));
        return false;
    }
    list.each(|item| rule(item, errors));
    true
}

/// The same of a list whose items have names of their own, at the member `key`.
fn named(field: &Field<'_>, most: usize, key: &str, rule: impl FnMut(Field<'_>, &mut Errors), errors: &mut Errors) {
    if list(field, most, rule, errors) {
        unique(field, |item| item.get(key).and_then(Value::as_str).unwrap_or_default(), errors);
    }
}

/// The same of a list of texts that are each there once.
fn texts(field: &Field<'_>, most: usize, rule: impl FnMut(Field<'_>, &mut Errors), errors: &mut Errors) {
    if list(field, most, rule, errors) {
        unique(field, |item| item.as_str().unwrap_or_default(), errors);
    }
}

fn unique<'a>(list: &Field<'a>, key: impl Fn(&'a Value) -> &'a str, errors: &mut Errors) {
    let mut seen = Seen::default();
    for (i, item) in list.items().iter().enumerate() {
        if !seen.insert(key(item)) {
            errors.push(FieldError::duplicate(list.index(i), key(item)));
        }
    }
}
