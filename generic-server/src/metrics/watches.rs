//! Metrics of watches.

use std::time::Instant;

use histograms::{Histogram, HistogramVec};
use prometheus::{HistogramOpts, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets};

use super::register;
use crate::resource::Resource;

/// The events of watches, by resource.
pub(crate) struct WatchMetrics {
    events: IntCounterVec,
    sizes: HistogramVec,
    listings: HistogramVec,
}

/// Seconds.
const LISTINGS: [f64; 17] =
    [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];

/// The same of one watch: looked up when it begins.
pub(crate) struct WatchCounter {
    events: IntCounter,
    sizes: Histogram,
    /// When it began, if it begins with a list.
    listing: Option<(Instant, Histogram)>,
}

impl WatchMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let labels = ["group", "version", "resource"];
        let events = Opts::new("apiserver_watch_events_total", "Events that were sent to watches.");
        let sizes = HistogramOpts::new("apiserver_watch_events_sizes", "Bytes of events that were sent to watches.")
            .buckets(exponential_buckets(1024.0, 2.0, 8).expect("constant arguments"));
        let listings = HistogramOpts::new(
            "apiserver_watch_list_duration_seconds",
            "Time until watches that begin with a list have sent it, in seconds.",
        );
        let listings = listings.buckets(LISTINGS.to_vec());
        WatchMetrics {
            listings: register(registry, HistogramVec::new(listings, &["group", "version", "resource", "scope"])),
            events: register(registry, IntCounterVec::new(events, &labels)),
            sizes: register(registry, HistogramVec::new(sizes, &labels)),
        }
    }

    /// What a watch of this resource counts on. `listing`: when it began, if it begins with a list, and its scope.
    pub(crate) fn of(&self, row: &Resource, listing: Option<(Instant, &'static str)>) -> WatchCounter {
        let labels @ [group, version, resource] = [row.group.as_str(), row.version.as_str(), row.plural.as_str()];
        WatchCounter {
            events: self.events.with_label_values(&labels),
            sizes: self.sizes.with_label_values(&labels),
            listing: listing
                .map(|(begun, scope)| (begun, self.listings.with_label_values(&[group, version, resource, scope]))),
        }
    }
}

impl WatchCounter {
    /// An event of so many bytes was sent.
    pub(crate) fn sent(&self, bytes: usize) {
        self.events.inc();
        self.sizes.observe(bytes as f64);
    }

    /// The list that the watch begins with was sent.
    pub(crate) fn listed(&mut self) {
        if let Some((begun, listings)) = self.listing.take() {
            listings.observe(begun.elapsed().as_secs_f64());
        }
    }
}
