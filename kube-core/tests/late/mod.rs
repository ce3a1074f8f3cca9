//! A store as one over a network can be at its worst: it answers at once or late, and tells caches of changes only when it is
//! let to.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use storage::{Error, Event, Expect, KeyValue, Memory, Range, RangeResult, Revision, Sink, Store, Watch};

/// One server's connection to a store that others use, too.
pub(crate) struct Late {
    memory: Arc<Memory>,
    /// So many others get a turn before a request is done.
    takes: usize,
    feeds: Arc<Mutex<Feeds>>,
}

/// Events on their way to caches.
#[derive(Default)]
struct Feeds {
    is_held: bool,
    held: Vec<(Arc<dyn Sink>, Vec<Event>)>,
}

struct Feed {
    feeds: Arc<Mutex<Feeds>>,
    to: Arc<dyn Sink>,
}

impl Sink for Feed {
    fn apply(&self, events: &[Event]) {
        let mut feeds = self.feeds.lock().expect("sound");
        match feeds.is_held {
            true => feeds.held.push((self.to.clone(), events.to_vec())),
            false => self.to.apply(events),
        }
    }

    fn progress(&self, revision: Revision) {
        // Progress is told in line with events.
        if self.feeds.lock().expect("sound").held.is_empty() {
            self.to.progress(revision);
        }
    }

    fn closed(&self, error: Error) {
        self.to.closed(error);
    }
}

impl Late {
    /// A connection whose requests let so many others go first.
    pub(crate) fn new(memory: &Arc<Memory>, takes: usize) -> Arc<Self> {
        Arc::new(Late { memory: memory.clone(), takes, feeds: Arc::default() })
    }

    /// Tells caches nothing from now on.
    pub(crate) fn hold(&self) {
        self.feeds.lock().expect("sound").is_held = true;
    }

    /// Tells caches the next of the changes that were held back.
    pub(crate) fn tell_one(&self) {
        let mut feeds = self.feeds.lock().expect("sound");
        if !feeds.held.is_empty() {
            let (sink, events) = feeds.held.remove(0);
            sink.apply(&events);
        }
    }

    async fn wait(&self) {
        for _ in 0..self.takes {
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Store for Late {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        self.wait().await;
        self.memory.put(key, value, expect, ttl).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.wait().await;
        self.memory.delete(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.wait().await;
        self.memory.get(key).await
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        self.wait().await;
        self.memory.range(range).await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.memory.count(prefix).await
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        self.memory.watch(prefix, after, Arc::new(Feed { feeds: self.feeds.clone(), to: sink })).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.wait().await;
        self.memory.revision().await
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.memory.request_progress(prefix).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.memory.compact(revision).await
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        self.memory.compacted_revision().await
    }

    async fn health(&self) -> Result<(), Error> {
        self.memory.health().await
    }

    async fn size(&self) -> Result<u64, Error> {
        self.memory.size().await
    }

    async fn close(&self) {
        self.memory.close().await;
    }
}
