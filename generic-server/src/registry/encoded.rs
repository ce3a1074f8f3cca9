//! A store that objects are written to in protobuf, as upstream's server writes them. Whatever is read is read as it is:
//! registries read both forms.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use machinery::codec::{json, protobuf};
use storage::{Error, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, Watch};

/// How protobuf begins in the store.
const MAGIC: &[u8] = b"k8s\0";

/// The store of one resource, whose type has a form in protobuf.
pub(super) struct Encoded(pub(super) Arc<dyn Store>);

fn encode(text: &[u8]) -> Result<Bytes, Error> {
    let failed = |why: String| Error::Unavailable(format!("an object cannot be written as protobuf: {why}"));
    let object = json::decode(text).map_err(|error| failed(error.to_string()))?;
    protobuf::encode(&object).map(Bytes::from).map_err(|error| failed(error.to_string()))
}

#[async_trait]
impl Store for Encoded {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        self.0.put(key, encode(&value)?, expect, ttl).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        let then = then.iter().map(|value| encode(value)).collect::<Result<_, _>>()?;
        self.0.put_series(key, encode(&value)?, then, expect).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.0.delete(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.0.get(key).await
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        self.0.range(range).await
    }

    async fn revision_at(&self, time: SystemTime) -> Result<Revision, Error> {
        self.0.revision_at(time).await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.0.count(prefix).await
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        self.0.watch(prefix, after, sink).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.0.revision().await
    }

    fn delivered_revision(&self) -> Option<Revision> {
        self.0.delivered_revision()
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.0.request_progress(prefix).await
    }

    /// What is there in JSON is written anew by an update that changes nothing, so that a migration ends.
    async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        let (found, _) = self.0.get(key).await?;
        Ok(found.is_some_and(|found| !found.value.starts_with(MAGIC)) || self.0.is_stale(key).await?)
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.0.compact(revision).await
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        self.0.compacted_revision().await
    }

    async fn health(&self) -> Result<(), Error> {
        self.0.health().await
    }

    async fn failed(&self) -> Error {
        self.0.failed().await
    }

    async fn size(&self) -> Result<u64, Error> {
        self.0.size().await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[cfg(test)]
mod tests {
    use storage::memory::Memory;

    use super::*;

    #[tokio::test]
    async fn objects_are_written_as_protobuf_and_those_in_json_are_written_anew() {
        let inner: Arc<dyn Store> = Memory::new();
        let store = Encoded(inner.clone());
        let text =
            br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"n"},"data":{"a":"b"}}"#;
        inner.put("/c", Bytes::from_static(text), Expect::Absent, None).await.expect("it is written");
        assert!(store.is_stale("/c").await.expect("it is there"));
        let (found, _) = store.get("/c").await.expect("it is there");
        let expect = Expect::Revision(found.expect("it is there").mod_revision);
        store.put("/c", Bytes::from_static(text), expect, None).await.expect("it is written");
        let (found, _) = inner.get("/c").await.expect("it is there");
        let value = found.expect("it is there").value;
        let read = protobuf::decode(&value).expect("protobuf");
        assert_eq!(read.str_at(&["data", "a"]), Some("b"));
        assert!(!store.is_stale("/c").await.expect("it is there"));
    }
}
