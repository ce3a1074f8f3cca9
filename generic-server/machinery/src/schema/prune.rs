//! Pruning: members that a structural schema does not specify are removed.

use super::types::FieldsInOrder;
use super::{Field, Schema, Shape};
use crate::value::Path;
use crate::{Map, Value};

/// Removes what the schema of a custom resource does not specify, and returns the removed members' paths, sorted, as strict
/// decoding names them (`spec.items[1].m`). `apiVersion`, `kind` and `metadata` stay, at the root and in embedded resources.
/// Nothing is copied when nothing is removed.
pub fn prune(schema: &Schema, value: &mut Value) -> Vec<String> {
    run(Spec { schema: Some(schema), root: true }, value)
}

/// As [`prune`], for a value inside a resource: a default in a schema.
pub fn prune_part(schema: &Schema, value: &mut Value) -> Vec<String> {
    run(Spec { schema: Some(schema), root: false }, value)
}

fn run(spec: Spec<'_>, value: &mut Value) -> Vec<String> {
    let mut removed = Vec::new();
    spec.find(value, &Path::ROOT, &mut removed);
    if !removed.is_empty() {
        spec.remove(value);
        removed.sort_unstable();
    }
    removed
}

/// What a place specifies; below a value without a schema nothing is specified.
#[derive(Clone, Copy)]
struct Spec<'a> {
    schema: Option<&'a Schema>,
    root: bool,
}

/// What becomes of a member.
enum Fate<'a> {
    /// It stays as it is.
    Keep,
    /// It stays, pruned in turn.
    Prune(Spec<'a>),
    Remove,
}

impl<'a> Spec<'a> {
    fn part(schema: Option<&'a Schema>) -> Self {
        Spec { schema, root: false }
    }

    fn fate(self, name: &str) -> Fate<'a> {
        let field = match self.schema.map(|s| &s.shape) {
            Some(Shape::Object(object)) => object.field(name),
            _ => None,
        };
        self.fate_of(name, field)
    }

    /// What becomes of a member, given what the object's shape says of it.
    fn fate_of(self, name: &str, field: Option<&'a Field>) -> Fate<'a> {
        let Some(schema) = self.schema else { return Fate::Remove };
        let embedded = self.root || schema.embedded_resource;
        if embedded && matches!(name, "apiVersion" | "kind" | "metadata") {
            return Fate::Keep;
        }
        let specified = match &schema.shape {
            Shape::Object(object) => field.map(|f| &f.schema).or(object.additional.as_deref()),
            Shape::Map(values) => Some(&**values),
            _ => None,
        };
        match specified {
            Some(schema) => Fate::Prune(Spec::part(Some(schema))),
            None if schema.preserve_unknown_fields => Fate::Keep,
            None => Fate::Remove,
        }
    }

    /// What the items of a list are; `None` if they stay as they are.
    fn items(self) -> Option<Spec<'a>> {
        match self.schema {
            Some(Schema { shape: Shape::List(items), .. }) => Some(Spec::part(Some(items))),
            Some(schema) if schema.preserve_unknown_fields => None,
            _ => Some(Spec::part(None)),
        }
    }

    fn find(self, value: &Value, at: &Path<'_>, removed: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                let mut fields = match self.schema.map(|s| &s.shape) {
                    Some(Shape::Object(object)) => Some(FieldsInOrder::of(object)),
                    _ => None,
                };
                for (name, value) in members {
                    let field = fields.as_mut().and_then(|fields| fields.find(name));
                    match self.fate_of(name, field) {
                        Fate::Keep => {}
                        Fate::Prune(spec) => spec.find(value, &at.field(name), removed),
                        Fate::Remove => removed.push(at.field(name).to_string()),
                    }
                }
            }
            Value::Array(array) => {
                if let Some(spec) = self.items() {
                    array.iter().enumerate().for_each(|(i, item)| spec.find(item, &at.index(i), removed));
                }
            }
            _ => {}
        }
    }

    fn remove(self, value: &mut Value) {
        match value {
            Value::Object(members) if self.schema.is_none() => *members = Map::new(),
            Value::Object(members) => {
                members.retain(|name, _| !matches!(self.fate(name), Fate::Remove));
                for (name, value) in members.iter_mut() {
                    if let Fate::Prune(spec) = self.fate(name) {
                        spec.remove(value);
                    }
                }
            }
            Value::Array(_) => {
                if let Some(spec) = self.items() {
                    value.as_array_mut().into_iter().flatten().for_each(|item| spec.remove(item));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::schema::structural;

    fn read(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("JSON")
    }

    const SCHEMA: &str = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
        "a":{"type":"string"},
        "list":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}},
        "map":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"string"}}}},
        "any":{"type":"object","additionalProperties":true},
        "free":{"x-kubernetes-preserve-unknown-fields":true},
        "mixed":{"type":"object","x-kubernetes-preserve-unknown-fields":true,
                 "properties":{"strict":{"type":"object","properties":{"a":{"type":"string"}}}}},
        "emb":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}}}}}}"#;

    #[test]
    fn unspecified_members_go_and_are_named() {
        let check = |text: &str, want: &str, removed: &[&str]| {
            let schema = structural::parse(&read(SCHEMA));
            let mut value = read(&format!(r#"{{"kind":"K","metadata":{{"x":1}},"spec":{text}}}"#));
            assert_eq!(prune(&schema, &mut value), removed);
            assert_eq!(value.get("spec"), Some(&read(want)), "{text}");
            assert!(value.at(&["metadata", "x"]).is_some() && prune(&schema, &mut value).is_empty());
        };
        check(r#"{"a":"x","b":1}"#, r#"{"a":"x"}"#, &["spec.b"]);
        check(
            r#"{"list":[{},{"m":1}],"map":{"k":{"b":1}}}"#,
            r#"{"list":[{},{}],"map":{"k":{}}}"#,
            &["spec.list[1].m", "spec.map.k.b"],
        );
        check(r#"{"any":{"a":1,"b":{"c":1}}}"#, r#"{"any":{"a":1,"b":{}}}"#, &["spec.any.b.c"]);
        check(r#"{"free":[1,{"x":{"y":null}}]}"#, r#"{"free":[1,{"x":{"y":null}}]}"#, &[]);
        check(
            r#"{"mixed":{"strict":{"b":1},"more":{"strict":{"b":1}}}}"#,
            r#"{"mixed":{"strict":{},"more":{"strict":{"b":1}}}}"#,
            &["spec.mixed.strict.b"],
        );
        check(
            r#"{"emb":{"kind":"K","metadata":{"z":1},"spec":{"z":1},"z":1}}"#,
            r#"{"emb":{"kind":"K","metadata":{"z":1},"spec":{}}}"#,
            &["spec.emb.spec.z", "spec.emb.z"],
        );
    }
}
