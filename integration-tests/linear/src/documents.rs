//! Documents with one list or map that is full.

use std::ops::Range;

use machinery::{
    Map, Str, Value,
    codec::json,
    schema::{Object, Schema, Shape, StringFormat},
};

use crate::places::{Place, Step};

/// What a list may have of the largest body, in bytes: there is some room for what is around it.
pub const LARGEST: usize = (3 << 20) - (64 << 10);

/// What the items are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// As small as they can be, each another one.
    Distinct,
    /// All the same.
    Equal,
    /// With all their scalars, each another one.
    Full,
    /// Paths below each other, where they are texts.
    Nested,
}

impl Items {
    /// All of them.
    pub const ALL: [Items; 4] = [Items::Distinct, Items::Equal, Items::Full, Items::Nested];

    fn number(self, i: usize) -> usize {
        if self == Items::Equal { 0 } else { i }
    }

    fn text(self, i: usize) -> Str {
        match self {
            Items::Nested => format!("a{}/{}", i / 7, i % 7).into(),
            _ => format!("a{}", self.number(i)).into(),
        }
    }
}

/// The value of a place: `i` tells it from others.
fn sample(schema: &Schema, items: Items, i: usize, depth: usize) -> Value {
    let resolved = schema.resolve();
    if let Some(first) = resolved.enumeration.first().or(schema.enumeration.first()) {
        return first.clone();
    }
    match &resolved.shape {
        Shape::Object(object) => Value::Object(members(object, items, i, depth)),
        Shape::List(inner) if depth < 3 => Value::from(vec![sample(inner, items, i, depth + 1)]),
        Shape::Map(inner) if depth < 3 => {
            Value::Object(Map::from_entries(vec![("k".into(), sample(inner, items, i, depth + 1))]))
        }
        Shape::List(_) => Value::from(Vec::<Value>::new()),
        Shape::Map(_) | Shape::Any | Shape::SchemaOr(_) | Shape::Ref(_) => Value::object(),
        Shape::String(StringFormat::Time | StringFormat::MicroTime) => "2024-01-01T00:00:00Z".into(),
        Shape::String(StringFormat::Duration) => "1s".into(),
        Shape::String(StringFormat::Byte) => "YQ==".into(),
        Shape::String(StringFormat::Plain) => Value::from(items.text(i)),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => Value::Int(1 + (items.number(i) % 60_000) as i64),
        Shape::Boolean => Value::Bool(true),
        Shape::Quantity => "1".into(),
    }
}

fn is_text(schema: &Schema) -> bool {
    matches!(schema.resolve().shape, Shape::String(StringFormat::Plain))
}

/// What an object has to have, or a text by which it is told from others; or all its scalars.
fn members(object: &Object, items: Items, i: usize, depth: usize) -> Map {
    let known_by = |name: &str| matches!(name, "name" | "key" | "ip" | "path" | "uid" | "type" | "topologyKey");
    let names = object.fields.iter().any(|f| f.required || (known_by(&f.name) && is_text(&f.schema)));
    let first = object.fields.iter().find(|f| is_text(&f.schema)).map(|f| &f.name);
    let wanted = |field: &&machinery::schema::Field| {
        let scalar = !matches!(field.schema.resolve().shape, Shape::Object(_) | Shape::List(_) | Shape::Map(_));
        field.required
            || (known_by(&field.name) && is_text(&field.schema))
            || (!names && Some(&field.name) == first)
            || (matches!(items, Items::Full | Items::Nested) && scalar)
    };
    let fields = object.fields.iter().filter(wanted);
    Map::from_entries(fields.map(|f| (f.name.clone(), sample(&f.schema, items, i, depth + 1))).collect())
}

/// The list or map of a place with these items.
fn full(schema: &Schema, items: Items, numbers: Range<usize>) -> Value {
    match &schema.shape {
        Shape::List(inner) => numbers.map(|i| sample(inner, items, i, 0)).collect(),
        Shape::Map(inner) => {
            // Keys are each another one, whatever the values are.
            let entry = |i: usize| (Str::from(format!("a{i}")), sample(inner, items, i, 0));
            Value::Object(Map::from_entries(numbers.map(entry).collect()))
        }
        _ => unreachable!("places are lists and maps"),
    }
}

/// How many items there is room for in so many bytes.
pub fn fitting(place: &Place<'_>, items: Items, room: usize) -> usize {
    const SOME: usize = 64;
    // Numbers grow: a later item says how long most of them are.
    room * SOME / json::encode(&full(place.schema, items, 100_000..100_000 + SOME)).len()
}

/// An object of a type in which one place has these items, and everything on the way to it is as it has to be.
pub fn document(root: &Schema, kind: (&str, &str), place: &Place<'_>, items: Items, numbers: Range<usize>) -> Value {
    let mut document = within(root, &place.steps, &full(place.schema, items, numbers));
    document.set(&["apiVersion"], kind.0);
    document.set(&["kind"], kind.1);
    document.set(&["metadata", "name"], "one");
    document
}

fn within(schema: &Schema, steps: &[Step], value: &Value) -> Value {
    let Some((step, rest)) = steps.split_first() else { return value.clone() };
    match (step, &schema.resolve().shape) {
        (Step::Field(name), Shape::Object(object)) => {
            let mut members = members(object, Items::Distinct, 0, 0);
            let field = object.field(name).expect("the step was taken from it");
            members.insert(name.clone(), within(&field.schema, rest, value));
            Value::Object(members)
        }
        (Step::Item, Shape::List(inner)) => Value::from(vec![within(inner, rest, value)]),
        (Step::Key, Shape::Map(inner)) => {
            Value::Object(Map::from_entries(vec![("k".into(), within(inner, rest, value))]))
        }
        _ => unreachable!("steps lead through the type that they were taken from"),
    }
}
