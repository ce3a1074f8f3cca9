//! Reads: the index says which revisions, the journal's entries in memory and the database have their values.

use std::sync::Arc;

use bytes::Bytes;
use redb::ReadTransaction;

use super::{
    Shared,
    disk::{failed, sound},
    folder::in_table,
    format::{LOG, Record, VALUES, decode_value},
    index::{Found, Index},
    pending::{Entry, Pending},
};
use crate::{Error, Event, KeyValue, Range, RangeResult, Revision};

/// All values, as they were at some moment.
pub(crate) struct View {
    pub(crate) pending: Pending,
    pub(crate) read: ReadTransaction,
}

impl View {
    /// What a database has that nobody writes to.
    pub(crate) fn of(read: ReadTransaction) -> View {
        View { pending: Pending::default(), read }
    }
}

impl Shared {
    /// All values as they are now. What leaves the entries in memory is in the database before, so they are looked at
    /// first.
    pub(crate) fn view(&self) -> Result<View, Error> {
        let pending = self.pending().clone();
        Ok(View { pending, read: self.begin_read()? })
    }

    /// Asks the index, and takes a view that has all that the index then has: revisions come into the view before they
    /// come into the index, and leave it after.
    pub(crate) fn consult<T>(
        &self,
        ask: impl FnOnce(&Index) -> Result<T, Error>,
    ) -> Result<(T, Revision, View), Error> {
        let index = self.index();
        let answer = ask(&index)?;
        let view = self.view()?;
        Ok((answer, index.revision, view))
    }

    /// Reads a key.
    pub(crate) fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        self.reading(|| {
            let (found, revision, view) = self.consult(|index| Ok(index.latest(key)))?;
            let value = found.map(|found| Values::open(&view)?.key_value(found)).transpose()?;
            Ok((value, revision))
        })
    }

    /// Reads a range.
    pub(crate) fn range(&self, range: &Range) -> Result<RangeResult, Error> {
        self.reading(|| self.range_once(range))
    }

    fn range_once(&self, range: &Range) -> Result<RangeResult, Error> {
        let start = range.start.as_deref().unwrap_or("");
        let ((found, remaining), revision, view) = self.consult(|index| {
            let at = range.at.unwrap_or(index.revision);
            index.check_readable(at)?;
            Ok(index.range(&range.prefix, start, range.limit, at))
        })?;
        Ok(RangeResult { items: Values::open(&view)?.key_values(found)?, remaining, revision })
    }
}

/// The values of a view.
pub(crate) struct Values {
    pending: Pending,
    table: redb::ReadOnlyTable<u64, &'static [u8]>,
}

impl Values {
    pub(crate) fn open(view: &View) -> Result<Self, Error> {
        Ok(Values { pending: view.pending.clone(), table: view.read.open_table(VALUES).map_err(failed)? })
    }

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

    pub(crate) fn value(&self, revision: Revision) -> Result<Option<Bytes>, Error> {
        if let Some(entry) = self.pending.get(revision) {
            return Ok(entry.value.as_ref().map(|(value, _)| value.clone()));
        }
        sound("table values", || {
            let value = self.table.get(revision).map_err(|error| in_table("values", error))?;
            value.map(|value| Ok(Bytes::copy_from_slice(decode_value(revision, value.value())?))).transpose()
        })
    }

    fn event(&self, revision: Revision, record: &Record<'_>, key: Arc<str>) -> Result<Event, Error> {
        let create_revision = record.create_revision;
        let mut value = None;
        if !record.delete {
            value = Some(self.key_value(Found { key: key.clone(), revision, create_revision })?.value);
        }
        let previous = match record.previous {
            0 => None,
            previous => self.value(previous)?.map(|value| replaced(&key, value, record)),
        };
        Ok(Event { revision, key, value, previous, create_revision })
    }
}

/// What a record's write replaced.
fn replaced(key: &Arc<str>, value: Bytes, record: &Record<'_>) -> KeyValue {
    let (create_revision, mod_revision) = (record.create_revision, record.previous);
    KeyValue { key: key.clone(), value, create_revision, mod_revision }
}

/// What the writer's entries replace. The database is asked only if memory does not know.
pub(crate) struct Past<'a> {
    shared: &'a Shared,
    values: Option<Values>,
}

impl<'a> Past<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Past<'a> {
        Past { shared, values: None }
    }

    /// Reads from the database as it was when it was first asked, if that is still open.
    pub(crate) fn read<T>(&mut self, read: impl Fn(&Values) -> Result<T, Error>) -> Result<T, Error> {
        self.shared.reading(|| {
            let values = match self.values.take() {
                Some(values) => values,
                None => Values::open(&self.shared.view()?)?,
            };
            let done = read(&values)?;
            self.values = Some(values);
            Ok(done)
        })
    }

    /// What an entry replaces; `None` if nothing, or if compaction has dropped it.
    pub(crate) fn previous(&mut self, entry: &Entry) -> Result<Option<KeyValue>, Error> {
        if entry.previous == 0 {
            return Ok(None);
        }
        let known = self.shared.pending().get(entry.previous).and_then(|entry| entry.value.clone());
        let value = match known {
            Some((value, _)) => Some(value),
            None => self.read(|values| values.value(entry.previous))?,
        };
        Ok(value.map(|value| replaced(&entry.key, value, &entry.record())))
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
    view: &View,
    prefix: &str,
    after: Revision,
    most: usize,
    shared_key: impl Fn(&str) -> Arc<str>,
) -> Result<Changes, Error> {
    let values = Values::open(view)?;
    let log = view.read.open_table(LOG).map_err(failed)?;
    let (mut changes, mut seen) = (Changes { events: Vec::new(), last: None }, 0);
    sound("table log", || {
        for entry in log.range(after + 1..).map_err(|error| in_table("log", error))?.take(most) {
            let (revision, bytes) = entry.map_err(|error| in_table("log", error))?;
            let revision = revision.value();
            let record = Record::decode(revision, bytes.value())?;
            if record.key.starts_with(prefix) {
                changes.events.push(values.event(revision, &record, shared_key(record.key))?);
            }
            (changes.last, seen) = (Some(revision), seen + 1);
        }
        Ok(())
    })?;
    for (revision, entry) in view.pending.after(changes.last.unwrap_or(after)).take(most - seen) {
        if entry.key.starts_with(prefix) {
            changes.events.push(values.event(revision, &entry.record(), entry.key.clone())?);
        }
        changes.last = Some(revision);
    }
    Ok(changes)
}
