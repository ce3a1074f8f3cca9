//! Validates v1 Nodes.

use std::{cmp::Ordering, collections::HashSet};

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    codec::json,
    meta::{
        FieldError, go_text,
        ip::{Cidr, family},
        names,
    },
};

use super::pods::validation::internal;
use crate::validation::{Errors, Field, Seen, resource_amount};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const ONLY_ONCE: &str = "except from \"\" to valid";

/// What is wrong with a new node.
pub(super) fn create(_cx: &WriteContext<'_>, node: &Field<'_>, errors: &mut Errors) {
    annotations(node, errors);
    taints(node, errors);
    resources(node, errors);
    swap(node, errors);
    declared_features(node, errors);
    pod_cidrs(node, errors);
}

/// What is wrong with a change, also one of the status.
pub(super) fn changes(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    annotations(new, errors);
    resources(new, errors);
    declared_features(new, errors);
    let status = new.at("status");
    let mut seen: Seen<(&str, &str)> = Seen::default();
    status.at("addresses").each_item(|address, value| {
        let part = |member| value.str_at(&[member]).unwrap_or_default();
        if !seen.insert((part("type"), part("address"))) {
            let shown = internal::shown("NodeAddress", value);
            errors.push(FieldError::duplicate(address, shown));
        }
    });
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let (cidrs, old_cidrs) = (spec.at("podCIDRs"), before.at("podCIDRs"));
    let changed = match old_cidrs.len() {
        0 => 0,
        then if then != cidrs.len() => 1,
        then => (0..then).filter(|i| cidrs.index(*i).value() != old_cidrs.index(*i).value()).count(),
    };
    (0..changed).for_each(|_| cidrs.forbidden(format!("node updates may not change podCIDR {ONLY_ONCE}"), errors));
    let (provider, old_provider) = (spec.at("providerID"), before.at("providerID"));
    if !old_provider.is_empty() && provider.text() != old_provider.text() {
        provider.forbidden(format!("node updates may not change providerID {ONLY_ONCE}"), errors);
    }
    taints(new, errors);
    if spec.at("externalID").text() != before.at("externalID").text() {
        spec.at("externalID").forbidden("may not be updated", errors);
    }
}

/// Annotations from before there were members for it.
fn annotations(node: &Field<'_>, errors: &mut Errors) {
    let metadata = node.at("metadata");
    let all = metadata.at("annotations");
    for (key, called) in [(TAINTS, None), (AVOID, Some("AvoidPods"))] {
        let text = all.key(key);
        if text.text().is_empty() {
            continue;
        }
        if let Err(error) = json::decode(text.text().as_bytes()) {
            let place = called.map_or_else(|| all.to_string(), |called| format!("{all}.{called}"));
            errors.push(FieldError::invalid(place, key, error.to_string()));
        }
    }
}

fn taints(node: &Field<'_>, errors: &mut Errors) {
    // Upstream looks for them in the metadata.
    let (metadata, spec) = (node.at("metadata"), node.at("spec"));
    let (place, found) = (metadata.at("taints"), spec.at("taints"));
    let mut seen: Seen<(&str, &str)> = Seen::default();
    place.with(found.value()).each_item(|taint, value| {
        taint.at("key").check(names::qualified_name, errors);
        let messages = names::label_value(taint.at("value").text());
        if !messages.is_empty() {
            taint.at("value").invalid(messages.join(";"), errors);
        }
        taint.at("effect").required_one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        let part = |member| value.str_at(&[member]).unwrap_or_default();
        if !seen.insert((part("effect"), part("key"))) {
            let mut error = FieldError::duplicate(taint, internal::shown("Taint", value));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    });
}

fn resources(node: &Field<'_>, errors: &mut Errors) {
    let status = node.at("status");
    for list in ["capacity", "allocatable"] {
        let list = status.at(list);
        for name in list.keys() {
            resource_amount(&list.at(name), name, errors);
        }
    }
}

/// Upstream looks for swap in the metadata.
fn swap(node: &Field<'_>, errors: &mut Errors) {
    let metadata = node.at("metadata");
    let place = metadata.at("nodeSwapStatus");
    let found = node.value().at(&["status", "nodeInfo", "swap", "capacity"]).unwrap_or(&Value::Null);
    let capacity = place.at("capacity");
    let capacity = capacity.with(found);
    if capacity.int().is_some_and(|bytes| bytes <= 0) {
        capacity.invalid("must be greater than zero", errors);
    }
}

/// The features of a node's kubelet: names in order, each once.
fn declared_features(node: &Field<'_>, errors: &mut Errors) {
    let status = node.at("status");
    let features = status.at("declaredFeatures");
    let names: Vec<&str> = features.items().iter().map(|name| name.as_str().unwrap_or_default()).collect();
    for (i, name) in names.iter().enumerate() {
        if let Some(problem) = feature_problem(name) {
            features.index(i).invalid(format!("invalid feature name {}: {problem}", go_text::quote(name)), errors);
        }
        let next = features.index(i + 1);
        match names.get(i + 1).map(|after| after.cmp(name)) {
            Some(Ordering::Equal) => next.duplicate(errors),
            Some(Ordering::Less) => next.invalid("list must be sorted alphabetically", errors),
            _ => {}
        }
    }
}

fn feature_problem(name: &str) -> Option<&'static str> {
    let is_segment = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    if name.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    let is_named = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_segment);
    (!is_named).then_some(
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or \
         MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
    )
}

fn pod_cidrs(node: &Field<'_>, errors: &mut Errors) {
    let spec = node.at("spec");
    let cidrs = spec.at("podCIDRs");
    cidrs.each(|cidr| cidr.network_or_old(&HashSet::new(), errors));
    if cidrs.len() < 2 {
        return;
    }
    let families: Vec<_> =
        cidrs.texts().into_iter().filter_map(Cidr::parse_sloppy).map(|cidr| family(cidr.ip)).collect();
    if cidrs.len() > 2 || families.len() != 2 || families[0] == families[1] {
        cidrs.invalid("may specify no more than one CIDR for each IP family", errors);
    }
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn declared_features_are_names_in_order() {
        let check = |names: &[&str], expect: &[&str]| {
            let names: Vec<Value> = names.iter().map(|name| Value::from(*name)).collect();
            let node = object! { "status" => object! { "declaredFeatures" => names } };
            let mut errors = Errors::default();
            declared_features(&Field::root(&node), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect);
        };
        let wrong = |i: usize, name: &str| {
            format!(
                "status.declaredFeatures[{i}]: Invalid value: \"{name}\": invalid feature name \"{name}\": must start with an \
                 UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), \
                 and contain only alphanumeric characters and slashes"
            )
        };
        check(&["A", "B/c", "C"], &[]);
        check(&["a"], &[&wrong(0, "a")]);
        check(
            &["A/", "A/"],
            &[&wrong(0, "A/"), r#"status.declaredFeatures[1]: Duplicate value: "A/""#, &wrong(1, "A/")],
        );
        check(&["B", "A"], &[r#"status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically"#]);
    }

    #[test]
    fn swap_is_some() {
        let node = object! { "status" => object! { "nodeInfo" => object! { "swap" => object! { "capacity" => 0 } } } };
        let mut errors = Errors::default();
        swap(&Field::root(&node), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"]);
    }
}
