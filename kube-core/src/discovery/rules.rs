//! Rules of endpoint slices.

use machinery::Value;

use super::validation;
use crate::{
    defaults::{each, pointer},
    strategy::Rules,
};

/// The rules of endpoint slices.
pub(super) const RULES: Rules = Rules::PLAIN
    .counts(&["addressType", "endpoints", "ports", "metadata.labels"])
    .defaults(|slice: &mut Value| {
        each(slice, "ports", |port| {
            pointer(port, "name", "");
            pointer(port, "protocol", "TCP");
        });
    })
    .create(|_, slice| drop_topology(slice))
    .update(|_, slice, _| drop_topology(slice))
    .validate(validation::slice)
    .validate_update(validation::update)
    .warn(validation::warnings);

/// Topology was a map in an older version; this one takes none.
fn drop_topology(slice: &mut Value) {
    if slice.get("endpoints").and_then(Value::as_array).is_some_and(|e| e.iter().any(|e| e.get(OLD).is_some())) {
        each(slice, "endpoints", |endpoint| {
            endpoint.make_object().remove(OLD);
        });
    }
}

const OLD: &str = "deprecatedTopology";
