//! Structural schemas: a CRD version's `openAPIV3Schema` as a [`Schema`].

mod check;
mod defaults;
mod field_path;
mod internal;
mod invariants;
mod keys;
mod rules;
mod tolerance;

use std::sync::Arc;

pub use self::check::{CheckOptions, Checked, Faulty, RuleCheck, check, has_default};
pub use self::field_path::{PathError, resolve_path};
pub use self::internal::{internal_text, rule_text};
pub use self::tolerance::{Tolerance, needs_structure};

use self::keys::Keys;
use super::{Field, IntFormat, ListType, Object, Pattern, Schema, Shape, StringFormat, Validation};
use crate::value::Seen;
use crate::{Str, Value};

/// Reads an `openAPIV3Schema` as the API holds it (decoded as JSONSchemaProps). What is not structural is read as far as it
/// makes sense; titles, descriptions and the like stay in the document.
pub fn parse(props: &Value) -> Schema {
    node(props, false)
}

/// Reads a node; `nested` ones (in `allOf`, `anyOf`, `oneOf`, `not`) only validate, and have no type of their own.
fn node(props: &Value, nested: bool) -> Schema {
    let type_name = props.str_at(&["type"]).unwrap_or_default();
    let keys = Keys::of(props);
    let flag = |kind: Keys, key: &str| keys.any(kind) && props.get(key).and_then(Value::as_bool).unwrap_or(false);
    let extension = |key: &str| flag(Keys::EXTENSION, key);
    let int_or_string = extension("x-kubernetes-int-or-string");
    let shape = if int_or_string { Shape::IntOrString } else { shape(props, type_name, nested) };
    let of_type = |key: &str| if keys.any(Keys::EXTENSION) { props.str_at(&[key]) } else { None };
    let listed = of_type("x-kubernetes-list-type");
    let schema = Schema {
        nullable: flag(Keys::NULLABLE, "nullable"),
        default: props.get("default").filter(|d| !d.is_null()).cloned(),
        enumeration: if keys.any(Keys::ENUM) { list(props, "enum").to_vec() } else { Vec::new() },
        list_type: match listed {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(strings(props, "x-kubernetes-list-map-keys")),
            _ => ListType::Atomic,
        },
        atomic: listed == Some("atomic") || of_type("x-kubernetes-map-type") == Some("atomic"),
        preserve_unknown_fields: extension("x-kubernetes-preserve-unknown-fields"),
        embedded_resource: extension("x-kubernetes-embedded-resource"),
        validation: (nested || keys.any(Keys::RESTRICTING)).then(|| validation(props, type_name)),
        ..Schema::of(shape)
    };
    Schema { plain: is_plain(&schema), ..schema }
}

/// What [`Schema::plain`] says, from what it says of the nodes right below.
fn is_plain(schema: &Schema) -> bool {
    let below = |child: &Schema| child.plain && child.default.is_none();
    let children = match &schema.shape {
        Shape::Object(object) => {
            object.fields.iter().all(|f| below(&f.schema)) && object.additional.as_deref().is_none_or(below)
        }
        Shape::Map(values) => below(values),
        Shape::List(items) => below(items),
        _ => true,
    };
    children && !schema.embedded_resource && matches!(schema.list_type, ListType::Atomic)
}

fn list<'a>(props: &'a Value, key: &str) -> &'a [Value] {
    props.get(key).and_then(Value::as_array).unwrap_or_default()
}

fn strings(props: &Value, key: &str) -> Vec<Str> {
    list(props, key).iter().filter_map(|s| s.as_shared_str().cloned()).collect()
}

fn shape(props: &Value, type_name: &str, nested: bool) -> Shape {
    let properties = props.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty());
    let additional = match props.get("additionalProperties") {
        Some(Value::Bool(true)) => Some(Schema::default()),
        Some(schema @ Value::Object(_)) => Some(node(schema, nested)),
        _ => None,
    };
    let items = props.get("items").filter(|i| i.as_object().is_some());
    match type_name {
        "object" => {}
        "array" => return Shape::List(Arc::new(items.map_or_else(Schema::default, |i| node(i, nested)))),
        "string" => return Shape::String(StringFormat::Plain),
        "integer" => return Shape::Integer(IntFormat::Int64),
        "number" => return Shape::Number,
        "boolean" => return Shape::Boolean,
        _ if properties.is_some() || additional.is_some() => {}
        _ => return items.map_or(Shape::Any, |i| Shape::List(Arc::new(node(i, nested)))),
    }
    let Some(properties) = properties else {
        return additional.map_or_else(|| Shape::Object(Arc::default()), |s| Shape::Map(Arc::new(s)));
    };
    let required: Seen<&str> = list(props, "required").iter().filter_map(Value::as_str).collect();
    let fields = properties.iter().map(|(name, schema)| Field {
        name: name.clone(),
        schema: node(schema, nested),
        required: required.contains(name),
        ..Field::default()
    });
    Shape::Object(Arc::new(Object {
        fields: fields.collect(),
        additional: additional.map(Arc::new),
        ..Object::default()
    }))
}

/// The members that only restrict values; nodes that have none have no such part, so that they stay small.
fn validation(props: &Value, type_name: &str) -> Box<Validation> {
    let number = |key: &str| props.get(key).and_then(Value::as_f64);
    let count = |key: &str| props.get(key).and_then(Value::as_i64);
    let flag = |key: &str| props.get(key).and_then(Value::as_bool).unwrap_or(false);
    let nodes = |key: &str| list(props, key).iter().map(|s| node(s, true)).collect();
    Box::new(Validation {
        type_name: type_name.into(),
        format: props.get("format").and_then(Value::as_shared_str).filter(|f| !f.is_empty()).cloned(),
        maximum: number("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        minimum: number("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        max_length: count("maxLength"),
        min_length: count("minLength"),
        pattern: props
            .get("pattern")
            .and_then(Value::as_shared_str)
            .filter(|p| !p.is_empty())
            .cloned()
            .map(Pattern::new),
        max_items: count("maxItems"),
        min_items: count("minItems"),
        unique_items: flag("uniqueItems"),
        multiple_of: number("multipleOf"),
        max_properties: count("maxProperties"),
        min_properties: count("minProperties"),
        required: strings(props, "required"),
        all_of: nodes("allOf"),
        one_of: nodes("oneOf"),
        any_of: nodes("anyOf"),
        not: props.get("not").filter(|n| n.as_object().is_some()).map(|n| Box::new(node(n, true))),
        rules: list(props, "x-kubernetes-validations").to_vec(),
        ..Validation::default()
    })
}

#[cfg(test)]
mod tests;
