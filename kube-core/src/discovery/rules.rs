//! Rules of endpoint slices.

use generic_server::resource::WriteContext;
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
    .update(update)
    .validate(validation::slice)
    .validate_update(validation::update)
    .warn(validation::warnings);

/// Endpoints that stay as they are keep what they have; others lose it, and that has been a change.
fn update(_cx: &WriteContext<'_>, slice: &mut Value, old: &Value) {
    let endpoints = |slice: &Value| slice.get("endpoints").cloned().unwrap_or_default();
    if !endpoints(slice).semantic_eq(&endpoints(old)) {
        drop_topology(slice);
        let generation = old.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        slice.set(&["metadata", "generation"], generation + 1);
    }
}

/// Topology was a map in an older version; this one takes none.
fn drop_topology(slice: &mut Value) {
    if slice.get("endpoints").and_then(Value::as_array).is_some_and(|e| e.iter().any(|e| e.get(OLD).is_some())) {
        each(slice, "endpoints", |endpoint| {
            endpoint.make_object().remove(OLD);
        });
    }
}

const OLD: &str = "deprecatedTopology";

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn topology_that_was_sent_is_a_change() {
        let features = Default::default();
        let user = auth::User::default();
        let cx = WriteContext {
            group: "discovery.k8s.io",
            version: "v1",
            namespace: "n",
            subresource: "",
            user: &user,
            features: &features,
        };
        let read = |text: &str| json::decode(text.as_bytes()).expect("JSON");
        let old = read(r#"{"metadata":{"generation":3},"endpoints":[{"addresses":["10.0.0.1"]}]}"#);
        let mut new = read(
            r#"{"metadata":{"generation":3},"endpoints":[{"addresses":["10.0.0.1"],"deprecatedTopology":{"rack":"r"}}]}"#,
        );
        update(&cx, &mut new, &old);
        assert_eq!(new, read(r#"{"metadata":{"generation":4},"endpoints":[{"addresses":["10.0.0.1"]}]}"#));
        let mut same = old.clone();
        update(&cx, &mut same, &old);
        assert_eq!(same, old);
    }
}
