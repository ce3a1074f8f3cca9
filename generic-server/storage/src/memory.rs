//! A plain store in memory: the model that the other backends are tested against, and a quick store for tests.
//!
//! It keeps the whole history until it is compacted, and nothing survives the process.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Error, Event, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, Watch, limits,
    watchers::{Alive, Watcher, Watchers},
};

/// The store in memory.
pub struct Memory {
    state: Mutex<State>,
    /// For the timers of keys with a TTL, which must not keep the store.
    this: Weak<Memory>,
}

struct State {
    /// Every key's versions, oldest first.
    keys: BTreeMap<Arc<str>, Vec<Version>>,
    /// Which key each revision wrote.
    log: BTreeMap<Revision, Arc<str>>,
    revision: Revision,
    /// The oldest revision that can still be read.
    oldest: Revision,
    watchers: Watchers,
    /// When the next key may be due.
    soonest: Option<Instant>,
    closed: bool,
}

#[derive(Clone)]
struct Version {
    revision: Revision,
    create_revision: Revision,
    /// `None`: deleted.
    value: Option<Bytes>,
    deadline: Option<Instant>,
}

impl Memory {
    /// An empty store, at revision 1 as a new etcd is.
    pub fn new() -> Arc<Memory> {
        Arc::new_cyclic(|this| Memory {
            state: Mutex::new(State {
                keys: BTreeMap::new(),
                log: BTreeMap::new(),
                revision: 1,
                oldest: 1,
                watchers: Watchers::default(),
                soonest: None,
                closed: false,
            }),
            this: this.clone(),
        })
    }

    /// Locks the state, with what is due expired.
    fn state(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if state.closed {
            return Err(Error::Closed);
        }
        state.expire(Instant::now());
        Ok(state)
    }

    fn expire_in(&self, ttl: Duration) {
        let this = self.this.clone();
        tokio::spawn(async move {
            tokio::time::sleep(ttl).await;
            if let Some(store) = this.upgrade() {
                // Locking expires what is due; a closed store has nothing to expire.
                drop(store.state());
            }
        });
    }
}

impl State {
    fn latest(&self, key: &str) -> Option<KeyValue> {
        let (key, versions) = self.keys.get_key_value(key)?;
        versions.last()?.key_value(key)
    }

    fn expect(&self, key: &str, expect: Expect) -> Result<Option<KeyValue>, Error> {
        let current = self.latest(key);
        let holds = match (expect, &current) {
            (Expect::Absent, None) => true,
            (Expect::Revision(wanted), Some(found)) => found.mod_revision == wanted,
            _ => false,
        };
        if holds { Ok(current) } else { Err(Error::Conflict { current: current.map(Box::new) }) }
    }

    fn write(&mut self, key: &str, value: Option<Bytes>, previous: Option<KeyValue>, deadline: Option<Instant>) {
        self.revision += 1;
        let revision = self.revision;
        let create_revision = previous.as_ref().map_or(revision, |previous| previous.create_revision);
        self.soonest = [self.soonest, deadline].into_iter().flatten().min();
        let key = previous.as_ref().map_or_else(|| Arc::from(key), |previous| previous.key.clone());
        let version = Version { revision, create_revision, value: value.clone(), deadline };
        self.keys.entry(key.clone()).or_default().push(version);
        self.log.insert(revision, key.clone());
        self.watchers.feed(&[Event { revision, key, value, previous, create_revision }]);
    }

    fn expire(&mut self, now: Instant) {
        if self.soonest.is_none_or(|at| at > now) {
            return;
        }
        let due = |versions: &[Version]| versions.last().and_then(|last| last.deadline).is_some_and(|at| at <= now);
        let keys: Vec<Arc<str>> =
            self.keys.iter().filter(|(_, versions)| due(versions)).map(|(key, _)| key.clone()).collect();
        for key in keys {
            let previous = self.latest(&key);
            self.write(&key, None, previous, None);
        }
        let deadlines = self.keys.values().filter_map(|versions| versions.last()?.deadline);
        self.soonest = deadlines.min();
    }

    /// The event of a revision that is still in the log.
    fn event(&self, revision: Revision, key: &Arc<str>) -> Event {
        let versions = &self.keys[key];
        let at = versions.partition_point(|version| version.revision < revision);
        let version = &versions[at];
        let previous = at.checked_sub(1).and_then(|at| versions[at].key_value(key));
        Event {
            revision,
            key: key.clone(),
            value: version.value.clone(),
            previous,
            create_revision: version.create_revision,
        }
    }

    fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
        start: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Vec<Version>)> {
        let from = if start > prefix { start } else { prefix };
        self.keys
            .range::<str, _>((Bound::Included(from), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
    }
}

impl Version {
    fn key_value(&self, key: &Arc<str>) -> Option<KeyValue> {
        Some(KeyValue {
            key: key.clone(),
            value: self.value.clone()?,
            create_revision: self.create_revision,
            mod_revision: self.revision,
        })
    }
}

#[async_trait]
impl Store for Memory {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        limits::check_key(key)?;
        limits::check_value(&value)?;
        let mut state = self.state()?;
        let previous = state.expect(key, expect)?;
        state.write(key, Some(value), previous, ttl.map(|ttl| Instant::now() + ttl));
        if let Some(ttl) = ttl {
            self.expire_in(ttl);
        }
        Ok(state.revision)
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        limits::check_key(key)?;
        let mut state = self.state()?;
        let previous = state.expect(key, Expect::Revision(expected))?;
        state.write(key, None, previous, None);
        Ok(state.revision)
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        let state = self.state()?;
        Ok((state.latest(key), state.revision))
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        let state = self.state()?;
        let at = range.at.unwrap_or(state.revision);
        if at > state.revision {
            return Err(Error::FutureRevision { asked: at, current: state.revision });
        }
        if at < state.oldest {
            return Err(Error::Compacted { oldest: state.oldest });
        }
        let mut found = RangeResult { revision: state.revision, ..RangeResult::default() };
        for (key, versions) in state.with_prefix(&range.prefix, range.start.as_deref().unwrap_or("")) {
            let version = versions.iter().rev().find(|version| version.revision <= at);
            let Some(item) = version.and_then(|version| version.key_value(key)) else { continue };
            if range.limit == 0 || found.items.len() < range.limit {
                found.items.push(item);
            } else {
                found.remaining += 1;
            }
        }
        Ok(found)
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        let state = self.state()?;
        let exists = |versions: &[Version]| versions.last().is_some_and(|last| last.value.is_some());
        Ok(state.with_prefix(prefix, "").filter(|(_, versions)| exists(versions)).count())
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        let mut state = self.state()?;
        if after + 1 < state.oldest {
            return Err(Error::Compacted { oldest: state.oldest });
        }
        let (alive, watch) = Alive::new();
        let watcher = Watcher { sink, alive, after };
        let missed: Vec<Event> = state
            .log
            .range(after + 1..)
            .filter(|(_, key)| key.starts_with(prefix))
            .map(|(revision, key)| state.event(*revision, key))
            .collect();
        watcher.feed(&missed);
        watcher.progress(state.revision);
        state.watchers.add(prefix.into(), watcher);
        Ok(watch)
    }

    async fn revision(&self) -> Result<Revision, Error> {
        Ok(self.state()?.revision)
    }

    fn delivered_revision(&self) -> Option<Revision> {
        Some(self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).revision)
    }

    async fn request_progress(&self, _prefix: &str) -> Result<(), Error> {
        let mut state = self.state()?;
        let revision = state.revision;
        state.watchers.progress(revision);
        Ok(())
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let mut state = self.state()?;
        if revision > state.revision {
            return Err(Error::FutureRevision { asked: revision, current: state.revision });
        }
        if revision <= state.oldest {
            return Ok(());
        }
        state.oldest = revision;
        state.log = state.log.split_off(&revision);
        state.keys.retain(|_, versions| {
            // Keep the last version at or before the revision, unless it is a delete from before.
            let after = versions.partition_point(|version| version.revision <= revision);
            versions.drain(..after.saturating_sub(1));
            if versions.first().is_some_and(|first| first.value.is_none() && first.revision < revision) {
                versions.remove(0);
            }
            !versions.is_empty()
        });
        Ok(())
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        Ok(self.state()?.oldest)
    }

    async fn health(&self) -> Result<(), Error> {
        self.state().map(drop)
    }

    async fn size(&self) -> Result<u64, Error> {
        let state = self.state()?;
        let bytes = |version: &Version| version.value.as_ref().map_or(0, Bytes::len);
        Ok(
            state
                .keys
                .iter()
                .map(|(key, versions)| key.len() + versions.iter().map(bytes).sum::<usize>())
                .sum::<usize>() as u64,
        )
    }

    async fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.closed = true;
        state.watchers.close(&Error::Closed);
    }
}
