//! JSON Merge Patch (RFC 7386), as `application/merge-patch+json` is applied.

use std::sync::Arc;

use super::PatchError;
use crate::{Map, Str, Value};

/// Merges `patch` into `doc`: members that are null disappear, objects merge, everything else replaces.
///
/// What replaces something other than an object loses its nulls, in lists too; what replaces an object with a list
/// keeps them (both as upstream has it). A patch that is neither object nor list is refused with 400. A list becomes the
/// document: the caller finds it to be no object.
pub fn apply(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    match patch {
        Value::Object(members) => match doc {
            Value::Object(current) => Ok(Value::Object(merge_members(current, members))),
            _ => Ok(without_nulls(patch)),
        },
        Value::Array(_) => Ok(without_nulls(patch)),
        _ => Err(PatchError::BadRequest("Invalid JSON Patch".into())),
    }
}

/// The extra check that `fieldValidation` Warn and Strict make before the patch is merged: it has to be an object (or
/// null, which [`apply`] refuses).
pub fn check_type(patch: &Value) -> Result<(), PatchError> {
    match patch {
        Value::Object(_) | Value::Null => Ok(()),
        other => Err(PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            super::json_patch::go_json_type(other)
        ))),
    }
}

fn merge_members(current: &Map, patch: &Map) -> Map {
    if patch.is_empty() {
        return current.clone();
    }
    // Both are sorted by key: one pass merges them.
    let mut out: Vec<(Str, Value)> = Vec::with_capacity(current.len() + patch.len());
    let mut old = current.iter().peekable();
    for (key, value) in patch {
        while let Some(kept) = old.next_if(|(k, _)| k < key) {
            out.push(kept.clone());
        }
        let before = old.next_if(|(k, _)| k == key).map(|(_, v)| v);
        let after = match (before, value) {
            (_, Value::Null) => continue,
            (Some(Value::Object(a)), Value::Object(b)) => Value::Object(merge_members(a, b)),
            (Some(Value::Object(_)), other) => other.clone(),
            (_, other) => without_nulls(other),
        };
        out.push((key.clone(), after));
    }
    out.extend(old.cloned());
    Map::from_entries(out)
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(members) => members.values().any(has_null),
        _ => false,
    }
}

fn without_nulls(value: &Value) -> Value {
    if has_null(value) { drop_nulls(value) } else { value.clone() }
}

fn drop_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(Arc::new(items.iter().filter(|v| !v.is_null()).map(drop_nulls).collect())),
        Value::Object(members) => members
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k.clone(), drop_nulls(v)))
            .collect::<Map>()
            .into(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::testing::json;

    fn check(doc: &str, patch: &str, want: &str) {
        assert_eq!(apply(&json(doc), &json(patch)), Ok(json(want)), "{doc} + {patch}");
    }

    #[test]
    fn objects_merge_and_nulls_remove() {
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#);
        check(r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
        check(r#"{"b":1}"#, r#"{"c":2,"a":0}"#, r#"{"a":0,"b":1,"c":2}"#);
    }

    #[test]
    fn nulls_in_lists_go_unless_an_object_is_replaced() {
        check(r#"{"a":"b"}"#, r#"{"a":[1,null,{"x":null}]}"#, r#"{"a":[1,{}]}"#);
        check(r#"{"a":{}}"#, r#"{"a":[1,null]}"#, r#"{"a":[1,null]}"#);
    }

    #[test]
    fn scalars_are_no_patches() {
        for patch in ["null", "1", "\"x\""] {
            assert_eq!(apply(&json("{}"), &json(patch)), Err(PatchError::BadRequest("Invalid JSON Patch".into())));
        }
        let e = check_type(&json("[]")).expect_err("a list");
        assert_eq!(
            e.to_string(),
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        );
    }

    #[test]
    fn what_stays_is_shared() {
        let doc = json(r#"{"spec":{"a":[1,2,3]},"x":1}"#);
        let out = apply(&doc, &json(r#"{"x":2}"#)).expect("merges");
        let (Some(Value::Object(a)), Some(Value::Object(b))) = (doc.get("spec"), out.get("spec")) else { panic!() };
        assert!(a.shares(b));
    }
}
