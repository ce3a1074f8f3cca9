//! The cache as readers see it.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, spawn_blocking},
    time::Instant,
};

use super::{
    CacheOptions, FoundBy, Metrics,
    asking::Asking,
    forms::FormId,
    keeper::{self, list},
    object::{CacheEntry, Decode, Object},
    snapshot::{Snapshot, Tree},
    sync::Mutex,
    writer::{Phase, Shared},
};
use crate::{Error, KeyValue, Range, Revision, Store};

/// Past snapshots kept for lists that continue.
const PAST_SNAPSHOTS: usize = 32;
/// Of these, so many may be older than the window, and keep objects that nothing else keeps.
const OLD_SNAPSHOTS: usize = 4;
/// So many changes are undone on a thread for such work.
const MANY_CHANGES: usize = 1000;
/// A past snapshot that nobody asked for in this time is dropped.
const PAST_KEPT: Duration = Duration::from_secs(60);
/// How often a waiting read asks the store for progress, as upstream.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Which state a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// Any (resourceVersion "0"): what there is, at once.
    Any,
    /// One at this revision or later.
    NotOlderThan(Revision),
    /// The one at just this revision.
    Exact(Revision),
    /// One that has every write that was acknowledged before the read began (resourceVersion unset).
    Latest,
}

/// Why a read or watch cannot be served.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CacheError {
    /// The revision is still to come: 504 Timeout, cause ResourceVersionTooLarge, retry after 1 s.
    #[error("Too large resource version: {asked}, current: {current}")]
    TooLarge {
        /// What was asked for.
        asked: Revision,
        /// Where the cache is.
        current: Revision,
    },
    /// The revision is no longer there: 410 Expired.
    #[error("too old resource version: {asked} ({oldest})")]
    Expired {
        /// What was asked for.
        asked: Revision,
        /// The oldest that would do.
        oldest: Revision,
    },
    /// The first list is not there yet, or the cache is being filled anew: 429, retry after 1 s.
    #[error("storage is (re)initializing")]
    NotReady,
    /// The resource is gone, or the server is stopping.
    #[error("the watch cache is stopped")]
    Stopped,
    /// The store, which had to be asked, failed.
    #[error(transparent)]
    Store(Error),
}

impl CacheError {
    /// What the failure of a read of the past means.
    fn of_past(error: Error, asked: Option<Revision>) -> CacheError {
        match error {
            Error::Compacted { oldest } => CacheError::Expired { asked: asked.unwrap_or(0), oldest },
            Error::FutureRevision { asked, current } => CacheError::TooLarge { asked, current },
            error => CacheError::Store(error),
        }
    }
}

/// The watch cache of one resource. [`Cache::stop`] ends its feed and its watchers; so does dropping it, but watchers hold it.
pub struct Cache {
    pub(super) shared: Arc<Shared>,
    store: Arc<dyn Store>,
    asking: Asking,
    keeper: AbortHandle,
    past: Mutex<VecDeque<Past>>,
    /// One read from the store at a time: it may hold a whole second state of the resource.
    past_reads: Semaphore,
}

struct Past {
    snapshot: Snapshot,
    used: Instant,
}

impl Cache {
    /// A cache of the keys that start with `prefix` (which ends in `/`). Returns at once; [`Cache::ready`] tells when it
    /// serves. Must be called within a tokio runtime.
    pub fn start(store: Arc<dyn Store>, prefix: String, decode: Arc<dyn Decode>, options: CacheOptions) -> Arc<Cache> {
        let shared = Arc::new(Shared::new(prefix, decode, options));
        let keeper = tokio::spawn(keeper::run(store.clone(), shared.clone())).abort_handle();
        Arc::new(Cache {
            shared,
            store,
            asking: Asking::default(),
            keeper,
            past: Mutex::default(),
            past_reads: Semaphore::new(1),
        })
    }

    /// The prefix of its keys.
    pub fn prefix(&self) -> &str {
        &self.shared.prefix
    }

    /// Waits until it can serve; fails if it was stopped.
    pub async fn ready(&self) -> Result<(), CacheError> {
        let mut phase = self.shared.phase.subscribe();
        match phase.wait_for(|p| *p != Phase::Starting).await.as_deref() {
            Ok(Phase::Stopped) | Err(_) => Err(CacheError::Stopped),
            Ok(_) => Ok(()),
        }
    }

    /// Waits until it can serve, for as long as a read does: it may still not.
    pub async fn ready_in_time(&self) {
        let _ = tokio::time::timeout(self.shared.options.patience, self.ready()).await;
    }

    fn phase(&self) -> Phase {
        *self.shared.phase.borrow()
    }

    /// Whether it can serve reads and is fed.
    pub fn is_live(&self) -> bool {
        self.phase() == Phase::Live
    }

    /// Ends the feed, all watchers, and reads to come.
    pub fn stop(&self) {
        self.keeper.abort();
        self.shared.stop();
    }

    /// The latest snapshot, without any promise (empty before the cache is ready).
    pub fn latest(&self) -> Snapshot {
        self.peek_all().0
    }

    /// Up to which revision the cache is complete.
    pub fn revision(&self) -> Revision {
        let delivered = self.delivered();
        self.shared.revision().max(delivered.unwrap_or(0))
    }

    /// A snapshot; see [`ReadAt`]. Waits (at most [`CacheOptions::patience`]) only if the cache is behind or not ready. If it is not
    /// ready by then, the store itself is read: only watches need the cache.
    pub async fn read(&self, at: ReadAt) -> Result<Snapshot, CacheError> {
        let counters = &self.shared.counters;
        let mut from_store = false;
        let read = match self.at_once(at)? {
            Some(snapshot) => Ok(snapshot).inspect(|_| counters.was_fresh(at != ReadAt::Any)),
            None => self.in_time(at, &mut from_store).await,
        };
        if at == ReadAt::Latest {
            counters.latest_reads[usize::from(read.is_ok())][usize::from(from_store)].add(1);
        }
        read
    }

    /// [`Cache::read`] of what is not there at once; tells whether the store had to be asked.
    async fn in_time(&self, at: ReadAt, from_store: &mut bool) -> Result<Snapshot, CacheError> {
        match self.read_slowly(at, from_store).await {
            Err(CacheError::NotReady) => {
                *from_store = true;
                self.read_unready(at).await
            }
            done => done,
        }
    }

    /// [`Cache::read`] of what the cache has, or will have in time.
    pub(super) async fn read_cached(&self, at: ReadAt) -> Result<Snapshot, CacheError> {
        match self.at_once(at)? {
            Some(snapshot) => Ok(snapshot),
            None => self.read_slowly(at, &mut false).await,
        }
    }

    /// [`Cache::read`] of what the cache has already.
    fn at_once(&self, at: ReadAt) -> Result<Option<Snapshot>, CacheError> {
        Ok(match (self.phase(), at) {
            (Phase::Stopped, _) => return Err(CacheError::Stopped),
            (Phase::Starting, _) | (_, ReadAt::Exact(_)) => None,
            (_, ReadAt::Any) => Some(self.latest()),
            (_, ReadAt::NotOlderThan(revision)) => (self.revision() >= revision).then(|| self.latest()),
            (_, ReadAt::Latest) => self.delivered().map(|delivered| self.known(Some(delivered))),
        })
    }

    /// A list of a client was answered: how its objects were found, how many were looked at, and how many it has.
    pub fn note_list(&self, by: FoundBy, looked_at: usize, answered: usize) {
        self.shared.counters.found(by, looked_at, answered);
    }

    /// The entry of one key; see [`ReadAt`]. Where the cache may be behind, or is not there yet, it is what the store answers:
    /// nobody waits until the cache has caught up.
    pub async fn get(&self, key: &str, at: ReadAt) -> Result<Option<CacheEntry>, CacheError> {
        let least = match at {
            ReadAt::Latest if self.delivered().is_none() => 0,
            ReadAt::Any if self.phase() == Phase::Starting => 0,
            ReadAt::NotOlderThan(revision) if self.phase() == Phase::Starting => revision,
            ReadAt::Exact(revision) => return self.get_exact(key, revision).await,
            _ => match self.at_once(at)? {
                Some(snapshot) => return Ok(snapshot.get(key).cloned()),
                None => return Ok(self.in_time(at, &mut false).await?.get(key).cloned()),
            },
        };
        let latest = async {
            if self.is_live() && self.revision() >= self.asking.revision(&*self.store).await? {
                return Ok((self.latest().get(key).cloned(), Revision::MAX));
            }
            let (found, revision) = self.store.get(key).await?;
            Ok((found.map(|kv| self.entry_of(kv)), revision))
        };
        if self.phase() == Phase::Stopped {
            return Err(CacheError::Stopped);
        }
        match tokio::time::timeout(self.shared.options.patience, latest).await {
            Ok(Ok((entry, revision))) if revision >= least => Ok(entry),
            Ok(Ok(_)) => Ok(self.in_time(at, &mut false).await?.get(key).cloned()),
            Ok(Err(error)) => Err(CacheError::Store(error)),
            Err(_) => Err(CacheError::Store(Error::Timeout(format!("reading {key}")))),
        }
    }

    /// The entry of one key as it was at a revision: nothing else is read for it.
    async fn get_exact(&self, key: &str, at: Revision) -> Result<Option<CacheEntry>, CacheError> {
        if let Some(past) = self.past(at) {
            return Ok(past.get(key).cloned());
        }
        let range = Range { prefix: key.to_owned(), start: None, limit: 1, at: Some(at) };
        let read = tokio::time::timeout(self.shared.options.patience, self.store.range(range)).await;
        let found = read.unwrap_or_else(|_| Err(Error::Timeout(format!("reading {key}"))));
        let found = found.map_err(|error| CacheError::of_past(error, Some(at)))?;
        // Other keys begin with this one, and come after it.
        Ok(found.items.into_iter().next().filter(|found| *found.key == *key).map(|found| self.entry_of(found)))
    }

    /// The revision of the state at a time; see [`Store::revision_at`].
    pub async fn revision_at(&self, time: SystemTime) -> Result<Revision, CacheError> {
        self.store.revision_at(time).await.map_err(|error| CacheError::of_past(error, None))
    }

    /// The latest snapshot, and whether the store certainly has nothing else: a remote one may.
    pub fn peek_all(&self) -> (Snapshot, bool) {
        let delivered = self.delivered();
        (self.known(delivered), delivered.is_some())
    }

    /// The entry of one key as the cache has it, and whether the store certainly has no other.
    pub fn peek(&self, key: &str) -> (Option<CacheEntry>, bool) {
        let (snapshot, is_latest) = self.peek_all();
        (snapshot.get(key).cloned(), is_latest)
    }

    /// The entry of a key as the store has answered it: the cache's own if it is the same.
    pub fn entry_of(&self, kv: KeyValue) -> CacheEntry {
        let latest = self.shared.latest();
        match latest.get(&kv.key) {
            Some(known) if known.revision() == kv.mod_revision => known.clone(),
            _ => self.shared.entry_of(kv),
        }
    }

    async fn read_slowly(&self, at: ReadAt, from_store: &mut bool) -> Result<Snapshot, CacheError> {
        let deadline = Instant::now() + self.shared.options.patience;
        match tokio::time::timeout_at(deadline, self.ready()).await {
            Ok(ready) => ready?,
            Err(_) => return Err(CacheError::NotReady),
        }
        match at {
            ReadAt::Any => Ok(self.latest()),
            ReadAt::NotOlderThan(revision) => self.wait_for(revision, deadline).await,
            ReadAt::Exact(revision) => {
                self.wait_for(revision, deadline).await?;
                self.exact(revision).await
            }
            ReadAt::Latest => {
                if let Some(delivered) = self.delivered() {
                    return Ok(self.known(Some(delivered)));
                }
                let revision = match tokio::time::timeout_at(deadline, self.asking.revision(&*self.store)).await {
                    Ok(revision) => revision.map_err(CacheError::Store)?,
                    Err(_) => return Err(CacheError::Store(Error::Timeout("reading the current revision".into()))),
                };
                match self.wait_for(revision, deadline).await {
                    // The feed is late: the store itself has what the cache has not.
                    Err(CacheError::TooLarge { .. }) => {
                        *from_store = true;
                        self.read_from_store(None).await
                    }
                    done => done,
                }
            }
        }
    }

    /// What the store has while the cache is not ready. If it cannot say either, the client tries again.
    async fn read_unready(&self, at: ReadAt) -> Result<Snapshot, CacheError> {
        let revision = match at {
            ReadAt::Exact(revision) => Some(revision),
            ReadAt::Any | ReadAt::Latest | ReadAt::NotOlderThan(_) => None,
        };
        let found = match self.read_from_store(revision).await {
            Err(CacheError::Store(_)) => return Err(CacheError::NotReady),
            found => found?,
        };
        match at {
            ReadAt::NotOlderThan(asked) if found.revision() < asked => {
                Err(CacheError::TooLarge { asked, current: found.revision() })
            }
            _ => Ok(found),
        }
    }

    /// Waits until the cache is complete up to `revision`.
    async fn wait_for(&self, revision: Revision, deadline: Instant) -> Result<Snapshot, CacheError> {
        let begun = Instant::now();
        let found = self.fresh(revision, deadline).await;
        self.shared.counters.waited(begun.elapsed());
        found
    }

    async fn fresh(&self, revision: Revision, deadline: Instant) -> Result<Snapshot, CacheError> {
        loop {
            let fresh = self.shared.fresh.notified();
            tokio::pin!(fresh);
            fresh.as_mut().enable();
            if self.revision() >= revision {
                return Ok(self.latest());
            }
            if self.phase() == Phase::Stopped {
                return Err(CacheError::Stopped);
            }
            if Instant::now() >= deadline {
                return Err(CacheError::TooLarge { asked: revision, current: self.revision() });
            }
            if self.store.delivered_revision().is_none() {
                let asking = self.asking.progress(&*self.store, self.prefix());
                // Without an answer the deadline decides.
                let _ = tokio::time::timeout_at(deadline, asking).await;
            }
            let _ = tokio::time::timeout_at(deadline.min(Instant::now() + PROGRESS_EVERY), fresh).await;
        }
    }

    /// Up to which revision the store has fed us, if it can tell.
    pub(super) fn delivered(&self) -> Option<Revision> {
        // Asked before the phase is looked at: what was delivered to a live feed then has arrived.
        let delivered = self.store.delivered_revision();
        delivered.filter(|_| self.is_live())
    }

    /// The latest snapshot, complete up to `delivered`, which must have been asked for before.
    fn known(&self, delivered: Option<Revision>) -> Snapshot {
        self.shared.latest().known_at(delivered.unwrap_or(0))
    }

    /// The state at a revision that the cache has reached: the latest with the changes since undone, or what the store still has.
    async fn exact(&self, revision: Revision) -> Result<Snapshot, CacheError> {
        if let Some(past) = self.past(revision) {
            return Ok(past);
        }
        let published = self.shared.latest();
        if published.revision() <= revision {
            return Ok(Snapshot::new(revision, published.tree().clone()));
        }
        let snapshot = match self.shared.window.backwards(revision, published.revision()) {
            Some(changes) => {
                let many = changes.len() > MANY_CHANGES;
                let undo = move || {
                    let mut tree = Tree::clone(published.tree());
                    for change in changes {
                        tree.set(&change.key, change.previous.clone());
                    }
                    Snapshot::new(revision, Arc::new(tree))
                };
                match many {
                    true => spawn_blocking(undo).await.map_err(|_| CacheError::Stopped)?,
                    false => undo(),
                }
            }
            None => self.read_from_store(Some(revision)).await?,
        };
        self.remember(snapshot.clone());
        Ok(snapshot)
    }

    /// The state at a revision, or as it is now, as the store has it.
    async fn read_from_store(&self, at: Option<Revision>) -> Result<Snapshot, CacheError> {
        let _turn = self.past_reads.acquire().await.map_err(|_| CacheError::Stopped)?;
        if let Some(past) = at.and_then(|revision| self.past(revision)) {
            return Ok(past);
        }
        self.shared.counters.store_reads.add(1);
        list(&*self.store, &self.shared, at).await.map_err(|error| CacheError::of_past(error, at))
    }

    fn past(&self, revision: Revision) -> Option<Snapshot> {
        let mut all = self.past.lock();
        let now = Instant::now();
        all.retain(|past| now - past.used < PAST_KEPT);
        let past = all.iter_mut().find(|past| past.snapshot.revision() == revision)?;
        past.used = now;
        Some(past.snapshot.clone())
    }

    fn remember(&self, snapshot: Snapshot) {
        let floor = self.shared.window.floor();
        let mut all = self.past.lock();
        if all.len() == PAST_SNAPSHOTS {
            all.pop_front();
        }
        while all.iter().filter(|past| past.snapshot.revision() < floor).count() >= OLD_SNAPSHOTS {
            let oldest = all.iter().position(|past| past.snapshot.revision() < floor);
            oldest.and_then(|i| all.remove(i));
        }
        all.push_back(Past { snapshot, used: Instant::now() });
    }

    /// A form of an object that is kept beside it, if it is.
    pub fn kept_form(&self, object: &Object, id: FormId) -> Option<Bytes> {
        object.forms.get(id)
    }

    /// Another form of an object, such as protobuf or another version: made by `make` once, and kept beside the object
    /// while there is room. Errors are not kept.
    pub fn form<E>(
        &self,
        object: &Arc<Object>,
        id: FormId,
        make: impl FnOnce(&Object) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        self.shared.forms.form(object, id, make)
    }

    /// How many objects there are, and the bytes of their JSON.
    pub fn volume(&self) -> (u64, u64) {
        let latest = self.shared.latest();
        (latest.len() as u64, latest.tree().bytes() as u64)
    }

    /// How many watchers a change of this object would reach.
    pub fn watchers_of(&self, key: &str) -> u64 {
        if self.shared.counters.watchers.get() == 0 {
            return 0;
        }
        let latest = self.shared.latest();
        self.shared.window.readers(key, latest.get(key)) as u64
    }

    /// Its counters, now.
    pub fn metrics(&self) -> Metrics {
        let (latest, counters) = (self.shared.latest(), &self.shared.counters);
        let (window_changes, window_bytes, _) = self.shared.window.size(std::time::Instant::now());
        Metrics {
            objects: latest.len() as u64,
            object_bytes: latest.tree().bytes() as u64,
            form_bytes: self.shared.forms.bytes() as u64,
            revision: self.revision(),
            window_changes: window_changes as u64,
            window_bytes: window_bytes as u64,
            ..counters.read()
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.stop();
    }
}
