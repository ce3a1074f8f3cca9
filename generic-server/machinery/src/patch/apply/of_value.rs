//! The set of all fields that a value mentions.

use std::collections::HashMap;

use super::element::field_key;
use super::field_set::{FieldSet, leaf, node};
use super::items::item_key;
use super::types::{Atom, ListAtom, MapAtom, Type};
use crate::schema::ListType;
use crate::{Map, Str, Value};

/// The fields of a configuration or an object: its leaves, the items of its lists, the keys of its maps, and named
/// members that are null or `{}`.
pub(super) fn field_set(value: &Value, ty: Type<'_>) -> FieldSet {
    match fields(value, ty).1 {
        below if below.is_empty() => FieldSet::new(),
        below => FieldSet(Map::from_entries(below)),
    }
}

/// Whether the value itself is a field (a leaf), and the nodes below it.
fn fields(value: &Value, ty: Type<'_>) -> (bool, Vec<(Str, Value)>) {
    match ty.atom(Some(value)) {
        Atom::Scalar(_) => (true, Vec::new()),
        Atom::List(ListAtom { list_type: ListType::Atomic, .. }) => (true, Vec::new()),
        Atom::Map(map) if map.atomic => (true, Vec::new()),
        Atom::List(list) => (false, value.as_array().map_or_else(Vec::new, |items| of_items(items, &list))),
        Atom::Map(map) => (false, value.as_object().map_or_else(Vec::new, |members| of_members(members, &map))),
    }
}

fn of_members(members: &Map, map: &MapAtom<'_>) -> Vec<(Str, Value)> {
    let mut out = Vec::with_capacity(members.len());
    let mut types = map.in_order();
    for (name, value) in members {
        let Some((ty, named)) = types.member(name) else { continue };
        let (leaf, below) = fields(value, ty);
        let blank = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if let Some(node) = node(leaf || blank || !named, below) {
            out.push((field_key(name), node));
        }
    }
    out
}

fn of_items(items: &[Value], list: &ListAtom<'_>) -> Vec<(Str, Value)> {
    let keys: Vec<Option<Str>> = items.iter().enumerate().map(|(i, v)| item_key(list, i, v).ok()).collect();
    let mut times: HashMap<&Str, usize> = HashMap::with_capacity(items.len());
    for key in keys.iter().flatten() {
        *times.entry(key).or_default() += 1;
    }
    let mut out: Vec<(Str, Value)> = Vec::with_capacity(items.len());
    for (item, key) in items.iter().zip(&keys) {
        let Some(key) = key else { continue };
        if times[key] > 1 {
            // An item that is there twice is owned as one, without what is in it.
            out.push((key.clone(), leaf()));
            continue;
        }
        let (_, below) = fields(item, list.items);
        if let Some(node) = node(true, below) {
            out.push((key.clone(), node));
        }
    }
    out
}
