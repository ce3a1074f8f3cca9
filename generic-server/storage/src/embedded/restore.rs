//! A snapshot's content brought back into a store that serves.

use std::{iter::Peekable, path::PathBuf};

use bytes::Bytes;
use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::oneshot;

use super::{
    Embedded,
    batch::{Batch, Planned},
    blocking,
    disk::{failed, sound},
    folder::{in_table, load},
    format::{LOG, Lifetime, Record, value_sum},
    index::{Found, Index},
    pending::{Entries, Entry},
    read::{Values, View},
    room,
    snapshot::{open_snapshot, verify},
    writer::{Request, Writer},
};
use crate::{Error, KeyValue, Revision};

/// Keys looked at at once.
const CHUNK: usize = 500;

/// How many keys a restore changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Keys that were written, since they differed or were not there.
    pub written: usize,
    /// Keys that were deleted, since the snapshot has none such, or they have expired since.
    pub deleted: usize,
}

/// Brings a store to a snapshot's content while it serves.
///
/// What differs is written, each key at a revision of its own, in one commit: after a crash all of it is there or nothing
/// is. Other writes come before or after it, and every watch sees what happens. Keys with a TTL come back with what is
/// left of it. Fails with [`Error::Corrupt`] for a damaged snapshot, or as the store's writes fail; then nothing is changed.
pub async fn restore_into(store: &Embedded, snapshot: PathBuf) -> Result<Restored, Error> {
    let content = Box::new(blocking(move || Content::read(snapshot)).await?);
    let (answer, answered) = oneshot::channel();
    store.shared.queue.push(Request::Restore { content, answer }).await?;
    answered.await.unwrap_or_else(|_| Err(Error::Unavailable("the writer ended".into())))
}

impl Writer {
    /// Brings everything to the content of a snapshot, whose values were checked.
    pub(crate) fn restore(&mut self, content: &Content) -> Result<Restored, Error> {
        self.usable()?;
        // So that one commit in the database is the whole of it: the journal holds nothing more.
        self.settle_all()?;
        let (batch, restored) = self.shared.reading(|| self.plan(content))?;
        if batch.planned.is_empty() {
            return Ok(restored);
        }
        let stored = batch.planned.iter().map(|planned| planned.entry.record().stored()).sum();
        room::check(&self.shared, stored)?;
        let entries: Entries = batch.planned.iter().map(|planned| (planned.revision, planned.entry.clone())).collect();
        self.commit_whole(entries)?;
        self.publish(&batch);
        Ok(restored)
    }

    fn plan(&self, content: &Content) -> Result<(Batch, Restored), Error> {
        let (wanted, wanted_values) = (content.index.all(), Side::of(content.database.begin_read().map_err(failed)?)?);
        let (current, revision) = {
            let index = self.shared.index();
            (index.all(), index.revision)
        };
        let current_values = Side::of(self.shared.begin_read()?)?;
        let now = self.shared.clock.now();
        let mut plan = Plan { batch: Batch::default(), revision, now, restored: Restored::default() };
        for (wanted, current) in pairs(wanted.into_iter().peekable(), current.into_iter().peekable()) {
            let wanted = wanted.map(|found| wanted_values.read(found)).transpose()?;
            let wanted = wanted.filter(|(_, lifetime)| lifetime.is_none_or(|lifetime| lifetime.deadline() > now));
            match (wanted, current) {
                (None, Some(current)) => plan.delete(current),
                (Some((found, lifetime)), current) => {
                    let current = current.map(|found| current_values.read(found)).transpose()?;
                    let deadline = |lifetime: Option<Lifetime>| lifetime.map(|lifetime| lifetime.deadline());
                    let same = current.as_ref().is_some_and(|(current, current_lifetime)| {
                        current.value == found.value && deadline(*current_lifetime) == deadline(lifetime)
                    });
                    if !same {
                        let lifetime = deadline(lifetime).map(|at| Lifetime { written: now, ttl: at - now });
                        plan.put(found, current.map(|(current, _)| current), lifetime);
                    }
                }
                (None, None) => {}
            }
        }
        Ok((plan.batch, plan.restored))
    }
}

/// The writes of a restore, as far as they are decided.
struct Plan {
    batch: Batch,
    revision: Revision,
    now: u64,
    restored: Restored,
}

impl Plan {
    fn put(&mut self, wanted: KeyValue, current: Option<KeyValue>, lifetime: Option<Lifetime>) {
        self.revision += 1;
        self.restored.written += 1;
        let create_revision = current.as_ref().map_or(self.revision, |current| current.create_revision);
        let previous = current.as_ref().map_or(0, |current| current.mod_revision);
        let key = current.map_or(wanted.key, |current| current.key);
        let value = Some((Bytes::clone(&wanted.value), value_sum(&wanted.value)));
        self.push(Entry { key, value, create_revision, previous, written: self.now, lifetime });
    }

    fn delete(&mut self, current: Found) {
        self.revision += 1;
        self.restored.deleted += 1;
        let Found { key, revision: previous, create_revision } = current;
        self.push(Entry { key, value: None, create_revision, previous, written: self.now, lifetime: None });
    }

    fn push(&mut self, entry: Entry) {
        self.batch.planned.push(Planned { revision: self.revision, entry, answer: None });
    }
}

/// Merges two lists in the order of their keys.
fn pairs(
    mut one: Peekable<impl Iterator<Item = Found>>,
    mut other: Peekable<impl Iterator<Item = Found>>,
) -> impl Iterator<Item = (Option<Found>, Option<Found>)> {
    std::iter::from_fn(move || {
        let order = match (one.peek(), other.peek()) {
            (None, None) => return None,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(one), Some(other)) => one.key.cmp(&other.key),
        };
        let one = if order.is_le() { one.next() } else { None };
        Some((one, if order.is_ge() { other.next() } else { None }))
    })
}

/// One database of the two that are compared.
struct Side {
    values: Values,
    log: redb::ReadOnlyTable<u64, &'static [u8]>,
}

impl Side {
    fn of(read: ReadTransaction) -> Result<Side, Error> {
        let view = View::of(read);
        Ok(Side { values: Values::open(&view)?, log: view.read.open_table(LOG).map_err(failed)? })
    }

    /// A key's value, and when it expires.
    fn read(&self, found: Found) -> Result<(KeyValue, Option<Lifetime>), Error> {
        let revision = found.revision;
        let lifetime = sound("table log", || {
            let record = self.log.get(revision).map_err(|error| in_table("log", error))?;
            let missing = || Error::Corrupt(format!("table log: the record of revision {revision} is missing"));
            Ok(Record::decode(revision, record.ok_or_else(missing)?.value())?.lifetime)
        })?;
        Ok((self.values.key_value(found)?, lifetime))
    }
}

/// A snapshot's content.
pub(crate) struct Content {
    database: Database,
    index: Index,
}

impl Content {
    /// Reads a snapshot, and checks every value in it.
    fn read(file: PathBuf) -> Result<Content, Error> {
        verify(&file)?;
        let database = open_snapshot(&file)?;
        let index = load(&database)?.index;
        let content = Content { database, index };
        for chunk in content.index.all().chunks(CHUNK) {
            let read = content.database.begin_read().map_err(failed)?;
            Values::open(&View::of(read))?.key_values(chunk.to_vec())?;
        }
        Ok(content)
    }
}
