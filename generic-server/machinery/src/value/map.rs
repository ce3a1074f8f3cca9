//! `Map`: the members of an object, sorted by key, shared until written.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Str, Value};

/// In so few members a key is found sooner one by one than by halves.
const FEW: usize = 16;

/// The order of two keys. Their first bytes settle it most of the time, without a call.
#[inline]
pub(crate) fn order(a: &str, b: &str) -> Ordering {
    a.as_bytes().first().cmp(&b.as_bytes().first()).then_with(|| a.cmp(b))
}

/// An object's members, sorted by key. A lookup is a binary search; cloning shares.
///
/// One insertion costs O(n): whoever builds or merges many members uses [`Map::from_entries`] or [`Map::extend`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map(Arc<Vec<(Str, Value)>>);

impl Map {
    /// The empty map; allocates nothing worth counting.
    pub fn new() -> Self {
        Self::default()
    }

    /// From entries in any order. Of entries with one key the last wins, as in Go's decoder.
    pub fn from_entries(mut entries: Vec<(Str, Value)>) -> Self {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.sort_by(|a, b| a.0.cmp(&b.0)); // stable: of equal keys the last written stays last
            let mut kept: Vec<(Str, Value)> = Vec::with_capacity(entries.len());
            for entry in entries {
                match kept.last_mut() {
                    Some(last) if last.0 == entry.0 => *last = entry,
                    _ => kept.push(entry),
                }
            }
            entries = kept;
        }
        Map(Arc::new(entries))
    }

    /// From entries that are sorted by key, each key once.
    pub fn from_sorted(entries: Vec<(Str, Value)>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0), "sorted by key");
        Map(Arc::new(entries))
    }

    /// Where the member is, or where it would be.
    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| order(k, key))
    }

    /// Where the member is. Most maps are small, and most keys are told apart by their lengths.
    fn position(&self, key: &str) -> Option<usize> {
        if self.0.len() <= FEW { self.0.iter().position(|(k, _)| k.as_str() == key) } else { self.find(key).ok() }
    }

    /// The member `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|i| &self.0[i].1)
    }

    /// The member `key` for writing. A miss does not unshare the map.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let i = self.position(key)?;
        Some(&mut Arc::make_mut(&mut self.0)[i].1)
    }

    /// Whether there is a member `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// The member `key` for writing, made as `null` if absent.
    pub fn entry(&mut self, key: &str) -> &mut Value {
        let entries = Arc::make_mut(&mut self.0);
        let i = match entries.binary_search_by(|(k, _)| order(k, key)) {
            Ok(i) => i,
            Err(i) => {
                entries.insert(i, (Str::from(key), Value::Null));
                i
            }
        };
        &mut entries[i].1
    }

    /// Sets a member and returns what it was.
    pub fn insert(&mut self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.find(&key) {
            Ok(i) => Some(std::mem::replace(&mut Arc::make_mut(&mut self.0)[i].1, value)),
            Err(i) => {
                Arc::make_mut(&mut self.0).insert(i, (key, value));
                None
            }
        }
    }

    /// Removes a member. A miss does not unshare the map.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let i = self.position(key)?;
        Some(Arc::make_mut(&mut self.0).remove(i).1)
    }

    /// Keeps the members for which `keep` holds. Nothing is copied when all stay.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        if self.0.iter().any(|(k, v)| !keep(k, v)) {
            Arc::make_mut(&mut self.0).retain(|(k, v)| keep(k, v));
        }
    }

    /// Sets many members in O(n log n).
    pub fn extend(&mut self, more: impl IntoIterator<Item = (Str, Value)>) {
        let mut entries = std::mem::take(Arc::make_mut(&mut self.0));
        entries.extend(more);
        *self = Map::from_entries(entries);
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The members, by key.
    pub fn iter(&self) -> std::slice::Iter<'_, (Str, Value)> {
        self.0.iter()
    }

    /// The members for writing; keys stay as they are.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Str, &mut Value)> {
        Arc::make_mut(&mut self.0).iter_mut().map(|(k, v)| (&*k, v))
    }

    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().map(|(k, _)| k)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().map(|(_, v)| v)
    }

    /// Whether two maps are the same allocation, and so equal without a look inside.
    pub fn shares(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The entries; copies only if the map is shared.
    pub fn into_entries(self) -> Vec<(Str, Value)> {
        Arc::try_unwrap(self.0).unwrap_or_else(|shared| (*shared).clone())
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a (Str, Value);
    type IntoIter = std::slice::Iter<'a, (Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<(Str, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Str, Value)>>(iter: I) -> Self {
        Map::from_entries(iter.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, i64)]) -> Map {
        entries.iter().map(|(k, v)| (Str::from(*k), Value::Int(*v))).collect()
    }

    #[test]
    fn members_are_found_in_maps_of_any_size() {
        for size in [0, 1, FEW, FEW + 1, 100] {
            let m: Map = (0..size).map(|i| (Str::from(format!("k{i}")), Value::from(i as i64))).collect();
            for i in 0..size {
                assert_eq!(m.get(&format!("k{i}")), Some(&Value::from(i as i64)), "{size}");
            }
            assert!(["", "k", "k100", "j0", "l0"].iter().all(|key| m.get(key).is_none() && !m.contains_key(key)));
        }
    }

    #[test]
    fn of_equal_keys_the_last_wins() {
        assert_eq!(map(&[("b", 1), ("a", 2), ("b", 3)]), map(&[("a", 2), ("b", 3)]));
        assert_eq!(map(&[("a", 1), ("a", 2)]), map(&[("a", 2)]));
    }

    #[test]
    fn writing_to_a_clone_leaves_the_original() {
        let one = map(&[("a", 1)]);
        let mut two = one.clone();
        assert!(two.shares(&one));
        two.insert("b", 2);
        assert_eq!(one, map(&[("a", 1)]));
        assert_eq!(two, map(&[("a", 1), ("b", 2)]));
    }

    #[test]
    fn extend_overrides() {
        let mut m = map(&[("a", 1), ("c", 3)]);
        m.extend([(Str::from("b"), Value::Int(2)), (Str::from("c"), Value::Int(4))]);
        assert_eq!(m, map(&[("a", 1), ("b", 2), ("c", 4)]));
    }
}
