//! What is to become of a service's slices, of one address type: computed, not done.

use std::collections::{HashMap, HashSet};

use machinery::{Str, Value, meta::ip::Family, object};

use super::{
    CONTROLLER, MAX_ENDPOINTS,
    slice::{self, Desired, Slice},
};
use crate::endpoints::{
    pod::Pod,
    ports::{self, PortKey},
    service::Service,
};

/// What is known of a node: its zone, if it says one.
pub(super) type Zone = Option<Str>;

/// What is to be done, and what is counted of it.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) create: Vec<Slice>,
    pub(super) update: Vec<Slice>,
    pub(super) delete: Vec<Slice>,
    /// What stays as it is.
    pub(super) unchanged: Vec<Slice>,
    pub(super) added: usize,
    pub(super) removed: usize,
    /// How many endpoints and slices each group of ports will have.
    pub(super) groups: Vec<(usize, usize)>,
    /// Pods that were left out.
    pub(super) errors: Vec<String>,
}

/// The type of a family's addresses.
pub(super) fn address_type(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// Computes what is to be done about the slices of one family.
pub(super) fn reconcile(
    service: &Service,
    pods: &[Pod],
    zone: &dyn Fn(&str) -> Option<Zone>,
    existing: Vec<Slice>,
    family: Family,
) -> Plan {
    let mut plan = Plan::default();
    let count = existing.len();
    let (owned, foreign): (Vec<_>, Vec<_>) = existing.into_iter().partition(|slice| is_owned(slice, service));
    plan.delete = foreign;
    let mut present: HashMap<PortKey, Vec<Slice>> = HashMap::new();
    let mut present_keys = Vec::new();
    for slice in owned {
        let key = ports::order(&mut slice.ports().to_vec());
        let group = present.entry(key.clone()).or_insert_with(|| {
            present_keys.push(key);
            Vec::new()
        });
        group.push(slice);
    }
    for (numbers, desired) in desired(service, pods, zone, family, &mut plan.errors).all() {
        let mut ports = ports::of_slice(service, &numbers);
        let key = ports::order(&mut ports);
        group(service, present.remove(&key).unwrap_or_default(), desired, (ports, family), &mut plan);
    }
    // Ports that nobody has any more.
    plan.delete.extend(present_keys.iter().filter_map(|key| present.remove(key)).flatten());
    if count == plan.delete.len() && plan.create.is_empty() {
        keep_one(service, family, &mut plan);
    }
    plan
}

/// The endpoints that there should be, by the ports that they have.
fn desired(
    service: &Service,
    pods: &[Pod],
    zone: &dyn Fn(&str) -> Option<Zone>,
    family: Family,
    errors: &mut Vec<String>,
) -> ports::Groups<Desired> {
    let mut groups = ports::Groups::<Desired>::default();
    for pod in pods.iter().filter(|pod| pod.is_reachable()) {
        let skipping = |why: &str| {
            let meta = service.meta();
            format!("skipping Pod {} for Service {}/{}: {why}", pod.name(), meta.namespace(), meta.name())
        };
        let Some(desired) = groups.of(service, pod) else {
            errors.push(skipping("the ports of all pods are too many"));
            break;
        };
        let zone = zone(pod.node());
        if zone.is_none() && !service.publishes_not_ready() {
            // It is tried again later: the node may not be there yet. Others are not held up.
            errors.push(skipping(&format!("Node {} Not Found", pod.node())));
            continue;
        }
        if let Some(endpoint) = endpoint(service, pod, zone.flatten(), family) {
            desired.insert(endpoint);
        }
    }
    groups
}

/// A pod as an endpoint; none if it has no address of the family.
fn endpoint(service: &Service, pod: &Pod, zone: Zone, family: Family) -> Option<Value> {
    let addresses: Vec<String> = pod.addresses(family).collect();
    if addresses.is_empty() {
        return None;
    }
    let (serving, terminating) = (pod.is_ready(), pod.is_terminating());
    let ready = service.publishes_not_ready() || (serving && !terminating);
    let mut endpoint = object! {
        "addresses" => addresses,
        "conditions" => object! { "ready" => ready, "serving" => serving, "terminating" => terminating },
        "targetRef" => pod.reference(),
    };
    if !pod.node().is_empty() {
        endpoint.set(&["nodeName"], pod.node());
    }
    if let Some(zone) = zone {
        endpoint.set(&["zone"], zone);
    }
    if let Some(hostname) = pod.hostname_in(service) {
        endpoint.set(&["hostname"], hostname);
    }
    Some(endpoint)
}

fn is_owned(slice: &Slice, service: &Service) -> bool {
    let uid = service.meta().uid();
    let mut owners = slice.meta().owner_references();
    owners.any(|owner| owner.uid() == uid && owner.kind() == "Service" && owner.api_version() == "v1")
}

fn new_slice(service: &Service, ports: &[Value], family: Family) -> Slice {
    let (labels, _) = slice::labels(None, service.meta(), service.has_ip(), CONTROLLER);
    let metadata = slice::metadata(("Service", service.meta()), labels);
    Slice::new(metadata, address_type(family), ports.to_vec())
}

/// Places the endpoints of one group of ports with as few writes as possible: slices that change anyway are filled first, what is
/// left goes into one slice that has room for all of it, or into new ones.
fn group(service: &Service, present: Vec<Slice>, mut desired: Desired, new: (Vec<Value>, Family), plan: &mut Plan) {
    let (total, before, made, gone) = (desired.len(), present.len(), plan.create.len(), plan.delete.len());
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    for mut slice in present {
        let mut kept = Vec::with_capacity(slice.endpoints.len());
        let mut is_updated = false;
        for endpoint in &slice.endpoints {
            if let Some(wanted) = desired.take(endpoint) {
                is_updated |= !slice::same_state(&wanted, endpoint);
                kept.push(wanted);
            }
        }
        let (labels, labels_differ) = slice::labels(Some(slice.meta()), service.meta(), service.has_ip(), CONTROLLER);
        let removed = slice.endpoints.len() - kept.len();
        plan.removed += removed;
        if is_updated || removed > 0 {
            if kept.is_empty() {
                plan.delete.push(slice);
                continue;
            }
            slice.endpoints = kept;
            slice.set_labels(labels);
            changed.push(slice);
        } else if labels_differ {
            slice.set_labels(labels);
            changed.push(slice);
        } else {
            unchanged.push(slice);
        }
    }
    plan.added += desired.len();
    changed.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in &mut changed {
        desired.fill(slice, MAX_ENDPOINTS);
    }
    while desired.len() > 0 {
        let fits = (desired.len() < MAX_ENDPOINTS).then(|| best_fit(&unchanged, desired.len())).flatten();
        match fits {
            Some(at) => {
                let mut slice = unchanged.remove(at);
                desired.fill(&mut slice, MAX_ENDPOINTS);
                changed.push(slice);
            }
            None => {
                let mut slice = new_slice(service, &new.0, new.1);
                desired.fill(&mut slice, MAX_ENDPOINTS);
                plan.create.push(slice);
            }
        }
    }
    plan.update.extend(changed);
    plan.unchanged.extend(unchanged);
    plan.groups.push((total, before + plan.create.len() - made - (plan.delete.len() - gone)));
}

/// The slice that has room for so many endpoints and least beyond.
fn best_fit(slices: &[Slice], count: usize) -> Option<usize> {
    let room = |slice: &Slice| MAX_ENDPOINTS.checked_sub(slice.endpoints.len() + count);
    let rooms = slices.iter().enumerate().filter_map(|(at, slice)| Some((room(slice)?, at)));
    rooms.min().map(|(_, at)| at)
}

/// A service always has a slice, be it an empty one. One that is there already stays.
fn keep_one(service: &Service, family: Family, plan: &mut Plan) {
    let placeholder = new_slice(service, &[], family);
    let is_placeholder = |slice: &Slice| {
        slice.endpoints.is_empty()
            && slice.ports().is_empty()
            && slice.address_type() == placeholder.address_type()
            && slice.meta().labels() == placeholder.meta().labels()
    };
    match plan.delete.as_slice() {
        [only] if is_placeholder(only) => plan.unchanged.append(&mut plan.delete),
        _ => plan.create.push(placeholder),
    }
    plan.groups.push((0, 1));
}

/// Turns deletions and creations into updates, as far as both are there.
pub(super) fn recycle(service: &Service, plan: &mut Plan) {
    let mut gone = Vec::new();
    for slice in std::mem::take(&mut plan.delete) {
        let fits = |new: &Slice| new.address_type() == slice.address_type() && is_owned(&slice, service);
        match plan.create.pop_if(|new| fits(new)) {
            Some(mut new) => {
                new.replace(slice.name());
                plan.update.push(new);
            }
            None => gone.push(slice),
        }
    }
    plan.delete = gone;
}

/// Of slices, those of each address type that a service has, and the rest.
pub(super) fn by_family(slices: Vec<Slice>, families: &[Family]) -> (Vec<Vec<Slice>>, Vec<Slice>) {
    let mut by_family: Vec<Vec<Slice>> = families.iter().map(|_| Vec::new()).collect();
    let mut others = Vec::new();
    for slice in slices {
        match families.iter().position(|family| address_type(*family) == slice.address_type()) {
            Some(at) => by_family[at].push(slice),
            None => others.push(slice),
        }
    }
    (by_family, others)
}

/// The families that a service's endpoints have.
pub(super) fn families(service: &Service) -> Vec<Family> {
    let mut families = service.families();
    if families.is_empty() {
        families = match service.family_of_ip() {
            Some(family) => vec![family],
            None => vec![Family::V4, Family::V6],
        };
    }
    let mut seen = HashSet::new();
    families.retain(|family| seen.insert(address_type(*family)));
    families
}
