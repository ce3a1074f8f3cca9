//! Metrics of mirrors, under upstream's names.

use prometheus::{Histogram, HistogramOpts, IntCounterVec, Registry, exponential_buckets};

use super::{MAX_ADDRESSES, reconcile::Plan};
use crate::{
    endpoints::slices::{Totals, counter, counts, registered},
    objects::Key,
};

const SUBSYSTEM: &str = "endpoint_slice_mirroring_controller";

/// The families; clones count into the same ones.
#[derive(Clone)]
pub(super) struct Metrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    pub(super) duration: Histogram,
    pub(super) changes: IntCounterVec,
    pub(super) totals: Totals,
}

impl Metrics {
    /// Families that are registered; none of a registry that has them already.
    pub(super) fn new(registry: &Registry) -> Self {
        let counts = |name: &str, help: &str| counts(registry, SUBSYSTEM, name, help);
        let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant arguments");
        let name = format!("{SUBSYSTEM}_endpoints_sync_duration");
        let duration = HistogramOpts::new(name, "Seconds that the sync of Endpoints takes.").buckets(buckets);
        Metrics {
            added: counts("endpoints_added_per_sync", "Endpoints that the sync of Endpoints adds."),
            updated: counts("endpoints_updated_per_sync", "Endpoints that the sync of Endpoints changes."),
            removed: counts("endpoints_removed_per_sync", "Endpoints that the sync of Endpoints removes."),
            skipped: counts(
                "addresses_skipped_per_sync",
                "Addresses that are not mirrored, since they are invalid or too many.",
            ),
            duration: registered(registry, Histogram::with_opts(duration).expect("a valid name")),
            changes: counter(registry, SUBSYSTEM, ("changes", "operation"), "Writes of EndpointSlices."),
            totals: Totals::new(registry, SUBSYSTEM),
        }
    }

    /// Notes what a sync is about to do.
    pub(super) fn observe(&self, key: &Key, plan: &Plan) {
        self.added.observe(plan.added as f64);
        self.updated.observe(plan.updated as f64);
        self.removed.observe(plan.removed as f64);
        self.skipped.observe(plan.skipped as f64);
        self.totals.set(key, "", &plan.groups, MAX_ADDRESSES);
    }
}
