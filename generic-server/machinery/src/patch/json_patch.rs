//! JSON Patch (RFC 6902), as `application/json-patch+json` is applied: with upstream's leniencies (negative indexes
//! count from the end, a copy of nothing adds null) and its limits.

use std::sync::Arc;

use super::PatchError;
use super::budget::Budget;
use crate::{Str, Value};

/// More operations than this are refused with 413.
pub const MAX_OPERATIONS: usize = 10_000;

/// Applies all operations in order; if one fails, the patch fails.
///
/// 400 if the patch is not a list of objects, 413 if it has too many operations, 422 if an operation does not apply or
/// copies too much.
pub fn apply(doc: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = operations(patch)?;
    if operations.len() > MAX_OPERATIONS {
        let got = operations.len();
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {got}"
        )));
    }
    let mut work = Work { doc: doc.clone(), budget: Budget::default() };
    for operation in operations {
        work.operate(operation)?;
    }
    Ok(work.doc)
}

/// The operations of a patch; 400 if it is not a list of objects.
pub fn operations(patch: &Value) -> Result<&[Value], PatchError> {
    let operations = match patch {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        other => return Err(undecodable(other, "jsonpatch.Patch")),
    };
    match operations.iter().find(|o| !matches!(o, Value::Object(_) | Value::Null)) {
        Some(odd) => Err(undecodable(odd, "jsonpatch.Operation")),
        None => Ok(operations),
    }
}

/// What `fieldValidation` Warn and Strict find in a patch before it is applied: the strict decoding errors
/// (`json patch unknown field "[0].extra"`), or a 400 for members of the wrong type. Duplicate members are the decoder's
/// to find.
pub fn strict_errors(patch: &Value) -> Result<Vec<String>, PatchError> {
    let decoding = |found: &Value, place: &str| {
        PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go {place}",
            go_json_type(found)
        ))
    };
    let operations = match patch {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        other => return Err(decoding(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut unknown = Vec::new();
    for (i, operation) in operations.iter().enumerate() {
        let members = match operation {
            Value::Object(members) => members,
            Value::Null => continue,
            other => return Err(decoding(other, "value of type handlers.jsonPatchOp")),
        };
        for (key, value) in members {
            match (key.as_str(), value) {
                ("value", _) | ("op" | "path" | "from", Value::String(_) | Value::Null) => {}
                ("op" | "path" | "from", other) => {
                    return Err(decoding(other, &format!("struct field jsonPatchOp.{key} of type string")));
                }
                _ => unknown.push(format!("json patch unknown field \"[{i}].{key}\"")),
            }
        }
    }
    Ok(unknown)
}

/// Of the repeated members that the decoder has found in a patch, those that count, in the words of
/// [`strict_errors`]: a member that no operation has is unknown, and no more than that.
pub fn repeated(found: &[String]) -> impl Iterator<Item = String> {
    let known = |text: &&String| {
        let member = text.split_once("].").map_or("", |(_, path)| path.split(['.', '[', '"']).next().unwrap_or(""));
        matches!(member, "op" | "path" | "from" | "value")
    };
    found.iter().filter(known).map(|text| format!("json patch {text}"))
}

/// What Go's decoder calls a value.
pub(super) fn go_json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn undecodable(found: &Value, into: &str) -> PatchError {
    PatchError::BadRequest(format!("json: cannot unmarshal {} into Go value of type {into}", go_json_type(found)))
}

fn refuse<T>(text: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError::Unprocessable(text.into()))
}

/// Upstream's words for what is wrong with an operation, which only policies' users see.
fn explained(op: &str, path: &str, error: PatchError) -> PatchError {
    let PatchError::Unprocessable(why) = error else { return error };
    PatchError::Unprocessable(match why.starts_with(MISSING_PATH) {
        true if op == "replace" => format!("{op} operation does not apply: {MISSING_PATH}{path}: missing value"),
        true => format!("{op} operation does not apply: {why}: missing value"),
        false => format!("error in {op} for path: '{path}': {why}"),
    })
}

/// The same of an operation with two paths. `shown`: which of them the error names.
fn transferred(op: &str, (which, path): (&str, &str), shown: &str, error: PatchError) -> PatchError {
    let PatchError::Unprocessable(why) = error else { return error };
    PatchError::Unprocessable(match (why.starts_with(MISSING_PATH), op, which) {
        (true, ..) => format!("{op} operation does not apply: doc is missing {which} path: {path}: missing value"),
        (false, "copy", "destination") => format!("error while adding value during copy: {why}"),
        (false, "copy", _) => format!("error in copy for from: '{shown}': {why}"),
        (false, ..) => format!("error in {op} for path: '{shown}': {why}"),
    })
}

/// What is said of a path whose parent is not there.
const MISSING_PATH: &str = "doc is missing path: ";

/// The document while it is patched.
struct Work {
    doc: Value,
    budget: Budget,
}

impl Work {
    fn operate(&mut self, operation: &Value) -> Result<(), PatchError> {
        let text = |key: &str| match operation.get(key) {
            Some(Value::String(s)) => Ok(s.as_str()),
            _ => refuse(format!("operation is missing or has a malformed {key} field")),
        };
        let value = operation.get("value");
        let op = operation.str_at(&["op"]).unwrap_or("unknown");
        match op {
            "add" => {
                let path = text("path")?;
                self.add(path, value.cloned().unwrap_or_default()).map_err(|e| explained(op, path, e))
            }
            "remove" => {
                let path = text("path")?;
                self.remove(path).map(drop).map_err(|e| explained(op, path, e))
            }
            "replace" => {
                let path = text("path")?;
                self.replace(path, value).map_err(|e| explained(op, path, e))
            }
            "test" => self.test(text("path")?, value),
            "move" => {
                let (from, path) = (text("from")?, text("path")?);
                let key = from.rsplit('/').next().unwrap_or(from);
                let moved = self.remove(from).map_err(|e| transferred(op, ("from", from), key, e))?;
                self.add(path, moved).map_err(|e| transferred(op, ("destination", path), path, e))
            }
            "copy" => {
                let (from, path) = (text("from")?, text("path")?);
                let copy = self.read(from).map_err(|e| transferred(op, ("from", from), from, e))?;
                let copy = copy.cloned().unwrap_or_default();
                self.budget.charge_copy(&copy)?;
                self.add(path, copy).map_err(|e| transferred(op, ("destination", path), path, e))
            }
            other => refuse(format!("Unexpected kind: {other}")),
        }
    }

    /// The value at a path; none for an object's absent member, an error if the parent is absent.
    fn read(&self, path: &str) -> Result<Option<&Value>, PatchError> {
        let missing = || PatchError::Unprocessable(format!("{MISSING_PATH}{path:?}"));
        let (parents, key) = split(path).ok_or_else(missing)?;
        let mut at = &self.doc;
        for part in parents {
            at = child(at, &unescape(part)).ok().flatten().filter(|v| is_container(v)).ok_or_else(missing)?;
        }
        child(at, &unescape(key))
    }

    /// The container that a path's last step is in, for writing, that step, and the depth of what stands there.
    fn parent<'p>(&mut self, path: &'p str) -> Result<(&mut Value, Str, usize), PatchError> {
        let missing = || PatchError::Unprocessable(format!("{MISSING_PATH}{path:?}"));
        let (parents, key): (_, &'p str) = split(path).ok_or_else(missing)?;
        let mut at = &mut self.doc;
        let mut depth = 1;
        for part in parents {
            let key = unescape(part);
            at = match at {
                Value::Object(members) => members.get_mut(&key),
                Value::Array(items) => match existing_index(&key, items.len()) {
                    Ok(i) => Arc::make_mut(items).get_mut(i),
                    Err(_) => None,
                },
                _ => None,
            }
            .filter(|v| is_container(v))
            .ok_or_else(missing)?;
            depth += 1;
        }
        Ok((at, unescape(key), depth))
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), PatchError> {
        let mut budget = std::mem::take(&mut self.budget);
        let (container, key, depth) = self.parent(path)?;
        budget.check_depth(&value, depth)?;
        match container {
            Value::Array(items) => {
                let i = if key == "-" { items.len() } else { insertion_index(&key, items.len())? };
                budget.charge(items.len() - i)?;
                Arc::make_mut(items).insert(i, value);
            }
            Value::Object(members) => {
                budget.charge(members.len())?;
                members.insert(key, value);
            }
            _ => return refuse(format!("{MISSING_PATH}{path:?}")),
        }
        self.budget = budget;
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<Value, PatchError> {
        let mut budget = std::mem::take(&mut self.budget);
        let (container, key, _) = self.parent(path)?;
        let removed = match container {
            Value::Array(items) => {
                let i = existing_index(&key, items.len())?;
                budget.charge(items.len() - i)?;
                Arc::make_mut(items).remove(i)
            }
            Value::Object(members) => {
                budget.charge(members.len())?;
                match members.remove(&key) {
                    Some(value) => value,
                    None => return refuse(format!("Unable to remove nonexistent key: {key}: missing value")),
                }
            }
            _ => return refuse(format!("{MISSING_PATH}{path:?}")),
        };
        self.budget = budget;
        Ok(removed)
    }

    fn replace(&mut self, path: &str, value: Option<&Value>) -> Result<(), PatchError> {
        if path.is_empty() {
            return match value {
                Some(v) if is_container(v) => {
                    self.doc = v.clone();
                    Ok(())
                }
                _ => refuse("replace operation value must be object or array"),
            };
        }
        let mut budget = std::mem::take(&mut self.budget);
        let value = value.cloned().unwrap_or_default();
        let (container, key, depth) = self.parent(path)?;
        budget.check_depth(&value, depth)?;
        match container {
            Value::Array(items) => {
                let i = existing_index(&key, items.len())?;
                Arc::make_mut(items)[i] = value;
            }
            Value::Object(members) => {
                budget.charge(members.len())?;
                members.insert(key, value);
            }
            _ => return refuse(format!("{MISSING_PATH}{path:?}")),
        }
        self.budget = budget;
        Ok(())
    }

    /// Absent and null are one: as members, and as what a test expects.
    fn test(&self, path: &str, expected: Option<&Value>) -> Result<(), PatchError> {
        let found = if path.is_empty() { Some(&self.doc) } else { self.read(path)? };
        if found.unwrap_or(&Value::Null) == expected.unwrap_or(&Value::Null) {
            Ok(())
        } else {
            refuse(format!("testing value {path} failed: test failed"))
        }
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

/// The steps before the last, and the last. What stands before the first slash is of no account, as upstream reads it.
fn split(path: &str) -> Option<(impl Iterator<Item = &str>, &str)> {
    let (_, steps) = path.split_once('/')?;
    let (parents, key) = match steps.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, steps),
    };
    Some((parents.into_iter().flat_map(|p| p.split('/')), key))
}

/// `~1` is a slash, `~0` a tilde.
fn unescape(step: &str) -> Str {
    if step.contains('~') { step.replace("~1", "/").replace("~0", "~").into() } else { step.into() }
}

fn child<'v>(container: &'v Value, key: &str) -> Result<Option<&'v Value>, PatchError> {
    match container {
        Value::Object(members) => Ok(members.get(key)),
        Value::Array(items) => existing_index(key, items.len()).map(|i| Some(&items[i])),
        _ => refuse("not an object or a list"),
    }
}

/// The index of an item that is there; negative ones count from the end.
fn existing_index(key: &str, len: usize) -> Result<usize, PatchError> {
    index(key, len, len)
}

/// The index at which an item may be inserted: the list's length is one, and so `-1` means the end.
fn insertion_index(key: &str, len: usize) -> Result<usize, PatchError> {
    index(key, len + 1, len + 1)
}

fn index(key: &str, end: usize, from_end: usize) -> Result<usize, PatchError> {
    let Ok(i) = key.parse::<i64>() else {
        return refuse(format!("value was not a proper array index: '{key}'"));
    };
    let i = if i < 0 { i.saturating_add(from_end as i64) } else { i };
    match usize::try_from(i) {
        Ok(i) if i < end => Ok(i),
        _ => refuse(format!("Unable to access invalid index: {key}: invalid index referenced")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::testing::json;

    fn run(doc: &str, patch: &str) -> Result<Value, PatchError> {
        apply(&json(doc), &json(patch))
    }

    fn check(doc: &str, patch: &str, want: &str) {
        assert_eq!(run(doc, patch), Ok(json(want)), "{doc} + {patch}");
    }

    fn check_refused(doc: &str, patch: &str, code: u16) {
        let e = run(doc, patch).expect_err(patch);
        assert_eq!(e.code(), code, "{doc} + {patch}: {e}");
    }

    #[test]
    fn operations_on_objects() {
        let doc = r#"{"data":{"one":"1"}}"#;
        check(doc, r#"[{"op":"add","path":"/data/two","value":"2"}]"#, r#"{"data":{"one":"1","two":"2"}}"#);
        check(doc, r#"[{"op":"add","path":"/data/one","value":"uno"}]"#, r#"{"data":{"one":"uno"}}"#);
        check(doc, r#"[{"op":"replace","path":"/data/new","value":1}]"#, r#"{"data":{"new":1,"one":"1"}}"#);
        check(doc, r#"[{"op":"move","from":"/data/one","path":"/data/eins"}]"#, r#"{"data":{"eins":"1"}}"#);
        check(doc, r#"[{"op":"copy","from":"/data/one","path":"/x"}]"#, r#"{"data":{"one":"1"},"x":"1"}"#);
        check(doc, r#"[{"op":"copy","from":"/data/none","path":"/x"}]"#, r#"{"data":{"one":"1"},"x":null}"#);
        check(doc, r#"[{"op":"add","path":"/data/a~1b~0c","value":1}]"#, r#"{"data":{"a/b~c":1,"one":"1"}}"#);
        check(doc, r#"[{"op":"test","path":"/data/none","value":null},{"op":"remove","path":"/data"}]"#, "{}");
        check(
            doc,
            r#"[{"op":"replace","path":"","value":{"a":1}},{"op":"test","path":"","value":{"a":1}}]"#,
            r#"{"a":1}"#,
        );
        check(doc, "[]", doc);
        check(doc, "null", doc);
    }

    #[test]
    fn operations_that_do_not_apply() {
        let doc = r#"{"data":{"one":"1"}}"#;
        for patch in [
            r#"[{"op":"test","path":"/data/one","value":"2"}]"#,
            r#"[{"op":"test","path":"/none/one","value":null}]"#,
            r#"[{"op":"add","path":"/none/a","value":"b"}]"#,
            r#"[{"op":"add","path":"/data/one/deep","value":"b"}]"#,
            r#"[{"op":"remove","path":"/data/none"}]"#,
            r#"[{"op":"move","from":"/data/none","path":"/x"}]"#,
            r#"[{"op":"increment","path":"/data/one"}]"#,
            r#"[{"op":"add","value":1}]"#,
            r#"[{"path":"/data/one","value":1}]"#,
            r#"[{"op":"add","path":"","value":{}}]"#,
            r#"[{"op":"replace","path":"","value":1}]"#,
            r#"[null]"#,
        ] {
            check_refused(doc, patch, 422);
        }
        check_refused(doc, "{}", 400);
        check_refused(doc, "[1]", 400);
    }

    #[test]
    fn indexes() {
        let doc = r#"{"a":[1,2]}"#;
        check(doc, r#"[{"op":"add","path":"/a/-","value":3}]"#, r#"{"a":[1,2,3]}"#);
        check(doc, r#"[{"op":"add","path":"/a/2","value":3}]"#, r#"{"a":[1,2,3]}"#);
        check(doc, r#"[{"op":"add","path":"/a/0","value":0}]"#, r#"{"a":[0,1,2]}"#);
        check(doc, r#"[{"op":"add","path":"/a/-1","value":3}]"#, r#"{"a":[1,2,3]}"#);
        check(doc, r#"[{"op":"remove","path":"/a/-1"}]"#, r#"{"a":[1]}"#);
        check(doc, r#"[{"op":"replace","path":"/a/-2","value":9}]"#, r#"{"a":[9,2]}"#);
        for patch in [
            r#"[{"op":"add","path":"/a/3","value":3}]"#,
            r#"[{"op":"add","path":"/a/-4","value":3}]"#,
            r#"[{"op":"add","path":"/a/word","value":3}]"#,
            r#"[{"op":"remove","path":"/a/-"}]"#,
            r#"[{"op":"remove","path":"/a/2"}]"#,
            r#"[{"op":"replace","path":"/a/2","value":1}]"#,
            r#"[{"op":"test","path":"/a/2","value":null}]"#,
            r#"[{"op":"test","path":"/a/0","value":1.0}]"#,
        ] {
            check_refused(doc, patch, 422);
        }
    }

    #[test]
    fn bombs_are_refused() {
        let many = Value::from(vec![object_of_nothing(); MAX_OPERATIONS + 1]);
        let e = apply(&json("{}"), &many).expect_err("too many");
        assert_eq!(
            e,
            PatchError::TooLarge("The allowed maximum operations in a JSON patch is 10000, got 10001".into())
        );
        let copies = vec![json(r#"{"op":"copy","from":"/a","path":"/a/-"}"#); 100];
        check_refused(r#"{"a":["xxxxxxxxxxxxxxxxxxxxxxxx"]}"#, &text(&copies), 422);
        let nest = vec![json(r#"{"op":"copy","from":"/a","path":"/a/a"}"#); 2000];
        check_refused(r#"{"a":{}}"#, &text(&nest), 422);
        let shifts = vec![json(r#"{"op":"add","path":"/a/0","value":1}"#); MAX_OPERATIONS];
        let long = crate::object! { "a" => vec![0; 100_000] };
        assert_eq!(apply(&long, &Value::from(shifts)).expect_err("too much work").code(), 413);
    }

    fn object_of_nothing() -> Value {
        Value::object()
    }

    fn text(operations: &[Value]) -> String {
        let parts: Vec<_> = operations.iter().map(crate::patch::testing::text).collect();
        format!("[{}]", parts.join(","))
    }

    #[test]
    fn strict_decoding_names_what_it_does_not_know() {
        let patch = json(r#"[{"op":"add","path":"/a","value":1,"extra":2},{"other":1}]"#);
        assert_eq!(
            strict_errors(&patch).expect("decodes"),
            [r#"json patch unknown field "[0].extra""#, r#"json patch unknown field "[1].other""#]
        );
        let found =
            ["duplicate field \"[0].path\"", "duplicate field \"[1].value.a\"", "duplicate field \"[0].extra\""];
        assert_eq!(
            repeated(&found.map(str::to_owned)).collect::<Vec<_>>(),
            [r#"json patch duplicate field "[0].path""#, r#"json patch duplicate field "[1].value.a""#]
        );
        let check =
            |patch: &str, want: &str| assert_eq!(strict_errors(&json(patch)).expect_err(patch).to_string(), want);
        check("{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp");
        check(
            r#"[{"op":1}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        );
    }
}
