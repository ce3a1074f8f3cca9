//! A store as one over a network behaves: it cannot tell what it has delivered, may be late, and loses watches.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;

use super::*;
use crate::{Error, Event, KeyValue, Range, RangeResult, Sink, Watch};

pub(super) struct Remote {
    pub(super) memory: Arc<Memory>,
    link: Arc<Mutex<Link>>,
    refuse_ranges: AtomicBool,
    refuse_watches: AtomicBool,
    /// Questions for the revision and for progress.
    pub(super) questions: [AtomicUsize; 2],
}

#[derive(Default)]
struct Link {
    holding: bool,
    held: Vec<(Arc<dyn Sink>, Vec<Event>)>,
    sinks: Vec<Arc<dyn Sink>>,
}

/// Passes on what the memory store feeds, or holds it.
struct Relay {
    link: Arc<Mutex<Link>>,
    to: Arc<dyn Sink>,
}

impl Sink for Relay {
    fn apply(&self, events: &[Event]) {
        let mut link = self.link.lock().unwrap();
        if link.holding {
            link.held.push((self.to.clone(), events.to_vec()));
        } else {
            self.to.apply(events);
        }
    }

    fn progress(&self, revision: Revision) {
        if !self.link.lock().unwrap().holding {
            self.to.progress(revision);
        }
    }

    fn closed(&self, error: Error) {
        self.to.closed(error);
    }
}

impl Remote {
    pub(super) fn new() -> Arc<Remote> {
        Arc::new(Remote {
            memory: Memory::new(),
            link: Arc::default(),
            refuse_ranges: AtomicBool::new(false),
            refuse_watches: AtomicBool::new(false),
            questions: Default::default(),
        })
    }

    /// Delivers nothing until [`Remote::release`].
    pub(super) fn hold(&self) {
        self.link.lock().unwrap().holding = true;
    }

    pub(super) fn release(&self) {
        let mut link = self.link.lock().unwrap();
        link.holding = false;
        link.held.drain(..).for_each(|(sink, events)| sink.apply(&events));
    }

    /// Ends all watches; what was held is lost.
    pub(super) fn cut(&self, error: Error) {
        let mut link = self.link.lock().unwrap();
        link.held.clear();
        link.holding = false;
        link.sinks.drain(..).for_each(|sink| sink.closed(error.clone()));
    }

    pub(super) fn refuse_ranges(&self, refuse: bool) {
        self.refuse_ranges.store(refuse, Ordering::SeqCst);
    }

    pub(super) fn refuse_watches(&self, refuse: bool) {
        self.refuse_watches.store(refuse, Ordering::SeqCst);
    }
}

#[async_trait]
impl Store for Remote {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        self.memory.put(key, value, expect, ttl).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.memory.delete(key, expected).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.memory.get(key).await
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        if self.refuse_ranges.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("refused".into()));
        }
        self.memory.range(range).await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.memory.count(prefix).await
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        if self.refuse_watches.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("refused".into()));
        }
        let relay = Arc::new(Relay { link: self.link.clone(), to: sink.clone() });
        let watch = self.memory.watch(prefix, after, relay).await?;
        self.link.lock().unwrap().sinks.push(sink);
        Ok(watch)
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.questions[0].fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.memory.revision().await
    }

    async fn request_progress(&self, prefix: &str) -> Result<(), Error> {
        self.questions[1].fetch_add(1, Ordering::SeqCst);
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
