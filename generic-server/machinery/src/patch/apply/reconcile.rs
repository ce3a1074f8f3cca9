//! A manager's set brought in line with the type as it is today: a part that has become one value is owned as one. Also
//! the set that names what it owns by the way.

use super::element::{Element, field_key};
use super::field_set::{FieldSet, children, has_children, is_member, leaf, node};
use super::types::{Atom, Type};
use crate::schema::ListType;
use crate::{Map, Str, Value};

/// Reconciles a set with its type.
pub(super) fn reconcile(set: &FieldSet, ty: Type<'_>) -> FieldSet {
    match reconcile_children(&set.0, ty) {
        Some(children) => FieldSet(Map::from_entries(children)),
        None => set.clone(),
    }
}

/// The nodes below a node, changed; `None` if they stay.
fn reconcile_children(set: &Map, ty: Type<'_>) -> Option<Vec<(Str, Value)>> {
    let mut changed: Vec<(Str, Value)> = Vec::new();
    for (key, below) in children(set) {
        if has_children(below)
            && let Some(inner) = child_type(ty, key)
            && let Some(node) = reconcile_node(below, inner)
        {
            changed.push((key.clone(), node));
        }
    }
    if changed.is_empty() {
        return None;
    }
    let mut all: Vec<(Str, Value)> = children(set).map(|(k, v)| (k.clone(), Value::Object(v.clone()))).collect();
    for (key, node) in changed {
        if let Ok(i) = all.binary_search_by(|(k, _)| k.cmp(&key)) {
            all[i].1 = node;
        }
    }
    Some(all)
}

fn reconcile_node(set: &Map, ty: Type<'_>) -> Option<Value> {
    match ty.atom(None) {
        Atom::Scalar(_) => None,
        Atom::List(list) if *list.list_type == ListType::Atomic => Some(leaf()),
        Atom::Map(map) if map.is_deduced() => None,
        Atom::Map(map) if map.atomic => Some(leaf()),
        _ => node(is_member(set), reconcile_children(set, ty)?),
    }
}

/// The type of what a path element leads to.
fn child_type<'s>(ty: Type<'s>, key: &str) -> Option<Type<'s>> {
    match key.strip_prefix("f:") {
        Some(name) => match ty.atom(None) {
            Atom::Map(map) => map.member(name).map(|(ty, _)| ty),
            _ => None,
        },
        None => match ty.atom(Some(&Value::Array(Default::default()))) {
            Atom::List(list) => Some(list.items),
            _ => None,
        },
    }
}

/// The set, and every named member that has fields of the set below it. Such members go when all below them goes.
pub(super) fn with_named_members(set: &FieldSet, ty: Type<'_>) -> FieldSet {
    FieldSet(Map::from_entries(named(&set.0, ty)))
}

fn named(set: &Map, ty: Type<'_>) -> Vec<(Str, Value)> {
    let mut out = Vec::with_capacity(set.len());
    for (key, below) in children(set) {
        let named_member = match (key.strip_prefix("f:"), ty.atom(None)) {
            (Some(name), Atom::Map(map)) => map.member(name).is_some_and(|(_, named)| named),
            _ => false,
        };
        let inner = match child_type(ty, key) {
            Some(inner) => named(below, inner),
            None => children(below).map(|(k, v)| (k.clone(), Value::Object(v.clone()))).collect(),
        };
        if let Some(node) = node(is_member(below) || named_member, inner) {
            out.push((key.clone(), node));
        }
    }
    out
}

/// The serialized path of member names.
pub(super) fn field_path(names: &[&str]) -> Vec<Str> {
    names.iter().map(|n| field_key(n)).collect()
}

/// The elements of a path, as clients read them: `.spec.containers[name="a"].image`.
pub(super) fn shown(path: &[Str]) -> String {
    path.iter()
        .map(|key| match Element::parse(key) {
            Ok(Some(element)) => element.to_string(),
            _ => key.to_string(),
        })
        .collect()
}
