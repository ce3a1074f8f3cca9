//! The index in memory: which revisions each key has, what compaction may drop, and what expires when.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use super::format::Record;
use crate::{Error, Revision};

/// Where a key's value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) key: Arc<str>,
    pub(crate) revision: Revision,
    pub(crate) create_revision: Revision,
}

/// One version of a key. Deleted: `create_revision` is 0.
#[derive(Clone, Copy, Debug)]
struct Version {
    revision: Revision,
    create_revision: Revision,
}

impl Version {
    fn exists(&self) -> bool {
        self.create_revision != 0
    }
}

struct Versions {
    last: Version,
    /// The versions before, oldest first, as far as compaction has not dropped them.
    older: Vec<Version>,
}

/// A record that nobody can ask for once the store is compacted to `due` or beyond.
struct Garbage {
    due: Revision,
    revision: Revision,
    key: Arc<str>,
}

/// See the module.
pub(crate) struct Index {
    keys: BTreeMap<Arc<str>, Versions>,
    /// In rising order of `due`, since successors come in the order of revisions.
    garbage: VecDeque<Garbage>,
    deadlines: BinaryHeap<Reverse<(u64, Revision, Arc<str>)>>,
    /// The newest revision.
    pub(crate) revision: Revision,
    /// The oldest revision that can be read.
    pub(crate) oldest: Revision,
    /// Bytes of all records and values that the store holds.
    pub(crate) stored: u64,
}

impl Index {
    pub(crate) fn new(revision: Revision, oldest: Revision) -> Index {
        Index {
            keys: BTreeMap::new(),
            garbage: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            revision,
            oldest,
            stored: 0,
        }
    }

    /// Takes in the next revision. `key` is the record's key, shared with whoever has it already.
    pub(crate) fn apply(&mut self, revision: Revision, record: &Record<'_>, key: Arc<str>) {
        self.revision = revision;
        self.stored += record.stored();
        let last = Version { revision, create_revision: if record.delete { 0 } else { record.create_revision } };
        if let Some(lifetime) = record.lifetime {
            self.deadlines.push(Reverse((lifetime.deadline(), revision, key.clone())));
        }
        match self.keys.get_mut(&*key) {
            Some(versions) => {
                let before = std::mem::replace(&mut versions.last, last);
                versions.older.push(before);
                self.garbage.push_back(Garbage { due: revision, revision: before.revision, key: key.clone() });
            }
            None => {
                self.keys.insert(key.clone(), Versions { last, older: Vec::new() });
            }
        }
        if record.delete {
            // A delete is itself of no use once its revision cannot be watched any more.
            self.garbage.push_back(Garbage { due: revision + 1, revision, key });
        }
    }

    /// The key as it is now.
    pub(crate) fn latest(&self, key: &str) -> Option<Found> {
        let (key, versions) = self.keys.get_key_value(key)?;
        versions.last.exists().then(|| versions.last.found(key))
    }

    /// The shared form of a key that the index knows.
    pub(crate) fn key(&self, key: &str) -> Option<Arc<str>> {
        self.keys.get_key_value(key).map(|(key, _)| key.clone())
    }

    /// The keys with `prefix`, from `start` on, as they were at `at`; with a limit other than 0 at most so many, and how
    /// many more there are.
    pub(crate) fn range(&self, prefix: &str, start: &str, limit: usize, at: Revision) -> (Vec<Found>, usize) {
        let (mut found, mut remaining) = (Vec::new(), 0);
        let from = if start > prefix { start } else { prefix };
        for (key, versions) in self.keys.range::<str, _>((Bound::Included(from), Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            let Some(version) = versions.at(at).filter(Version::exists) else { continue };
            if limit == 0 || found.len() < limit {
                found.push(version.found(key));
            } else {
                remaining += 1;
            }
        }
        (found, remaining)
    }

    /// The key as it was at a revision.
    pub(crate) fn at(&self, key: &str, at: Revision) -> Option<Found> {
        let (key, versions) = self.keys.get_key_value(key)?;
        versions.at(at).filter(Version::exists).map(|version| version.found(key))
    }

    /// The revision that last wrote or deleted a key, up to this one.
    pub(crate) fn last_write(&self, key: &str, at: Revision) -> Option<Revision> {
        self.keys.get(key)?.at(at).map(|version| version.revision)
    }

    /// All keys as they are now.
    pub(crate) fn all(&self) -> Vec<Found> {
        self.range("", "", 0, self.revision).0
    }

    /// How many keys with `prefix` there are.
    pub(crate) fn count(&self, prefix: &str) -> usize {
        self.keys
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(_, versions)| versions.last.exists())
            .count()
    }

    /// Whether a revision can be read: [`Error::FutureRevision`] or [`Error::Compacted`] if not.
    pub(crate) fn check_readable(&self, at: Revision) -> Result<(), Error> {
        if at > self.revision {
            return Err(Error::FutureRevision { asked: at, current: self.revision });
        }
        if at < self.oldest {
            return Err(Error::Compacted { oldest: self.oldest });
        }
        Ok(())
    }

    /// Whether anything is there to drop.
    pub(crate) fn has_garbage(&self) -> bool {
        self.garbage.front().is_some_and(|garbage| garbage.due <= self.oldest)
    }

    /// Forgets up to `most` records that nobody can ask for any more and that a revision up to `upto` made useless, and
    /// names their revisions, to be dropped on disk (some may be named twice).
    pub(crate) fn drop_garbage(&mut self, most: usize, upto: Revision) -> Vec<Revision> {
        let (mut dropped, last) = (Vec::new(), self.oldest.min(upto));
        while dropped.len() < most {
            let Some(garbage) = self.garbage.pop_front_if(|garbage| garbage.due <= last) else { break };
            if let Some(versions) = self.keys.get_mut(&*garbage.key) {
                if versions.last.revision == garbage.revision {
                    self.keys.remove(&*garbage.key);
                } else if versions.older.first().is_some_and(|oldest| oldest.revision <= garbage.revision) {
                    // All that this compaction drops of the key at once: a hot key has many.
                    let keep = versions.older.partition_point(|version| version.revision <= garbage.revision);
                    versions.older.drain(..keep);
                    let (kept, room) = (versions.older.len(), versions.older.capacity());
                    if is_roomy(kept, room) {
                        versions.older.shrink_to(2 * kept);
                    }
                }
            }
            dropped.push(garbage.revision);
        }
        if is_roomy(self.garbage.len(), self.garbage.capacity()) {
            self.garbage.shrink_to(2 * self.garbage.len());
        }
        dropped
    }

    /// When, by the store's clock, the next key expires.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((deadline, _, _))| *deadline)
    }

    /// Takes up to `most` keys that have expired by `now`.
    pub(crate) fn take_expired(&mut self, now: u64, most: usize) -> Vec<Found> {
        let mut expired = Vec::new();
        while expired.len() < most {
            let Some(Reverse((deadline, ..))) = self.deadlines.peek() else { break };
            if *deadline > now {
                break;
            }
            let Some(Reverse((_, revision, key))) = self.deadlines.pop() else { break };
            // A later write has set the deadline anew, or lifted it.
            if let Some(found) = self.latest(&key).filter(|found| found.revision == revision) {
                expired.push(found);
            }
        }
        if is_roomy(self.deadlines.len(), self.deadlines.capacity()) {
            self.deadlines.shrink_to(2 * self.deadlines.len());
        }
        expired
    }

    /// Puts keys back that were taken and could not be deleted, to be tried again at `at`.
    pub(crate) fn put_back(&mut self, expired: Vec<Found>, at: u64) {
        self.deadlines.extend(expired.into_iter().map(|found| Reverse((at, found.revision, found.key))));
    }
}

/// Whether so much more room than is used should be given back: what a storm of writes took is not kept for ever.
fn is_roomy(used: usize, room: usize) -> bool {
    room > 64 && room / 4 > used
}

impl Versions {
    fn at(&self, at: Revision) -> Option<Version> {
        if self.last.revision <= at {
            return Some(self.last);
        }
        self.older.iter().rev().find(|version| version.revision <= at).copied()
    }
}

impl Version {
    fn found(&self, key: &Arc<str>) -> Found {
        Found { key: key.clone(), revision: self.revision, create_revision: self.create_revision }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::format::Lifetime;

    fn apply(index: &mut Index, key: &str, delete: bool, ttl: Option<u64>) {
        let create_revision = index.latest(key).map_or(index.revision + 1, |found| found.create_revision);
        let lifetime = ttl.map(|ttl| Lifetime { written: 0, ttl });
        let previous = index.latest(key).map_or(0, |found| found.revision);
        let record = Record { key, delete, create_revision, previous, value_len: 1, written: 0, lifetime };
        index.apply(index.revision + 1, &record, key.into());
    }

    fn keys(found: &[Found]) -> Vec<(&str, Revision)> {
        found.iter().map(|found| (&*found.key, found.revision)).collect()
    }

    #[test]
    fn compaction_drops_exactly_what_no_readable_revision_shows() {
        let mut index = Index::new(1, 1);
        apply(&mut index, "a", false, None); // 2
        apply(&mut index, "b", false, None); // 3
        apply(&mut index, "a", false, None); // 4
        apply(&mut index, "b", true, None); // 5
        apply(&mut index, "b", false, None); // 6
        apply(&mut index, "a", true, None); // 7
        assert_eq!(keys(&index.range("", "", 0, 3).0), [("a", 2), ("b", 3)]);
        index.oldest = 5;
        assert_eq!(index.drop_garbage(100, 100), [2, 3]);
        assert_eq!(keys(&index.range("", "", 0, 5).0), [("a", 4)]);
        index.oldest = 7;
        assert_eq!(index.drop_garbage(100, 100), [5, 5, 4]);
        assert_eq!(keys(&index.range("", "", 0, 7).0), [("b", 6)]);
        index.oldest = 8;
        assert_eq!(index.drop_garbage(100, 100), [7]);
        assert_eq!(index.key("a"), None);
        assert_eq!(index.count(""), 1);
        assert!(!index.has_garbage());
    }

    #[test]
    fn what_a_storm_of_writes_took_is_given_back() {
        let mut index = Index::new(1, 1);
        for _ in 0..10_000 {
            apply(&mut index, "a", false, Some(10));
        }
        index.oldest = index.revision;
        while !index.drop_garbage(256, u64::MAX).is_empty() {}
        while index.next_deadline().is_some() {
            index.take_expired(20, 128);
        }
        let rooms = [index.garbage.capacity(), index.keys["a"].older.capacity(), index.deadlines.capacity()];
        assert!(rooms.iter().all(|room| *room <= 64), "{rooms:?}");
    }

    #[test]
    fn a_key_expires_by_its_last_write() {
        let mut index = Index::new(1, 1);
        apply(&mut index, "a", false, Some(10));
        apply(&mut index, "b", false, Some(10));
        apply(&mut index, "b", false, Some(30));
        apply(&mut index, "c", false, Some(10));
        apply(&mut index, "c", false, None);
        assert_eq!(index.next_deadline(), Some(10));
        assert_eq!(keys(&index.take_expired(20, 100)), [("a", 2)]);
        assert_eq!(index.next_deadline(), Some(30));
        assert_eq!(keys(&index.take_expired(30, 100)), [("b", 4)]);
        assert_eq!(index.next_deadline(), None);
    }
}
