//! Metrics of the storage: how many objects there are of each resource, and how large the database is.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use machinery::Str;
use prometheus::{
    GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry as Prometheus,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use storage::Store;

use super::ResourceTable;
use crate::{metrics::register, registry::Registry, tasks::Task};

/// The value of a resource whose objects could not be counted, as upstream has it.
const FAILED: f64 = -1.0;

/// What is measured from time to time.
#[derive(Clone)]
pub struct StorageMetrics {
    objects: GaugeVec,
    bytes: GaugeVec,
    store: Arc<dyn Store>,
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
}

impl StorageMetrics {
    /// Metrics of a store and of the resources in these tables.
    pub fn new(registry: &Prometheus, store: Arc<dyn Store>, tables: Vec<Arc<ArcSwap<ResourceTable>>>) -> Self {
        let objects =
            Opts::new("apiserver_storage_objects", "Stored objects by resource; -1 if they cannot be counted.");
        let bytes = Opts::new("apiserver_storage_size_bytes", "Bytes of the database on its disk.");
        StorageMetrics {
            objects: register(registry, GaugeVec::new(objects, &["resource"])),
            bytes: register(registry, GaugeVec::new(bytes, &["storage_cluster_id"])),
            store,
            tables,
        }
    }

    /// Counts objects every `count` (`--etcd-count-metric-poll-period`) and measures the database every `size`
    /// (`--etcd-db-metric-poll-interval`); zero: never.
    pub fn task(self, count: Duration, size: Duration) -> Task {
        Task::new("storage-object-count-tracker-hook", move |context| {
            let (counted, measured) = (self.clone(), self.clone());
            async move {
                context.ready();
                let counting = every(count, || counted.count());
                let measuring = every(size, || measured.measure());
                tokio::select! {
                    () = context.cancelled() => {}
                    ((), ()) = async { tokio::join!(counting, measuring) } => {}
                }
                Ok(())
            }
        })
    }

    async fn count(&self) {
        let mut seen: HashSet<Str> = HashSet::new();
        let tables: Vec<_> = self.tables.iter().map(|table| table.load_full()).collect();
        for registry in tables.iter().flat_map(|table| table.entries()).filter_map(|entry| entry.registry.as_ref()) {
            let name = registry.row.qualified();
            if seen.insert(name.clone()) {
                let count = registry.count().await.map_or(FAILED, |count| count as f64);
                self.objects.with_label_values(&[name.as_str()]).set(count);
            }
        }
        // Resources that are gone leave no number behind.
        for family in prometheus::core::Collector::collect(&self.objects) {
            for metric in family.get_metric() {
                let name = metric.get_label().first().map_or("", |label| label.value());
                if !seen.contains(name) {
                    // Somebody else may have removed it; then it is gone all the same.
                    let _ = self.objects.remove_label_values(&[name]);
                }
            }
        }
    }

    async fn measure(&self) {
        match self.store.size().await {
            Ok(bytes) => self.bytes.with_label_values(&["etcd-0"]).set(bytes as f64),
            Err(error) => tracing::debug!(%error, "the database's size is unknown"),
        }
    }
}

/// Does something now and every `period`; not at all if that is zero.
async fn every<F: Future<Output = ()>>(period: Duration, act: impl Fn() -> F) {
    if period.is_zero() {
        return std::future::pending().await;
    }
    loop {
        act().await;
        tokio::time::sleep(period).await;
    }
}

/// What the caches of all resources have seen, read when somebody looks.
pub struct CacheMetrics {
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    described: Vec<Desc>,
}

/// A family of metrics: its name, what it is, whether it only grows, and how it is read of a cache.
type Family = (&'static str, &'static str, bool, fn(&Registry) -> u64);

const FAMILIES: [Family; 8] = [
    ("apiserver_resource_objects", "Stored objects by resource.", false, |r| r.cache().volume().0),
    ("apiserver_resource_size_estimate_bytes", "Bytes of the JSON of stored objects.", false, |r| r.cache().volume().1),
    ("apiserver_watch_cache_resource_version", "The resource version of a watch cache.", false, |r| {
        r.cache().revision() % 1_000_000_000_000_000
    }),
    ("watch_cache_capacity", "Changes that a watch cache keeps.", false, |r| r.cache().metrics().window_changes),
    ("apiserver_storage_events_received_total", "Changes that came from the storage.", true, |r| {
        r.cache().metrics().changes
    }),
    ("apiserver_watch_cache_events_received_total", "Changes that a watch cache has taken up.", true, |r| {
        r.cache().metrics().changes
    }),
    ("apiserver_watch_cache_initializations_total", "Times that a watch cache was filled.", true, |r| {
        r.cache().metrics().lists
    }),
    ("apiserver_storage_list_total", "Lists that were read from the storage.", true, |r| {
        let metrics = r.cache().metrics();
        metrics.lists + metrics.store_reads
    }),
];

const LABELS: [&str; 2] = ["group", "resource"];

impl CacheMetrics {
    /// Of the resources in these tables.
    pub fn new(tables: Vec<Arc<ArcSwap<ResourceTable>>>) -> Self {
        let describe = |(name, help, ..): &Family| {
            let labels = LABELS.map(str::to_owned).to_vec();
            Desc::new((*name).to_owned(), (*help).to_owned(), labels, HashMap::new()).expect("constant names are valid")
        };
        CacheMetrics { tables, described: FAMILIES.iter().map(describe).collect() }
    }
}

impl Collector for CacheMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.described.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let tables: Vec<_> = self.tables.iter().map(|table| table.load_full()).collect();
        let mut seen: HashSet<(&str, &str)> = HashSet::new();
        let mut registries = Vec::new();
        for registry in tables.iter().flat_map(|table| table.entries()).filter_map(|entry| entry.registry.as_ref()) {
            if seen.insert((&registry.row.group, &registry.row.plural)) {
                registries.push(registry);
            }
        }
        let family = |(name, help, grows, read): &Family| {
            let values = registries.iter().map(|r| ([r.row.group.as_str(), r.row.plural.as_str()], read(r)));
            let opts = Opts::new(*name, *help);
            if *grows {
                let counters = IntCounterVec::new(opts, &LABELS).expect("constant names are valid");
                values.for_each(|(labels, value)| counters.with_label_values(&labels).inc_by(value));
                counters.collect()
            } else {
                let gauges = IntGaugeVec::new(opts, &LABELS).expect("constant names are valid");
                values.for_each(|(labels, value)| gauges.with_label_values(&labels).set(value as i64));
                gauges.collect()
            }
        };
        FAMILIES.iter().flat_map(family).collect()
    }
}
