//! What is wrong with nodes.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::{
    codec::json,
    meta::{
        FieldError,
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
    pod_cidrs(node, errors);
}

/// What is wrong with a change, also one of the status.
pub(super) fn changes(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    annotations(new, errors);
    resources(new, errors);
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
