//! A store whose operations on one resource are counted and timed.

use std::{
    array::from_fn,
    sync::{Arc, LazyLock, OnceLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use histograms::{Histogram, HistogramVec};
use machinery::Str;
use prometheus::{HistogramOpts, IntCounter, IntCounterVec, Opts, Registry as Prometheus};
use storage::{Error, Expect, KeyValue, Layer, Range, RangeResult, Revision, Store};

use crate::{
    metrics::{BUCKETS, register},
    resource::Resource,
};

const LABELS: [&str; 3] = ["operation", "group", "resource"];

/// The families, which are one in a process whatever the store. They are etcd's by name, for that is what dashboards ask for.
struct Families {
    requests: IntCounterVec,
    durations: HistogramVec,
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    let requests = Opts::new("etcd_requests_total", "Operations of the storage by operation and resource.");
    let durations =
        HistogramOpts::new("etcd_request_duration_seconds", "Time that operations of the storage took, in seconds.");
    Families {
        requests: IntCounterVec::new(requests, &LABELS).expect("constant names are valid"),
        durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &LABELS).expect("constant names are valid"),
    }
});

/// Has the operations of the storage shown among these metrics.
pub fn register_storage_operations(registry: &Prometheus) {
    register(registry, Ok(FAMILIES.requests.clone()));
    register(registry, Ok(FAMILIES.durations.clone()));
}

/// What is told apart.
#[derive(Clone, Copy)]
enum Operation {
    Create,
    Update,
    Delete,
    Get,
    List,
    Count,
}

/// As metrics call them, in the order of [`Operation`].
const NAMES: [&str; 6] = ["create", "update", "delete", "get", "list", "listWithCount"];

/// The store for one resource's keys.
pub(super) struct Measured {
    store: Arc<dyn Store>,
    group: Str,
    resource: Str,
    /// By [`Operation`], each made when it first happens: most never do for most resources.
    operations: [OnceLock<(IntCounter, Histogram)>; 6],
}

impl Measured {
    pub(super) fn new(store: Arc<dyn Store>, row: &Resource) -> Self {
        let operations = from_fn(|_| OnceLock::new());
        Measured { store, group: row.group.clone(), resource: row.plural.clone(), operations }
    }

    fn labels(&self, operation: usize) -> [&str; 3] {
        [NAMES[operation], &self.group, &self.resource]
    }

    async fn timed<T>(&self, operation: Operation, run: impl Future<Output = T>) -> T {
        let since = Instant::now();
        let result = run.await;
        let place = operation as usize;
        let (requests, durations) = self.operations[place].get_or_init(|| {
            let labels = self.labels(place);
            (FAMILIES.requests.with_label_values(&labels), FAMILIES.durations.with_label_values(&labels))
        });
        requests.inc();
        durations.observe(since.elapsed().as_secs_f64());
        result
    }
}

/// A resource that is gone leaves no numbers behind.
impl Drop for Measured {
    fn drop(&mut self) {
        for place in (0..NAMES.len()).filter(|place| self.operations[*place].get().is_some()) {
            // Another version of the same resource may have removed them.
            let _ = FAMILIES.requests.remove_label_values(&self.labels(place));
            let _ = FAMILIES.durations.remove_label_values(&self.labels(place));
        }
    }
}

/// What a write of a key is.
fn write(expect: &Expect) -> Operation {
    if matches!(expect, Expect::Absent) { Operation::Create } else { Operation::Update }
}

#[async_trait]
impl Layer for Measured {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        self.timed(write(&expect), self.store.put(key, value, expect, ttl)).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        self.timed(write(&expect), self.store.put_series(key, value, then, expect)).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.timed(Operation::Delete, self.store.delete(key, expected)).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.timed(Operation::Get, self.store.get(key)).await
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        self.timed(Operation::List, self.store.range(range)).await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.timed(Operation::Count, self.store.count(prefix)).await
    }
}
