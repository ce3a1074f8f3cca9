//! The order of a merged list: what the patch names comes in the patch's order, what only the server has keeps its
//! own, and the two are interleaved by where they stood before.

use std::collections::HashMap;

use super::bad_argument;
use crate::Value;
use crate::patch::{PatchError, go_format};

/// What an item is known by: its merge key's value, or itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Float(u64),
    Text(&'v str),
}

impl<'v> Key<'v> {
    /// A scalar as a key. Objects and lists are none.
    pub(super) fn of(value: &'v Value) -> Result<Self, PatchError> {
        Ok(match value {
            Value::Null => Key::Null,
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Int(*i),
            Value::Float(f) => Key::Float(f.to_bits()),
            Value::String(s) => Key::Text(s),
            Value::Array(_) | Value::Object(_) => {
                return Err(PatchError::Unprocessable("a list item is known by something other than a scalar".into()));
            }
        })
    }

    /// The key of an item of a list that is keyed by `merge_key` (none: by the items themselves).
    pub(super) fn of_item(item: &'v Value, merge_key: Option<&str>) -> Result<Self, PatchError> {
        let Some(name) = merge_key else { return Key::of(item) };
        let Value::Object(members) = item else { return Err(bad_argument("map[string]interface {}", item)) };
        Key::of(members.get(name).ok_or_else(|| no_merge_key(item, name))?)
    }
}

pub(super) fn no_merge_key(item: &Value, name: &str) -> PatchError {
    PatchError::Internal(format!("map: {} does not contain declared merge key: {name}", go_format(item)))
}

/// Where keys stand in a list: the first place of each.
pub(super) enum Places<'v> {
    /// Short lists are searched.
    Few(Vec<(Key<'v>, usize)>),
    /// Long ones are hashed, so that no patch makes the merge quadratic.
    Many(HashMap<Key<'v>, usize>),
}

impl<'v> Places<'v> {
    const FEW: usize = 16;

    pub(super) fn of(items: &'v [Value], merge_key: Option<&str>) -> Result<Self, PatchError> {
        let mut places = if items.len() <= Self::FEW {
            Places::Few(Vec::with_capacity(items.len()))
        } else {
            Places::Many(HashMap::new())
        };
        for (i, item) in items.iter().enumerate() {
            places.add(Key::of_item(item, merge_key)?, i);
        }
        Ok(places)
    }

    pub(super) fn none() -> Self {
        Places::Few(Vec::new())
    }

    /// The first place of a key.
    pub(super) fn get(&self, key: &Key<'_>) -> Option<usize> {
        match self {
            Places::Few(list) => list.iter().find(|(k, _)| k == key).map(|(_, i)| *i),
            Places::Many(map) => map.get(key).copied(),
        }
    }

    pub(super) fn has(&self, key: &Key<'_>) -> bool {
        self.get(key).is_some()
    }

    /// Notes a key at a place, unless it has one.
    pub(super) fn add(&mut self, key: Key<'v>, place: usize) {
        if self.has(&key) {
            return;
        }
        if let Places::Few(list) = self
            && list.len() >= Self::FEW
        {
            *self = Places::Many(list.drain(..).collect());
        }
        match self {
            Places::Few(list) => list.push((key, place)),
            Places::Many(map) => drop(map.insert(key, place)),
        }
    }
}

/// Puts the merged items in order: those that `wanted` names in its order, the others in that of `before`, interleaved
/// so that an item of the server goes before one of the patch that it stood before.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &Places<'_>,
    before: &Places<'_>,
    merge_key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let key = Key::of_item(&item, merge_key)?;
        let (place, was) = (wanted.get(&key), before.get(&key));
        match place {
            Some(_) => named.push(Placed { place, was, item }),
            None => others.push(Placed { place: was, was, item }),
        }
    }
    sort(&mut named);
    sort(&mut others);
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for next in named {
        while let Some(other) = others.next_if(|o| matches!((o.was, next.was), (Some(a), Some(b)) if a < b)) {
            out.push(other.item);
        }
        out.push(next.item);
    }
    out.extend(others.map(|o| o.item));
    Ok(out)
}

struct Placed {
    /// Where the item shall stand among its like; none if that order does not know it.
    place: Option<usize>,
    /// Where it stood.
    was: Option<usize>,
    item: Value,
}

/// Sorts by place. An item without one counts as less than whatever stands before it, which moves it forward: so does
/// upstream's insertion sort of short lists.
fn sort(items: &mut [Placed]) {
    const INSERTION_SORTED: usize = 20;
    if items.iter().all(|i| i.place.is_some()) || items.len() > INSERTION_SORTED {
        items.sort_by_key(|i| i.place);
        return;
    }
    for i in 1..items.len() {
        let mut j = i;
        while j > 0 && items[j].place.zip(items[j - 1].place).is_none_or(|(a, b)| a < b) {
            items.swap(j, j - 1);
            j -= 1;
        }
    }
}
