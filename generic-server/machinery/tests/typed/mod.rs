//! Values of built-in types, made of their schemas.

use std::sync::Arc;

use machinery::schema::{Field, IntFormat, Object, Schema, Shape, ShortForm, StringFormat};
use machinery::{Map, Str, Value};
use proptest::prelude::*;
use proptest::sample::select;

/// An object of these members.
pub(crate) fn object(members: Vec<(String, Value)>) -> Value {
    Value::Object(members.into_iter().map(|(name, value)| (Str::from(name), value)).collect::<Map>())
}

/// Values of a built-in type's schema, in the form in which Go keeps them.
pub(crate) fn typed(schema: &'static Schema, depth: u32) -> BoxedStrategy<Value> {
    match &schema.resolve().shape {
        Shape::Object(of) => {
            let fields: Vec<&'static Field> = of.fields.iter().filter(|f| is_in_message(of, f)).collect();
            let members: Vec<_> = fields
                .into_iter()
                .filter(|_| depth > 0)
                .map(|field| {
                    let value = typed(&field.schema, depth - 1);
                    prop::option::weighted(0.35, value).prop_map(|v| v.map(|v| (field.name.to_string(), v)))
                })
                .collect();
            members.prop_map(|members| object(members.into_iter().flatten().collect())).boxed()
        }
        Shape::Map(values) => {
            let values: &'static Schema = Box::leak(Box::new((**values).clone()));
            // A list without items as a map's value is lost on the way: it is an empty message.
            let value = typed(values, depth).prop_filter("items", |v| v.as_array() != Some(&[]));
            prop::collection::vec(("[a-z]{1,8}", value), 0..3).prop_map(object).boxed()
        }
        Shape::List(items) => {
            let items: &'static Schema = Box::leak(Box::new((**items).clone()));
            prop::collection::vec(typed(items, depth), 0..3).prop_map(|v| Value::Array(Arc::new(v))).boxed()
        }
        Shape::String(StringFormat::Plain) => "[ -~é]{0,12}".prop_map(Value::from).boxed(),
        Shape::String(StringFormat::Byte) => select(vec!["AA==", "aGk=", "AgQ="]).prop_map(Value::from).boxed(),
        Shape::String(StringFormat::Time) => {
            select(vec!["2026-11-27T23:08:00Z", "1969-12-31T00:00:00Z"]).prop_map(Value::from).boxed()
        }
        Shape::String(StringFormat::MicroTime) => Just(Value::from("2026-11-27T23:08:00.000123Z")).boxed(),
        Shape::String(StringFormat::Duration) => select(vec!["0s", "1h30m0s"]).prop_map(Value::from).boxed(),
        Shape::Integer(IntFormat::Int32) => any::<i32>().prop_map(Value::from).boxed(),
        Shape::Integer(IntFormat::Int64) => any::<i64>().prop_map(Value::from).boxed(),
        Shape::Integer(_) => (0i64..200).prop_map(Value::Int).boxed(),
        Shape::Number => (-100i64..100).prop_map(|i| Value::Float(i as f64 + 0.5)).boxed(),
        Shape::Boolean => any::<bool>().prop_map(Value::Bool).boxed(),
        Shape::IntOrString => {
            prop_oneof![any::<i32>().prop_map(Value::from), "[a-z%0-9]{0,5}".prop_map(Value::from)].boxed()
        }
        Shape::Quantity => select(vec!["0", "100m", "1Gi", "1536Mi", "2k"]).prop_map(Value::from).boxed(),
        Shape::SchemaOr(ShortForm::Bool) => any::<bool>().prop_map(Value::Bool).boxed(),
        Shape::SchemaOr(_) => Just(object(vec![("type".into(), "string".into())])).boxed(),
        // Raw JSON; the one message without fields is an empty object.
        Shape::Any | Shape::Ref(_) => Just(Value::object()).boxed(),
    }
}

/// apiVersion and kind are in the envelope, not in the message.
fn is_in_message(object: &Object, field: &Field) -> bool {
    field.proto.is_some() || !(object.embedded.is_empty() || matches!(field.name.as_str(), "apiVersion" | "kind"))
}
