//! The storage trait: etcd's semantics, nothing of any engine.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::Error;

/// A point in the store's history. One write transaction makes one revision; revisions only rise and are never reused.
pub type Revision = u64;

/// One key as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key, such as `/registry/pods/default/web`.
    pub key: Arc<str>,
    /// The value's bytes.
    pub value: Bytes,
    /// The revision that created the key.
    pub create_revision: Revision,
    /// The revision that last wrote it.
    pub mod_revision: Revision,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No such key.
    Absent,
    /// The key, last written at this revision.
    Revision(Revision),
}

/// A range of keys: all that start with `prefix`, in order.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// What the keys start with.
    pub prefix: String,
    /// Only keys greater than or equal to this one.
    pub start: Option<String>,
    /// At most so many; 0 means all.
    pub limit: usize,
    /// As the store was at this revision; `None` means now.
    pub at: Option<Revision>,
}

/// What a range read found.
#[derive(Clone, Debug, Default)]
pub struct RangeResult {
    /// The keys, in order.
    pub items: Vec<KeyValue>,
    /// Keys in the range beyond the limit.
    pub remaining: usize,
    /// The store's revision when it was read (also for reads of the past).
    pub revision: Revision,
}

/// One change.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the change.
    pub revision: Revision,
    /// The key.
    pub key: Arc<str>,
    /// What is there now; `None` after a delete.
    pub value: Option<Bytes>,
    /// What was there before; `None` for a new key (or when compaction has removed it).
    pub previous: Option<KeyValue>,
    /// The revision that created the key.
    pub create_revision: Revision,
}

/// What a watch feeds.
///
/// Called in revision order, from one place at a time. The embedded store calls it after the commit and before the write
/// is acknowledged: whoever sees a write's answer finds it in every sink. So it must be quick and must not block.
pub trait Sink: Send + Sync + 'static {
    /// Changes, oldest first; all changes of one revision come in one call.
    fn apply(&self, events: &[Event]);

    /// No change of this watch's prefix is outstanding up to `revision`.
    fn progress(&self, revision: Revision);

    /// The watch ended and will send nothing more, for this reason ([`Error::Compacted`], [`Error::Unavailable`], …).
    fn closed(&self, error: Error);
}

/// Keeps a watch open; dropping it ends the watch.
pub struct Watch(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Watch {
    /// A watch that is ended by `cancel`.
    pub fn new(cancel: impl FnOnce() + Send + Sync + 'static) -> Self {
        Watch(Some(Box::new(cancel)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            cancel();
        }
    }
}

/// A revisioned key-value store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Writes a key if `expect` holds, and returns the new revision. With `ttl` the key disappears that long after
    /// this write (a later write sets it anew). Fails with [`Error::Conflict`], which carries what is there.
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error>;

    /// Writes a key as [`Store::put`] does, and then once more for each of `then`: every value is a revision of its own, and
    /// watches see them all. Returns the revisions, in order. A backend that can makes one commit of them. Where it cannot,
    /// the writes after the first may fail on their own, and fewer revisions come back.
    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        let mut revision = self.put(key, value, expect, None).await?;
        let mut revisions = vec![revision];
        for value in then {
            let Ok(next) = self.put(key, value, Expect::Revision(revision), None).await else { break };
            revisions.push(next);
            revision = next;
        }
        Ok(revisions)
    }

    /// Deletes a key last written at `expected`; returns the revision of the delete.
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error>;

    /// Reads a key, and the store's revision.
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error>;

    /// Reads a range. Fails with [`Error::Compacted`] or [`Error::FutureRevision`].
    async fn range(&self, range: Range) -> Result<RangeResult, Error>;

    /// The revision of the state at a time, which must not be in the future. Fails with [`Error::Compacted`] if that is not kept
    /// any more, and with [`Error::NoTimes`] if the store does not know when things were written.
    async fn revision_at(&self, _time: SystemTime) -> Result<Revision, Error> {
        Err(Error::NoTimes)
    }

    /// The number of keys that start with `prefix`.
    async fn count(&self, prefix: &str) -> Result<usize, Error>;

    /// Feeds `sink` with every change after revision `after` of keys that start with `prefix`: nothing missed, nothing
    /// twice, in order. Fails with [`Error::Compacted`] if the history since then is gone.
    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error>;

    /// The store's revision, as a quorum has it.
    async fn revision(&self) -> Result<Revision, Error>;

    /// Up to which revision every sink has been fed, when the store can tell without asking anyone (the embedded one):
    /// then a consistent read needs no wait.
    fn delivered_revision(&self) -> Option<Revision> {
        None
    }

    /// Asks for a [`Sink::progress`] soon on the watches of this prefix (etcd's RequestProgress).
    async fn request_progress(&self, prefix: &str) -> Result<(), Error>;

    /// Whether a key is stored in a form that its next write would change though its value stays (an old encryption key):
    /// then an update that changes nothing must be written all the same.
    async fn is_stale(&self, _key: &str) -> Result<bool, Error> {
        Ok(false)
    }

    /// Forgets history before `revision`: keys keep their last value at or before it.
    async fn compact(&self, revision: Revision) -> Result<(), Error>;

    /// The oldest revision that can still be read.
    async fn compacted_revision(&self) -> Result<Revision, Error>;

    /// Whether the store answers; a message for the operator if not.
    async fn health(&self) -> Result<(), Error>;

    /// Returns when the store has ended by itself and cannot go on, with the reason: only a new process can help then.
    async fn failed(&self) -> Error {
        std::future::pending().await
    }

    /// Bytes on disk.
    async fn size(&self) -> Result<u64, Error>;

    /// Takes no more writes, finishes those begun, closes watches.
    async fn close(&self);
}
