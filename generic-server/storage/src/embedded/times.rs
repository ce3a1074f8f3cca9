//! Moments and revisions: which state the store had at a time, and what differs between two states.
//!
//! Each record says when it was written. Clocks only rise ([`super::clock`]), so times rise with revisions, and since every
//! record from the oldest readable revision on is there, the state at a time is found by halving the log. Nothing of this
//! is in memory.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{
    Embedded, Shared, blocking,
    disk::{failed, sound},
    folder::in_table,
    format::{LOG, Record},
    read::View,
};
use crate::{Error, Revision};

/// A key that differs between two revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key.
    pub key: Arc<str>,
    /// The revision that last wrote it up to the later of the two.
    pub revision: Revision,
    /// When that was; `None`: not known.
    pub written: Option<SystemTime>,
    /// The revision of its value in the earlier state, if it had one.
    pub before: Option<Revision>,
    /// The same in the later one.
    pub after: Option<Revision>,
}

/// A part of what differs.
#[derive(Debug, Default)]
pub struct Differences {
    /// In the order of their last writes.
    pub keys: Vec<Difference>,
    /// Where to go on; `None`: there is nothing more.
    pub next: Option<Revision>,
}

fn time_of(written: u64) -> Option<SystemTime> {
    (written != 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(written))
}

/// The records of a view, by revision: those in the database, and then those in memory.
struct Records<'a> {
    view: &'a View,
    log: redb::ReadOnlyTable<u64, &'static [u8]>,
}

impl<'a> Records<'a> {
    fn open(view: &'a View) -> Result<Records<'a>, Error> {
        Ok(Records { view, log: view.read.open_table(LOG).map_err(failed)? })
    }

    /// Calls `each` with the records from a revision on, until that says that it is enough.
    fn each(&self, from: Revision, mut each: impl FnMut(Revision, &Record<'_>) -> bool) -> Result<(), Error> {
        let mut next = from;
        let enough = sound("table log", || {
            for entry in self.log.range(from..).map_err(|error| in_table("log", error))? {
                let (revision, bytes) = entry.map_err(|error| in_table("log", error))?;
                next = revision.value() + 1;
                if !each(revision.value(), &Record::decode(revision.value(), bytes.value())?) {
                    return Ok(true);
                }
            }
            Ok(false)
        })?;
        if !enough {
            for (revision, entry) in self.view.pending.after(next.saturating_sub(1)) {
                if !each(revision, &entry.record()) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The first record from a revision on, and when it was written.
    fn first(&self, from: Revision) -> Result<Option<(Revision, u64)>, Error> {
        let mut found = None;
        self.each(from, |revision, record| {
            found = Some((revision, record.written));
            false
        })?;
        Ok(found)
    }
}

impl Shared {
    /// The revision of the state at a time (ms of the store's clock). Fails with [`Error::Compacted`] if that state is not
    /// kept, or it is not known that it is.
    pub(crate) fn revision_at(&self, time: u64) -> Result<Revision, Error> {
        self.reading(|| {
            let ((oldest, newest), _, view) = self.consult(|index| Ok((index.oldest, index.revision)))?;
            let records = Records::open(&view)?;
            // All records before `low` were written by then, those from `high` on later.
            let (mut low, mut high, mut last) = (oldest, newest + 1, None);
            while low < high {
                let middle = low + (high - low) / 2;
                match records.first(middle)?.filter(|(revision, written)| *revision <= newest && *written <= time) {
                    Some((revision, written)) => (low, last) = (revision + 1, Some(written)),
                    None => high = middle,
                }
            }
            match last {
                Some(written) if written != 0 => Ok(low - 1),
                _ => Err(Error::Compacted { oldest }),
            }
        })
    }

    fn differences(&self, prefix: &str, from: Revision, next: Revision, to: Revision) -> Result<Differences, Error> {
        self.reading(|| {
            let ((), _, view) = self.consult(|index| {
                index.check_readable(from)?;
                index.check_readable(to)
            })?;
            let (mut found, mut seen) = (Differences::default(), 0);
            Records::open(&view)?.each(next.max(from + 1), |revision, record| {
                if revision > to {
                    return false;
                }
                if seen == MOST {
                    found.next = Some(revision);
                    return false;
                }
                seen += 1;
                found.keys.extend(self.difference(prefix, (from, to), revision, record));
                true
            })?;
            // What compaction has dropped meanwhile may have been asked for.
            self.index().check_readable(from)?;
            Ok(found)
        })
    }

    /// What a record means between two revisions, if it is the last one of its key.
    fn difference(
        &self,
        prefix: &str,
        (from, to): (Revision, Revision),
        revision: Revision,
        record: &Record<'_>,
    ) -> Option<Difference> {
        if !record.key.starts_with(prefix) {
            return None;
        }
        let index = self.index();
        if index.last_write(record.key, to) != Some(revision) {
            return None;
        }
        let before = index.at(record.key, from).map(|found| found.revision);
        let key = index.key(record.key)?;
        drop(index);
        let after = (!record.delete).then_some(revision);
        // What has come and gone differs in nothing.
        (before.is_some() || after.is_some()).then(|| Difference {
            key,
            revision,
            written: time_of(record.written),
            before,
            after,
        })
    }
}

/// The most records looked at at once.
const MOST: usize = 500;

impl Embedded {
    /// The keys with `prefix` that differ between the states at two revisions, from the write at revision `next` on: some of
    /// them, and where to go on.
    ///
    /// Fails with [`Error::Compacted`] if the earlier state is not kept, or is no more, and [`Error::FutureRevision`].
    pub async fn differences(
        &self,
        prefix: String,
        (from, to): (Revision, Revision),
        next: Revision,
    ) -> Result<Differences, Error> {
        let shared = self.shared.clone();
        blocking(move || {
            shared.open()?;
            shared.differences(&prefix, from, next, to)
        })
        .await
    }
}
