//! What storing makes of lists and maps that are there and empty: protobuf does not tell them from absent ones.

use crate::Value;
use crate::schema::decode::json_schema;
use crate::schema::{Field, Schema, Shape};

/// Empty lists and maps that are members of a built-in type go, or become `null` where Go writes the member always. Nothing
/// is copied when there are none.
pub fn settle(schema: &Schema, value: &mut Value) {
    SETTLE.walk(schema, value);
}

/// Empty lists and maps go that Go leaves out when it writes the type, whatever rules may ask of them.
pub fn omit_empty(schema: &Schema, value: &mut Value) {
    OMIT.walk(schema, value);
}

const SETTLE: Settle = Settle { written: true };
const OMIT: Settle = Settle { written: false };

/// What becomes of empty members.
#[derive(Clone, Copy)]
struct Settle {
    /// Those that are always written become `null`.
    written: bool,
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

/// Whether there may be something to look at in the items of a list or the values of a map.
fn holds_more(schema: &Schema) -> bool {
    matches!(schema.shape, Shape::Ref(_) | Shape::Object(_) | Shape::Map(_) | Shape::List(_) | Shape::SchemaOr(_))
}

impl Settle {
    fn walk(self, schema: &Schema, value: &mut Value) {
        if self.has_empty(schema, value) {
            self.make_absent(schema, value);
        }
    }

    fn changes(self, field: &Field, value: &Value) -> bool {
        (self.written || !field.keep) && is_empty(&field.schema, value)
    }

    fn has_empty(self, schema: &Schema, value: &Value) -> bool {
        match (&schema.resolve().shape, value) {
            (Shape::Object(object), Value::Object(members)) => {
                members.iter().filter(|(_, v)| is_container(v)).any(|(name, v)| {
                    object.field(name).is_some_and(|f| self.changes(f, v) || self.has_empty(&f.schema, v))
                })
            }
            (Shape::Map(values), Value::Object(members)) => {
                holds_more(values) && members.values().any(|v| self.has_empty(values, v))
            }
            (Shape::List(items), Value::Array(array)) => {
                holds_more(items) && array.iter().any(|v| self.has_empty(items, v))
            }
            (Shape::SchemaOr(_), Value::Array(array)) => array.iter().any(|v| self.has_empty(schema, v)),
            (Shape::SchemaOr(_), Value::Object(_)) => self.has_empty(json_schema(), value),
            _ => false,
        }
    }

    fn make_absent(self, schema: &Schema, value: &mut Value) {
        match (&schema.resolve().shape, value) {
            (Shape::Object(object), Value::Object(members)) => {
                members.retain(|name, v| !object.field(name).is_some_and(|f| !f.keep && self.changes(f, v)));
                for (name, v) in members.iter_mut().filter(|(_, v)| is_container(v)) {
                    let Some(field) = object.field(name) else { continue };
                    match self.changes(field, v) {
                        true => *v = Value::Null,
                        false => self.walk(&field.schema, v),
                    }
                }
            }
            (Shape::Map(values), Value::Object(members)) => {
                members.iter_mut().for_each(|(_, v)| self.walk(values, v));
            }
            (Shape::List(items), value @ Value::Array(_)) => {
                value.as_array_mut().into_iter().flatten().for_each(|v| self.walk(items, v));
            }
            (Shape::SchemaOr(_), value @ Value::Array(_)) => {
                value.as_array_mut().into_iter().flatten().for_each(|v| self.walk(schema, v));
            }
            (Shape::SchemaOr(_), value @ Value::Object(_)) => self.walk(json_schema(), value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::builtin;

    #[test]
    fn what_go_always_writes_stays_when_the_rest_is_omitted() {
        let schema = builtin::schema_of("autoscaling", "v2", "HorizontalPodAutoscaler").expect("a kind");
        let text =
            r#"{"spec":{"behavior":{"scaleUp":{"policies":[]}}},"status":{"conditions":[],"currentMetrics":[]}}"#;
        let mut value = json::decode(text.as_bytes()).expect("JSON");
        omit_empty(schema, &mut value);
        let want = r#"{"spec":{"behavior":{"scaleUp":{}}},"status":{"currentMetrics":[]}}"#;
        assert_eq!(String::from_utf8(json::encode(&value)).expect("UTF-8"), want);
    }

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
        let schemas = r#"{"spec":{"group":"g","names":{"kind":"K","plural":"k"},"scope":"Cluster","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"items":{"allOf":[]},"properties":{}}},"served":true,"storage":true}]}}"#;
        check(
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            schemas,
            &schemas.replace(r#""allOf":[]"#, "").replace(r#","properties":{}"#, ""),
        );
        check(
            ("", "v1", "Pod"),
            r#"{"metadata":{"labels":{}},"spec":{"containers":[],"securityContext":{}}}"#,
            r#"{"metadata":{},"spec":{"containers":null,"securityContext":{}}}"#,
        );
    }
}
