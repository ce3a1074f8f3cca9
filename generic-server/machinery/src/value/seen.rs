//! Finds duplicates.

use std::{
    collections::HashSet,
    hash::{Hash, Hasher},
};

use super::Value;

/// How many values are compared one by one before they are hashed.
const FEW: usize = 16;

/// A set of what came by so far. Lists are short as a rule, and then nothing is hashed; long ones cost no more than their
/// length.
pub struct Seen<T> {
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
    pub fn insert(&mut self, value: T) -> bool {
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
    pub fn contains(&self, value: T) -> bool {
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

/// A value that is told from others by what it holds, as `==` does: what sets of whole values are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Content<'a>(pub &'a Value);

// A document holds no NaN, which alone is not itself.
impl Eq for Content<'_> {}

impl Hash for Content<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self.0).hash(state);
        match self.0 {
            Value::Null => {}
            Value::Bool(b) => b.hash(state),
            Value::Int(i) => i.hash(state),
            // Both zeros are equal.
            Value::Float(f) => (if *f == 0.0 { 0.0 } else { *f }).to_bits().hash(state),
            Value::String(text) => text.hash(state),
            Value::Array(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| Content(item).hash(state));
            }
            Value::Object(members) => {
                members.len().hash(state);
                for (name, value) in members {
                    name.hash(state);
                    Content(value).hash(state);
                }
            }
        }
    }
}

/// The indexes of the values that stood in the list before, in order.
pub fn repeated(values: &[Value]) -> impl Iterator<Item = usize> + use<'_> {
    let mut seen = Seen::default();
    values.iter().enumerate().filter_map(move |(i, value)| (!seen.insert(Content(value))).then_some(i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    #[test]
    fn whole_values_are_told_apart_by_what_they_hold() {
        let odd =
            || array![0.0, -0.0, 1, 1.5, "1", true, Value::Null, array![], object! {}, object! { "a" => array![1] }];
        let odd = odd().as_array().expect("a list").to_vec();
        assert_eq!(repeated(&odd).collect::<Vec<_>>(), [1], "zero is zero");
        let many: Vec<Value> = (0..40).map(|i| object! { "a" => array![i % 30] }).collect();
        assert_eq!(repeated(&many).collect::<Vec<_>>(), (30..40).collect::<Vec<_>>());
    }

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
