//! Validation of custom resources against their schema, with the errors that upstream's kube-openapi gives, in its order.

mod formats;
mod lists;
mod logic;
mod number;
mod ratchet;
mod result;

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

pub use self::formats::{has_format, is_known_format};
pub use self::lists::{list_errors, validate_lists};
use self::ratchet::Old;
use self::result::{Fault, Outcome};
use super::{Object, Schema, Shape, Validation};
use crate::meta::{FieldError, FieldErrorKind};
use crate::value::Path;
use crate::{Map, Value};

/// What is wrong with a value: types, enums, ranges, lengths, patterns, formats, counts, required members, and
/// `allOf`, `anyOf`, `oneOf`, `not`. `at` is where the value stands (the root of a resource, `status`, a default in a CRD);
/// upstream's messages name paths from there on. Members are looked at in the order of their names.
///
/// Differs: after a thousand errors no more are looked for.
pub fn validate(schema: &Schema, value: &Value, at: &Path<'_>) -> Vec<FieldError> {
    Walk::new(at, false).value(schema, value, None, &Path::ROOT).into_errors()
}

/// As [`validate`], for a default in a schema: upstream lets any value stand for an integer or string there.
pub(super) fn validate_default(schema: &Schema, value: &Value, at: &Path<'_>) -> Vec<FieldError> {
    Walk::new(at, true).value(schema, value, None, &Path::ROOT).into_errors()
}

/// As [`validate`], for an update: what was wrong before and is unchanged is let pass (KEP-4008, ratcheting). Old and new
/// items of lists correspond by key (`x-kubernetes-list-type: map`); other lists are one value.
pub fn validate_update(schema: &Schema, old: &Value, new: &Value, at: &Path<'_>) -> Vec<FieldError> {
    ratchet(schema, old, new, at).0
}

/// As [`validate_update`]; and how long it took to compare old and new values, which is done where something is wrong.
pub fn ratchet(schema: &Schema, old: &Value, new: &Value, at: &Path<'_>) -> (Vec<FieldError>, Duration) {
    let old = Old { value: old, schema };
    let walk = Walk::new(at, false);
    let errors = walk.ratcheted(schema, new, Some(old), &Path::ROOT).into_errors();
    (errors, walk.compared.get())
}

/// One validation of one value.
struct Walk<'w> {
    at: &'w Path<'w>,
    of_default: bool,
    /// The length of the texts made for errors so far, those of failed branches too.
    text: Cell<usize>,
    /// How long old and new values were compared.
    compared: Cell<Duration>,
}

/// When this much text was made for errors, the following are made without theirs: most would not be shown.
const MAX_TEXT: usize = 32 << 20;

impl<'w> Walk<'w> {
    fn new(at: &'w Path<'w>, of_default: bool) -> Self {
        Walk { at, of_default, text: Cell::new(0), compared: Cell::default() }
    }
}

impl Walk<'_> {
    /// The types that a node allows, as written.
    fn allowed(&self, schema: &Schema) -> &'static [&'static str] {
        let implied: &[&str] = match &schema.shape {
            Shape::IntOrString if self.of_default => return &[],
            Shape::IntOrString => return &["integer", "string"],
            Shape::Any | Shape::Ref(_) | Shape::Quantity | Shape::SchemaOr(_) => &[],
            Shape::Object(_) | Shape::Map(_) => &["object"],
            Shape::List(_) => &["array"],
            Shape::String(_) => &["string"],
            Shape::Integer(_) => &["integer"],
            Shape::Number => &["number"],
            Shape::Boolean => &["boolean"],
        };
        match &schema.validation {
            Some(v) if v.type_name.is_empty() => &[],
            _ => implied,
        }
    }

    /// A child (member or item) with the old value that corresponds to it: errors of an unchanged value count as warnings.
    fn ratcheted(&self, schema: &Schema, value: &Value, old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
        let mut outcome = self.value(schema, value, old, path);
        if !outcome.is_valid()
            && let Some(old) = old
        {
            let begun = Instant::now();
            let equal = old.equals(value);
            self.compared.set(self.compared.get() + begun.elapsed());
            if equal {
                outcome.forgive();
            }
        }
        outcome
    }

    fn value(&self, schema: &Schema, value: &Value, old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let validation = schema.validation.as_deref();
        if value.is_null() {
            outcome.merge(self.types(schema, value, path));
            self.enumeration(schema, value, path, &mut outcome);
            return outcome;
        }
        let format = validation.and_then(|v| v.format.as_deref());
        if !self.allowed(schema).is_empty() || format.is_some() {
            outcome.merge(self.types(schema, value, path));
            outcome.matched();
        }
        outcome.merge(match validation {
            Some(validation) => self.logic(validation, value, old, path),
            None => Outcome::with_matches(1),
        });
        outcome.matched();
        match value {
            Value::String(text) => {
                if let Some(validation) = validation {
                    self.text(validation, text, path, &mut outcome);
                    self.format(validation, text, path, &mut outcome);
                }
                outcome.matched();
            }
            Value::Int(_) | Value::Float(_) => {
                outcome.merge(number::check(self, schema, value, path));
                outcome.matched();
            }
            Value::Array(array) => {
                outcome.merge(self.list(schema, array, old, path));
                outcome.matched();
            }
            _ => {}
        }
        self.enumeration(schema, value, path, &mut outcome);
        outcome.matched();
        if let Value::Object(members) = value {
            outcome.merge(self.object(schema, members, old, path));
            outcome.matched();
        }
        outcome.matched();
        outcome
    }

    /// An error about the value at `path`; `what` follows upstream's `PATH in body`.
    fn fault(&self, kind: FieldErrorKind, path: &Path<'_>, value: Value, what: &str) -> Fault {
        if self.text.get() > MAX_TEXT {
            return self.textless(kind);
        }
        let message = format!("{path} in body {what}");
        let shown = value.as_str().map_or(0, str::len);
        self.text.set(self.text.get() + 2 * message.len() + shown);
        let field = self.field(path);
        Fault { error: FieldError::new(kind, field, value, message.clone()), message }
    }

    fn textless(&self, kind: FieldErrorKind) -> Fault {
        Fault { message: String::new(), error: FieldError::new(kind, self.at, "", "too many errors") }
    }

    /// An error that upstream gives as plain text: it stands at the root.
    fn plain(&self, message: String) -> Fault {
        Fault { error: FieldError::invalid(self.at, "", message.clone()), message }
    }

    fn field(&self, path: &Path<'_>) -> String {
        match (self.at.is_root(), path.is_root()) {
            (true, _) => path.to_string(),
            (_, true) => self.at.to_string(),
            _ => format!("{}.{path}", self.at),
        }
    }

    fn types(&self, schema: &Schema, value: &Value, path: &Path<'_>) -> Outcome {
        let allowed = self.allowed(schema);
        let format = schema.validation.as_deref().and_then(|v| v.format.as_deref()).filter(|f| is_known_format(f));
        let mismatch = |wanted: &str, found: &str| {
            let what = format!("must be of type {wanted}: {}", crate::meta::go_text::quote(found));
            Outcome::fault(self.fault(FieldErrorKind::TypeInvalid, path, found.into(), &what))
        };
        if value.is_null() {
            return if allowed.is_empty() || schema.nullable {
                Outcome::with_matches(1)
            } else {
                mismatch(&allowed.join(","), "null")
            };
        }
        let (found, found_format) = match value {
            Value::Int(_) => ("integer", "int64"),
            Value::Float(_) => ("number", "float64"),
            other => (other.type_name(), ""),
        };
        let allows = |t: &str| allowed.contains(&t);
        let whole = matches!(value, Value::Float(f) if number::is_whole(*f)) && allows("integer");
        let fits = allows(found) || whole;
        if let Some(format) = format {
            let texts = matches!(value, Value::String(_) | Value::Array(_));
            let integer_as_number = found == "integer" && allows("number");
            if !(texts || fits || integer_as_number || found_format == format) {
                return mismatch(format, found_format);
            }
            if texts && !allows("number") && !allows("integer") {
                return Outcome::with_matches(1);
            }
        }
        if fits || (found == "integer" && allows("number")) || allowed.is_empty() {
            Outcome::with_matches(1)
        } else {
            mismatch(&allowed.join(","), found)
        }
    }

    fn enumeration(&self, schema: &Schema, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let allowed = &schema.enumeration;
        if allowed.is_empty() || allowed.iter().any(|a| same_enum(value, a)) {
            return;
        }
        if self.text.get() > MAX_TEXT {
            outcome.add(self.textless(FieldErrorKind::NotSupported));
            return;
        }
        let texts = allowed.iter().map(|a| match a {
            Value::String(s) => s.to_string(),
            other => crate::json::encode_text(other),
        });
        let error = FieldError::not_supported(self.field(path), value, texts.collect::<Vec<_>>());
        let message = format!("{path} in body should be one of {}", error.detail);
        self.text.set(self.text.get() + 2 * message.len());
        outcome.add(Fault { message, error });
    }

    fn text(&self, validation: &Validation, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
        let length = |limit: Option<i64>| limit.map(|limit| (limit, text.chars().count() as i64));
        let invalid = |what: &str| self.fault(FieldErrorKind::Invalid, path, text.into(), what);
        if let Some((max, length)) = length(validation.max_length)
            && length > max
        {
            let error = FieldError::too_long(self.field(path), max);
            outcome.add(Fault { message: format!("{path} in body should be at most {max} chars long"), error });
        } else if let Some((min, length)) = length(validation.min_length)
            && length < min
        {
            outcome.add(invalid(&format!("should be at least {min} chars long")));
        } else if let Some(pattern) = &validation.pattern {
            match pattern.regex() {
                Ok(regex) if regex.is_match(text) => {}
                Ok(_) => outcome.add(invalid(&format!("should match '{}'", pattern.as_str()))),
                Err(error) => {
                    outcome
                        .add(invalid(&format!("should match '{}, but pattern is invalid: {error}'", pattern.as_str())));
                }
            }
        }
    }

    fn format(&self, validation: &Validation, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
        let Some(format) = validation.format.as_deref() else { return };
        if formats::has_format(format, text) == Some(false) {
            let what = format!("must be of type {format}: {}", crate::meta::go_text::quote(text));
            outcome.add(self.fault(FieldErrorKind::TypeInvalid, path, text.into(), &what));
        }
    }

    fn list(&self, schema: &Schema, array: &[Value], old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if let Shape::List(items) = &schema.shape {
            let corresponding = old.map(|old| old.items(array));
            for (i, value) in array.iter().enumerate() {
                let old = corresponding.as_ref().and_then(|c| c.get(i));
                outcome.merge(self.ratcheted(items, value, old, &path.index(i)));
            }
        }
        if let Some(validation) = schema.validation.as_deref() {
            let size = array.len() as i64;
            if let Some(min) = validation.min_items
                && size < min
            {
                let what = format!("should have at least {min} items");
                outcome.add(self.fault(FieldErrorKind::Invalid, path, size.into(), &what));
            }
            if let Some(max) = validation.max_items
                && size > max
            {
                let error = FieldError::too_many(self.field(path), array.len(), max);
                outcome.add(Fault { message: format!("{path} in body should have at most {max} items"), error });
            }
            if validation.unique_items && !lists::duplicates(array).is_empty() {
                outcome.add(self.fault(FieldErrorKind::Invalid, path, "".into(), "shouldn't contain duplicates"));
            }
        }
        outcome.matched();
        outcome
    }

    fn object(&self, schema: &Schema, members: &Map, old: Option<Old<'_>>, path: &Path<'_>) -> Outcome {
        let validation = schema.validation.as_deref();
        let size = members.len() as i64;
        let mut outcome = Outcome::default();
        if let Some(min) = validation.and_then(|v| v.min_properties)
            && size < min
        {
            let what = format!("should have at least {min} properties");
            outcome.add(self.fault(FieldErrorKind::Invalid, path, size.into(), &what));
        }
        if let Some(max) = validation.and_then(|v| v.max_properties)
            && size > max
        {
            let error = FieldError::too_many(self.field(path), members.len(), max);
            outcome.add(Fault { message: format!("{path} in body should have at most {max} properties"), error });
        }
        let empty = Object::default();
        let (object, values) = match &schema.shape {
            Shape::Object(object) => (&**object, object.additional.as_deref()),
            Shape::Map(values) => (&empty, Some(&**values)),
            _ => (&empty, None),
        };
        // Values under keys that are not specified come first.
        if let Some(values) = values {
            for (name, value) in members.iter().filter(|(name, _)| object.field(name).is_none()) {
                let old = old.and_then(|old| old.member(name));
                outcome.merge(self.ratcheted(values, value, old, &path.field(name)));
            }
        }
        for (_, value, field) in object.join(members) {
            let Some(field) = field else { continue };
            let old = old.and_then(|old| old.member(&field.name));
            outcome.merge(self.ratcheted(&field.schema, value, old, &path.field(&field.name)));
        }
        for name in validation.map_or(&[][..], |v| &v.required) {
            if !members.contains_key(name) {
                let path = path.field(name);
                let error = FieldError::required(self.field(&path), "");
                outcome.add(Fault { message: format!("{path} in body is required"), error });
            }
        }
        outcome
    }
}

/// Whether a value is the one that an enum lists. Go converts numbers to the type of the listed one.
fn same_enum(value: &Value, listed: &Value) -> bool {
    match (value, listed) {
        (Value::Null, _) => false,
        (Value::Int(v), Value::Float(l)) => *v as f64 == *l,
        (Value::Float(v), Value::Int(l)) => v.trunc() == *l as f64,
        _ => value == listed,
    }
}

#[cfg(test)]
mod tests;
