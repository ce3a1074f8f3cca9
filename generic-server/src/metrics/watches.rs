//! Metrics of watches.

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets,
};

use super::register;
use crate::resource::Resource;

/// The events of watches, by resource.
pub(crate) struct WatchMetrics {
    events: IntCounterVec,
    sizes: HistogramVec,
}

/// The same of one watch: looked up when it begins.
pub(crate) struct WatchCounter(IntCounter, Histogram);

impl WatchMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let labels = ["group", "version", "resource"];
        let events = Opts::new("apiserver_watch_events_total", "Events that were sent to watches.");
        let sizes = HistogramOpts::new("apiserver_watch_events_sizes", "Bytes of events that were sent to watches.")
            .buckets(exponential_buckets(1024.0, 2.0, 8).expect("constant arguments"));
        WatchMetrics {
            events: register(registry, IntCounterVec::new(events, &labels)),
            sizes: register(registry, HistogramVec::new(sizes, &labels)),
        }
    }

    /// What a watch of this resource counts on.
    pub(crate) fn of(&self, row: &Resource) -> WatchCounter {
        let labels = [row.group.as_str(), row.version.as_str(), row.plural.as_str()];
        WatchCounter(self.events.with_label_values(&labels), self.sizes.with_label_values(&labels))
    }
}

impl WatchCounter {
    /// An event of so many bytes was sent.
    pub(crate) fn sent(&self, bytes: usize) {
        self.0.inc();
        self.1.observe(bytes as f64);
    }
}
