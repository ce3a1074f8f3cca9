//! What is to become of the mirrors of Endpoints: one slice for each subset and family. Computed, not done.

use std::collections::HashMap;

use machinery::{
    Map, Value,
    meta::{
        Meta,
        ip::{self, Family},
    },
    object,
};

use super::{CONTROLLER, MAX_ADDRESSES};
use crate::endpoints::{
    TRIGGER_TIME, items,
    ports::{self, PortKey},
    slices::slice::{self, Desired, MANAGED_BY, SERVICE_NAME, Slice},
    subsets, text,
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const FAMILIES: [(Family, &str); 2] = [(Family::V4, "IPv4"), (Family::V6, "IPv6")];

/// What is to be done, and what is counted of it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<Slice>,
    pub(super) update: Vec<Slice>,
    pub(super) delete: Vec<Slice>,
    pub(super) added: usize,
    pub(super) updated: usize,
    pub(super) removed: usize,
    /// Addresses that are none.
    pub(super) invalid: usize,
    /// Addresses that are not mirrored, those among them.
    pub(super) skipped: usize,
    /// How many endpoints and slices each group will have.
    pub(super) groups: Vec<(usize, usize)>,
}

/// An address type and the ports of a group.
type GroupKey = (String, PortKey);

#[derive(Default)]
struct Groups {
    keys: Vec<GroupKey>,
    by_key: HashMap<GroupKey, (Vec<Value>, Desired)>,
}

/// Computes what is to be done about the slices that mirror Endpoints; none if that would be too much.
pub(super) fn reconcile(endpoints: &Value, existing: Vec<Slice>) -> Option<Plan> {
    let mut plan = Plan::default();
    let mut groups = desired(endpoints, &mut plan)?;
    let mut present: HashMap<GroupKey, Vec<Slice>> = HashMap::new();
    for slice in existing {
        let key = (slice.address_type().to_owned(), ports::order(&mut slice.ports().to_vec()));
        present.entry(key).or_default().push(slice);
    }
    for key in &groups.keys {
        let Some((ports, desired)) = groups.by_key.remove(key) else { continue };
        let slices = present.remove(key).unwrap_or_default();
        group(endpoints, slices, desired, (&key.0, ports), &mut plan);
    }
    plan.delete.extend(present.into_values().flatten());
    Some(plan)
}

fn desired(endpoints: &Value, plan: &mut Plan) -> Option<Groups> {
    let mut groups = Groups::default();
    for subset in subsets::repack(items(endpoints, &["subsets"]))? {
        let port = |port: &Value| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            ports::slice_port(text(port, &["name"]), number, text(port, &["protocol"]), port.get("appProtocol"))
        };
        let mut ports: Vec<Value> = items(&subset, &["ports"]).iter().map(port).collect();
        let key = ports::order(&mut ports);
        for (_, address_type) in FAMILIES {
            let key = (address_type.to_owned(), key.clone());
            groups.by_key.entry(key.clone()).or_insert_with(|| {
                groups.keys.push(key);
                (ports.clone(), Desired::default())
            });
        }
        let (mut count, mut total) = (0, 0);
        for (list, is_ready) in [("addresses", true), ("notReadyAddresses", false)] {
            let addresses = items(&subset, &[list]);
            total += addresses.len();
            for address in addresses {
                if count >= MAX_ADDRESSES {
                    break;
                }
                let Some((address_type, endpoint)) = endpoint(address, is_ready) else {
                    plan.invalid += 1;
                    continue;
                };
                count += 1;
                if let Some((_, desired)) = groups.by_key.get_mut(&(address_type.to_owned(), key.clone())) {
                    desired.insert(endpoint);
                }
            }
        }
        plan.skipped += total - count;
    }
    Some(groups)
}

/// An address as an endpoint, and of which type it is; none if it is no address.
fn endpoint(address: &Value, is_ready: bool) -> Option<(&'static str, Value)> {
    let ip = ip::parse_sloppy(text(address, &["ip"]))?;
    let (_, address_type) = FAMILIES.into_iter().find(|(family, _)| *family == ip::family(ip))?;
    let mut endpoint = object! {
        "addresses" => vec![ip.to_canonical().to_string()], "conditions" => object! { "ready" => is_ready },
    };
    for member in ["targetRef", "nodeName"] {
        if let Some(value) = address.get(member).filter(|value| !value.is_null()) {
            endpoint.set(&[member], value.clone());
        }
    }
    if !text(address, &["hostname"]).is_empty() {
        endpoint.set(&["hostname"], text(address, &["hostname"]));
    }
    Some((address_type, endpoint))
}

fn group(endpoints: &Value, mut present: Vec<Slice>, mut desired: Desired, of: (&str, Vec<Value>), plan: &mut Plan) {
    let total = desired.len();
    if total == 0 {
        plan.removed += present.iter().map(|slice| slice.endpoints.len()).sum::<usize>();
        plan.delete.append(&mut present);
        return;
    }
    plan.groups.push((total, 1));
    if present.is_empty() {
        plan.added += total;
    } else {
        plan.delete.extend(present.drain(1..));
        let [added, updated, removed] = changes(&present[0], &desired);
        plan.added += added;
        plan.updated += updated;
        plan.removed += removed;
        if added + updated + removed == 0 && describes(&present[0], endpoints) {
            return;
        }
    }
    let mut new = new_slice(endpoints, of.0, of.1);
    desired.fill(&mut new, MAX_ADDRESSES);
    match present.pop() {
        Some(old) => {
            new.replace(old.name());
            plan.update.push(new);
        }
        None => plan.create.push(new),
    }
}

/// How many endpoints a slice lacks, has in another state, and has too many.
fn changes(slice: &Slice, desired: &Desired) -> [usize; 3] {
    let (mut matches, mut updated, mut removed) = (0, 0, 0);
    for endpoint in &slice.endpoints {
        match desired.get(endpoint) {
            None => removed += 1,
            Some(wanted) => {
                matches += 1;
                updated += usize::from(!slice::same_state(wanted, endpoint));
            }
        }
    }
    [desired.len().saturating_sub(matches), updated, removed]
}

fn annotations(endpoints: &Value) -> Map {
    let mut annotations = Meta::of(endpoints).annotations().cloned().unwrap_or_default();
    annotations.retain(|key, _| key != TRIGGER_TIME && key != LAST_APPLIED);
    annotations
}

fn labels(endpoints: &Value) -> Map {
    let mut labels = Meta::of(endpoints).labels().cloned().unwrap_or_default();
    labels.insert(SERVICE_NAME, Meta::of(endpoints).name());
    labels.insert(MANAGED_BY, CONTROLLER);
    labels
}

/// Whether a slice has the labels, annotations and owner that it should have.
fn describes(slice: &Slice, endpoints: &Value) -> bool {
    let (meta, of) = (slice.meta(), Meta::of(endpoints));
    let is_stale = |kind: &str, name: &str, uid: &str| kind == "Endpoints" && name == of.name() && uid != of.uid();
    meta.labels() == Some(&labels(endpoints))
        && meta.annotations().cloned().unwrap_or_default() == annotations(endpoints)
        && !meta.owner_references().any(|owner| is_stale(owner.kind(), owner.name(), owner.uid()))
}

fn new_slice(endpoints: &Value, address_type: &str, ports: Vec<Value>) -> Slice {
    let mut metadata = slice::metadata(("Endpoints", Meta::of(endpoints)), labels(endpoints));
    metadata.set(&["annotations"], annotations(endpoints));
    Slice::new(metadata, address_type, ports)
}

/// Turns deletions and creations of one address type into updates, as far as both are there.
pub(super) fn recycle(plan: &mut Plan) {
    let mut gone = Vec::new();
    for slice in std::mem::take(&mut plan.delete) {
        match plan.create.iter().position(|new| new.address_type() == slice.address_type()) {
            Some(at) => {
                let mut new = plan.create.remove(at);
                new.replace(slice.name());
                plan.update.push(new);
            }
            None => gone.push(slice),
        }
    }
    plan.delete = gone;
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    fn reconcile(endpoints: &Value, existing: Vec<Slice>) -> Plan {
        super::reconcile(endpoints, existing).expect("they are few")
    }

    fn endpoints(subsets: Value) -> Value {
        let annotations = object! { "note" => "mine", TRIGGER_TIME => "2026-01-01T00:00:00Z", LAST_APPLIED => "{}" };
        object! {
            "metadata" => object! {
                "name" => "e", "namespace" => "n", "uid" => "u", "labels" => object! { "app" => "db" },
                "annotations" => annotations,
            },
            "subsets" => subsets,
        }
    }

    fn subset(ready: &[&str], others: &[&str], port: i64) -> Value {
        let addresses = |ips: &[&str]| ips.iter().map(|ip| object! { "ip" => *ip }).collect::<Value>();
        let ports = array![object! { "port" => port, "protocol" => "TCP" }];
        object! { "addresses" => addresses(ready), "notReadyAddresses" => addresses(others), "ports" => ports }
    }

    fn done(plan: Plan) -> Vec<Slice> {
        let named = |(i, mut slice): (usize, Slice)| {
            slice.replace(&format!("e-{i}"));
            slice
        };
        plan.update.into_iter().chain(plan.create.into_iter().enumerate().map(named)).collect()
    }

    fn writes(plan: &Plan) -> [usize; 3] {
        [plan.create.len(), plan.update.len(), plan.delete.len()]
    }

    #[test]
    fn a_subset_is_a_slice_for_each_family() {
        let endpoints = endpoints(array![subset(&["10.1.0.1", "fd00::1", "none"], &["10.1.0.2"], 5432)]);
        let plan = reconcile(&endpoints, Vec::new());
        assert_eq!((writes(&plan), plan.added, plan.invalid, plan.skipped), ([2, 0, 0], 3, 1, 1));
        let four = &plan.create[0];
        let metadata = object! {
            "generateName" => "e-", "namespace" => "n", "annotations" => object! { "note" => "mine" },
            "labels" => object! { "app" => "db", SERVICE_NAME => "e", MANAGED_BY => CONTROLLER },
            "ownerReferences" => array![object! {
                "apiVersion" => "v1", "kind" => "Endpoints", "name" => "e", "uid" => "u", "controller" => true,
                "blockOwnerDeletion" => true,
            }],
        };
        assert_eq!(four.object.get("metadata"), Some(&metadata));
        assert_eq!(four.address_type(), "IPv4");
        assert_eq!(four.ports(), [object! { "name" => "", "port" => 5432, "protocol" => "TCP" }]);
        let endpoint = |ip: &str, ready: bool| {
            object! { "addresses" => array![ip], "conditions" => object! { "ready" => ready } }
        };
        assert_eq!(four.endpoints, [endpoint("10.1.0.1", true), endpoint("10.1.0.2", false)]);
        assert_eq!(writes(&reconcile(&endpoints, done(plan))), [0, 0, 0], "nothing is to be done twice");
    }

    #[test]
    fn mirrors_follow_and_are_used_again() {
        let before = endpoints(array![subset(&["10.1.0.1"], &[], 1)]);
        let slices = done(reconcile(&before, Vec::new()));
        let turned = endpoints(array![subset(&[], &["10.1.0.1"], 1)]);
        let plan = reconcile(&turned, slices.clone());
        assert_eq!((writes(&plan), plan.updated), ([0, 1, 0], 1));
        let mut ported = reconcile(&endpoints(array![subset(&["10.1.0.1"], &[], 2)]), slices.clone());
        assert_eq!(writes(&ported), [1, 0, 1]);
        recycle(&mut ported);
        assert_eq!((writes(&ported), ported.update[0].name()), ([0, 1, 0], "e-0"));
        let mut again = before.clone();
        again.set(&["metadata", "uid"], "other");
        assert_eq!(writes(&reconcile(&again, slices.clone())), [0, 1, 0], "the owner is another one");
        assert_eq!(writes(&reconcile(&endpoints(array![]), slices)), [0, 0, 1]);
    }

    #[test]
    fn a_thousand_addresses_of_a_subset_are_mirrored() {
        let ips: Vec<String> = (0..1200).map(|i| format!("10.1.{}.{}", i / 250, i % 250)).collect();
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        let plan = reconcile(&endpoints(array![subset(&ips, &[], 1)]), Vec::new());
        assert_eq!((plan.create[0].endpoints.len(), plan.skipped, plan.invalid), (1000, 200, 0));
    }
}
