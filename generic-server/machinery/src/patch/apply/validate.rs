//! Whether a value fits a type, with upstream's texts: `.spec.replicas: expected numeric (int or float), got string`.

use std::collections::HashSet;

use super::element::{display, field_key};
use super::items::item_key;
use super::types::{Atom, ListAtom, MapAtom, Scalar, Type};
use crate::schema::ListType;
use crate::{Map, Str, Value};

/// Messages with their paths; the path is written from the inside out.
pub(super) struct Problems(Vec<(String, String)>);

/// After this many problems the walk stops: one is enough to refuse.
const ENOUGH: usize = 100;

/// Checks a value, and gives upstream's text for what does not fit. Lists of an applied configuration may not hold an
/// item twice; those of a stored object may.
pub(super) fn validate(value: &Value, ty: Type<'_>, allow_duplicates: bool) -> Result<(), String> {
    let mut problems = Problems(Vec::new());
    Walk { allow_duplicates }.value(value, ty, &mut problems);
    problems.into_result()
}

impl Problems {
    fn add(&mut self, message: String) {
        self.0.push((String::new(), message));
    }

    /// Puts `key` before the paths of the problems from `start` on.
    fn prefix(&mut self, start: usize, key: &str) {
        if start < self.0.len() {
            let shown = display(key);
            for (path, _) in &mut self.0[start..] {
                path.insert_str(0, &shown);
            }
        }
    }

    fn into_result(self) -> Result<(), String> {
        let one = |(path, message): &(String, String)| {
            if path.is_empty() { message.clone() } else { format!("{path}: {message}") }
        };
        match self.0.as_slice() {
            [] => Ok(()),
            [only] => Err(one(only)),
            many => {
                let lines: Vec<String> = many.iter().map(|p| format!("  {}", one(p))).collect();
                Err(format!("errors:\n{}", lines.join("\n")))
            }
        }
    }
}

struct Walk {
    allow_duplicates: bool,
}

impl Walk {
    fn value(&self, value: &Value, ty: Type<'_>, problems: &mut Problems) {
        if problems.0.len() >= ENOUGH {
            return;
        }
        match ty.atom(Some(value)) {
            Atom::Scalar(scalar) => {
                if let Some(message) = scalar_problem(scalar, value) {
                    problems.add(message);
                }
            }
            Atom::List(list) => match value {
                Value::Array(items) => self.list(items, &list, problems),
                Value::Null => {}
                other => problems.add(format!("expected list, got {}", pointer(other))),
            },
            Atom::Map(map) => match value {
                Value::Object(members) => self.map(members, &map, problems),
                Value::Null => {}
                other => problems.add(format!("expected map, got {}", pointer(other))),
            },
        }
    }

    fn map(&self, members: &Map, map: &MapAtom<'_>, problems: &mut Problems) {
        let mut types = map.in_order();
        for (name, value) in members {
            let start = problems.0.len();
            let known = types.member(name);
            match known {
                Some((ty, _)) => self.value(value, ty, problems),
                None => problems.add("field not declared in schema".into()),
            }
            if problems.0.len() > start {
                problems.prefix(start, &field_key(name));
            }
            if known.is_none() {
                return;
            }
        }
    }

    fn list(&self, items: &[Value], list: &ListAtom<'_>, problems: &mut Problems) {
        if matches!(list.list_type, ListType::Atomic) {
            for (i, item) in items.iter().enumerate() {
                let start = problems.0.len();
                self.value(item, list.items, problems);
                if problems.0.len() > start {
                    problems.prefix(start, &format!("i:{i}"));
                }
            }
            return;
        }
        let mut seen: HashSet<Str> = HashSet::new();
        for (i, item) in items.iter().enumerate() {
            let key = match item_key(list, i, item) {
                Ok(key) => key,
                Err(e) => return problems.add(format!("element {i}: {e}")),
            };
            if !seen.insert(key.clone()) && !self.allow_duplicates {
                problems.add(format!("duplicate entries for key {}", display(&key)));
            }
            let start = problems.0.len();
            self.value(item, list.items, problems);
            problems.prefix(start, &key);
        }
    }
}

/// What is wrong with a scalar. Null fits everywhere.
pub(super) fn scalar_problem(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (_, Value::Null)
        | (Scalar::String | Scalar::Any, Value::String(_))
        | (Scalar::Numeric | Scalar::Any, Value::Int(_) | Value::Float(_))
        | (Scalar::Boolean | Scalar::Any, Value::Bool(_)) => None,
        (Scalar::Numeric, _) => Some(format!("expected numeric (int or float), got {}", go_type(value))),
        (Scalar::String, _) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)))
        }
        (Scalar::Boolean, _) => Some(format!("expected boolean, got {}", pointer(value))),
        (Scalar::Any, _) => Some(format!("expected any scalar, got {}", pointer(value))),
    }
}

/// Go's `%v` of the pointer that holds a value.
fn pointer(value: &Value) -> String {
    format!("&{{{}}}", crate::patch::go_format(value))
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::String(s) => crate::meta::go_text::quote(s),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(k, v)| format!("{}:{}", crate::meta::go_text::quote(k), go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        scalar => crate::patch::go_format(scalar),
    }
}
