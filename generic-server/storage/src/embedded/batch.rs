//! One batch of writes: what each does, decided in order, and what watches are told of it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    format::Lifetime,
    index::{Found, Index},
    pending::Entry,
    read::Past,
};
use crate::{Error, Event, Expect, Revision};

/// A write as its caller asks for it.
pub(crate) struct Write {
    pub(crate) key: Arc<str>,
    pub(crate) change: Change,
    pub(crate) answer: oneshot::Sender<Result<Revision, Error>>,
}

/// Writes that belong together: each a key with a value and its checksum, or with nothing, which deletes it.
pub(crate) type Writes = Vec<(Arc<str>, Option<(Bytes, u32)>)>;

/// What a write does.
pub(crate) enum Change {
    /// Sets a value, and then further ones, each at the next revision.
    Put { value: Bytes, sum: u32, then: Vec<(Bytes, u32)>, expect: Expect, ttl: Option<Duration> },
    /// Deletes the key.
    Delete { expected: Revision },
    /// Writes these keys, whatever is there, each at the next revision: `None` deletes one.
    All(Writes),
}

/// A write that is going to happen.
pub(crate) struct Planned {
    pub(crate) revision: Revision,
    pub(crate) entry: Entry,
    /// `None`: nobody waits, since the key expires or the write goes with the one before it.
    pub(crate) answer: Option<oneshot::Sender<Result<Revision, Error>>>,
}

/// A write that does not find what it expects, and what is there.
pub(crate) struct Refused {
    pub(crate) current: Option<Found>,
    pub(crate) answer: oneshot::Sender<Result<Revision, Error>>,
}

/// A batch.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) planned: Vec<Planned>,
    pub(crate) refused: Vec<Refused>,
}

impl Batch {
    /// Decides writes in the order they came, each seeing what those before it do.
    pub(crate) fn decide(&mut self, index: &Index, now: u64, expired: &[Found], writes: Vec<Write>) {
        let mut revision = index.revision;
        let mut seen: HashMap<Arc<str>, Option<Found>> = HashMap::new();
        let many = expired.len() + writes.len() > 1 || matches!(&*writes, [Write { change: Change::All(_), .. }]);
        for found in expired {
            revision += 1;
            seen.insert(found.key.clone(), None);
            let (key, create_revision, previous) = (found.key.clone(), found.create_revision, found.revision);
            let entry = Entry { key, value: None, create_revision, previous, written: now, lifetime: None };
            self.planned.push(Planned { revision, entry, answer: None });
        }
        for Write { key, change, answer } in writes {
            let current = seen.get(&key).cloned().unwrap_or_else(|| index.latest(&key));
            let (expect, put, then) = match change {
                Change::Put { value, sum, then, expect, ttl } => (expect, Some((value, sum, ttl)), then),
                Change::Delete { expected } => (Expect::Revision(expected), None, Vec::new()),
                Change::All(writes) => {
                    revision = self.plan_all(index, (revision, now), &mut seen, writes, Some(answer));
                    continue;
                }
            };
            let holds = match (expect, &current) {
                (Expect::Absent, None) => true,
                (Expect::Revision(expected), Some(current)) => current.revision == expected,
                _ => false,
            };
            if !holds {
                self.refused.push(Refused { current, answer });
                continue;
            }
            revision += 1;
            let create_revision = current.as_ref().map_or(revision, |current| current.create_revision);
            let previous = current.as_ref().map_or(0, |current| current.revision);
            let key = current.map_or(key, |current| current.key);
            if many {
                let revision = revision + then.len() as Revision;
                let found = put.is_some().then(|| Found { key: key.clone(), revision, create_revision });
                seen.insert(key.clone(), found);
            }
            let ttl = put.as_ref().and_then(|(_, _, ttl)| *ttl);
            let lifetime =
                ttl.map(|ttl| Lifetime { written: now, ttl: ttl.as_millis().try_into().unwrap_or(u64::MAX) });
            let value = put.map(|(value, sum, _)| (value, sum));
            let entry = Entry { key: key.clone(), value, create_revision, previous, written: now, lifetime };
            self.planned.push(Planned { revision, entry, answer: Some(answer) });
            for value in then {
                let (previous, value) = (revision, Some(value));
                revision += 1;
                let entry = Entry { key: key.clone(), value, create_revision, previous, written: now, lifetime };
                self.planned.push(Planned { revision, entry, answer: None });
            }
        }
    }

    /// Plans writes that expect nothing, at the revisions after `revision` and at the time `now`; returns the last one. Deletes of keys that are
    /// not there count as well, so that the caller knows which revision each write has.
    pub(crate) fn plan_all(
        &mut self,
        index: &Index,
        (mut revision, now): (Revision, u64),
        seen: &mut HashMap<Arc<str>, Option<Found>>,
        writes: Writes,
        mut answer: Option<oneshot::Sender<Result<Revision, Error>>>,
    ) -> Revision {
        self.planned.reserve(writes.len());
        for (key, value) in writes {
            revision += 1;
            let current = seen.get(&key).cloned().unwrap_or_else(|| index.latest(&key));
            let create_revision = current.as_ref().map_or(revision, |current| current.create_revision);
            let previous = current.as_ref().map_or(0, |current| current.revision);
            let key = current.map_or(key, |current| current.key);
            seen.insert(key.clone(), value.is_some().then(|| Found { key: key.clone(), revision, create_revision }));
            let entry = Entry { key, value, create_revision, previous, written: now, lifetime: None };
            self.planned.push(Planned { revision, entry, answer: answer.take() });
        }
        revision
    }

    /// What the writes that happen mean to watches.
    pub(crate) fn events(&self, past: &mut Past<'_>) -> Vec<Event> {
        let event = |planned: &Planned| {
            let entry = &planned.entry;
            // A damaged value can be overwritten and deleted.
            let previous = past.previous(entry).unwrap_or_else(|error| {
                tracing::error!(%error, key = %entry.key, "the value that a write replaces cannot be read");
                None
            });
            let (key, create_revision) = (entry.key.clone(), entry.create_revision);
            let value = entry.value.as_ref().map(|(value, _)| value.clone());
            Event { revision: planned.revision, key, value, previous, create_revision }
        };
        self.planned.iter().map(event).collect()
    }
}
