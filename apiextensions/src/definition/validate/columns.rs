//! Paths in definitions: of columns, of the scale's parts, of selectable fields.

use std::collections::HashSet;

use machinery::{
    Value,
    meta::field_error::FieldError,
    schema::{Schema, Shape, structural},
    value::{Path, Segment},
};

const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.str_at(&[key]).unwrap_or_default()
}

/// What is wrong with additionalPrinterColumns.
pub(super) fn columns(columns: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let list = columns.as_array().unwrap_or_default();
    list.iter().enumerate().flat_map(|(i, c)| column(c, &at.index(i))).collect()
}

fn column(column: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(column, "name").is_empty() {
        errors.push(FieldError::required(at.field("name"), ""));
    }
    let types = format!("must be one of {}", TYPES.join(","));
    match text(column, "type") {
        "" => errors.push(FieldError::required(at.field("type"), types)),
        kind if !TYPES.contains(&kind) => errors.push(FieldError::invalid(at.field("type"), kind, types)),
        _ => {}
    }
    let format = text(column, "format");
    if !format.is_empty() && !FORMATS.contains(&format) {
        let why = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid(at.field("format"), format, why));
    }
    let at = at.field("JSONPath");
    match text(column, "jsonPath") {
        "" => errors.push(FieldError::required(at, "")),
        path => errors.extend(simple_path(path, &at)),
    }
    errors
}

fn simple_path(path: &str, at: &Path<'_>) -> Option<FieldError> {
    (!path.starts_with('.')).then(|| FieldError::invalid(at, path, "must be a simple json path starting with ."))
}

/// What is wrong with subresources.
pub(super) fn subresources(subresources: &Value, at: &Path<'_>) -> Vec<FieldError> {
    let Some(scale) = subresources.get("scale").filter(|s| s.as_object().is_some()) else { return Vec::new() };
    let mut errors = Vec::new();
    for (key, below) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let name = format!("scale.{key}");
        let at = at.field(&name);
        match text(scale, key) {
            "" => errors.push(FieldError::required(at, "")),
            path => errors.extend(path_below(path, below, &at)),
        }
    }
    let selector = text(scale, "labelSelectorPath");
    if !selector.is_empty() {
        let at = at.field("scale.labelSelectorPath");
        let inside = [".status.", ".spec."].iter().any(|below| selector.starts_with(below));
        if let Some(error) = simple_path(selector, &at) {
            errors.push(error);
        } else if !inside {
            errors.push(FieldError::invalid(at, selector, "should be a json path under either .spec or .status"));
        }
    }
    errors
}

fn path_below(path: &str, below: &str, at: &Path<'_>) -> Option<FieldError> {
    simple_path(path, at).or_else(|| {
        let parent = below.trim_end_matches('.');
        (!path.starts_with(below))
            .then(|| FieldError::invalid(at, path, format!("should be a json path under {parent}")))
    })
}

/// How many fields may be selected by.
const MAX_FIELDS: usize = 8;

/// What is wrong with selectableFields.
pub(super) fn selectable_fields(fields: &Value, schema: &Schema, at: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen: HashSet<Vec<Segment>> = HashSet::new();
    for (i, field) in fields.as_array().unwrap_or_default().iter().enumerate() {
        let item = at.index(i);
        let at = item.field("jsonPath");
        let path = text(field, "jsonPath");
        if path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (steps, target) = match structural::resolve_path(schema, path, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if steps.first() == Some(&Segment::Field("metadata".into())) {
            errors.push(FieldError::invalid(at, path, "must not point to fields in metadata"));
        }
        if !matches!(target.shape, Shape::String(_) | Shape::Boolean | Shape::Integer(_)) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                       formats are allowed.";
            errors.push(FieldError::invalid(at, path, why));
        }
        if !seen.insert(steps) {
            errors.push(FieldError::duplicate(at, path));
        }
    }
    if seen.len() > MAX_FIELDS {
        errors.push(FieldError::too_many(at, seen.len(), MAX_FIELDS));
    }
    errors
}
