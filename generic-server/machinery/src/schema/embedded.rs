//! Resources inside custom resources (`x-kubernetes-embedded-resource`): their metadata decoded as ObjectMeta, checked as
//! objects.

use super::{Schema, Shape, builtin, decode};
use crate::meta::validation::validate_object_meta;
use crate::meta::{FieldError, GroupVersion, Meta, names};
use crate::value::Path;
use crate::{Map, Value};

/// Makes the metadata of embedded resources what ObjectMeta holds. Returns the paths of members that it does not know,
/// sorted. Nothing is copied when nothing changes.
///
/// Errors are those with which upstream refuses to decode the object: metadata of wrong types, an apiVersion or kind that
/// is no string.
pub fn coerce_embedded(schema: &Schema, value: &mut Value) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce(schema, false, value, &Path::ROOT, &mut unknown)?;
    unknown.sort_unstable();
    Ok(unknown)
}

/// The schemas of what an object or list holds.
fn child<'s>(schema: &'s Schema, name: &str) -> Option<(&'s Schema, bool)> {
    match &schema.shape {
        Shape::Object(object) => match object.field(name) {
            Some(field) => Some((&field.schema, true)),
            None => object.additional.as_deref().map(|s| (s, false)),
        },
        Shape::Map(values) => Some((values, false)),
        _ => None,
    }
}

fn items(schema: &Schema) -> Option<&Schema> {
    match &schema.shape {
        Shape::List(items) => Some(items),
        _ => None,
    }
}

/// Whether there is an embedded resource at or below a node; most schemas have none.
fn embeds(schema: &Schema) -> bool {
    if schema.plain {
        return false;
    }
    schema.embedded_resource
        || match &schema.shape {
            Shape::Object(object) => {
                object.fields.iter().any(|f| embeds(&f.schema)) || object.additional.as_deref().is_some_and(embeds)
            }
            Shape::Map(inner) | Shape::List(inner) => embeds(inner),
            _ => false,
        }
}

pub(super) fn coerce(
    schema: &Schema,
    embedded: bool,
    value: &mut Value,
    at: &Path<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    let below = embeds(schema);
    if !below && !embedded {
        return Ok(());
    }
    match value {
        Value::Object(members) => {
            if embedded {
                own_metadata(members, at, unknown)?;
            }
            if !below {
                return Ok(());
            }
            for (name, value) in members.iter_mut() {
                match child(schema, name) {
                    Some((schema, true)) => coerce(schema, schema.embedded_resource, value, &at.field(name), unknown)?,
                    Some((schema, false)) => coerce(schema, schema.embedded_resource, value, &at.key(name), unknown)?,
                    None => {}
                }
            }
        }
        Value::Array(_) => {
            let Some(items) = items(schema) else { return Ok(()) };
            for (i, item) in value.as_array_mut().into_iter().flatten().enumerate() {
                coerce(items, items.embedded_resource, item, &at.index(i), unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn object_meta() -> &'static Schema {
    let id = builtin::by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("the table has ObjectMeta");
    builtin::schema(id)
}

/// Decodes the metadata of one resource in place.
pub(super) fn own_metadata(members: &mut Map, at: &Path<'_>, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = members.get(name).filter(|v| v.as_str().is_none()) {
            return Err(FieldError::invalid(at.field(name), value, "must be a string"));
        }
    }
    let Some(metadata) = members.get("metadata").filter(|m| !m.is_null()) else { return Ok(()) };
    let path = at.field("metadata");
    let (coerced, foreign) = decode(object_meta(), metadata.clone())
        .map_err(|error| FieldError::invalid(path, metadata, error.to_string()))?;
    unknown.extend(foreign.iter().map(|name| path.field(name).to_string()));
    if coerced != *metadata {
        members.insert("metadata", coerced);
    }
    Ok(())
}

/// What is wrong with the embedded resources of a custom resource: each needs an apiVersion and a kind, and metadata that
/// would do for an object (whose name may be missing). The resource itself is checked as every object is.
pub fn validate_embedded(schema: &Schema, value: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if embeds(schema) {
        check(schema, value, at, &mut errors);
    }
    errors
}

fn check(schema: &Schema, value: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            if schema.embedded_resource {
                errors.extend(check_resource(members, at));
            }
            for (name, value) in members {
                match child(schema, name) {
                    Some((schema, true)) => check(schema, value, &at.field(name), errors),
                    Some((schema, false)) => check(schema, value, &at.key(name), errors),
                    None => {}
                }
            }
        }
        Value::Array(array) => {
            let Some(items) = items(schema) else { return };
            array.iter().enumerate().for_each(|(i, item)| check(items, item, &at.index(i), errors));
        }
        _ => {}
    }
}

pub(super) fn check_resource(members: &Map, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match members.get("apiVersion") {
        None => errors.push(FieldError::required(at.field("apiVersion"), "")),
        Some(value) => errors.extend(api_version(value, &at.field("apiVersion"))),
    }
    match members.get("kind") {
        None => errors.push(FieldError::required(at.field("kind"), "")),
        Some(value) => errors.extend(kind(value, &at.field("kind"))),
    }
    if let Some(metadata) = members.get("metadata").filter(|m| !m.is_null()) {
        let mut metadata = metadata.clone();
        if metadata.str_at(&["name"]).is_none_or(str::is_empty) && metadata.as_object().is_some() {
            metadata.set(&["name"], "fakename"); // a name may be missing, and this one is never shown
        }
        let namespaced = metadata.str_at(&["namespace"]).is_some_and(|n| !n.is_empty());
        let path = at.field("metadata");
        errors.extend(validate_object_meta(Meta::new(&metadata), namespaced, names::name_is_path_segment, &path));
    }
    errors
}

fn api_version(value: &Value, at: &Path<'_>) -> Option<FieldError> {
    let fault = match value.as_str() {
        None => "must be a string".to_owned(),
        Some("") => "must not be empty".to_owned(),
        Some(text) => GroupVersion::parse(text).err()?.to_string(),
    };
    Some(FieldError::invalid(at, value, fault))
}

fn kind(value: &Value, at: &Path<'_>) -> Option<FieldError> {
    let fault = match value.as_str() {
        None => "must be a string".to_owned(),
        Some("") => "must not be empty".to_owned(),
        Some(text) => {
            let messages = names::dns1035_label(&text.to_lowercase());
            if messages.is_empty() {
                return None;
            }
            format!("may have mixed case, but should otherwise match: {}", messages.join(","))
        }
    };
    Some(FieldError::invalid(at, value, fault))
}
