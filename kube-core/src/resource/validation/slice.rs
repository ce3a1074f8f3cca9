//! Slices: the devices that a driver offers, and the counters that they share.

use std::collections::HashMap;

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{field_error::FieldError, go_text, names as rules},
};

use super::{attributes, capacity, named, names, taints};
use crate::{
    core::pods::validation::{internal::shown, node_selector},
    validation::{Errors, Field},
};

const MOST_DEVICES: usize = 128;
/// Where devices have taints or consume counters.
const MOST_ELABORATE_DEVICES: usize = 64;
const MOST_ATTRIBUTES: usize = 32;
const MOST_VALUES: usize = 48;
const MOST_COUNTER_SETS: usize = 8;
const MOST_CONSUMPTIONS: usize = 2;
const MOST_COUNTERS: usize = 32;

/// Says of uppercase letters in the driver's name that they are unwanted.
pub(in crate::resource) fn slice_warnings(slice: &Value) -> Vec<String> {
    let driver = slice.str_at(&["spec", "driver"]).unwrap_or_default();
    let warned = driver.chars().any(char::is_uppercase);
    let text = || {
        let quoted = go_text::quote(driver);
        format!("spec.driver: driver names should be lowercase; {quoted} contains uppercase characters")
    };
    warned.then(text).into_iter().collect()
}

/// What is wrong with a slice.
pub(in crate::resource) fn slice(_cx: &WriteContext<'_>, slice: &Field<'_>, errors: &mut Errors) {
    spec(&slice.at("spec"), None, errors);
}

/// What is wrong with an update of a slice.
pub(in crate::resource) fn slice_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    spec(&new.at("spec"), Some(&old.at("spec")), errors);
}

fn spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    names::driver(&spec.at("driver"), errors);
    pool(&spec.at("pool"), errors);
    if let Some(old) = old {
        spec.at("pool").at("name").immutable(&old.at("pool").at("name"), errors);
        spec.at("driver").immutable(&old.at("driver"), errors);
        let (name, before) = (spec.at("nodeName"), old.at("nodeName"));
        if name.value() != before.value() {
            name.invalid("field is immutable", errors);
        }
    }
    nodes(spec, errors);
    let (counters, devices) = (spec.at("sharedCounters"), spec.at("devices"));
    if counters.is_set() && devices.is_set() {
        spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed", errors);
    }
    let has = |member: &str| devices.items().iter().any(|d| !Field::root(d).at(member).is_empty());
    let elaborate = has("taints") || has("consumesCounters");
    let most = if elaborate { MOST_ELABORATE_DEVICES } else { MOST_DEVICES };
    let by_device = spec.at("perDeviceNodeSelection").is_true();
    let before = old.map(|old| by_name(old.value())).unwrap_or_default();
    let rule = |item: Field<'_>, errors: &mut Errors| {
        let old = before.get(item.at("name").text()).copied();
        device(&item, old, by_device, errors);
    };
    named(&devices, most, "name", rule, errors);
    let set = |set: Field<'_>, errors: &mut Errors| counter_set(&set, "name", errors);
    named(&counters, MOST_COUNTER_SETS, "name", set, errors);
}

fn by_name(spec: &Value) -> HashMap<&str, &Value> {
    let devices = spec.get("devices").and_then(Value::as_array).unwrap_or_default();
    // Of devices of one name the first counts.
    devices.iter().rev().map(|d| (d.str_at(&["name"]).unwrap_or_default(), d)).collect()
}

fn pool(pool: &Field<'_>, errors: &mut Errors) {
    names::pool(&pool.at("name"), errors);
    let (count, generation) = (pool.at("resourceSliceCount"), pool.at("generation"));
    if count.int_or_zero() <= 0 {
        count.invalid_as(count.int_or_zero(), "must be greater than zero", errors);
    }
    if generation.int_or_zero() < 0 {
        generation.invalid("must be greater than or equal to zero", errors);
    }
}

/// What is set of the ways to say which nodes have the devices.
fn selection(holder: &Field<'_>, empty_name: &str, flags: &[&'static str], errors: &mut Errors) -> Vec<&'static str> {
    let mut set = Vec::new();
    let name = holder.at("nodeName");
    if name.is_set() && name.is_empty() {
        name.invalid(empty_name, errors);
    } else if name.is_set() {
        set.push("nodeName");
        name.check(rules::dns1123_subdomain, errors);
    }
    let selector = holder.at("nodeSelector");
    if selector.is_set() {
        set.push("nodeSelector");
        node_selector(&selector, &|| false, errors);
        let terms = selector.at("nodeSelectorTerms");
        // Those of devices may have several.
        if flags.len() > 1 && terms.len() != 1 {
            let value = shown("[]NodeSelectorTerm", terms.value());
            terms.invalid_as(value, "must have exactly one node selector term", errors);
        }
    }
    for flag in flags {
        let value = holder.at(flag);
        if value.is_true() {
            set.push(flag);
        } else if value.is_set() {
            value.invalid("must be either unset or set to true", errors);
        }
    }
    set
}

fn set_of(members: &[&str]) -> String {
    let quoted: Vec<String> = members.iter().map(|member| format!("`{member}`")).collect();
    format!("{{{}}}", quoted.join(", "))
}

fn nodes(spec: &Field<'_>, errors: &mut Errors) {
    let empty = "must be either unset or set to a non-empty string";
    let set = selection(spec, empty, &["allNodes", "perDeviceNodeSelection"], errors);
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match set.len() {
        0 => spec.required(one, errors),
        1 => {}
        _ => spec.invalid_as(set_of(&set), format!("{one}, but multiple fields are set"), errors),
    }
}

fn device(device: &Field<'_>, old: Option<&Value>, by_device: bool, errors: &mut Errors) {
    names::label(&device.at("name"), errors);
    let attributes = device.at("attributes");
    let total = attributes.len() + device.at("capacity").len();
    if total > MOST_ATTRIBUTES {
        let detail = format!("the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}");
        device.invalid_as(total as i64, detail, errors);
    }
    let values = attributes::count(&attributes);
    if values > MOST_VALUES {
        let detail = format!("the total number of attribute values must not exceed {MOST_VALUES}");
        device.invalid_as(values as i64, detail, errors);
    }
    attributes::entries(&attributes, attributes::attribute, errors);
    capacity::capacity(device, old, errors);
    taints::taints(&device.at("taints"), old, errors);
    let consumption = |set: Field<'_>, errors: &mut Errors| counter_set(&set, "counterSet", errors);
    named(&device.at("consumesCounters"), MOST_CONSUMPTIONS, "counterSet", consumption, errors);
    device_nodes(device, by_device, errors);
    taints::binding_conditions(device, errors);
}

fn device_nodes(device: &Field<'_>, by_device: bool, errors: &mut Errors) {
    if !by_device {
        if ["nodeName", "nodeSelector", "allNodes"].iter().any(|member| device.at(member).is_set()) {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to \
                          true in the ResourceSlice spec";
            device.invalid_as(Value::Null, detail, errors);
        }
        return;
    }
    let set = selection(device, "must not be empty", &["allNodes"], errors);
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to \
               true in the ResourceSlice spec";
    match set.len() {
        0 => device.required(one, errors),
        1 => {}
        _ => device.invalid_as(set_of(&set), one, errors),
    }
}

/// Counters under a name, which stands at the member `name`.
fn counter_set(set: &Field<'_>, name: &str, errors: &mut Errors) {
    let name = set.at(name);
    if name.is_given(errors) {
        names::label(&name, errors);
    }
    let counters = set.at("counters");
    if counters.is_empty() {
        counters.required("", errors);
    } else if counters.len() > MOST_COUNTERS {
        errors.push(FieldError::too_many(counters, counters.len(), MOST_COUNTERS));
    } else {
        for key in counters.keys() {
            let key = Value::from(key);
            names::label(&counters.with(&key), errors);
        }
    }
}
