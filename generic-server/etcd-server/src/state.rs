//! The index in memory: the versions of every key, at every revision that can still be read.
//!
//! A [`State`] is a value. A clone costs nothing and stays as it is, so readers keep one while writes go on, and writes that
//! could not be made durable are undone by forgetting the clone that they were made in.

use bytes::Bytes;
use imbl::{OrdMap, Vector};

use crate::{error::Refusal, key::KeyRange, record::Version};

/// The versions of a key, as far as compaction has left them.
#[derive(Clone, Debug)]
struct Versions {
    last: Version,
    /// Those before, oldest first.
    older: Vector<Version>,
}

impl Versions {
    fn at(&self, revision: i64) -> Option<&Version> {
        if self.last.revision <= revision {
            return Some(&self.last);
        }
        self.older_upto(revision).checked_sub(1).and_then(|at| self.older.get(at))
    }

    /// How many of the older ones are of a revision or before it. (One revision may delete a key and write it again.)
    fn older_upto(&self, revision: i64) -> usize {
        use std::cmp::Ordering::{Greater, Less};
        let found = self.older.binary_search_by(|version| if version.revision <= revision { Less } else { Greater });
        found.unwrap_or_else(|later| later)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct State {
    keys: OrdMap<Bytes, Versions>,
    /// The store's own revisions of the first and the last write of each revision.
    positions: OrdMap<i64, (u64, u64)>,
    /// The newest revision.
    pub(crate) revision: i64,
    /// The revision that it was compacted to: older ones cannot be read. -1: never.
    pub(crate) compacted: i64,
    /// The store's own newest revision.
    pub(crate) position: u64,
}

impl State {
    /// Without a key, at the revision of a new etcd.
    pub(crate) fn new(position: u64) -> State {
        State { keys: OrdMap::new(), positions: OrdMap::new(), revision: 1, compacted: -1, position }
    }

    /// The revision at which a request reads: its own, or the newest. It must be one that can be read.
    pub(crate) fn readable(&self, asked: i64) -> Result<i64, Refusal> {
        let revision = if asked <= 0 { self.revision } else { asked };
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        if revision < self.compacted {
            return Err(Refusal::Compacted);
        }
        Ok(revision)
    }

    /// A key as it is now, if it is there.
    pub(crate) fn latest(&self, key: &[u8]) -> Option<Version> {
        self.keys.get(key).map(|versions| versions.last).filter(Version::exists)
    }

    /// A key as it was at a revision, if it was there.
    pub(crate) fn at(&self, key: &[u8], revision: i64) -> Option<Version> {
        self.keys.get(key)?.at(revision).copied().filter(Version::exists)
    }

    /// The keys of a range that are there at a revision, in order.
    pub(crate) fn range(&self, range: &KeyRange, revision: i64) -> impl Iterator<Item = (&Bytes, &Version)> {
        let found = range.bounds().map(|bounds| self.keys.range(bounds));
        found.into_iter().flatten().filter_map(move |(key, versions)| {
            versions.at(revision).filter(|version| version.exists()).map(|version| (key, version))
        })
    }

    /// All versions of all keys that can be read up to a revision, by key and then by revision.
    pub(crate) fn history(&self, upto: i64) -> impl Iterator<Item = (&Bytes, &Version)> {
        self.keys.iter().flat_map(move |(key, versions)| {
            let all = versions.older.iter().chain([&versions.last]);
            all.filter(move |version| version.revision <= upto).map(move |version| (key, version))
        })
    }

    /// How many keys are there (those deleted and not yet compacted among them).
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Takes in a write. Returns what it replaces, if the key was there.
    pub(crate) fn write(&mut self, key: &Bytes, version: Version) -> Option<Version> {
        self.revision = version.revision;
        self.position = self.position.max(version.position);
        let first = self.positions.get(&version.revision).map_or(version.position, |(first, _)| *first);
        self.positions.insert(version.revision, (first, version.position));
        match self.keys.get_mut(key) {
            Some(versions) => {
                let before = std::mem::replace(&mut versions.last, version);
                versions.older.push_back(before);
                Some(before).filter(Version::exists)
            }
            None => {
                self.keys.insert(key.clone(), Versions { last: version, older: Vector::new() });
                None
            }
        }
    }

    /// The store's own revision of the first write at a revision or after it.
    pub(crate) fn position_of(&self, revision: i64) -> Option<u64> {
        self.positions.range(revision..).next().map(|(_, (first, _))| *first)
    }

    /// The store's own revision to compact to, when this one is: what its writes have replaced goes, and they stay.
    pub(crate) fn compaction_position(&self, revision: i64) -> u64 {
        match self.positions.range(revision..).next() {
            Some((found, (_, last))) if *found == revision => *last,
            Some((_, (first, _))) => first - 1,
            None => self.position,
        }
    }

    /// Forgets what cannot be read once all before `revision` is forgotten, of the keys that were superseded.
    pub(crate) fn compact(&mut self, revision: i64, superseded: impl IntoIterator<Item = Bytes>) {
        self.compacted = revision;
        while let Some(oldest) = self.positions.get_min().map(|(at, _)| *at).filter(|at| *at < revision) {
            self.positions.remove(&oldest);
        }
        for key in superseded {
            let Some(versions) = self.keys.get_mut(&key) else { continue };
            if versions.last.revision <= revision {
                if versions.last.exists() {
                    versions.older = Vector::new();
                } else {
                    self.keys.remove(&key);
                }
                continue;
            }
            // The newest at or before the revision can still be read there, unless it says that there is nothing.
            let upto = versions.older_upto(revision);
            let Some(newest) = upto.checked_sub(1) else { continue };
            let kept = if versions.older.get(newest).is_some_and(Version::exists) { newest } else { upto };
            versions.older = versions.older.split_off(kept);
        }
    }

    /// The keys that have more than one version or are deleted: what a compaction looks at after a start.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = (i64, Bytes)> {
        self.keys.iter().flat_map(|(key, versions)| {
            let replaced =
                versions.older.iter().skip(1).chain(Some(&versions.last).filter(|_| !versions.older.is_empty()));
            let deleted = Some(versions.last.revision).filter(|_| !versions.last.exists());
            replaced.map(|version| version.revision).chain(deleted).map(|revision| (revision, key.clone()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(state: &mut State, key: &'static str, exists: bool) {
        let before = state.latest(key.as_bytes());
        let revision = state.revision + 1;
        let version = match (before, exists) {
            (Some(before), true) => Version { revision, version: before.version + 1, ..before },
            (None, true) => Version { revision, create_revision: revision, version: 1, ..Version::default() },
            (_, false) => Version { revision, ..Version::default() },
        };
        let version = Version { position: state.position + 2, ..version };
        assert_eq!(state.write(&Bytes::from(key), version), before);
    }

    fn at(state: &State, revision: i64) -> Vec<(String, i64, i64, i64)> {
        let all = KeyRange::From(Bytes::from_static(b"\0"));
        let told = |(key, version): (&Bytes, &Version)| {
            let key = String::from_utf8_lossy(key).into_owned();
            (key, version.create_revision, version.revision, version.version)
        };
        state.range(&all, revision).map(told).collect()
    }

    fn told(found: &[(&str, i64, i64, i64)]) -> Vec<(String, i64, i64, i64)> {
        found.iter().map(|(key, create, revision, version)| ((*key).to_owned(), *create, *revision, *version)).collect()
    }

    #[test]
    fn every_revision_is_as_it_was_until_it_is_compacted() {
        let mut state = State::new(1);
        write(&mut state, "a", true); // 2
        write(&mut state, "b", true); // 3
        write(&mut state, "a", true); // 4
        let kept = state.clone();
        write(&mut state, "b", false); // 5
        write(&mut state, "b", true); // 6
        write(&mut state, "a", false); // 7
        let check = |state: &State| {
            assert_eq!(at(state, 4), told(&[("a", 2, 4, 2), ("b", 3, 3, 1)]));
            assert_eq!(at(state, 5), told(&[("a", 2, 4, 2)]));
            assert_eq!(at(state, 6), told(&[("a", 2, 4, 2), ("b", 6, 6, 1)]));
            assert_eq!(at(state, 7), told(&[("b", 6, 6, 1)]));
        };
        assert_eq!(at(&state, 1), []);
        assert_eq!(at(&state, 3), told(&[("a", 2, 2, 1), ("b", 3, 3, 1)]));
        check(&state);
        assert_eq!((state.position_of(5), state.compaction_position(5), state.compaction_position(1)), (Some(9), 9, 2));
        let superseded: Vec<_> = state.superseded().collect();
        let keys: Vec<_> = superseded.iter().map(|(revision, key)| (*revision, &key[..])).collect();
        assert_eq!(keys, [(4, &b"a"[..]), (7, b"a"), (7, b"a"), (5, b"b"), (6, b"b")]);
        let mut compact = |revision| {
            let keys: Vec<_> = state.superseded().filter(|(at, _)| *at <= revision).map(|(_, key)| key).collect();
            state.compact(revision, keys);
        };
        compact(4);
        check(&state);
        assert_eq!(state.readable(3), Err(Refusal::Compacted));
        assert_eq!(state.readable(4), Ok(4));
        assert_eq!(state.readable(0), Ok(7));
        assert_eq!(state.readable(8), Err(Refusal::FutureRevision));
        assert_eq!((state.position_of(1), state.position_of(4)), (Some(7), Some(7)));
        let keys: Vec<_> = state.superseded().filter(|(at, _)| *at <= 7).map(|(_, key)| key).collect();
        state.compact(7, keys);
        assert_eq!(at(&state, 7), told(&[("b", 6, 6, 1)]));
        assert_eq!((state.len(), state.history(7).count()), (1, 1));
        assert_eq!(at(&kept, 3), told(&[("a", 2, 2, 1), ("b", 3, 3, 1)]), "a clone stays as it was");
    }
}
