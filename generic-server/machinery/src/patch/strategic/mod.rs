//! Strategic Merge Patch, as `application/strategic-merge-patch+json` is applied to built-in types.
//!
//! Objects merge member by member; lists are replaced unless the type says that they merge (`patchStrategy: merge`), by
//! a key of their items or, if the items are scalars, as sets. Directives in the patch change that: `$patch` (replace,
//! delete), `$retainKeys`, `$deleteFromPrimitiveList/<list>`, `$setElementOrder/<list>`.

mod convert;
mod list;
mod lookup;
mod order;

use std::collections::HashSet;

use super::{PatchError, go_format, gofmt::go_format_verb_s};
use crate::schema::Schema;
use crate::{Map, Str, Value};
pub(super) use convert::to_type;
use lookup::{field, list_field};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";

/// Merges `patch` into `original`, an object of the type `schema`, and brings the values that the patch set into the
/// type's form as upstream does (`2.0` becomes an integer).
///
/// Malformed directives are 400, 422 or 500 as upstream has them; a value that its member's type cannot hold is
/// [`PatchError::Invalid`]. Unknown members are kept: the caller prunes and reports them.
pub fn apply(original: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    let members = match patch {
        Value::Object(members) => members,
        Value::Null => return Ok(original.clone()),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                super::json_patch::go_json_type(other)
            )));
        }
    };
    let current = original.as_object().cloned().unwrap_or_default();
    let mut merged = merge_object(current, members, schema)?;
    // The result is decoded into the type at hand, whatever the patch says that it is.
    for key in ["apiVersion", "kind"] {
        if let Some(own) = original.get(key) {
            merged.insert(key, own.clone());
        }
    }
    let mut merged = Value::Object(merged);
    to_type(&mut merged, Some(original), schema)
        .map_err(|detail| PatchError::Invalid { value: go_format(patch), detail })?;
    Ok(merged)
}

fn merge_object(mut original: Map, patch: &Map, schema: &Schema) -> Result<Map, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                let mut whole = patch.clone();
                whole.remove(DIRECTIVE);
                Ok(whole)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    retain_keys(&mut original, patch)?;
    let ordered = merge_ordered_lists(&mut original, patch, schema)?;
    let mut change = Change { members: original, added: Vec::new(), removed: HashSet::new() };
    for (key, value) in patch.iter().filter(|(key, _)| key.starts_with(DELETE_FROM_LIST)) {
        delete_from_list(&mut change, key, value, schema)?;
    }
    let mut change = Change { members: change.made(), added: Vec::new(), removed: HashSet::new() };
    for (key, value) in patch {
        let is_directive =
            key == RETAIN_KEYS || key.starts_with(SET_ELEMENT_ORDER) || key.starts_with(DELETE_FROM_LIST);
        if !is_directive && !ordered.contains(&key.as_str()) {
            merge_member(&mut change, key, value, schema)?;
        }
    }
    Ok(change.made())
}

/// Members that a patch changes. What comes and goes does so at once in the end: one by one, each would move all others.
struct Change<'p> {
    members: Map,
    added: Vec<(Str, Value)>,
    removed: HashSet<&'p str>,
}

impl<'p> Change<'p> {
    fn set(&mut self, key: &'p str, value: Value) {
        match self.members.get_mut(key) {
            Some(member) => *member = value,
            None => self.added.push((key.into(), value)),
        }
    }

    fn remove(&mut self, key: &'p str) {
        self.removed.insert(key);
    }

    fn made(mut self) -> Map {
        if !self.removed.is_empty() {
            self.members.retain(|key, _| !self.removed.contains(key));
        }
        if !self.added.is_empty() {
            self.members.extend(self.added);
        }
        self.members
    }
}

fn merge_member<'p>(change: &mut Change<'p>, key: &'p str, value: &Value, schema: &Schema) -> Result<(), PatchError> {
    let original = &mut change.members;
    let merged = match (original.get(key), value) {
        (_, Value::Null) => None,
        (Some(Value::Object(_)), Value::Object(patch)) => {
            let Some(Value::Object(before)) = take(original, key) else { unreachable!("looked at above") };
            let (inner, strategy) = field(schema, key)?;
            if strategy.is_some_and(|s| s.replace) {
                Some(value.clone())
            } else {
                Some(Value::Object(merge_object(before, patch, inner)?))
            }
        }
        (Some(Value::Array(_)), Value::Array(patch)) => {
            let Some(before) = take(original, key) else { unreachable!("looked at above") };
            let (items, strategy) = list_field(schema, key)?;
            if lookup::merges(strategy) {
                let before = before.as_array().expect("looked at above");
                Some(list::merge(before, patch, items, lookup::merge_key(strategy))?.into())
            } else {
                Some(value.clone())
            }
        }
        // What was there is of another type, or nothing: the patch's value, without directives and nulls.
        (Some(before), value) if same_scalar_type(before, value) => Some(value.clone()),
        _ => without_directives(value, true),
    };
    match merged {
        Some(value) => change.set(key, value),
        None => change.remove(key),
    }
    Ok(())
}

/// Takes a member out without a copy of what it holds; its place stays.
fn take(members: &mut Map, key: &str) -> Option<Value> {
    members.get_mut(key).map(Value::take)
}

fn same_scalar_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b) && !matches!(a, Value::Array(_) | Value::Object(_))
}

/// `$retainKeys`: only the named members of the original stay, and the patch must not set others.
fn retain_keys(original: &mut Map, patch: &Map) -> Result<(), PatchError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".into());
    let names = directive.as_array().ok_or_else(malformed)?;
    let mut names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    let listed = |key: &str| names.binary_search(&key).is_ok();
    for (key, value) in patch {
        let directive = key == RETAIN_KEYS || key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER);
        if !directive && !value.is_null() && !listed(key) {
            return Err(malformed());
        }
    }
    original.retain(|key, _| listed(key));
    Ok(())
}

/// Handles every `$setElementOrder/<list>` with the patch's list of that name; gives the names of the lists that need
/// no more merging.
fn merge_ordered_lists<'p>(original: &mut Map, patch: &'p Map, schema: &Schema) -> Result<Vec<&'p str>, PatchError> {
    let mut done = Vec::new();
    for (key, directive) in patch {
        if !key.starts_with(SET_ELEMENT_ORDER) {
            continue;
        }
        let Value::Array(order) = directive else { return Err(bad_argument("[]interface {}", directive)) };
        let name = list_name(key, SET_ELEMENT_ORDER)
            .ok_or_else(|| PatchError::BadRequest("invalid patch format of setElementOrder list".into()))?;
        let before = original.get(name).map(as_list).transpose()?;
        let wanted = patch.get(name).map(as_list).transpose()?;
        let (items, strategy) = list_field(schema, name)?;
        let list = list::OrderedList { order, before, patch: wanted, items, strategy };
        if let Some(merged) = list.merge()? {
            original.insert(name, Value::from(merged));
            done.push(name);
        }
    }
    Ok(done)
}

/// `$deleteFromPrimitiveList/<list>`: removes scalars from a list. A list that is not there, or is none, stays.
fn delete_from_list<'p>(
    change: &mut Change<'p>,
    key: &'p str,
    value: &Value,
    schema: &Schema,
) -> Result<(), PatchError> {
    let name = list_name(key, DELETE_FROM_LIST)
        .ok_or_else(|| PatchError::BadRequest("invalid patch format of primitive list".into()))?;
    match (change.members.get(name), value) {
        (Some(_), Value::Null) => change.remove(name),
        (Some(Value::Array(before)), Value::Array(doomed)) => {
            let (items, strategy) = list_field(schema, name)?;
            let left = list::delete(before, doomed, items, lookup::merge_key(strategy))?;
            change.set(name, Value::from(left));
        }
        (Some(Value::Object(before)), Value::Object(patch)) => {
            let (inner, _) = field(schema, name)?;
            let merged = merge_object(before.clone(), patch, inner)?;
            change.set(name, Value::Object(merged));
        }
        (Some(before), value) if same_scalar_type(before, value) => change.set(name, value.clone()),
        _ => {}
    }
    Ok(())
}

/// What follows `prefix/` in a directive's key.
fn list_name<'k>(key: &'k str, prefix: &str) -> Option<&'k str> {
    key.strip_prefix(prefix)?.strip_prefix('/')
}

fn as_list(value: &Value) -> Result<&[Value], PatchError> {
    value.as_array().ok_or_else(|| bad_argument("[]interface {}", value))
}

/// A value without the objects in it that carry `$patch`, and without null members if `nulls` go too. None if it is
/// such an object itself.
fn without_directives(value: &Value, nulls: bool) -> Option<Value> {
    if is_plain(value, nulls) {
        return Some(value.clone());
    }
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => None,
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, v)| !(nulls && v.is_null()));
            Some(kept.filter_map(|(k, v)| Some((k.clone(), without_directives(v, nulls)?))).collect::<Map>().into())
        }
        Value::Array(items) => Some(items.iter().filter_map(|v| without_directives(v, nulls)).collect()),
        scalar => Some(scalar.clone()),
    }
}

fn is_plain(value: &Value, nulls: bool) -> bool {
    match value {
        Value::Object(members) => {
            !members.contains_key(DIRECTIVE) && members.values().all(|v| !(nulls && v.is_null()) && is_plain(v, nulls))
        }
        Value::Array(items) => items.iter().all(|v| is_plain(v, nulls)),
        _ => true,
    }
}

fn unknown_directive(directive: &Value, patch: &Map) -> PatchError {
    let map = go_format(&Value::Object(patch.clone()));
    PatchError::Internal(format!("unknown patch type: {} in map: {map}", go_format_verb_s(directive)))
}

fn bad_argument(expected: &str, found: &Value) -> PatchError {
    PatchError::Internal(format!("expected a {expected}, but received a {}", go_type(found)))
}

/// The Go type that a decoded value has.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests;
