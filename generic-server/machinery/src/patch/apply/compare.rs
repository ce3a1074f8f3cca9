//! What differs between two objects of one type.

use std::collections::HashMap;
use std::sync::Arc;

use super::element::field_key;
use super::field_set::{FieldSet, next_pair, node};
use super::items::item_key;
use super::types::{Atom, ListAtom, MapAtom, Type};
use super::validate::scalar_problem;
use crate::schema::ListType;
use crate::{Map, Str, Value};

/// Three sets that have no field in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Comparison {
    /// In the old object only.
    pub(super) removed: FieldSet,
    /// In both, with different values.
    pub(super) modified: FieldSet,
    /// In the new object only.
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Nothing differs.
    pub(super) fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// Each of the three sets changed alike.
    pub(super) fn map(&self, change: impl Fn(&FieldSet) -> FieldSet) -> Comparison {
        Comparison { removed: change(&self.removed), modified: change(&self.modified), added: change(&self.added) }
    }
}

/// Compares two objects. The error is upstream's text for a list whose items cannot be told apart.
pub(super) fn compare(old: &Value, new: &Value, ty: Type<'_>) -> Result<Comparison, String> {
    let mut walk = Walk { error: None };
    let found = walk.value(Some(old), Some(new), ty);
    match walk.error {
        Some(e) => Err(e),
        None => Ok(Comparison {
            removed: FieldSet(Map::from_entries(found.removed.below)),
            modified: FieldSet(Map::from_entries(found.modified.below)),
            added: FieldSet(Map::from_entries(found.added.below)),
        }),
    }
}

/// One of the three sets below a place: whether the place itself is in it, and the nodes below.
#[derive(Default)]
struct Part {
    member: bool,
    below: Vec<(Str, Value)>,
}

#[derive(Default)]
struct Found {
    removed: Part,
    modified: Part,
    added: Part,
}

impl Part {
    fn push(&mut self, key: &Key<'_>, inner: Part) {
        if let Some(node) = node(inner.member, inner.below) {
            self.below.push((key.text(), node));
        }
    }
}

impl Found {
    fn is_empty(&self) -> bool {
        [&self.removed, &self.modified, &self.added].iter().all(|p| !p.member && p.below.is_empty())
    }

    fn push(&mut self, key: &Key<'_>, inner: Found) {
        self.removed.push(key, inner.removed);
        self.modified.push(key, inner.modified);
        self.added.push(key, inner.added);
    }

    /// What two readings of one place found.
    fn merge(&mut self, other: Found) {
        for (mine, theirs) in
            [(&mut self.removed, other.removed), (&mut self.modified, other.modified), (&mut self.added, other.added)]
        {
            mine.member |= theirs.member;
            if mine.below.is_empty() {
                mine.below = theirs.below;
            } else if !theirs.below.is_empty() {
                let both = FieldSet(Map::from_entries(std::mem::take(&mut mine.below)))
                    .union(&FieldSet(Map::from_entries(theirs.below)));
                mine.below = both.0.into_entries();
            }
        }
    }
}

/// A path element whose text is made only when something differs below it.
enum Key<'k> {
    Field(&'k str),
    Item(Str),
}

impl Key<'_> {
    fn text(&self) -> Str {
        match self {
            Key::Field(name) => field_key(name),
            Key::Item(key) => key.clone(),
        }
    }
}

/// Equal without a look inside.
fn shared(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => a.shares(b),
        (Value::Array(a), Value::Array(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Equality of values: numbers by what they stand for.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => a.as_f64() == b.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            Arc::ptr_eq(x, y) || (x.len() == y.len() && x.iter().zip(y.iter()).all(|(x, y)| equal(x, y)))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.shares(y) || (x.len() == y.len() && x.iter().zip(y).all(|((kx, vx), (ky, vy))| kx == ky && equal(vx, vy)))
        }
        _ => a == b,
    }
}

struct Walk {
    error: Option<String>,
}

impl Walk {
    /// Compares at a place; at least one side has a value.
    fn value(&mut self, old: Option<&Value>, new: Option<&Value>, ty: Type<'_>) -> Found {
        if let (Some(a), Some(b)) = (old, new)
            && shared(a, b)
        {
            return Found::default();
        }
        let after = ty.atom(new.or(old));
        let before = if ty.is_open() { ty.atom(old) } else { after };
        let mut found = Found::default();
        let leaf = match (old, new) {
            (_, None) => self.atom(old, new, after, &mut found),
            (Some(_), Some(_)) if !before.same_kind(&after) => {
                // The value changed its kind: it is read both ways.
                let mut other = Found::default();
                self.atom(old, new, before, &mut other);
                let leaf = self.atom(old, new, after, &mut found);
                found.merge(other);
                leaf
            }
            _ => self.atom(old, new, after, &mut found),
        };
        if !leaf {
            found.added.member |= old.is_none();
            found.removed.member |= new.is_none();
        }
        found
    }

    /// Whether the place was a leaf.
    fn atom(&mut self, old: Option<&Value>, new: Option<&Value>, atom: Atom<'_>, found: &mut Found) -> bool {
        match atom {
            Atom::Scalar(scalar) => {
                let problem = |v: Option<&Value>| v.and_then(|v| scalar_problem(scalar, v));
                if let (Some(a), Some(b)) = (problem(old), problem(new)) {
                    self.error.get_or_insert(format!("lhs: {a}, rhs: {b}"));
                    return true;
                }
                self.leaf(old, new, found)
            }
            Atom::List(list) => {
                let (a, b) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let empty = |l: Option<&[Value]>| l.is_none_or(<[Value]>::is_empty);
                if *list.list_type == ListType::Atomic || (empty(a) && empty(b)) {
                    return self.leaf(old, new, found);
                }
                self.items(a.unwrap_or_default(), b.unwrap_or_default(), &list, found);
                false
            }
            Atom::Map(map) => {
                let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let empty = |m: Option<&Map>| m.is_none_or(Map::is_empty);
                if map.atomic || (empty(a) && empty(b)) {
                    return self.leaf(old, new, found);
                }
                let none = Map::new();
                self.members(a.unwrap_or(&none), b.unwrap_or(&none), &map, found);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>, found: &mut Found) -> bool {
        match (old, new) {
            (None, _) => found.added.member = true,
            (_, None) => found.removed.member = true,
            (Some(a), Some(b)) => found.modified.member |= !equal(a, b),
        }
        true
    }

    fn members(&mut self, old: &Map, new: &Map, map: &MapAtom<'_>, found: &mut Found) {
        let (mut a, mut b) = (old.iter().peekable(), new.iter().peekable());
        let mut types = map.in_order();
        while let Some((name, va, vb)) = next_pair(&mut a, &mut b) {
            if let (Some(x), Some(y)) = (va, vb)
                && (shared(x, y) || (!matches!(x, Value::Object(_) | Value::Array(_)) && x == y))
            {
                continue;
            }
            let Some((ty, _)) = types.member(name) else { continue };
            let inner = self.value(va, vb, ty);
            found.push(&Key::Field(name), inner);
        }
    }

    fn items(&mut self, old: &[Value], new: &[Value], list: &ListAtom<'_>, found: &mut Found) {
        if old.len() == new.len() {
            if old.iter().zip(new).all(|(a, b)| equal(a, b)) {
                return;
            }
            // The usual update leaves a list's items where they are.
            if new.len() <= FEW && old.iter().zip(new).all(|(a, b)| same_item(list, a, b)) && all_distinct(list, new) {
                return self.paired(old, new, list, found);
            }
        }
        let (Some(a), Some(b)) = (self.keys(old, list), self.keys(new, list)) else { return };
        let mut groups: Vec<(Str, Vec<&Value>, Vec<&Value>)> = Vec::with_capacity(a.len().max(b.len()));
        let mut places: HashMap<Str, usize> = HashMap::with_capacity(a.len().max(b.len()));
        for (is_new, keys, items) in [(false, a, old), (true, b, new)] {
            for (key, item) in keys.into_iter().zip(items) {
                let place = *places.entry(key.clone()).or_insert_with(|| {
                    groups.push((key, Vec::new(), Vec::new()));
                    groups.len() - 1
                });
                let group = &mut groups[place];
                if is_new { group.2.push(item) } else { group.1.push(item) }
            }
        }
        for (key, before, after) in groups {
            let inner = self.group(&before, &after, list);
            found.push(&Key::Item(key), inner);
        }
    }

    /// Compares lists whose items stand in the same places.
    fn paired(&mut self, old: &[Value], new: &[Value], list: &ListAtom<'_>, found: &mut Found) {
        for (i, (a, b)) in old.iter().zip(new).enumerate() {
            let inner = self.value(Some(a), Some(b), list.items);
            if inner.is_empty() {
                continue;
            }
            match item_key(list, i, b) {
                Ok(key) => found.push(&Key::Item(key), inner),
                Err(e) => drop(self.error.get_or_insert(format!("element {i}: {e}"))),
            }
        }
    }

    /// Compares the items of one key. Several of them are one value.
    fn group(&mut self, before: &[&Value], after: &[&Value], list: &ListAtom<'_>) -> Found {
        let mut found = Found::default();
        match (before, after) {
            ([] | [_], [] | [_]) => return self.value(before.first().copied(), after.first().copied(), list.items),
            ([_, _, ..], [_, _, ..]) => {
                let same = before.len() == after.len() && before.iter().zip(after).all(|(a, b)| equal(a, b));
                found.modified.member = !same;
            }
            ([_, _, ..], _) => {
                if let Some(only) = after.first() {
                    found = self.value(None, Some(only), list.items);
                }
                found.removed.member = true;
            }
            (_, _) => {
                if let Some(only) = before.first() {
                    found = self.value(Some(only), None, list.items);
                }
                found.added.member = true;
            }
        }
        found
    }

    fn keys(&mut self, items: &[Value], list: &ListAtom<'_>) -> Option<Vec<Str>> {
        let mut keys = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match item_key(list, i, item) {
                Ok(key) => keys.push(key),
                Err(e) => {
                    self.error.get_or_insert(format!("element {i}: {e}"));
                    return None;
                }
            }
        }
        Some(keys)
    }
}

/// Lists up to this length are compared item with item before their keys are written out.
const FEW: usize = 16;

/// Whether two items have the same key, as far as can be told without defaults.
fn same_item(list: &ListAtom<'_>, a: &Value, b: &Value) -> bool {
    match list.list_type {
        ListType::Atomic => false,
        ListType::Set => a == b,
        ListType::Map(names) => match (a, b) {
            (Value::Object(a), Value::Object(b)) => names.iter().all(|n| a.get(n).is_some_and(|v| b.get(n) == Some(v))),
            _ => false,
        },
    }
}

fn all_distinct(list: &ListAtom<'_>, items: &[Value]) -> bool {
    items.iter().enumerate().all(|(i, a)| !items[..i].iter().any(|b| same_item(list, a, b)))
}
