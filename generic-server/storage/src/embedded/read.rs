//! Reads: the index says which revisions, the database has their values.

use std::sync::Arc;

use bytes::Bytes;
use redb::{ReadTransaction, ReadableTable};

use super::{
    Shared,
    disk::{failed, sound},
    folder::in_table,
    format::{LOG, Record, VALUES, decode_value},
    index::{Found, Index},
};
use crate::{Error, Event, KeyValue, Range, RangeResult, Revision};

impl Shared {
    /// Asks the index, and begins a read that has all that the index then has: revisions come into the database before
    /// they come into the index, and leave it after.
    fn consult<T>(
        &self,
        ask: impl FnOnce(&Index) -> Result<T, Error>,
    ) -> Result<(T, Revision, ReadTransaction), Error> {
        let index = self.index();
        let answer = ask(&index)?;
        let read = self.begin_read()?;
        Ok((answer, index.revision, read))
    }

    /// Reads a key.
    pub(crate) fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        let (found, revision, read) = self.consult(|index| Ok(index.latest(key)))?;
        let value = found.map(|found| Values::open(&read)?.key_value(found)).transpose()?;
        Ok((value, revision))
    }

    /// Reads a range.
    pub(crate) fn range(&self, range: &Range) -> Result<RangeResult, Error> {
        let start = range.start.as_deref().unwrap_or("");
        let ((found, remaining), revision, read) = self.consult(|index| {
            let at = range.at.unwrap_or(index.revision);
            index.check_readable(at)?;
            Ok(index.range(&range.prefix, start, range.limit, at))
        })?;
        Ok(RangeResult { items: Values::open(&read)?.key_values(found)?, remaining, revision })
    }
}

/// The stored values.
pub(crate) struct Values<T>(pub(crate) T);

type Table = redb::ReadOnlyTable<u64, &'static [u8]>;

impl Values<Table> {
    /// As a read has them.
    pub(crate) fn open(read: &ReadTransaction) -> Result<Self, Error> {
        Ok(Values(read.open_table(VALUES).map_err(failed)?))
    }
}

impl<T: ReadableTable<u64, &'static [u8]>> Values<T> {
    /// The value that the index found; [`Error::Corrupt`] if it is not there or damaged.
    pub(crate) fn key_value(&self, found: Found) -> Result<KeyValue, Error> {
        let Found { key, revision, create_revision } = found;
        match self.value(revision) {
            Ok(Some(value)) => Ok(KeyValue { key, value, create_revision, mod_revision: revision }),
            Ok(None) => Err(Error::Corrupt(format!("table values: {key} at revision {revision} is missing"))),
            Err(Error::Corrupt(message)) => Err(Error::Corrupt(format!("{message}, key {key}"))),
            Err(error) => Err(error),
        }
    }

    /// The values that the index found, in its order.
    pub(crate) fn key_values(&self, found: Vec<Found>) -> Result<Vec<KeyValue>, Error> {
        // Read in the order of revisions, which is the order on the disk: neighbours share pages.
        let mut order: Vec<usize> = (0..found.len()).collect();
        order.sort_unstable_by_key(|at| found[*at].revision);
        let mut items: Vec<Option<KeyValue>> = vec![None; found.len()];
        for at in order {
            items[at] = Some(self.key_value(found[at].clone())?);
        }
        Ok(items.into_iter().flatten().collect())
    }

    fn value(&self, revision: Revision) -> Result<Option<Bytes>, Error> {
        sound("table values", || {
            let value = self.0.get(revision).map_err(|error| in_table("values", error))?;
            value.map(|value| Ok(Bytes::copy_from_slice(decode_value(revision, value.value())?))).transpose()
        })
    }

    /// What a write replaced; `None` if nothing, or if compaction has dropped it.
    pub(crate) fn previous(
        &self,
        key: &Arc<str>,
        revision: Revision,
        create_revision: Revision,
    ) -> Result<Option<KeyValue>, Error> {
        if revision == 0 {
            return Ok(None);
        }
        let value = self.value(revision)?;
        Ok(value.map(|value| KeyValue { key: key.clone(), value, create_revision, mod_revision: revision }))
    }

    fn event(&self, revision: Revision, record: &Record<'_>, key: Arc<str>) -> Result<Event, Error> {
        let create_revision = record.create_revision;
        let mut value = None;
        if !record.delete {
            value = Some(self.key_value(Found { key: key.clone(), revision, create_revision })?.value);
        }
        let previous = self.previous(&key, record.previous, create_revision)?;
        Ok(Event { revision, key, value, previous, create_revision })
    }
}

/// The changes after a revision, read from the log.
pub(crate) struct Changes {
    pub(crate) events: Vec<Event>,
    /// The last revision looked at; `None` if there was none.
    pub(crate) last: Option<Revision>,
}

/// Reads the changes after `after` of keys with `prefix`, looking at up to `most` revisions.
pub(crate) fn changes(
    read: &ReadTransaction,
    prefix: &str,
    after: Revision,
    most: usize,
    shared_key: impl Fn(&str) -> Arc<str>,
) -> Result<Changes, Error> {
    let values = Values::open(read)?;
    let log = read.open_table(LOG).map_err(failed)?;
    let mut changes = Changes { events: Vec::new(), last: None };
    sound("table log", || {
        for entry in log.range(after + 1..).map_err(|error| in_table("log", error))?.take(most) {
            let (revision, bytes) = entry.map_err(|error| in_table("log", error))?;
            let revision = revision.value();
            let record = Record::decode(revision, bytes.value())?;
            if record.key.starts_with(prefix) {
                changes.events.push(values.event(revision, &record, shared_key(record.key))?);
            }
            changes.last = Some(revision);
        }
        Ok(())
    })?;
    Ok(changes)
}

/// The newest revision in the log; 0 if it is empty.
pub(crate) fn last(read: &ReadTransaction) -> Result<Revision, Error> {
    let log = read.open_table(LOG).map_err(failed)?;
    let last = log.last().map_err(|error| in_table("log", error))?;
    Ok(last.map_or(0, |(revision, _)| revision.value()))
}
