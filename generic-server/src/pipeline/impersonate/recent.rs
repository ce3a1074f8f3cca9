//! What is remembered of the users that were seen last.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    mem,
    sync::Mutex,
};

/// How many users each generation holds: together about as many as upstream remembers.
const GENERATION: usize = 5000;

/// A bounded map from names to small values. When the young generation is full it becomes the old one, whose entries are
/// forgotten unless they are asked for in the meantime. A name stands for its hash: of two names with one hash, one may
/// get the other's value.
#[derive(Debug)]
pub(super) struct Recent<V> {
    hasher: RandomState,
    generations: Mutex<Generations<V>>,
}

#[derive(Debug)]
struct Generations<V> {
    young: HashMap<u64, V>,
    old: HashMap<u64, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        let generations = Generations { young: HashMap::new(), old: HashMap::new() };
        Recent { hasher: RandomState::new(), generations: Mutex::new(generations) }
    }
}

impl<V: Copy> Recent<V> {
    pub(super) fn get(&self, name: &str) -> Option<V> {
        let key = self.hasher.hash_one(name);
        let mut generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(value) = generations.young.get(&key) {
            return Some(*value);
        }
        let value = generations.old.remove(&key)?;
        generations.insert(key, value);
        Some(value)
    }

    pub(super) fn set(&self, name: &str, value: V) {
        let key = self.hasher.hash_one(name);
        let mut generations = self.generations.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        generations.insert(key, value);
    }
}

impl<V> Generations<V> {
    fn insert(&mut self, key: u64, value: V) {
        self.young.insert(key, value);
        if self.young.len() >= GENERATION {
            self.old = mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_use_are_remembered_and_the_map_is_bounded() {
        let recent = Recent::default();
        recent.set("in use", 1);
        recent.set("once", 2);
        for n in 0..4 * GENERATION {
            assert_eq!(recent.get("in use"), Some(1));
            recent.set(&n.to_string(), 3);
        }
        assert_eq!(recent.get("once"), None);
        let generations = recent.generations.lock().expect("not poisoned");
        assert!(generations.young.len() + generations.old.len() <= 2 * GENERATION);
    }
}
