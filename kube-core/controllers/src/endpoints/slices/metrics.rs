//! Metrics of EndpointSlices, under upstream's names.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use machinery::Str;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, core::Collector,
    exponential_buckets,
};

use super::MAX_ENDPOINTS;
use crate::objects::Key;

const SUBSYSTEM: &str = "endpoint_slice_controller";

/// The families; clones count into the same ones.
#[derive(Clone)]
pub(super) struct Metrics {
    added: Histogram,
    removed: Histogram,
    pub(super) changes: IntCounterVec,
    pub(super) changed: HistogramVec,
    pub(super) syncs: IntCounterVec,
    totals: Totals,
    by_distribution: IntGaugeVec,
    distributions: Arc<Mutex<HashMap<Key, Str>>>,
}

/// Endpoints and slices, as they are and as they would be if all slices were full.
#[derive(Clone)]
pub(in crate::endpoints) struct Totals {
    endpoints: Gauge,
    slices: Gauge,
    desired: Gauge,
    known: Arc<Mutex<HashMap<Key, ByKind>>>,
}

/// The three totals of each kind of addresses.
type ByKind = BTreeMap<&'static str, [usize; 3]>;

/// Registers a family under a subsystem's name.
pub(in crate::endpoints) fn registered<C: Collector + Clone + 'static>(registry: &Registry, family: C) -> C {
    registry.register(Box::new(family.clone())).expect("each name is registered once");
    family
}

/// A histogram of counts.
pub(in crate::endpoints) fn counts(registry: &Registry, subsystem: &str, name: &str, help: &str) -> Histogram {
    let buckets = exponential_buckets(2.0, 2.0, 15).expect("constant arguments");
    let options = HistogramOpts::new(format!("{subsystem}_{name}"), help).buckets(buckets);
    registered(registry, Histogram::with_opts(options).expect("a valid name"))
}

/// A counter by one label.
pub(in crate::endpoints) fn counter(
    registry: &Registry,
    subsystem: &str,
    (name, label): (&str, &str),
    help: &str,
) -> IntCounterVec {
    let options = Opts::new(format!("{subsystem}_{name}"), help);
    registered(registry, IntCounterVec::new(options, &[label]).expect("a valid name"))
}

impl Totals {
    pub(in crate::endpoints) fn new(registry: &Registry, subsystem: &str) -> Self {
        let gauge = |name: &str, help: &str| {
            registered(registry, Gauge::new(format!("{subsystem}_{name}"), help).expect("a valid name"))
        };
        Totals {
            endpoints: gauge("endpoints_desired", "Endpoints that there should be."),
            slices: gauge("num_endpoint_slices", "EndpointSlices that there are."),
            desired: gauge("desired_endpoint_slices", "EndpointSlices that there would be if all were full."),
            known: Arc::default(),
        }
    }

    /// Notes the endpoints and slices of each group that an object has, of one kind of addresses.
    pub(in crate::endpoints) fn set(&self, key: &Key, kind: &'static str, groups: &[(usize, usize)], max: usize) {
        let full: usize = groups.iter().map(|(endpoints, _)| endpoints.div_ceil(max)).sum();
        let endpoints: usize = groups.iter().map(|(endpoints, _)| endpoints).sum();
        let slices: usize = groups.iter().map(|(_, slices)| slices).sum();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = [endpoints, slices, full.max(1)];
        let old = known.entry(key.clone()).or_default().insert(kind, new).unwrap_or_default();
        self.add(new, old);
    }

    /// Forgets an object.
    pub(in crate::endpoints) fn forget(&self, key: &Key) {
        let gone = self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        gone.into_iter().flat_map(BTreeMap::into_values).for_each(|old| self.add([0; 3], old));
    }

    fn add(&self, new: [usize; 3], old: [usize; 3]) {
        for (gauge, (new, old)) in [&self.endpoints, &self.slices, &self.desired].into_iter().zip(new.iter().zip(old)) {
            gauge.add(*new as f64 - old as f64);
        }
    }
}

impl Metrics {
    /// Families that are registered; none of a registry that has them already.
    pub(super) fn new(registry: &Registry) -> Self {
        let counts = |name: &str, help: &str| counts(registry, SUBSYSTEM, name, help);
        let counter = |name: (&str, &str), help: &str| counter(registry, SUBSYSTEM, name, help);
        let changed = HistogramOpts::new(
            format!("{SUBSYSTEM}_endpointslices_changed_per_sync"),
            "EndpointSlices that the sync of a service changes.",
        );
        let services = Opts::new(
            format!("{SUBSYSTEM}_services_count_by_traffic_distribution"),
            "Services with a trafficDistribution.",
        );
        let labels = ["topology", "traffic_distribution"];
        Metrics {
            added: counts("endpoints_added_per_sync", "Endpoints that the sync of a service adds."),
            removed: counts("endpoints_removed_per_sync", "Endpoints that the sync of a service removes."),
            changes: counter(("changes", "operation"), "Writes of EndpointSlices."),
            changed: registered(registry, HistogramVec::new(changed, &labels).expect("a valid name")),
            syncs: counter(("syncs", "result"), "Syncs of services."),
            totals: Totals::new(registry, SUBSYSTEM),
            by_distribution: registered(
                registry,
                IntGaugeVec::new(services, &["traffic_distribution"]).expect("a valid name"),
            ),
            distributions: Arc::default(),
        }
    }

    /// Notes what a sync is about to do with the slices of one address type.
    pub(super) fn observe(&self, key: &Key, kind: &'static str, plan: &super::reconcile::Plan) {
        self.added.observe(plan.added as f64);
        self.removed.observe(plan.removed as f64);
        self.totals.set(key, kind, &plan.groups, MAX_ENDPOINTS);
    }

    /// Notes what a service asks for.
    pub(super) fn distribute(&self, key: &Key, distribution: Option<&str>) {
        let mut known = self.distributions.lock().unwrap_or_else(PoisonError::into_inner);
        let old = match distribution {
            Some(word) => known.insert(key.clone(), word.into()),
            None => known.remove(key),
        };
        if let Some(old) = old {
            self.by_distribution.with_label_values(&[old.as_str()]).dec();
        }
        if let Some(word) = distribution {
            self.by_distribution.with_label_values(&[word]).inc();
        }
    }

    /// Forgets a service.
    pub(super) fn forget(&self, key: &Key) {
        self.totals.forget(key);
        self.distribute(key, None);
    }
}
