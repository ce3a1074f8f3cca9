//! Answers that are kept for a while: so many, and the one that was used least recently goes first.

use std::{
    collections::{BTreeMap, HashMap},
    hash::RandomState,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A cache of bounded size whose entries end.
pub struct ExpiringCache<V> {
    capacity: usize,
    entries: Mutex<Entries<V>>,
}

struct Entries<V> {
    by_key: HashMap<Arc<[u8]>, Entry<V>, RandomState>,
    /// Keys in the order in which they were used last.
    by_use: BTreeMap<u64, Arc<[u8]>>,
    uses: u64,
}

struct Entry<V> {
    value: V,
    until: Instant,
    used: u64,
}

impl<V: Clone> ExpiringCache<V> {
    /// Room for so many entries.
    pub fn new(capacity: usize) -> Self {
        let entries = Entries { by_key: HashMap::default(), by_use: BTreeMap::new(), uses: 0 };
        ExpiringCache { capacity, entries: Mutex::new(entries) }
    }

    /// What is kept for a key.
    pub fn get(&self, key: &[u8]) -> Option<V> {
        let mut entries = self.lock();
        let ended = entries.by_key.get(key)?.until <= Instant::now();
        if ended {
            entries.remove(key);
            return None;
        }
        Some(entries.touch(key)?.value.clone())
    }

    /// Keeps a value for so long.
    pub fn insert(&self, key: &[u8], value: V, ttl: Duration) {
        let Some(until) = Instant::now().checked_add(ttl).filter(|_| !ttl.is_zero()) else { return };
        let mut entries = self.lock();
        entries.remove(key);
        while entries.by_key.len() >= self.capacity
            && let Some((_, oldest)) = entries.by_use.pop_first()
        {
            entries.by_key.remove(&oldest);
        }
        let key: Arc<[u8]> = key.into();
        entries.by_key.insert(key.clone(), Entry { value, until, used: 0 });
        entries.touch(&key);
    }

    fn lock(&self) -> MutexGuard<'_, Entries<V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Entries<V> {
    /// Notes that an entry is used.
    fn touch(&mut self, key: &[u8]) -> Option<&Entry<V>> {
        self.uses += 1;
        let (shared, _) = self.by_key.get_key_value(key)?;
        let shared = shared.clone();
        let entry = self.by_key.get_mut(key)?;
        self.by_use.remove(&entry.used);
        entry.used = self.uses;
        self.by_use.insert(self.uses, shared);
        Some(entry)
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn entries_end() {
        let cache = ExpiringCache::new(8);
        cache.insert(b"a", 1, Duration::from_secs(2));
        cache.insert(b"b", 2, Duration::ZERO);
        assert_eq!((cache.get(b"a"), cache.get(b"b"), cache.get(b"c")), (Some(1), None, None));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(b"a"), Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(b"a"), None);
        assert!(cache.lock().by_use.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_makes_room() {
        let cache = ExpiringCache::new(2);
        let ttl = Duration::from_secs(9);
        cache.insert(b"a", 1, ttl);
        cache.insert(b"b", 2, ttl);
        cache.get(b"a");
        cache.insert(b"c", 3, ttl);
        assert_eq!((cache.get(b"a"), cache.get(b"b"), cache.get(b"c")), (Some(1), None, Some(3)));
        cache.insert(b"a", 4, ttl);
        assert_eq!((cache.get(b"a"), cache.get(b"c")), (Some(4), Some(3)));
        let entries = cache.lock();
        assert_eq!((entries.by_key.len(), entries.by_use.len()), (2, 2));
    }
}
