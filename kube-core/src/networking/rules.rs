//! Rules of ingress classes and network policies.

use machinery::{Value, array};

use crate::{
    defaults::{each, is_empty, pointer, within},
    strategy::Rules,
};

/// The rules of ingress classes.
pub(super) const INGRESS_CLASSES: Rules = Rules::COUNTED.defaults(|class| {
    within(class, "spec", |spec| within(spec, "parameters", |p| pointer(p, "scope", "Cluster")));
});

/// The rules of network policies.
pub(super) const NETWORK_POLICIES: Rules = Rules::COUNTED.defaults(network_policy);

fn network_policy(policy: &mut Value) {
    within(policy, "spec", |spec| {
        for direction in ["ingress", "egress"] {
            each(spec, direction, |rule| each(rule, "ports", |port| pointer(port, "protocol", "TCP")));
        }
        if is_empty(spec.get("policyTypes")) {
            let both = spec.get("egress").and_then(Value::as_array).is_some_and(|e| !e.is_empty());
            spec.set(&["policyTypes"], if both { array!["Ingress", "Egress"] } else { array!["Ingress"] });
        }
    });
}
