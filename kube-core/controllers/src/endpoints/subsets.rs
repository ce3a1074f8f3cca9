//! Subsets of Endpoints: addresses that have the same ports, in the one form that all of them have.

use std::collections::HashMap;

use machinery::{Map, Str, Value, meta::Meta, object};

use super::{go_hash, items, pod::Pod, ports, service::Service, text};

/// So many addresses are in Endpoints at most.
const CAPACITY: usize = 1000;
/// So many addresses are in all subsets together at most, each as often as it is there.
const MAX_ADDRESSES: usize = 200_000;
const LISTS: [&str; 2] = ["addresses", "notReadyAddresses"];

/// The subsets of a service; none if they would be too many.
pub(super) fn of_service(service: &Service, pods: &[Pod]) -> Option<Vec<Value>> {
    let all = service.publishes_not_ready();
    let mut groups = ports::Groups::<[Vec<Value>; 2]>::default();
    for pod in pods.iter().filter(|pod| pod.is_reachable() && (all || !pod.is_terminating())) {
        let Some(address) = address(service, pod) else { continue };
        if service.ports().is_empty() && !service.is_headless() {
            continue;
        }
        let list = usize::from(!all && !pod.is_ready());
        groups.of(service, pod)?[list].push(address);
    }
    let subset = |(ports, [ready, others]): (Vec<Option<i64>>, [Vec<Value>; 2])| {
        let ports =
            service.ports().iter().zip(ports).filter_map(|(port, number)| Some(ports::endpoint_port(port, number?)));
        let ports: Vec<Value> = ports.collect();
        // Of a service with ports, pods that have none of them are nowhere.
        let is_there = service.ports().is_empty() || !ports.is_empty();
        is_there.then(|| object! { LISTS[0] => ready, LISTS[1] => others, "ports" => ports })
    };
    repack(&groups.all().filter_map(subset).collect::<Vec<_>>())
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

/// The canonical form: every port's addresses are put together, and then the ports that have the same ones. None if that is too much:
/// few ports and addresses can make many subsets of many addresses.
pub(super) fn repack(subsets: &[Value]) -> Option<Vec<Value>> {
    // Ports that are in the same subsets have the same addresses.
    let mut places: Vec<(Option<&Value>, Vec<usize>)> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for (at, subset) in subsets.iter().enumerate() {
        let ports = items(subset, &["ports"]);
        // Addresses without ports stay.
        let ports: Vec<Option<&Value>> = if ports.is_empty() { vec![None] } else { ports.iter().map(Some).collect() };
        for port in ports {
            let port = port.filter(|port| port.get("port").and_then(Value::as_i64).unwrap_or(0) > 0);
            let number = *numbers.entry(port.map(go_hash::port).unwrap_or_default()).or_insert_with(|| {
                places.push((port, Vec::new()));
                places.len() - 1
            });
            if places[number].1.last() != Some(&at) {
                places[number].1.push(at);
            }
        }
    }
    let mut by_places: HashMap<Vec<usize>, Vec<&Value>> = HashMap::new();
    for (port, places) in places {
        by_places.entry(places).or_default().extend(port);
    }
    let length = |subset: &Value| LISTS.iter().map(|list| items(subset, &[list]).len()).sum::<usize>();
    let lengths: Vec<usize> = subsets.iter().map(length).collect();
    if by_places.keys().flatten().map(|at| lengths[*at]).sum::<usize>() > MAX_ADDRESSES {
        return None;
    }
    let (addresses, known) = addresses(subsets);
    let mut groups: HashMap<Vec<(usize, bool)>, Vec<&Value>> = HashMap::new();
    for (places, ports) in by_places {
        let mut members: HashMap<usize, bool> = HashMap::new();
        for subset in places.iter().map(|at| &subsets[*at]) {
            for (list, is_ready) in [(LISTS[0], true), (LISTS[1], false)] {
                for address in items(subset, &[list]) {
                    // Not ready anywhere is not ready.
                    members.entry(known[&key(address)]).and_modify(|ready| *ready &= is_ready).or_insert(is_ready);
                }
            }
        }
        let mut members: Vec<(usize, bool)> = members.into_iter().collect();
        members.sort_unstable();
        groups.entry(members).or_default().extend(ports);
    }
    let ports = |ports: Vec<&Value>| ports.into_iter().cloned().collect();
    let mut packed: Vec<Value> =
        groups.into_iter().map(|(members, of)| packed(&addresses, &members, ports(of))).collect();
    packed.sort_by_cached_key(|subset| go_hash::hash(&go_hash::subset(subset)));
    Some(packed)
}

/// Which address it is: two pods may have one IP.
type AddressKey<'a> = (&'a str, &'a str);

/// All addresses, each once as it is met first, and their numbers.
fn addresses(subsets: &[Value]) -> (Vec<&Value>, HashMap<AddressKey<'_>, usize>) {
    let (mut addresses, mut known): (Vec<&Value>, HashMap<AddressKey<'_>, usize>) = Default::default();
    for address in subsets.iter().flat_map(|subset| LISTS.iter().flat_map(|list| items(subset, &[list]))) {
        known.entry(key(address)).or_insert_with(|| {
            addresses.push(address);
            addresses.len() - 1
        });
    }
    (addresses, known)
}

fn key(address: &Value) -> AddressKey<'_> {
    (text(address, &["ip"]), text(address, &["targetRef", "uid"]))
}

/// The order of addresses: of one IP those of nobody come first.
fn place(address: &Value) -> (&str, Option<&str>) {
    let reference = address.get("targetRef").filter(|reference| !reference.is_null());
    (text(address, &["ip"]), reference.map(|reference| text(reference, &["uid"])))
}

fn packed(addresses: &[&Value], members: &[(usize, bool)], mut ports: Vec<Value>) -> Value {
    let mut subset = Map::new();
    for (list, wanted) in [(LISTS[0], true), (LISTS[1], false)] {
        let mut chosen: Vec<&Value> =
            members.iter().filter(|(_, ready)| *ready == wanted).map(|(at, _)| addresses[*at]).collect();
        chosen.sort_by(|a, b| place(a).cmp(&place(b)));
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
    let repacked = || Some((repack(&current)?, repack(subsets)?));
    equal(&current, subsets) || repacked().is_some_and(|(current, subsets)| equal(&current, &subsets))
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
        let repacked = repack(&subsets).expect("they are few");
        let found: Vec<String> = repacked.iter().map(json::encode_text).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let both = r#""addresses":[{"ip":"1.1.1.1"},{"ip":"2.2.2.2"}]"#;
        assert!(found.iter().any(|subset| subset.contains(both) && subset.matches("TCP").count() == 2), "{found:?}");
        assert!(found.iter().any(|subset| subset.contains(r#"{"notReadyAddresses":[{"ip":"2.2.2.2"}]"#)), "{found:?}");
        assert_eq!(repack(&repacked), Some(repacked));
    }

    #[test]
    fn an_address_that_is_not_ready_anywhere_is_not_ready() {
        let subsets = [
            object! { "notReadyAddresses" => array![address("1.1.1.1")] },
            object! { "addresses" => array![address("1.1.1.1")] },
        ];
        assert_eq!(repack(&subsets), Some(vec![object! { "notReadyAddresses" => array![address("1.1.1.1")] }]));
    }

    #[test]
    fn what_would_be_many_times_larger_is_not_made() {
        let many =
            |count: i64| (0..count).map(|i| address(&format!("10.{}.{}.{}", i / 65_536, i / 256 % 256, i % 256)));
        let ports = |count: i64| (1..=count).map(|number| port(&format!("p{number}"), number)).collect::<Value>();
        let large = object! { "addresses" => many(2000).collect::<Value>(), "ports" => ports(2000) };
        assert_eq!(repack(std::slice::from_ref(&large)).map(|subsets| subsets.len()), Some(1), "it is no larger");
        let small = |number: i64| {
            let own = array![address(&format!("11.0.{}.{}", number / 256, number % 256))];
            object! { "addresses" => own, "ports" => array![port(&format!("p{number}"), number)] }
        };
        let subsets: Vec<Value> = std::iter::once(large).chain((1..=2000).map(small)).collect();
        assert_eq!(repack(&subsets), None, "each port has other addresses");
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
