//! Hints by which proxies choose endpoints that are near: what a service's trafficDistribution asks for.

use machinery::{Value, array, object};

use super::{
    reconcile::Plan,
    slice::{Slice, is_ready},
};
use crate::endpoints::{service::Service, text};

/// How near endpoints should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    /// In the same zone.
    Zone,
    /// On the same node, else in the same zone.
    Node,
}

/// What a service asks for, and the word for it.
pub(super) fn wanted(service: &Service) -> Option<(Distribution, &str)> {
    let word = text(&service.0, &["spec", "trafficDistribution"]);
    match word {
        "PreferClose" | "PreferSameZone" => Some((Distribution::Zone, word)),
        "PreferSameNode" => Some((Distribution::Node, word)),
        _ => None,
    }
}

/// Gives the endpoints of all slices their hints, or takes them away.
pub(super) fn apply(plan: &mut Plan, distribution: Option<Distribution>) {
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        set(slice, distribution);
    }
    for mut slice in std::mem::take(&mut plan.unchanged) {
        match set(&mut slice, distribution) {
            true => plan.update.push(slice),
            false => plan.unchanged.push(slice),
        }
    }
}

/// Sets the hints of a slice; whether any has changed. What endpoints that are not ready have is nobody's concern, while there
/// are hints.
fn set(slice: &mut Slice, distribution: Option<Distribution>) -> bool {
    let mut changed = false;
    for endpoint in &mut slice.endpoints {
        let hints = match distribution {
            None => Value::Null,
            Some(_) if !is_ready(endpoint) => continue,
            Some(distribution) => hints(endpoint, distribution),
        };
        if !endpoint.get("hints").unwrap_or(&Value::Null).semantic_eq(&hints) {
            changed = true;
            match hints {
                Value::Null => drop(endpoint.remove_at(&["hints"])),
                hints => endpoint.set(&["hints"], hints),
            }
        }
    }
    changed
}

fn hints(endpoint: &Value, distribution: Distribution) -> Value {
    let name = |member: &str| {
        endpoint.get(member).filter(|name| !name.is_null()).map(|name| array![object! { "name" => name.clone() }])
    };
    let node = name("nodeName").filter(|_| distribution == Distribution::Node);
    match (name("zone"), node) {
        (None, None) => Value::Null,
        (Some(zones), None) => object! { "forZones" => zones },
        (None, Some(nodes)) => object! { "forNodes" => nodes },
        (Some(zones), Some(nodes)) => object! { "forZones" => zones, "forNodes" => nodes },
    }
}
