//! What the journal holds and the database does not yet have, in memory.

use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use super::format::{Lifetime, Record};
use crate::Revision;

/// What one revision did.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Arc<str>,
    /// The value and its checksum; `None`: a delete.
    pub(crate) value: Option<(Bytes, u32)>,
    pub(crate) create_revision: Revision,
    /// The revision that it replaces, 0 if none.
    pub(crate) previous: Revision,
    /// The store's clock when it was written, in ms; 0: not known.
    pub(crate) written: u64,
    pub(crate) lifetime: Option<Lifetime>,
}

/// Entries by revision.
pub(crate) type Entries = OrdMap<Revision, Entry>;

/// All entries that the database does not yet have. A clone costs nothing and stays as it is.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    /// On their way into the database.
    settling: Entries,
    /// Later ones.
    fresh: Entries,
    /// Bytes that each of the two takes in the database's tables.
    bytes: [u64; 2],
}

impl Entry {
    /// The record in the log.
    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            key: &self.key,
            delete: self.value.is_none(),
            create_revision: self.create_revision,
            previous: self.previous,
            value_len: self.value.as_ref().map_or(0, |(value, _)| value.len() as u32),
            written: self.written,
            lifetime: self.lifetime,
        }
    }
}

impl Pending {
    pub(crate) fn insert(&mut self, revision: Revision, entry: Entry) {
        self.bytes[1] += entry.record().stored();
        self.fresh.insert(revision, entry);
    }

    pub(crate) fn get(&self, revision: Revision) -> Option<&Entry> {
        self.fresh.get(&revision).or_else(|| self.settling.get(&revision))
    }

    /// Bytes that the entries will take in the database's tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The entries after a revision, in order.
    pub(crate) fn after(&self, revision: Revision) -> impl Iterator<Item = (Revision, &Entry)> {
        let settling = self.settling.range(revision + 1..);
        settling.chain(self.fresh.range(revision + 1..)).map(|(revision, entry)| (*revision, entry))
    }

    /// The entries that are to go into the database next: those that failed to, or else all.
    pub(crate) fn settle(&mut self) -> Entries {
        if self.settling.is_empty() {
            self.settling = std::mem::take(&mut self.fresh);
            self.bytes = [self.bytes[1], 0];
        }
        self.settling.clone()
    }

    /// The database has what was on its way. Returns it, to be freed where nobody waits.
    pub(crate) fn settled(&mut self) -> Entries {
        self.bytes[0] = 0;
        std::mem::take(&mut self.settling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str) -> Entry {
        Entry { key: key.into(), value: None, create_revision: 0, previous: 0, written: 0, lifetime: None }
    }

    #[test]
    fn entries_stay_visible_until_the_database_has_them() {
        let mut pending = Pending::default();
        pending.insert(2, entry("a"));
        pending.insert(3, entry("b"));
        assert_eq!(pending.settle().len(), 2);
        pending.insert(4, entry("c"));
        let revisions = |pending: &Pending, after| pending.after(after).map(|(at, _)| at).collect::<Vec<_>>();
        assert_eq!(revisions(&pending, 2), [3, 4]);
        assert_eq!(pending.settle().len(), 2, "what failed is tried again, alone");
        let seen = pending.clone();
        assert_eq!(pending.settled().len(), 2);
        assert_eq!((revisions(&pending, 0), revisions(&seen, 0)), (vec![4], vec![2, 3, 4]));
        assert!(pending.get(3).is_none() && seen.get(3).is_some());
        pending.settle();
        pending.settled();
        assert_eq!((pending.bytes(), revisions(&pending, 0)), (0, vec![]));
    }
}
