//! Subsets of Endpoints: addresses that have the same ports, in the one form that all of them have.

use std::collections::HashMap;

use machinery::{Map, Str, Value, meta::Meta, object};

use super::{go_hash, items, pod::Pod, ports, service::Service, text};

/// So many addresses are in Endpoints at most.
const CAPACITY: usize = 1000;
const LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];

/// The subsets of a service.
pub(super) fn of_service(service: &Service, pods: &[Pod]) -> Vec<Value> {
    let all = service.publishes_not_ready();
    let mut subsets = Vec::new();
    for pod in pods.iter().filter(|pod| pod.is_reachable() && (all || !pod.is_terminating())) {
        let Some(address) = address(service, pod) else { continue };
        let list = if all || pod.is_ready() { LISTS[0] } else { LISTS[1] };
        let mut add = |ports: Vec<Value>| subsets.push(object! { list => vec![address.clone()], "ports" => ports });
        if service.ports().is_empty() {
            if service.is_headless() {
                add(Vec::new());
            }
            continue;
        }
        for port in service.ports() {
            if let Some(number) = pod.port(port) {
                add(vec![ports::endpoint_port(port, number)]);
            }
        }
    }
    repack(&subsets)
}

/// A pod's address, of the service's first family.
fn address(service: &Service, pod: &Pod) -> Option<Value> {
    let known = service.families().into_iter().next().or_else(|| service.family_of_ip());
    let ip = pod.addresses(known.or_else(|| pod.family())?).next()?;
    let mut address = object! { "ip" => ip, "nodeName" => pod.node(), "targetRef" => pod.reference() };
    if let Some(hostname) = pod.hostname_in(service) {
        address.set(&["hostname"], hostname);
    }
    Some(address)
}

/// Which address it is: two pods may have one IP.
fn key(address: &Value) -> (&str, Option<&str>) {
    let reference = address.get("targetRef").filter(|reference| !reference.is_null());
    (text(address, &["ip"]), reference.map(|reference| text(reference, &["uid"])))
}

#[derive(Default)]
struct OfPort {
    port: Option<Value>,
    /// Whether an address is ready, by its number.
    addresses: HashMap<usize, bool>,
}

/// The canonical form: every port's addresses are put together, and then the ports that have the same ones.
pub(super) fn repack(subsets: &[Value]) -> Vec<Value> {
    let (mut addresses, mut known): (Vec<&Value>, HashMap<_, usize>) = Default::default();
    let (mut by_port, mut numbers): (Vec<OfPort>, HashMap<String, usize>) = Default::default();
    for subset in subsets {
        let ports = items(subset, &["ports"]);
        // Addresses without ports stay.
        let ports: Vec<Option<&Value>> = if ports.is_empty() { vec![None] } else { ports.iter().map(Some).collect() };
        for port in ports {
            let port = port.filter(|port| port.get("port").and_then(Value::as_i64).unwrap_or(0) > 0);
            let number = *numbers.entry(port.map(go_hash::port).unwrap_or_default()).or_insert_with(|| {
                by_port.push(OfPort { port: port.cloned(), ..OfPort::default() });
                by_port.len() - 1
            });
            for (list, is_ready) in [(LISTS[0], true), (LISTS[1], false)] {
                for address in items(subset, &[list]) {
                    let (ip, uid) = key(address);
                    let at = *known.entry((ip, uid.unwrap_or_default())).or_insert_with(|| {
                        addresses.push(address);
                        addresses.len() - 1
                    });
                    // Not ready anywhere is not ready.
                    by_port[number].addresses.entry(at).and_modify(|ready| *ready &= is_ready).or_insert(is_ready);
                }
            }
        }
    }
    let mut groups: HashMap<Vec<(usize, bool)>, Vec<Value>> = HashMap::new();
    for of_port in by_port {
        let mut members: Vec<(usize, bool)> = of_port.addresses.into_iter().collect();
        members.sort_unstable();
        groups.entry(members).or_default().extend(of_port.port);
    }
    let mut packed: Vec<Value> =
        groups.into_iter().map(|(members, ports)| packed(&addresses, &members, ports)).collect();
    packed.sort_by_cached_key(|subset| go_hash::hash(&go_hash::subset(subset)));
    packed
}

fn packed(addresses: &[&Value], members: &[(usize, bool)], mut ports: Vec<Value>) -> Value {
    let mut subset = Map::new();
    for (list, wanted) in [(LISTS[0], true), (LISTS[1], false)] {
        let mut chosen: Vec<&Value> =
            members.iter().filter(|(_, ready)| *ready == wanted).map(|(at, _)| addresses[*at]).collect();
        chosen.sort_by(|a, b| key(a).cmp(&key(b)));
        if !chosen.is_empty() {
            subset.insert(Str::new_static(list), chosen.into_iter().cloned().collect::<Value>());
        }
    }
    ports.sort_by_cached_key(|port| go_hash::hash(&go_hash::port(port)));
    if !ports.is_empty() {
        subset.insert(Str::new_static("ports"), Value::from(ports));
    }
    subset.into()
}

/// Leaves as many addresses as there may be, ready ones first, each subset its share; whether there were more.
pub(super) fn truncate(subsets: &mut [Value]) -> bool {
    let count = |list: &str| subsets.iter().map(|subset| items(subset, &[list]).len()).sum::<usize>();
    let (ready, others) = (count(LISTS[0]), count(LISTS[1]));
    if ready + others <= CAPACITY {
        return false;
    }
    let (list, room, total) =
        if ready > CAPACITY { (LISTS[0], CAPACITY, ready) } else { (LISTS[1], CAPACITY - ready, others) };
    let mut left = room;
    for subset in subsets {
        let share = (items(subset, &[list]).len() as f64 / total as f64 * room as f64).ceil() as usize;
        shorten(subset, list, share.min(left));
        left -= items(subset, &[list]).len();
        if list == LISTS[0] {
            shorten(subset, LISTS[1], 0);
        }
    }
    true
}

fn shorten(subset: &mut Value, list: &str, length: usize) {
    if length == 0 {
        subset.remove_at(&[list]);
    } else if let Some(addresses) = subset.get_mut(list).and_then(Value::as_array_mut) {
        addresses.truncate(length);
    }
}

/// Whether Endpoints have these subsets, in whatever order, and whatever versions of pods they name.
pub(super) fn same(endpoints: &Value, subsets: &[Value]) -> bool {
    let current: Vec<Value> = items(endpoints, &["subsets"]).iter().map(without_versions).collect();
    let equal = |a: &[Value], b: &[Value]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.semantic_eq(b));
    equal(&current, subsets) || equal(&repack(&current), &repack(subsets))
}

fn without_versions(subset: &Value) -> Value {
    let mut subset = subset.clone();
    for list in LISTS {
        for address in subset.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            address.remove_at(&["targetRef", "resourceVersion"]);
        }
    }
    subset
}

/// The name of what events are about.
pub(super) fn uid_of(endpoints: &Value) -> &str {
    Meta::of(endpoints).uid()
}

#[cfg(test)]
mod tests {
    use machinery::{array, codec::json};

    use super::*;

    fn address(ip: &str) -> Value {
        object! { "ip" => ip }
    }

    fn port(name: &str, number: i64) -> Value {
        object! { "name" => name, "port" => number, "protocol" => "TCP" }
    }

    #[test]
    fn ports_with_the_same_addresses_make_one_subset() {
        let subsets = [
            object! { "addresses" => array![address("2.2.2.2")], "ports" => array![port("a", 1)] },
            object! { "addresses" => array![address("1.1.1.1")], "ports" => array![port("a", 1), port("b", 2)] },
            object! { "addresses" => array![address("2.2.2.2")], "ports" => array![port("b", 2)] },
            object! { "notReadyAddresses" => array![address("2.2.2.2")], "ports" => array![port("c", 3)] },
        ];
        let found: Vec<String> = repack(&subsets).iter().map(json::encode_text).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let both = r#""addresses":[{"ip":"1.1.1.1"},{"ip":"2.2.2.2"}]"#;
        assert!(found.iter().any(|subset| subset.contains(both) && subset.matches("TCP").count() == 2), "{found:?}");
        assert!(found.iter().any(|subset| subset.contains(r#"{"notReadyAddresses":[{"ip":"2.2.2.2"}]"#)), "{found:?}");
        assert_eq!(repack(&repack(&subsets)), repack(&subsets));
    }

    #[test]
    fn an_address_that_is_not_ready_anywhere_is_not_ready() {
        let subsets = [
            object! { "notReadyAddresses" => array![address("1.1.1.1")] },
            object! { "addresses" => array![address("1.1.1.1")] },
        ];
        assert_eq!(repack(&subsets), [object! { "notReadyAddresses" => array![address("1.1.1.1")] }]);
    }

    #[test]
    fn endpoints_hold_a_thousand_addresses_and_ready_ones_first() {
        let many =
            |count: usize| (0..count).map(|i| address(&format!("10.0.{}.{}", i / 256, i % 256))).collect::<Value>();
        let sizes = |subsets: &[Value]| {
            subsets.iter().map(|subset| LISTS.map(|list| items(subset, &[list]).len())).collect::<Vec<_>>()
        };
        let check = |lists: &[(usize, usize)], is_truncated: bool, expect: &[[usize; 2]]| {
            let of = |(ready, others): &(usize, usize)| object! { "addresses" => many(*ready), "notReadyAddresses" => many(*others) };
            let mut subsets: Vec<Value> = lists.iter().map(of).collect();
            assert_eq!(truncate(&mut subsets), is_truncated);
            assert_eq!(sizes(&subsets), expect, "{lists:?}");
        };
        check(&[(600, 400)], false, &[[600, 400]]);
        check(&[(600, 401)], true, &[[600, 400]]);
        check(&[(300, 300), (300, 600)], true, &[[300, 134], [300, 266]]);
        check(&[(1500, 10), (500, 10)], true, &[[750, 0], [250, 0]]);
    }
}
