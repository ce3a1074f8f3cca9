//! Applying a configuration without keeping track of who owns what: what mutating admission policies do.

use super::element::{display, field_key};
use super::merge::merge;
use super::types::{Atom, Type};
use super::validate::validate;
use crate::schema::{ListType, Schema};
use crate::{Map, Value};

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    /// It does not fit the type.
    #[error("failed to convert patch object to typed object: {0}")]
    Config(String),
    /// It has parts that could only be replaced as a whole: their paths.
    #[error("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}", .0.join(", "))]
    Atomic(Vec<String>),
    /// What it is applied to does not fit the type.
    #[error("failed to convert original object to typed object: {0}")]
    Live(String),
    /// They do not go together.
    #[error("failed to merge patch: {0}")]
    Merge(String),
}

/// Merges a configuration into an object: what it does not mention stays. Nothing is defaulted, pruned or tracked.
///
/// # Errors
/// In upstream's words. Lists, maps and structs that are replaced as a whole are refused: what the configuration does not
/// mention of them would be lost.
pub fn apply_plain(live: &Value, config: &Value, schema: &Schema) -> Result<Value, PlainError> {
    let root = Type::root(schema);
    validate(config, root, false).map_err(PlainError::Config)?;
    let mut atomic = Vec::new();
    find_atomic(config, root, &mut String::new(), &mut atomic);
    if !atomic.is_empty() {
        return Err(PlainError::Atomic(atomic));
    }
    validate(live, root, true).map_err(PlainError::Live)?;
    merge(live, config, root).map_err(PlainError::Merge)
}

/// The paths of atomic lists and maps in a configuration that fits its type.
fn find_atomic(value: &Value, ty: Type<'_>, path: &mut String, found: &mut Vec<String>) {
    let len = path.len();
    match (ty.atom(Some(value)), value) {
        (Atom::Map(map), Value::Object(members)) => {
            if map.atomic {
                found.push(path.clone());
            }
            let known = |name: &str| map.field(name).is_some();
            let members: &Map = members;
            for (name, member) in members.iter().filter(|(name, _)| known(name)) {
                let Some((ty, _)) = map.member(name) else { continue };
                path.push_str(&display(&field_key(name)));
                find_atomic(member, ty, path, found);
                path.truncate(len);
            }
        }
        (Atom::List(list), Value::Array(items)) => {
            if *list.list_type == ListType::Atomic {
                found.push(path.clone());
            }
            for (i, item) in items.iter().enumerate() {
                path.push_str(&format!("[{i}]"));
                find_atomic(item, list.items, path, found);
                path.truncate(len);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::builtin;

    fn check(kind: (&str, &str, &str), live: &str, config: &str, expect: Result<&str, &str>) {
        let value = |text: &str| json::decode(text.as_bytes()).expect("JSON");
        let schema = builtin::schema_of(kind.0, kind.1, kind.2).expect("a built-in kind");
        let is = apply_plain(&value(live), &value(config), schema).map_err(|error| error.to_string());
        assert_eq!(is, expect.map(value).map_err(str::to_owned), "{config}");
    }

    #[test]
    fn what_is_not_mentioned_stays_and_what_is_atomic_is_refused() {
        const POD: (&str, &str, &str) = ("", "v1", "Pod");
        let live = r#"{"metadata":{"labels":{"a":"1"}},"spec":{"containers":[{"name":"c","image":"x"}],"nodeSelector":{"a":"b"}}}"#;
        check(
            POD,
            live,
            r#"{"metadata":{"labels":{"b":"2"}},"spec":{"containers":[{"name":"c","imagePullPolicy":"Always"}]}}"#,
            Ok(r#"{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":
                [{"name":"c","image":"x","imagePullPolicy":"Always"}],"nodeSelector":{"a":"b"}}}"#),
        );
        check(
            POD,
            live,
            r#"{"spec":{"nodeSelector":{"c":"d"},"containers":[{"name":"c","command":["x"]}]}}"#,
            Err(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.containers[0].command, \
                 .spec.nodeSelector",
            ),
        );
        check(
            POD,
            live,
            r#"{"spec":{"nothing":1}}"#,
            Err("failed to convert patch object to typed object: .spec.nothing: field not declared in schema"),
        );
    }
}
