//! Stores that are wrapped around other stores and change some of what those do.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Error, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, Watch};

/// A store around another one. It writes those methods that do something of their own; all others go to the store within.
/// The methods are those of [`Store`], which every layer is.
#[async_trait]
#[allow(missing_docs, reason = "the methods are those of Store")]
pub trait Layer: Send + Sync + 'static {
    /// The store within.
    fn inner(&self) -> &dyn Store;

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        self.inner().put(key, value, expect, ttl).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        self.inner().put_series(key, value, then, expect).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.inner().delete(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.inner().get(key).await
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        self.inner().range(range).await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.inner().count(prefix).await
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        self.inner().watch(prefix, after, sink).await
    }

    async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        self.inner().is_stale(key).await
    }
}

#[async_trait]
impl<L: Layer> Store for L {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        Layer::put(self, key, value, expect, ttl).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        Layer::put_series(self, key, value, then, expect).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        Layer::delete(self, key, expected).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        Layer::get(self, key).await
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        Layer::range(self, range).await
    }

    async fn revision_at(&self, time: SystemTime) -> Result<Revision, Error> {
        self.inner().revision_at(time).await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        Layer::count(self, prefix).await
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        Layer::watch(self, prefix, after, sink).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.inner().revision().await
    }

    fn delivered_revision(&self) -> Option<Revision> {
        self.inner().delivered_revision()
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.inner().request_progress(prefix).await
    }

    async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        Layer::is_stale(self, key).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.inner().compact(revision).await
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        self.inner().compacted_revision().await
    }

    async fn health(&self) -> Result<(), Error> {
        self.inner().health().await
    }

    async fn failed(&self) -> Error {
        self.inner().failed().await
    }

    async fn size(&self) -> Result<u64, Error> {
        self.inner().size().await
    }

    async fn close(&self) {
        self.inner().close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{conformance, memory::Memory};

    /// Counts what is read by key.
    struct Counting {
        memory: Arc<Memory>,
        gets: AtomicUsize,
    }

    #[async_trait]
    impl Layer for Counting {
        fn inner(&self) -> &dyn Store {
            &*self.memory
        }

        async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
            self.gets.fetch_add(1, Ordering::Relaxed);
            self.inner().get(key).await
        }
    }

    fn counting() -> Arc<Counting> {
        Arc::new(Counting { memory: Memory::new(), gets: AtomicUsize::new(0) })
    }

    #[tokio::test]
    async fn a_layer_that_changes_nothing_is_as_good_a_store_as_the_one_within() {
        conformance::run(async || counting() as Arc<dyn Store>).await;
    }

    #[tokio::test]
    async fn a_layer_does_what_it_writes_and_else_what_the_store_within_does() {
        let layer = counting();
        let store: Arc<dyn Store> = layer.clone();
        store.put("/a", Bytes::from_static(b"1"), Expect::Absent, None).await.expect("written");
        assert!(store.get("/a").await.expect("read").0.is_some());
        assert_eq!((store.count("/").await.expect("counted"), layer.gets.load(Ordering::Relaxed)), (1, 1));
        assert_eq!(store.delivered_revision(), layer.memory.delivered_revision());
    }
}
