//! Custom resources on their way in: what reading one does before it is an object of its kind.

use super::embedded::{coerce_embedded, object_meta};
use super::{DecodeError, Schema, apply_defaults, decode, drop_nulls, prune};
use crate::Value;

/// Reads a custom resource as its version's schema has it: metadata is decoded as ObjectMeta, there and in embedded
/// resources, defaults are set, unspecified members and meaningless nulls removed. Returns the members that went, in the
/// order in which upstream's strict decoding names them: of the metadata, of the rest, of embedded metadata.
///
/// Nothing is copied when nothing changes. An error says what upstream says after `cannot be handled as a KIND: `.
pub fn read_custom(schema: &Schema, value: &mut Value) -> Result<Vec<String>, DecodeError> {
    read(schema, value, drop_nulls)
}

/// [`read_custom`] of what applying a configuration has made: nulls in it were meant, and stay to be validated.
pub fn read_applied(schema: &Schema, value: &mut Value) -> Result<Vec<String>, DecodeError> {
    read(schema, value, |_, _| {})
}

fn read(
    schema: &Schema,
    value: &mut Value,
    drop_nulls: impl FnOnce(&Schema, &mut Value),
) -> Result<Vec<String>, DecodeError> {
    let mut unknown = read_metadata(value)?;
    apply_defaults(schema, value);
    unknown.extend(prune(schema, value));
    drop_nulls(schema, value);
    unknown.extend(coerce_embedded(schema, value).map_err(|error| DecodeError(error.to_string()))?);
    Ok(unknown)
}

/// Decodes the metadata of an object, and returns what ObjectMeta does not know.
pub fn read_metadata(value: &mut Value) -> Result<Vec<String>, DecodeError> {
    let Some(metadata) = value.get("metadata").filter(|m| !m.is_null()) else { return Ok(Vec::new()) };
    let (read, foreign) = decode(object_meta(), metadata.clone())?;
    if read != *metadata {
        value.set(&["metadata"], read);
    }
    Ok(foreign.into_iter().map(|name| format!("metadata.{name}")).collect())
}
