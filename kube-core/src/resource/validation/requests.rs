//! Validates device requests of claims.

use std::collections::{HashMap, HashSet};

use machinery::Value;

use super::{config, list, named, names, selector, taints, texts};
use crate::validation::{Errors, Field};

/// How many requests, or references to them, there may be.
pub(super) const MOST: usize = 32;
const MOST_ALTERNATIVES: usize = 8;
const MOST_CONSTRAINTS: usize = 32;
const MOST_SELECTORS: usize = 32;

/// How devices are picked.
const MODES: &[&str] = &["All", "ExactCount"];

/// The names of a claim's requests, each with those of its alternatives.
pub(super) struct Requests<'a>(HashMap<&'a str, HashSet<&'a str>>);

impl<'a> Requests<'a> {
    /// Of the devices that a claim is for.
    pub(super) fn of(devices: &Field<'a>) -> Self {
        let name = |named: &'a Value| named.get("name").and_then(Value::as_str).unwrap_or_default();
        let requests = devices.value().get("requests").and_then(Value::as_array).unwrap_or_default();
        let alternatives = |request: &'a Value| {
            request.get("firstAvailable").and_then(Value::as_array).unwrap_or_default().iter().map(name).collect()
        };
        Requests(requests.iter().map(|request| (name(request), alternatives(request))).collect())
    }

    /// A reference: a request, or a request and one of its alternatives.
    pub(super) fn reference(&self, name: &Field<'_>, errors: &mut Errors) {
        let unknown =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let segments: Vec<&str> = name.text().split('/').collect();
        if segments.len() > 2 {
            return name.invalid_text(unknown, errors);
        }
        for segment in &segments {
            let segment = Value::from(*segment);
            names::label(&name.with(&segment), errors);
        }
        let known = self.0.get(segments[0]);
        if !known.is_some_and(|alternatives| segments.get(1).is_none_or(|name| alternatives.contains(name))) {
            name.invalid_text(unknown, errors);
        }
    }

    /// The references that something has.
    pub(super) fn references(&self, holder: &Field<'_>, errors: &mut Errors) {
        texts(&holder.at("requests"), MOST, |name, errors| self.reference(&name, errors), errors);
    }
}

/// What a claim is for.
pub(super) fn devices(devices: &Field<'_>, errors: &mut Errors) {
    let requests = Requests::of(devices);
    named(&devices.at("requests"), MOST, "name", |item, errors| request(&item, errors), errors);
    let constraint = |item: Field<'_>, errors: &mut Errors| constraint(&item, &requests, errors);
    list(&devices.at("constraints"), MOST_CONSTRAINTS, constraint, errors);
    let config = |item: Field<'_>, errors: &mut Errors| {
        requests.references(&item, errors);
        config::opaque(&item, false, errors);
    };
    list(&devices.at("config"), config::MOST, config, errors);
}

fn request(request: &Field<'_>, errors: &mut Errors) {
    names::label(&request.at("name"), errors);
    let (exactly, alternatives) = (request.at("exactly"), request.at("firstAvailable"));
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => request.required("exactly one of `exactly` or `firstAvailable` is required", errors),
        (true, true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            request.invalid_as(Value::Null, detail, errors);
        }
        (true, false) => choice(&exactly, errors),
        (false, true) => {
            let alternative = |item: Field<'_>, errors: &mut Errors| {
                names::label(&item.at("name"), errors);
                choice(&item, errors);
            };
            named(&alternatives, MOST_ALTERNATIVES, "name", alternative, errors);
        }
    }
}

/// Which devices, and how many.
fn choice(choice: &Field<'_>, errors: &mut Errors) {
    choice.at("deviceClassName").check_given(machinery::meta::names::dns1123_subdomain, errors);
    selectors(&choice.at("selectors"), errors);
    let (mode, count) = (choice.at("allocationMode"), choice.at("count"));
    match mode.text() {
        "All" if count.int_or_zero() != 0 => {
            count.invalid("must not be specified when allocationMode is 'All'", errors);
        }
        "ExactCount" if count.int_or_zero() <= 0 => {
            count.invalid_as(count.int_or_zero(), "must be greater than zero", errors);
        }
        _ => mode.one_of(MODES, errors),
    }
    choice.at("tolerations").each(|toleration| taints::toleration(&toleration, errors));
}

/// Expressions that devices have to meet.
pub(super) fn selectors(selectors: &Field<'_>, errors: &mut Errors) {
    let selector = |selector: Field<'_>, errors: &mut Errors| {
        let cel = selector.at("cel");
        if !cel.is_set() {
            return cel.required("", errors);
        }
        selector::expression(&cel.at("expression"), errors);
    };
    list(selectors, MOST_SELECTORS, selector, errors);
}

fn constraint(constraint: &Field<'_>, requests: &Requests<'_>, errors: &mut Errors) {
    requests.references(constraint, errors);
    let (same, distinct) = (constraint.at("matchAttribute"), constraint.at("distinctAttribute"));
    if same.is_set() {
        names::fully_qualified(&same, errors);
    } else if distinct.is_set() {
        names::fully_qualified(&distinct, errors);
    } else {
        let detail =
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        constraint.required(detail, errors);
    }
}
