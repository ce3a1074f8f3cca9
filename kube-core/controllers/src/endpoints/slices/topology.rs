//! Hints by the capacity of zones (the annotation `service.kubernetes.io/topology-mode: Auto`): each zone gets its share of the
//! endpoints, as many as it has of the processors, and no endpoint more than a fifth beyond its part of the load.

use std::collections::{BTreeMap, HashMap, HashSet};

use machinery::{
    Str, Value, array,
    meta::{Meta, ip::Family, quantity::Quantity},
    object,
};

use super::{
    hints,
    reconcile::{Plan, address_type},
    slice::{Slice, is_ready},
};
use crate::{
    endpoints::{items, service::Service, text},
    objects::Key,
};

/// The label of a node's zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
const MODE: &str = "service.kubernetes.io/topology-mode";
const DEPRECATED_MODE: &str = "service.kubernetes.io/topology-aware-hints";
/// How far beyond its share an endpoint may be loaded.
const OVERLOAD: f64 = 0.2;
/// Nodes with these serve no users.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

type ByZone = BTreeMap<Str, i64>;

/// What a service's owner is told: type, reason, message.
pub(super) type Event = (&'static str, &'static str, String);

/// Whether a service wants such hints.
pub(super) fn is_on(service: &Service) -> bool {
    let meta = service.meta();
    let mode = meta.annotation(DEPRECATED_MODE).or_else(|| meta.annotation(MODE));
    matches!(mode, Some("Auto" | "auto"))
}

/// What is known of nodes and services.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// Each zone's part of the processors; none if it cannot be told.
    ratios: Option<BTreeMap<Str, f64>>,
    allocated: HashMap<Key, HashMap<&'static str, ByZone>>,
    populated: HashSet<Key>,
}

#[derive(Debug)]
struct Share {
    minimum: i64,
    maximum: i64,
    desired: f64,
}

fn disabled(message: &str, family: Family) -> Event {
    ("Warning", "TopologyAwareHintsDisabled", format!("{message}, addressType: {}", address_type(family)))
}

impl Topology {
    /// Looks at the nodes anew.
    pub(super) fn set_nodes(&mut self, nodes: &[Value]) {
        let mut by_zone: BTreeMap<Str, i64> = BTreeMap::new();
        for node in nodes.iter().filter(|node| is_capacity(node)) {
            let zone = Meta::of(node).label(ZONE).unwrap_or_default();
            let cpu = node.at(&["status", "allocatable", "cpu"]).and_then(|cpu| Quantity::from_value(cpu).ok());
            let cpu = cpu.map_or(0, |cpu| cpu.milli_value());
            if zone.is_empty() || cpu == 0 {
                self.ratios = None;
                return;
            }
            *by_zone.entry(zone.into()).or_default() += cpu;
        }
        let total: i64 = by_zone.values().sum();
        let ratio = |(zone, cpu): (Str, i64)| (zone, cpu as f64 / total as f64);
        self.ratios = (by_zone.len() >= 2 && total > 0).then(|| by_zone.into_iter().map(ratio).collect());
    }

    /// The services some of whose zones have too few endpoints now.
    pub(super) fn overloaded(&self) -> Vec<Key> {
        let is_overloaded = |zones: &ByZone| {
            let Some(ratios) = &self.ratios else { return !zones.is_empty() };
            let total = zones.values().sum::<i64>() as f64;
            let too_few = |(zone, ratio): (&Str, &f64)| {
                zones.get(zone).is_none_or(|count| *count < (total * ratio / (1.0 + OVERLOAD)).ceil() as i64)
            };
            !zones.is_empty() && ratios.iter().any(too_few)
        };
        let services = self.allocated.iter();
        services.filter(|(_, types)| types.values().any(is_overloaded)).map(|(key, _)| key.clone()).collect()
    }

    /// Forgets the hints of a service's addresses of one family.
    pub(super) fn remove(&mut self, key: &Key, address_type: &str) -> bool {
        if let Some(types) = self.allocated.get_mut(key) {
            types.remove(address_type);
            if types.is_empty() {
                self.allocated.remove(key);
            }
        }
        self.populated.remove(key)
    }

    /// Forgets a service.
    pub(super) fn forget(&mut self, key: &Key) {
        self.allocated.remove(key);
        self.populated.remove(key);
    }

    /// Says that a service has no such hints any more, if it had.
    pub(super) fn turn_off(&mut self, key: &Key, family: Family) -> Option<Event> {
        self.remove(key, address_type(family)).then(|| disabled("Topology Aware Hints has been disabled", family))
    }

    /// Gives the endpoints of all slices their hints, or takes them away where it cannot be done.
    pub(super) fn apply(&mut self, key: &Key, plan: &mut Plan, family: Family) -> Option<Event> {
        let slices = plan.create.iter().chain(&plan.update).chain(&plan.unchanged);
        let ready = slices.flat_map(|slice| &slice.endpoints).filter(|endpoint| is_ready(endpoint)).count();
        let allocated = self.shares(ready).and_then(|shares| allocate(plan, &shares));
        match allocated {
            Err(why) => {
                self.remove(key, address_type(family));
                hints::apply(plan, None);
                Some(disabled(&why, family))
            }
            Ok(allocated) => {
                self.allocated.entry(key.clone()).or_default().insert(address_type(family), allocated);
                let is_new = self.populated.insert(key.clone());
                let message = format!("Topology Aware Hints has been enabled, addressType: {}", address_type(family));
                is_new.then_some(("Normal", "TopologyAwareHintsEnabled", message))
            }
        }
    }

    /// How many of so many endpoints each zone gets.
    fn shares(&self, endpoints: usize) -> Result<BTreeMap<Str, Share>, String> {
        let Some(ratios) = &self.ratios else {
            return Err(
                "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes".to_owned()
            );
        };
        let counts = format!("({endpoints} endpoints, {} zones)", ratios.len());
        if ratios.len() > endpoints {
            return Err(format!("Insufficient number of endpoints {counts}"));
        }
        let total = endpoints as i64;
        let share = |(zone, ratio): (&Str, &f64)| {
            let desired = ratio * endpoints as f64;
            let minimum = (desired / (1.0 + OVERLOAD)).ceil();
            (zone.clone(), Share { minimum: minimum as i64, maximum: 0, desired: desired.max(minimum) })
        };
        let mut shares: BTreeMap<Str, Share> = ratios.iter().map(share).collect();
        let least: i64 = shares.values().map(|share| share.minimum).sum();
        if least > total {
            let why = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold";
            return Err(format!("{why} {counts}"));
        }
        shares.values_mut().for_each(|share| share.maximum = share.minimum + total - least);
        Ok(shares)
    }
}

fn is_capacity(node: &Value) -> bool {
    let is_excluded = EXCLUDED.iter().any(|label| Meta::of(node).label(label).is_some());
    !is_excluded && is_node_ready(node)
}

/// Whether a node is ready.
pub(super) fn is_node_ready(node: &Value) -> bool {
    let mut conditions = items(node, &["status", "conditions"]).iter();
    conditions.find(|c| text(c, &["type"]) == "Ready").is_some_and(|c| text(c, &["status"]) == "True")
}

/// Sets the hints: endpoints are for their own zone, as far as others do not need them more.
fn allocate(plan: &mut Plan, shares: &BTreeMap<Str, Share>) -> Result<ByZone, String> {
    let mut allocated = ByZone::new();
    for slice in std::mem::take(&mut plan.unchanged) {
        match hinted(&slice, &allocated, shares) {
            Some(hinted) => {
                hinted.into_iter().for_each(|(zone, count)| *allocated.entry(zone).or_default() += count);
                plan.unchanged.push(slice);
            }
            None => plan.update.push(slice),
        }
    }
    let changing = || plan.create.iter().chain(&plan.update).flat_map(|slice| &slice.endpoints);
    if changing().any(|endpoint| is_ready(endpoint) && text(endpoint, &["zone"]).is_empty()) {
        return Err("One or more endpoints do not have a zone specified".to_owned());
    }
    for endpoint in changing().filter(|endpoint| is_ready(endpoint)) {
        *allocated.entry(text(endpoint, &["zone"]).into()).or_default() += 1;
    }
    let (mut giving, mut receiving) = exchange(shares, &allocated);
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        for endpoint in slice.endpoints.iter_mut().filter(|endpoint| is_ready(endpoint)) {
            let own = Str::from(text(endpoint, &["zone"]));
            let zone = redirect(&own, &mut giving, &mut receiving).unwrap_or_else(|| own.clone());
            if zone != own {
                *allocated.entry(zone.clone()).or_default() += 1;
                *allocated.entry(own).or_default() -= 1;
            }
            endpoint.set(&["hints"], object! { "forZones" => array![object! { "name" => zone }] });
        }
    }
    if allocated.is_empty() {
        return Err("No hints allocated for zones".to_owned());
    }
    Ok(allocated)
}

/// The zone that gets an endpoint instead of its own.
fn redirect(own: &Str, giving: &mut ByZone, receiving: &mut ByZone) -> Option<Str> {
    let give = giving.get_mut(own).filter(|count| **count > 0)?;
    let (zone, receive) = receiving.iter_mut().find(|(_, count)| **count > 0)?;
    *give -= 1;
    *receive -= 1;
    Some(zone.clone())
}

/// How many endpoints each zone gives to others, or gets.
fn exchange(shares: &BTreeMap<Str, Share>, allocated: &ByZone) -> (ByZone, ByZone) {
    let (mut surplus, mut lack): (BTreeMap<&Str, f64>, BTreeMap<&Str, f64>) = Default::default();
    for (zone, share) in shares {
        let difference = allocated.get(zone).copied().unwrap_or(0) as f64 - share.desired;
        if difference > 0.0 {
            surplus.insert(zone, difference);
        } else if difference < 0.0 {
            lack.insert(zone, -difference);
        }
    }
    let most = |zones: &BTreeMap<&Str, f64>| {
        let positive = zones.iter().filter(|(_, count)| **count > 0.0);
        positive.max_by(|a, b| a.1.total_cmp(b.1)).map(|(zone, count)| ((*zone).clone(), *count))
    };
    let (mut giving, mut receiving) = (ByZone::new(), ByZone::new());
    while let (Some((from, give)), Some((to, receive))) = (most(&surplus), most(&lack)) {
        if (give < 1.0 && receive < 1.0) || give < 0.5 || receive < 0.5 {
            break;
        }
        *giving.entry(from.clone()).or_default() += 1;
        *receiving.entry(to.clone()).or_default() += 1;
        let less = |zones: &mut BTreeMap<&Str, f64>, zone: &Str| {
            zones.get_mut(zone).into_iter().for_each(|count| *count -= 1.0);
        };
        less(&mut surplus, &from);
        less(&mut lack, &to);
    }
    (giving, receiving)
}

/// How many hints for each zone a slice has; none if they are not as they should be.
fn hinted(slice: &Slice, allocated: &ByZone, shares: &BTreeMap<Str, Share>) -> Option<ByZone> {
    let mut hinted = ByZone::new();
    for endpoint in slice.endpoints.iter().filter(|endpoint| is_ready(endpoint)) {
        let zones = items(endpoint, &["hints", "forZones"]);
        if zones.is_empty() {
            return None;
        }
        for zone in zones {
            let zone = text(zone, &["name"]);
            shares.get(zone)?;
            *hinted.entry(zone.into()).or_default() += 1;
        }
    }
    let is_too_much = |(zone, count): (&Str, &i64)| {
        let before = allocated.get(zone).copied().unwrap_or(0);
        shares.get(zone).is_none_or(|share| count + before > share.maximum)
    };
    (!hinted.iter().any(is_too_much)).then_some(hinted)
}
