//! What must be there once.

use std::{collections::HashSet, hash::Hash};

/// How many values are compared one by one before they are hashed.
const FEW: usize = 16;

/// A set of what came by so far. Lists are short as a rule, and then nothing is hashed; long ones cost no more than their
/// length.
pub(crate) struct Seen<T> {
    few: Vec<T>,
    many: HashSet<T>,
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Seen { few: Vec::new(), many: HashSet::new() }
    }
}

impl<T: Eq + Hash + Copy> Seen<T> {
    /// Adds a value; whether it is new.
    pub(crate) fn insert(&mut self, value: T) -> bool {
        if self.contains(value) {
            return false;
        }
        if self.few.len() < FEW {
            self.few.push(value);
        } else {
            self.many.insert(value);
        }
        true
    }

    /// Whether a value came by.
    pub(crate) fn contains(&self, value: T) -> bool {
        self.few.contains(&value) || self.many.contains(&value)
    }
}

impl<T: Eq + Hash + Copy> FromIterator<T> for Seen<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut seen = Seen::default();
        for value in values {
            seen.insert(value);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_new_once_in_short_and_long_lists() {
        let mut seen = Seen::default();
        for n in 0..100 {
            assert!(seen.insert(n));
        }
        assert!((0..100).all(|n| seen.contains(n) && !seen.insert(n)));
        assert!(!seen.contains(100));
    }
}
