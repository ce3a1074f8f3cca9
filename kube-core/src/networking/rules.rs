//! Rules of the group's kinds.

use generic_server::resource::KindTraits;
use machinery::{Value, array};

use super::{ingress_validation as ingresses, validation};
use crate::{
    core::services::balancer_warnings,
    defaults::{each, is_empty, pointer, within},
    strategy::Rules,
};

/// The rules of ingresses.
pub(super) const INGRESSES: Rules = Rules::WORKLOAD
    .validate(ingresses::create)
    .validate_update(ingresses::update)
    .validate_status(ingresses::status)
    .warn(ingresses::warnings)
    .warn_status(balancer_warnings);

/// The rules of addresses.
pub(super) const IP_ADDRESSES: Rules =
    Rules { traits: KindTraits { has_literal_names: true, ..KindTraits::PLAIN }, ..Rules::PLAIN }
        .names(validation::address_name)
        .validate(validation::address)
        .revalidate(|cx, new, _, errors| validation::address(cx, new, errors))
        .validate_update(validation::address_update);

/// The rules of ranges of addresses.
pub(super) const SERVICE_CIDRS: Rules =
    WITH_ANY_STATUS.with_status().unless("ServiceCIDRStatusFieldWiping", &WITH_ANY_STATUS);

/// Those of ranges whose status anybody may write.
const WITH_ANY_STATUS: Rules =
    Rules::PLAIN.status_alone().validate(validation::range).validate_update(validation::range_update);

/// The rules of ingress classes.
pub(super) const INGRESS_CLASSES: Rules = Rules::COUNTED
    .defaults(|class| {
        within(class, "spec", |spec| within(spec, "parameters", |p| pointer(p, "scope", "Cluster")));
    })
    .validate(ingresses::class)
    .validate_update(ingresses::class_update);

/// The rules of network policies.
pub(super) const NETWORK_POLICIES: Rules = Rules::COUNTED
    .defaults(network_policy)
    .validate(validation::policy)
    .validate_update(validation::policy_update)
    .warn(validation::policy_warnings);

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
