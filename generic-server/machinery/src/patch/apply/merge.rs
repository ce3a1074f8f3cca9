//! An applied configuration merged into the live object: what it does not mention stays, and is shared.

use std::collections::{HashMap, HashSet};

use super::element::display;
use super::items::item_key;
use super::types::{Atom, ListAtom, MapAtom, Type};
use super::validate::scalar_problem;
use crate::schema::ListType;
use crate::{Map, Str, Value};

/// Merges `config` into `live`. The error is upstream's text.
pub(super) fn merge(live: &Value, config: &Value, ty: Type<'_>) -> Result<Value, String> {
    Ok(merge_value(Some(live), Some(config), ty)?.unwrap_or_default())
}

fn merge_value(live: Option<&Value>, config: Option<&Value>, ty: Type<'_>) -> Result<Option<Value>, String> {
    let (live, config) = match (live, config) {
        (Some(live), Some(config)) => (live, config),
        (one, other) => return Ok(one.or(other).cloned()),
    };
    let atom = ty.atom(Some(config));
    if let Atom::Scalar(scalar) = atom
        && let (Some(l), Some(r)) = (scalar_problem(scalar, live), scalar_problem(scalar, config))
    {
        return Err(format!("errors:\n  lhs: {l}\n  rhs: {r}"));
    }
    match atom {
        Atom::Scalar(_) => Ok(Some(config.clone())),
        Atom::List(list) => {
            let (before, wanted) = (live.as_array().unwrap_or_default(), config.as_array().unwrap_or_default());
            if *list.list_type == ListType::Atomic || (before.is_empty() && wanted.is_empty()) {
                return Ok(Some(config.clone()));
            }
            let items = merge_items(before, wanted, &list)?;
            Ok((!items.is_empty()).then(|| items.into_iter().collect()))
        }
        Atom::Map(map) => {
            let none = Map::new();
            let (before, wanted) = (live.as_object().unwrap_or(&none), config.as_object().unwrap_or(&none));
            if map.atomic || (before.is_empty() && wanted.is_empty()) {
                return Ok(Some(config.clone()));
            }
            merge_members(before, wanted, &map).map(Some)
        }
    }
}

fn merge_members(live: &Map, config: &Map, map: &MapAtom<'_>) -> Result<Value, String> {
    let mut out = live.clone();
    let mut new: Vec<(Str, Value)> = Vec::new();
    let mut gone: HashSet<&str> = HashSet::new();
    for (name, value) in config {
        let Some((ty, _)) = map.member(name) else { continue };
        match live.get(name) {
            Some(before) => {
                let merged = merge_value(Some(before), Some(value), ty)
                    .map_err(|e| if e.starts_with("errors:") { e } else { format!(".{name}{e}") })?;
                match merged {
                    Some(merged) if merged == *before => {}
                    Some(merged) => *out.entry(name) = merged,
                    None => drop(gone.insert(name.as_str())),
                }
            }
            None => new.push((name.clone(), value.clone())),
        }
    }
    if !gone.is_empty() {
        out.retain(|name, _| !gone.contains(name));
    }
    if !new.is_empty() {
        out.extend(new);
    }
    Ok(Value::Object(out))
}

struct Indexed<'v> {
    keys: Vec<Str>,
    /// The item of each key; `None` if it is there more than once.
    by_key: HashMap<Str, Option<&'v Value>>,
}

fn index<'v>(items: &'v [Value], list: &ListAtom<'_>, duplicates: bool) -> Result<Indexed<'v>, String> {
    let mut indexed = Indexed { keys: Vec::with_capacity(items.len()), by_key: HashMap::with_capacity(items.len()) };
    for (i, item) in items.iter().enumerate() {
        let key = item_key(list, i, item).map_err(|e| format!(": element {i}: {e}"))?;
        match indexed.by_key.entry(key.clone()) {
            std::collections::hash_map::Entry::Vacant(free) => drop(free.insert(Some(item))),
            std::collections::hash_map::Entry::Occupied(mut taken) => {
                if !duplicates {
                    return Err(format!(": duplicate entries for key {}", display(&key)));
                }
                taken.insert(None);
            }
        }
        indexed.keys.push(key);
    }
    Ok(indexed)
}

/// Merges lists whose items are told apart. The configuration's items come in its order; the live object's others stay
/// before the item that they stood before, as far as the two orders agree.
fn merge_items(live: &[Value], config: &[Value], list: &ListAtom<'_>) -> Result<Vec<Value>, String> {
    let wanted = index(config, list, false)?;
    let before = index(live, list, true)?;
    let mut shared = wanted.keys.iter().filter(|k| before.by_key.contains_key(*k)).peekable();
    let mut merged: HashSet<&Str> = HashSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    // An item that the live list holds more than once is not merged: the configuration's takes its place.
    let combine = |key: &Str| {
        let theirs = wanted.by_key[key];
        match before.by_key.get(key) {
            Some(Some(mine)) => merge_value(Some(mine), theirs, list.items),
            _ => Ok(theirs.cloned()),
        }
    };
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < config.len() {
        if l < live.len() && r < config.len() {
            let key = &before.keys[l];
            if *key == wanted.keys[r] {
                merged.insert(&wanted.keys[r]);
                out.extend(combine(key)?);
                (l, r) = (l + 1, r + 1);
                shared.next();
                continue;
            }
            if wanted.by_key.contains_key(key) && shared.peek().is_some_and(|next| *next != key) {
                l += 1; // shared, but not the one whose turn it is
                continue;
            }
        }
        if l < live.len() {
            let key = &before.keys[l];
            if !wanted.by_key.contains_key(key) {
                out.push(live[l].clone());
                l += 1;
                continue;
            }
            if merged.contains(key) {
                l += 1;
            }
        }
        if r < config.len() {
            let key = &wanted.keys[r];
            merged.insert(key);
            out.extend(combine(key)?);
            r += 1;
            if shared.peek().is_some_and(|next| *next == key) {
                shared.next();
            }
        }
    }
    Ok(out)
}
