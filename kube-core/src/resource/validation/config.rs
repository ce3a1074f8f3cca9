//! Validates opaque configuration and data of drivers.

use machinery::{Value, codec::json, meta::field_error::FieldError};

use super::names;
use crate::validation::{Errors, Field};

/// How many configurations there may be.
pub(super) const MOST: usize = 32;
const MAX_PARAMETERS: usize = 10 * 1024;

/// A configuration. One that is stored already may be longer than new ones.
pub(super) fn opaque(config: &Field<'_>, stored: bool, errors: &mut Errors) {
    let opaque = config.at("opaque");
    if !opaque.is_set() {
        return opaque.required("", errors);
    }
    names::driver(&opaque.at("driver"), errors);
    document(&opaque.at("parameters"), stored, MAX_PARAMETERS, errors);
}

/// A document of at most `most` bytes.
pub(super) fn document(document: &Field<'_>, stored: bool, most: usize, errors: &mut Errors) {
    match document.value() {
        Value::Null => document.required("", errors),
        value if !stored && json::encode(value).len() > most => errors.push(FieldError::too_long(document, most)),
        Value::Object(_) => {}
        _ => document.invalid_as("<value omitted>", "must be a valid JSON object", errors),
    }
}
