//! The one writer of a cache: decodes what the store feeds and publishes it.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::{
    CacheOptions,
    change::Change,
    forms::FormBudget,
    metrics::Counters,
    object::{Broken, CacheEntry, Decode, DecodeError, Object},
    snapshot::{Snapshot, Tree},
    sync::{AtomicU64, Mutex, Ordering, RwLock},
    window::{Log, Window},
};
use crate::{Error, Event, KeyValue, Revision, Sink};

/// So many tasks are woken on the store's own thread.
const FEW: usize = if cfg!(feature = "shuttle") { 1 } else { 16 };

/// Where a cache stands with its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first list is not there yet.
    Starting,
    /// Fed by a watch.
    Live,
    /// There is a snapshot, but nothing feeds it.
    Detached,
    /// Nothing more will come.
    Stopped,
}

/// What the cache's parts share.
pub(super) struct Shared {
    pub(super) prefix: String,
    pub(super) decode: Arc<dyn Decode>,
    pub(super) options: CacheOptions,
    /// The latest snapshot. Who sees its revision finds its changes in the window.
    latest: RwLock<Snapshot>,
    /// Its revision.
    revision: AtomicU64,
    pub(super) window: Window,
    /// Told when `latest` has moved; only reads that wait for a revision listen.
    pub(super) fresh: Notify,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) forms: FormBudget,
    pub(super) counters: Counters,
    /// Logs with news for many.
    to_wake: Mutex<Vec<Arc<Log>>>,
    many: Notify,
    /// Held while publishing. The number tells the feed in charge from those that were replaced.
    writer: Mutex<u64>,
}

impl Shared {
    pub(super) fn new(prefix: String, decode: Arc<dyn Decode>, options: CacheOptions) -> Self {
        let tree = Arc::new(Tree::new(&options.indexed, options.labels_from));
        Shared {
            prefix,
            decode,
            latest: RwLock::new(Snapshot::new(0, tree)),
            revision: AtomicU64::new(0),
            window: Window::new(0, options.window),
            fresh: Notify::new(),
            phase: watch::Sender::new(Phase::Starting),
            forms: FormBudget::new(options.form_bytes),
            counters: Counters::default(),
            to_wake: Mutex::default(),
            many: Notify::new(),
            writer: Mutex::new(0),
            options,
        }
    }

    /// Puts a newly listed state in place and ends all watchers: they cannot know what happened in between.
    pub(super) fn replace(&self, snapshot: Snapshot) {
        let mut feed = self.writer.lock();
        if *self.phase.borrow() == Phase::Stopped {
            return;
        }
        *feed += 1;
        let ended = self.window.reset(snapshot.revision());
        self.publish(snapshot);
        self.wake(ended);
    }

    /// A feed for a new watch on the store; earlier ones are ignored from now on.
    pub(super) fn feed(self: &Arc<Self>) -> Arc<Feed> {
        let mut feed = self.writer.lock();
        *feed += 1;
        Arc::new(Feed { number: *feed, shared: self.clone(), closed: watch::Sender::new(None) })
    }

    /// Ends all watchers and reads.
    pub(super) fn stop(&self) {
        let mut feed = self.writer.lock();
        *feed += 1;
        self.phase.send_replace(Phase::Stopped);
        // Nobody wakes the many any more.
        self.wake_now(&self.window.reset(Revision::MAX));
        self.wake_now(&std::mem::take(&mut *self.to_wake.lock()));
    }

    /// Decodes a stored value; what cannot be decoded becomes an entry that says so.
    pub(super) fn entry(
        &self,
        key: Arc<str>,
        value: &Bytes,
        revision: Revision,
        create_revision: Revision,
    ) -> CacheEntry {
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode.decode(&key, value, revision)))
            .unwrap_or_else(|_| Err(DecodeError("the decoder panicked".into())));
        match decoded {
            Ok(decoded) => {
                let namespaced = self.options.namespaced;
                CacheEntry::Object(Arc::new(Object::new(key, revision, create_revision, namespaced, decoded)))
            }
            Err(error) => {
                self.counters.broken.add(1);
                let encrypted = crate::encrypt::broken(value).is_some();
                CacheEntry::Broken(Arc::new(Broken { key, revision, create_revision, error, encrypted }))
            }
        }
    }

    /// [`Shared::entry`] of a key as a range read found it.
    pub(super) fn entry_of(&self, kv: KeyValue) -> CacheEntry {
        self.entry(kv.key, &kv.value, kv.mod_revision, kv.create_revision)
    }

    /// Moves to another phase; a stopped cache stays so.
    pub(super) fn enter(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            let moves = !matches!(phase, Phase::Stopped);
            if moves {
                *phase = next;
            }
            moves
        });
    }

    /// The latest snapshot.
    pub(super) fn latest(&self) -> Snapshot {
        self.latest.read().clone()
    }

    /// The latest snapshot's revision; quicker than [`Shared::latest`], and leaves the writer alone with its tree.
    pub(super) fn revision(&self) -> Revision {
        self.revision.load(Ordering::SeqCst)
    }

    fn apply(&self, events: &[Event]) {
        // A feed that starts where a list ended may repeat what the list had.
        let known = self.revision();
        let events = &events[events.partition_point(|event| event.revision <= known)..];
        let Some(newest) = events.last().map(|event| event.revision) else { return };
        let entries = self.decode_all(events);
        let now = Instant::now();
        let (mut changes, mut lost) = (Vec::with_capacity(events.len()), false);
        let mut latest = self.latest.write();
        // In place, unless somebody still reads the tree: then what is touched is copied.
        let tree = latest.advance(newest);
        for (event, (key, current)) in events.iter().zip(entries) {
            let previous = tree.set(&key, current.clone());
            lost |= current.is_none() && matches!(previous, Some(CacheEntry::Broken(_)));
            if current.is_some() || previous.is_some() {
                changes.push(Arc::new(Change::new(event.revision, now, key, current, previous)));
            }
        }
        // Nobody can be shown what is gone that could not be read: whoever knew it from before must list anew.
        let news = if lost { self.window.reset(newest) } else { self.window.append(&changes) };
        self.revision.store(newest, Ordering::SeqCst);
        drop(latest);
        self.counters.changes.add(changes.len());
        self.fresh.notify_waiters();
        self.wake(news);
    }

    /// The entries that the events leave, each with its key as it is held already, so that versions share one copy.
    fn decode_all(&self, events: &[Event]) -> Vec<(Arc<str>, Option<CacheEntry>)> {
        let keys: Vec<Arc<str>> = {
            let latest = self.latest.read();
            events.iter().map(|event| latest.tree().shared_key(&event.key)).collect()
        };
        let entry = |(event, key): (&Event, Arc<str>)| {
            let value = event.value.as_ref();
            let entry = value.map(|value| self.entry(key.clone(), value, event.revision, event.create_revision));
            (key, entry)
        };
        events.iter().zip(keys).map(entry).collect()
    }

    fn publish(&self, snapshot: Snapshot) {
        let revision = snapshot.revision();
        let old = std::mem::replace(&mut *self.latest.write(), snapshot);
        self.revision.store(revision, Ordering::SeqCst);
        drop(old);
        self.fresh.notify_waiters();
    }

    /// Wakes who waits for these logs: a few at once, many by [`Shared::wake_many`], for the store is waiting.
    fn wake(&self, logs: Vec<Arc<Log>>) {
        let waiting: usize = logs.iter().map(|log| log.waiters.waiting()).sum();
        if waiting <= FEW {
            self.wake_now(&logs);
            return;
        }
        let mut to_wake = self.to_wake.lock();
        for log in logs {
            if !to_wake.iter().any(|l| Arc::ptr_eq(l, &log)) {
                to_wake.push(log);
            }
        }
        drop(to_wake);
        self.many.notify_one();
    }

    /// Waits until there is news for many and wakes them, apart from the store's thread; answers how many.
    pub(super) async fn wake_many(&self) -> usize {
        self.many.notified().await;
        let logs = std::mem::take(&mut *self.to_wake.lock());
        self.wake_now(&logs)
    }

    fn wake_now(&self, logs: &[Arc<Log>]) -> usize {
        let woken = logs.iter().map(|log| log.waiters.wake()).sum();
        self.counters.wakeups.add(woken);
        woken
    }
}

/// What one watch on the store feeds.
pub(super) struct Feed {
    number: u64,
    shared: Arc<Shared>,
    closed: watch::Sender<Option<Error>>,
}

impl Feed {
    /// Waits until the watch has ended, and tells why.
    pub(super) async fn closed(&self) -> Error {
        let mut closed = self.closed.subscribe();
        let error = closed.wait_for(Option::is_some).await.map(|error| error.clone());
        error.ok().flatten().unwrap_or(Error::Closed)
    }
}

impl Sink for Feed {
    fn apply(&self, events: &[Event]) {
        let feed = self.shared.writer.lock();
        if *feed == self.number {
            self.shared.apply(events);
        }
    }

    fn progress(&self, revision: Revision) {
        let feed = self.shared.writer.lock();
        if *feed != self.number {
            return;
        }
        self.shared.counters.bookmarks.add(1);
        if revision > self.shared.revision() {
            self.shared.latest.write().advance(revision);
            self.shared.revision.store(revision, Ordering::SeqCst);
            self.shared.fresh.notify_waiters();
        }
    }

    fn closed(&self, error: Error) {
        let feed = self.shared.writer.lock();
        if *feed == self.number {
            self.shared.enter(Phase::Detached);
        }
        drop(feed);
        self.closed.send_replace(Some(error));
    }
}
