//! One batch of writes: what each does, decided in order, and its one transaction.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use redb::{Database, Durability, Table, WriteTransaction};
use tokio::sync::oneshot;

use super::{
    disk::failed,
    folder::in_table,
    format::{LOG, Lifetime, Record, STATE, SUM, VALUES, encode_value},
    index::{Found, Index},
    read::Values,
};
use crate::{Error, Event, Expect, KeyValue, Revision};

/// A write as its caller asks for it.
pub(crate) struct Write {
    pub(crate) key: Arc<str>,
    pub(crate) change: Change,
    pub(crate) answer: oneshot::Sender<Result<Revision, Error>>,
}

/// What a write does.
pub(crate) enum Change {
    /// Sets a value.
    Put { value: Bytes, sum: u32, expect: Expect, ttl: Option<Duration> },
    /// Deletes the key.
    Delete { expected: Revision },
}

/// A write that is going to happen.
pub(crate) struct Planned {
    pub(crate) revision: Revision,
    pub(crate) key: Arc<str>,
    /// The value and its checksum; `None`: a delete.
    value: Option<(Bytes, u32)>,
    create_revision: Revision,
    /// The revision that it replaces, 0 if none.
    previous: Revision,
    lifetime: Option<Lifetime>,
    /// `None`: nobody asked, the key expires.
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
    /// Revisions to be dropped from the tables.
    pub(crate) dropped: Vec<Revision>,
    /// Numbers to be set in the state table.
    pub(crate) state: Vec<(&'static str, u64)>,
    /// The events of the writes, once they are stored.
    pub(crate) events: Vec<Event>,
    /// Bytes of records and values that were dropped, once it is stored.
    pub(crate) freed: u64,
}

impl Planned {
    /// The record in the log.
    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            key: &self.key,
            delete: self.value.is_none(),
            create_revision: self.create_revision,
            previous: self.previous,
            value_len: self.value.as_ref().map_or(0, |(value, _)| value.len() as u32),
            lifetime: self.lifetime,
        }
    }
}

impl Batch {
    /// Whether there is nothing to store.
    pub(crate) fn is_empty(&self) -> bool {
        self.planned.is_empty() && self.dropped.is_empty() && self.state.is_empty()
    }

    /// Decides writes in the order they came, each seeing what those before it do.
    pub(crate) fn decide(&mut self, index: &Index, now: u64, expired: &[Found], writes: Vec<Write>) {
        let mut revision = index.revision;
        let mut seen: HashMap<Arc<str>, Option<Found>> = HashMap::new();
        let many = expired.len() + writes.len() > 1;
        for found in expired {
            revision += 1;
            seen.insert(found.key.clone(), None);
            self.planned.push(Planned {
                revision,
                key: found.key.clone(),
                value: None,
                create_revision: found.create_revision,
                previous: found.revision,
                lifetime: None,
                answer: None,
            });
        }
        for Write { key, change, answer } in writes {
            let current = seen.get(&key).cloned().unwrap_or_else(|| index.latest(&key));
            let (expect, put) = match change {
                Change::Put { value, sum, expect, ttl } => (expect, Some((value, sum, ttl))),
                Change::Delete { expected } => (Expect::Revision(expected), None),
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
                let found = put.is_some().then(|| Found { key: key.clone(), revision, create_revision });
                seen.insert(key.clone(), found);
            }
            let ttl = put.as_ref().and_then(|(_, _, ttl)| *ttl);
            let lifetime =
                ttl.map(|ttl| Lifetime { written: now, ttl: ttl.as_millis().try_into().unwrap_or(u64::MAX) });
            let value = put.map(|(value, sum, _)| (value, sum));
            let answer = Some(answer);
            self.planned.push(Planned { revision, key, value, create_revision, previous, lifetime, answer });
        }
    }

    /// Stores the batch in one transaction, and gathers its events. With `durable` it is on the disk when this returns.
    pub(crate) fn store(&mut self, database: &Database, durable: bool) -> Result<(), Error> {
        self.events.clear();
        self.freed = 0;
        let mut write = database.begin_write().map_err(failed)?;
        // So that opening the store after a crash needs no walk through the file.
        write.set_quick_repair(true);
        if !durable {
            write.set_durability(Durability::None).map_err(failed)?;
        }
        self.fill(&write)?;
        write.commit().map_err(failed)
    }

    fn fill(&mut self, write: &WriteTransaction) -> Result<(), Error> {
        if !self.state.is_empty() {
            let mut state = write.open_table(STATE).map_err(failed)?;
            for (name, value) in &self.state {
                state.insert(*name, value).map_err(|error| in_table("state", error))?;
            }
        }
        if self.planned.is_empty() && self.dropped.is_empty() {
            return Ok(());
        }
        let mut log = write.open_table(LOG).map_err(failed)?;
        let mut values = Values(write.open_table(VALUES).map_err(failed)?);
        let mut bytes = Vec::with_capacity(256);
        for planned in &self.planned {
            planned.record().encode(planned.revision, &mut bytes);
            log.insert(planned.revision, &*bytes).map_err(|error| in_table("log", error))?;
            if let Some((value, sum)) = &planned.value {
                insert_value(&mut values.0, planned.revision, value, *sum)?;
            }
            self.events.push(planned.event(&values));
        }
        for revision in &self.dropped {
            if let Some(record) = log.remove(revision).map_err(|error| in_table("log", error))? {
                self.freed += record.value().len() as u64;
            }
            if let Some(value) = values.0.remove(revision).map_err(|error| in_table("values", error))? {
                self.freed += value.value().len() as u64;
            }
        }
        Ok(())
    }
}

fn insert_value(
    values: &mut Table<'_, u64, &'static [u8]>,
    revision: Revision,
    value: &[u8],
    sum: u32,
) -> Result<(), Error> {
    let told = |error| in_table("values", error);
    let mut room = values.insert_reserve(revision, value.len() + SUM).map_err(told)?;
    encode_value(revision, value, sum, room.as_mut());
    Ok(())
}

impl Planned {
    fn event(&self, values: &Values<Table<'_, u64, &'static [u8]>>) -> Event {
        let previous: Result<Option<KeyValue>, Error> = values.previous(&self.key, self.previous, self.create_revision);
        Event {
            revision: self.revision,
            key: self.key.clone(),
            value: self.value.as_ref().map(|(value, _)| value.clone()),
            // A damaged value can be overwritten and deleted.
            previous: previous.unwrap_or_else(|error| {
                tracing::error!(%error, key = %self.key, "the value that a write replaces cannot be read");
                None
            }),
            create_revision: self.create_revision,
        }
    }
}
