//! Static defaults: what a schema says of absent members, as structural schemas apply them.

use super::{Field, Object, Schema, Shape};
use crate::Value;

/// Sets absent members that have a default, in every object that is there: nested ones, list items, values of maps. A `null`
/// where the schema is not nullable counts as absent. Nothing is copied when nothing is missing.
///
/// Defaults are themselves filled in, as upstream does: the default of a member may be an object with members that have some.
pub fn apply_defaults(schema: &Schema, value: &mut Value) {
    if lacks(schema, value) {
        fill(schema, value);
    }
}

/// Removes nulls that are members of objects, where the schema is neither nullable nor has a default.
pub fn drop_nulls(schema: &Schema, value: &mut Value) {
    if has_nulls(schema, value) {
        remove_nulls(schema, value);
    }
}

/// Whether there is anything in a value to look at: `null`, which may stand for a default, or members and items.
fn is_open(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Array(_) | Value::Object(_))
}

/// Whether the default takes the place of `null`.
fn replaces(schema: &Schema) -> bool {
    !schema.nullable
}

fn default_of(schema: &Schema) -> Option<&Value> {
    schema.default.as_ref().filter(|d| !d.is_null())
}

/// The default of an object's member. One of Go's zeros changes nothing in a built-in type that leaves zeros out.
fn member_default<'a>(object: &Object, field: &'a Field) -> Option<&'a Value> {
    let left_out = object.definition.is_some() && !field.pointer && !field.keep;
    let is_zero = |default: &Value| match default {
        Value::Int(0) | Value::Bool(false) => true,
        other => other.as_str() == Some(""),
    };
    default_of(&field.schema).filter(|default| !(left_out && is_zero(default)))
}

fn lacks(schema: &Schema, value: &Value) -> bool {
    if schema.plain {
        return false;
    }
    match (&schema.resolve().shape, value) {
        (Shape::Object(object), Value::Object(members)) => {
            let missing = object.fields.iter().any(|f| {
                member_default(object, f).is_some()
                    && members.get(&f.name).is_none_or(|v| v.is_null() && replaces(&f.schema))
            });
            missing
                || object.join(members).filter(|(_, v, _)| is_open(v)).any(|(_, v, field)| match field {
                    Some(field) => lacks(&field.schema, v),
                    None => object.additional.as_ref().is_some_and(|s| lacks_item(s, v)),
                })
        }
        (Shape::Map(values), Value::Object(members)) => members.values().any(|v| lacks_item(values, v)),
        (Shape::List(items), Value::Array(array)) => array.iter().any(|v| lacks_item(items, v)),
        _ => false,
    }
}

/// Items and values of maps are there, so that only `null` can stand for one that is missing.
fn lacks_item(schema: &Schema, value: &Value) -> bool {
    if value.is_null() { replaces(schema) && default_of(schema).is_some() } else { lacks(schema, value) }
}

fn fill(schema: &Schema, value: &mut Value) {
    if schema.plain {
        return;
    }
    match (&schema.resolve().shape, value) {
        (Shape::Object(object), Value::Object(members)) => {
            let missing: Vec<_> = object
                .fields
                .iter()
                .filter(|f| members.get(&f.name).is_none_or(|v| v.is_null() && replaces(&f.schema)))
                .filter_map(|f| Some((f.name.clone(), member_default(object, f)?.clone())))
                .collect();
            if !missing.is_empty() {
                members.extend(missing);
            }
            for (name, v) in members.iter_mut().filter(|(_, v)| is_open(v)) {
                match object.field(name) {
                    Some(field) => fill(&field.schema, v),
                    None => object.additional.iter().for_each(|s| fill_item(s, v)),
                }
            }
        }
        (Shape::Map(values), Value::Object(members)) => members.iter_mut().for_each(|(_, v)| fill_item(values, v)),
        (Shape::List(items), value @ Value::Array(_)) => {
            value.as_array_mut().into_iter().flatten().for_each(|v| fill_item(items, v));
        }
        _ => {}
    }
}

fn fill_item(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && replaces(schema)
        && let Some(default) = default_of(schema)
    {
        *value = default.clone();
    }
    fill(schema, value);
}

/// Whether `null` means nothing to a schema.
fn stray(schema: &Schema) -> bool {
    !schema.nullable && default_of(schema).is_none()
}

fn has_nulls(schema: &Schema, value: &Value) -> bool {
    let member = |s: &Schema, v: &Value| if v.is_null() { stray(s) } else { has_nulls(s, v) };
    match (&schema.resolve().shape, value) {
        (Shape::Object(object), Value::Object(members)) => {
            object.join(members).filter(|(_, v, _)| is_open(v)).any(|(_, v, field)| match field {
                Some(field) => member(&field.schema, v),
                None => object.additional.as_ref().is_some_and(|s| member(s, v)),
            })
        }
        (Shape::Map(values), Value::Object(members)) => members.values().any(|v| member(values, v)),
        (Shape::List(items), Value::Array(array)) => array.iter().any(|v| has_nulls(items, v)),
        _ => false,
    }
}

fn remove_nulls(schema: &Schema, value: &mut Value) {
    match (&schema.resolve().shape, value) {
        (Shape::Object(object), Value::Object(members)) => {
            let of = |name: &str| object.field(name).map(|f| &f.schema).or(object.additional.as_deref());
            members.retain(|name, v| !(v.is_null() && of(name).is_some_and(stray)));
            for (name, v) in members.iter_mut().filter(|(_, v)| is_open(v)) {
                if let Some(schema) = of(name) {
                    remove_nulls(schema, v);
                }
            }
        }
        (Shape::Map(values), Value::Object(members)) => {
            members.retain(|_, v| !(v.is_null() && stray(values)));
            members.iter_mut().for_each(|(_, v)| remove_nulls(values, v));
        }
        (Shape::List(items), value @ Value::Array(_)) => {
            value.as_array_mut().into_iter().flatten().for_each(|v| remove_nulls(items, v));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::builtin;

    #[test]
    fn builtins_get_the_tables_defaults() {
        let service = builtin::schema_of("", "v1", "Service").expect("Service");
        let mut value = json::decode(br#"{"spec":{"ports":[{"port":1},{"port":2,"protocol":"UDP"}]}}"#).expect("JSON");
        apply_defaults(service, &mut value);
        let protocols: Vec<_> = value
            .at(&["spec", "ports"])
            .and_then(Value::as_array)
            .expect("ports")
            .iter()
            .map(|p| p.str_at(&["protocol"]))
            .collect();
        assert_eq!(protocols, [Some("TCP"), Some("UDP")]);
    }

    #[test]
    fn builtins_leave_empty_texts_out_that_go_leaves_out() {
        let account = builtin::schema_of("", "v1", "ServiceAccount").expect("ServiceAccount");
        let mut value = json::decode(br#"{"imagePullSecrets":[{}]}"#).expect("JSON");
        let before = value.get("imagePullSecrets").cloned();
        apply_defaults(account, &mut value);
        assert_eq!(value.get("imagePullSecrets").cloned(), before);
    }

    #[test]
    fn a_builtins_default_of_zero_is_not_written_where_go_omits_zero() {
        let controller = builtin::schema_of("", "v1", "ReplicationController").expect("ReplicationController");
        let mut value = json::decode(br#"{"spec":{}}"#).expect("JSON");
        apply_defaults(controller, &mut value);
        assert_eq!(value.at(&["spec", "minReadySeconds"]), None);
        assert_eq!(value.at(&["spec", "replicas"]).and_then(Value::as_i64), Some(1));
    }
}
