//! What storing makes of lists and maps that are there and empty: protobuf does not tell them from absent ones.

use crate::Value;
use crate::schema::{Object, Schema, Shape};

/// Empty lists and maps that are members of a built-in type go, or become `null` where Go writes the member always. Nothing
/// is copied when there are none.
pub fn settle(schema: &Schema, value: &mut Value) {
    if has_empty(schema, value) {
        make_absent(schema, value);
    }
}

fn is_empty(schema: &Schema, value: &Value) -> bool {
    match (&schema.resolve().shape, value) {
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_), Value::Object(members)) => members.is_empty(),
        _ => false,
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

fn has_empty(schema: &Schema, value: &Value) -> bool {
    match (&schema.resolve().shape, value) {
        (Shape::Object(object), Value::Object(members)) => members
            .iter()
            .filter(|(_, v)| is_container(v))
            .any(|(name, v)| object.field(name).is_some_and(|f| is_empty(&f.schema, v) || has_empty(&f.schema, v))),
        (Shape::Map(values), Value::Object(members)) => {
            holds_more(values) && members.values().any(|v| has_empty(values, v))
        }
        (Shape::List(items), Value::Array(array)) => holds_more(items) && array.iter().any(|v| has_empty(items, v)),
        _ => false,
    }
}

/// Whether there may be something to look at in the items of a list or the values of a map.
fn holds_more(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Ref(_) | Shape::Object(_) | Shape::Map(_) | Shape::List(_))
}

fn make_absent(schema: &Schema, value: &mut Value) {
    match (&schema.resolve().shape, value) {
        (Shape::Object(object), Value::Object(members)) => {
            members.retain(|name, v| !goes(object, name, v));
            for (name, v) in members.iter_mut().filter(|(_, v)| is_container(v)) {
                let Some(field) = object.field(name) else { continue };
                if is_empty(&field.schema, v) {
                    *v = Value::Null;
                } else {
                    settle(&field.schema, v);
                }
            }
        }
        (Shape::Map(values), Value::Object(members)) => members.iter_mut().for_each(|(_, v)| settle(values, v)),
        (Shape::List(items), value @ Value::Array(_)) => {
            value.as_array_mut().into_iter().flatten().for_each(|v| settle(items, v));
        }
        _ => {}
    }
}

fn goes(object: &Object, name: &str, value: &Value) -> bool {
    object.field(name).is_some_and(|field| !field.keep && is_empty(&field.schema, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::builtin;

    #[test]
    fn what_is_empty_is_absent_once_it_is_stored() {
        let check = |(group, version, kind): (&str, &str, &str), text: &str, want: &str| {
            let schema = builtin::schema_of(group, version, kind).expect("a kind");
            let mut value = json::decode(text.as_bytes()).expect("JSON");
            settle(schema, &mut value);
            assert_eq!(String::from_utf8(json::encode(&value)).expect("UTF-8"), want);
        };
        let role = ("rbac.authorization.k8s.io", "v1", "Role");
        check(role, r#"{"rules":[]}"#, r#"{"rules":null}"#);
        check(role, r#"{"rules":[{"verbs":[]}]}"#, r#"{"rules":[{"verbs":null}]}"#);
        check(role, r#"{"rules":[{"resources":[],"verbs":["get"]}]}"#, r#"{"rules":[{"verbs":["get"]}]}"#);
        check(("", "v1", "Secret"), r#"{"data":{"a":""},"metadata":{}}"#, r#"{"data":{"a":""},"metadata":{}}"#);
        check(
            ("", "v1", "Pod"),
            r#"{"metadata":{"labels":{}},"spec":{"containers":[],"securityContext":{}}}"#,
            r#"{"metadata":{},"spec":{"containers":null,"securityContext":{}}}"#,
        );
    }
}
