//! Metrics of the storage: how many objects there are of each resource, and how large the database is.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use machinery::Str;
use prometheus::{GaugeVec, Opts, Registry as Prometheus};
use storage::Store;

use super::ResourceTable;
use crate::{metrics::register, tasks::Task};

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
