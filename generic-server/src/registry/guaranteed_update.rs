//! Guaranteed update: a write is computed on a state of its object and done by compare-and-swap. If that state turns out to
//! be old, it is computed anew on the newest one, until it is done, is refused for what the store really holds, or its
//! request's deadline ends it.
//!
//! The first state is the cache's, which costs nothing. A cache of a remote store may be behind, so a refusal that was found
//! on its state counts only if the store has the same one.

use machinery::{Value, meta::status::Status};
use storage::{
    KeyValue,
    cache::{CacheEntry, ReadAt},
};

use super::Registry;

/// What one attempt at a write came to.
#[derive(Debug)]
pub(super) enum Attempt<T> {
    /// It is done.
    Done(T),
    /// Another write came between; what it left behind, if anything.
    Conflict(Option<KeyValue>),
}

/// The state of an object that an attempt starts from.
pub(super) struct State {
    /// `None`: there is no such object.
    pub(super) entry: Option<CacheEntry>,
    /// The store held it when it was read; else it is of a cache that may be behind.
    pub(super) is_latest: bool,
}

impl State {
    /// The revision that a write must find; 0 if there is no object.
    fn revision(&self) -> u64 {
        self.entry.as_ref().map_or(0, CacheEntry::revision)
    }
}

/// An object that there is, as an attempt works on it.
pub(super) struct Current {
    /// In the storage version, resourceVersion included.
    pub(super) value: Value,
    /// The revision that a write must find.
    pub(super) revision: u64,
    /// See [`State::is_latest`].
    pub(super) is_latest: bool,
}

/// A write to one key under way.
pub(super) struct GuaranteedUpdate<'a> {
    registry: &'a Registry,
    key: &'a str,
    name: &'a str,
    verb: &'static str,
    state: State,
}

impl<'a> GuaranteedUpdate<'a> {
    /// Begins with the state that the cache has. What it does not have, the store is asked for.
    pub(super) async fn begin(
        registry: &'a Registry,
        (key, name): (&'a str, &'a str),
        verb: &'static str,
    ) -> Result<Self, Status> {
        let (entry, is_latest) = registry.cache().peek(key);
        let state = State { is_latest, entry };
        let mut update = GuaranteedUpdate { registry, key, name, verb, state };
        if update.state.entry.is_none() && !is_latest {
            update.state = update.stored().await?;
        }
        Ok(update)
    }

    /// Begins with the state that the store has, for what is answered without a write.
    pub(super) async fn begin_latest(
        registry: &'a Registry,
        (key, name): (&'a str, &'a str),
        verb: &'static str,
    ) -> Result<Self, Status> {
        let entry = registry.entry(key, ReadAt::Latest).await?;
        Ok(GuaranteedUpdate { registry, key, name, verb, state: State { entry, is_latest: true } })
    }

    /// The state for the next attempt.
    pub(super) fn state(&self) -> &State {
        &self.state
    }

    /// Takes what came of an attempt: the result, or nothing if there must be another attempt.
    pub(super) async fn settle<T>(&mut self, attempt: Result<Attempt<T>, Status>) -> Result<Option<T>, Status> {
        match attempt {
            Ok(Attempt::Done(done)) => return Ok(Some(done)),
            Ok(Attempt::Conflict(found)) => self.state = self.latest(found),
            Err(status) if self.state.is_latest => return Err(status),
            Err(status) => {
                let stored = self.stored().await?;
                if stored.revision() == self.state.revision() {
                    return Err(status);
                }
                self.state = stored;
            }
        }
        Ok(None)
    }

    async fn stored(&self) -> Result<State, Status> {
        let found = self.registry.store.get(self.key).await;
        let (found, _) = found.map_err(|error| self.registry.store_error(error, self.verb, self.name))?;
        Ok(self.latest(found))
    }

    fn latest(&self, found: Option<KeyValue>) -> State {
        State { entry: found.map(|kv| self.registry.cache().entry_of(kv)), is_latest: true }
    }
}

impl Registry {
    /// The object of a state; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn current(&self, state: &State) -> Result<Option<Current>, Status> {
        let Some(entry) = &state.entry else { return Ok(None) };
        let object = entry.object().ok_or_else(|| self.unreadable_state(entry))?;
        let value = self.decode(object.bytes())?;
        Ok(Some(Current { value, revision: object.revision(), is_latest: state.is_latest }))
    }
}
