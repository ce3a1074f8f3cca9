//! What a type says about a member: its schema and its patch strategy.

use crate::patch::PatchError;
use crate::schema::{PatchStrategy, Schema, Shape};

pub(super) type Strategy<'s> = Option<&'s PatchStrategy>;

/// The schema and strategy of the member `key` of an object.
pub(super) fn field<'s>(schema: &'s Schema, key: &str) -> Result<(&'s Schema, Strategy<'s>), PatchError> {
    let schema = schema.resolve();
    match &schema.shape {
        Shape::Object(object) => match object.field(key) {
            Some(field) => Ok((&field.schema, field.schema.patch.as_deref())),
            None => {
                let name = object.message.as_deref().and_then(|m| m.rsplit('.').next()).unwrap_or_default();
                Err(unknown_field(name, key))
            }
        },
        Shape::Any => Err(unknown_field("RawExtension", key)),
        _ => Err(PatchError::Internal(format!(
            "merging an object in json but data type is not struct, instead is: {}",
            kind(schema)
        ))),
    }
}

/// The schema of the items, and the strategy, of the member `key`, a list.
pub(super) fn list_field<'s>(schema: &'s Schema, key: &str) -> Result<(&'s Schema, Strategy<'s>), PatchError> {
    let (member, strategy) = field(schema, key)?;
    match &member.resolve().shape {
        Shape::List(items) => Ok((items, strategy)),
        _ => {
            let parent = kind(schema.resolve());
            Err(PatchError::Internal(format!("expected slice or array type, but got: {parent}")))
        }
    }
}

pub(super) fn merges(strategy: Strategy<'_>) -> bool {
    strategy.is_some_and(|s| s.merge)
}

pub(super) fn merge_key(strategy: Strategy<'_>) -> Option<&str> {
    strategy?.merge_key.as_deref()
}

/// Go's name for what a type is.
pub(super) fn kind(schema: &Schema) -> &'static str {
    match &schema.shape {
        Shape::Object(_) | Shape::Any | Shape::IntOrString | Shape::Quantity | Shape::SchemaOr(_) | Shape::Ref(_) => {
            "struct"
        }
        Shape::Map(_) => "map",
        Shape::List(_) => "slice",
        Shape::String(_) => "string",
        Shape::Integer(_) => "int32",
        Shape::Number => "float64",
        Shape::Boolean => "bool",
    }
}

fn unknown_field(type_name: &str, key: &str) -> PatchError {
    PatchError::Internal(format!("unable to find api field in struct {type_name} for the json field {key:?}"))
}
