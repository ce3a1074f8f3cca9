//! What decoding JSON into a Go type and encoding it again does to a document: unknown members go, wrong types are refused,
//! nulls and empty members that Go omits go, members that Go always writes come, special values get their canonical form.

mod place;
mod settle;
mod time;

use std::sync::Arc;

pub(crate) use self::place::go_type;
use self::place::{Place, Step};
pub use self::settle::{omit_empty, settle};
use super::{Field, IntFormat, Object, Schema, Shape, ShortForm, StringFormat, builtin};
use crate::json::scan;
use crate::meta::{Quantity, TimeForm};
use crate::{Map, Str, Value};

/// Upstream stops to note unknown members after so many.
const MAX_UNKNOWN: usize = 100;

/// Schemas may nest in schemas without end; documents may not (the codecs' limit is the same).
const MAX_DEPTH: usize = 512;

/// Why a document is not of its type, in Go's words: `json: cannot unmarshal …`, `illegal base64 data …`, `parsing time …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(pub String);

/// The document as the type holds it, and the paths of members that the type does not know (`spec.containers[0].port`), in
/// the order of the tree; at most 100, as upstream.
///
/// Lists and maps that are empty stay where Go would write them empty; [`settle`] makes them what storing makes of them.
pub fn decode(schema: &Schema, value: Value) -> Result<(Value, Vec<String>), DecodeError> {
    decode_text(schema, value, None)
}

/// [`decode`] of a document that was read from this JSON text: quantities that are numbers keep the form in which they were
/// written (`1e3`), and errors show numbers as they were written.
pub fn decode_text(schema: &Schema, value: Value, text: Option<&[u8]>) -> Result<(Value, Vec<String>), DecodeError> {
    let mut decoder = Decoder { unknown: Vec::new(), wrong: None, depth: 0, text };
    let value = decoder.value(schema, value, &Place::ROOT)?;
    match decoder.wrong {
        Some(error) => Err(error),
        None => Ok((value, decoder.unknown)),
    }
}

struct Decoder<'t> {
    unknown: Vec<String>,
    /// The first value of a wrong type. Go goes on, and a value that cannot be parsed wins over it.
    wrong: Option<DecodeError>,
    depth: usize,
    /// The text of the whole document, if it is there.
    text: Option<&'t [u8]>,
}

impl Decoder<'_> {
    /// What stands for `value` in a list, a map or at the root; `null` is the type's zero value.
    fn value(&mut self, schema: &Schema, value: Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        let schema = schema.resolve();
        match (&schema.shape, value) {
            (Shape::Any, value) => Ok(value),
            (Shape::Object(object), Value::Object(members)) => self.object(object, members, place),
            (Shape::Object(object), Value::Null) => self.object(object, Map::new(), place),
            (Shape::Map(values), Value::Object(members)) => self.map(values, members, place),
            (Shape::List(items), Value::Array(array)) => self.list(items, array, place),
            (Shape::Map(_) | Shape::List(_), Value::Null) => Ok(Value::Null),
            (Shape::String(StringFormat::Plain), value @ Value::String(_)) => Ok(value),
            (Shape::String(StringFormat::Plain | StringFormat::Byte), Value::Null) => Ok("".into()),
            (Shape::String(StringFormat::Byte), Value::String(text)) => self.bytes(text),
            (Shape::String(StringFormat::Byte), Value::Array(array)) => self.byte_list(&array, schema, place),
            (Shape::String(StringFormat::Time), value) => self.time(schema, value, TimeForm::Seconds, place),
            (Shape::String(StringFormat::MicroTime), value) => self.time(schema, value, TimeForm::Micros, place),
            (Shape::String(StringFormat::Duration), value @ Value::String(_)) => Ok(value),
            (Shape::Integer(format), Value::Int(i)) if fits(*format, i) => Ok(Value::Int(i)),
            (Shape::Integer(_), Value::Null) => Ok(Value::Int(0)),
            (Shape::Number, Value::Int(i)) => Ok(double(i)),
            (Shape::Number, value @ Value::Float(_)) => Ok(value),
            (Shape::Number, Value::Null) => Ok(Value::Int(0)),
            (Shape::Boolean, value @ Value::Bool(_)) => Ok(value),
            (Shape::Boolean, Value::Null) => Ok(Value::Bool(false)),
            (Shape::IntOrString, value @ Value::String(_)) => Ok(value),
            (Shape::IntOrString, Value::Int(i)) if fits(IntFormat::Int32, i) => Ok(Value::Int(i)),
            (Shape::IntOrString, Value::Null) => Ok(Value::Int(0)),
            (Shape::IntOrString, value) => Err(DecodeError(self.type_error(schema, &value, place))),
            (Shape::Quantity, value @ Value::Float(_)) => quantity(self.as_written(place).unwrap_or(value)),
            (Shape::Quantity, value) => quantity(value),
            (Shape::SchemaOr(form), value) => self.schema_or(*form, value, place),
            (_, value) => {
                self.wrong(schema, &value, place);
                Ok(Value::Null)
            }
        }
    }

    /// A number's text.
    fn as_written(&self, place: &Place<'_>) -> Option<Value> {
        let written = scan::at(self.text?, &place.steps())?;
        Some(Value::from(std::str::from_utf8(written).ok()?))
    }

    fn wrong(&mut self, schema: &Schema, value: &Value, place: &Place<'_>) {
        if self.wrong.is_none() {
            self.wrong = Some(DecodeError(self.type_error(schema, value, place)));
        }
    }

    /// Go's text for a value of a wrong type. A number that an integer cannot hold is shown as it was written.
    fn type_error(&self, schema: &Schema, value: &Value, place: &Place<'_>) -> String {
        let of_integer = matches!(schema.shape, Shape::Integer(_) | Shape::IntOrString);
        let written = match value {
            Value::Float(_) if of_integer => self.as_written(place),
            _ => None,
        };
        match written.as_ref().and_then(Value::as_str) {
            Some(number) => place.type_error(&format!("number {number}"), schema),
            None => place.type_error(&found(schema, value), schema),
        }
    }

    fn object(&mut self, object: &Object, members: Map, place: &Place<'_>) -> Result<Value, DecodeError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(DecodeError("exceeded max depth".into()));
        }
        let mut entries = members.into_entries();
        let mut kept = 0;
        let mut fields = object.fields.as_slice();
        let mut added: Vec<(Str, Value)> = Vec::new();
        for i in 0..entries.len() {
            // Both are sorted by name, so that one pass matches them.
            let name = entries[i].0.as_str();
            let skipped = fields.partition_point(|f| f.name.as_str() < name);
            let (absent, rest) = fields.split_at(skipped);
            let field = rest.first().filter(|f| f.name == name);
            fields = &rest[usize::from(field.is_some())..];
            for field in absent {
                added.extend(self.absent(field, object, place)?);
            }
            let Some(field) = field else {
                self.unknown_member(name, object, place);
                continue;
            };
            let value = std::mem::take(&mut entries[i].1);
            if let Some(value) = self.member(field, value, &place.child(Step::Field(&field.name, object)))? {
                entries[i].1 = value;
                entries.swap(kept, i); // keeps the order: what lies between are members that go
                kept += 1;
            }
        }
        entries.truncate(kept);
        for field in fields {
            added.extend(self.absent(field, object, place)?);
        }
        entries.append(&mut added);
        self.depth -= 1;
        Ok(Value::Object(Map::from_entries(entries)))
    }

    fn unknown_member(&mut self, name: &str, object: &Object, place: &Place<'_>) {
        if self.unknown.len() < MAX_UNKNOWN {
            self.unknown.push(place.child(Step::Field(name, object)).path());
        }
    }

    fn absent(
        &mut self,
        field: &Field,
        object: &Object,
        place: &Place<'_>,
    ) -> Result<Option<(Str, Value)>, DecodeError> {
        if !field.keep {
            return Ok(None);
        }
        let value = self.member(field, Value::Null, &place.child(Step::Field(&field.name, object)))?;
        Ok(value.map(|v| (field.name.clone(), v)))
    }

    /// A member's value; `None` if Go does not write it.
    fn member(&mut self, field: &Field, value: Value, place: &Place<'_>) -> Result<Option<Value>, DecodeError> {
        let nothing = || if field.keep { Some(Value::Null) } else { None };
        let schema = field.schema.resolve();
        if value.is_null() {
            match schema.shape {
                _ if field.pointer => return Ok(nothing()),
                Shape::Any | Shape::List(_) | Shape::Map(_) | Shape::String(StringFormat::Byte) => return Ok(nothing()),
                _ => {}
            }
        }
        let value = self.value(schema, value, place)?;
        let empty = match (&schema.shape, &value) {
            // A short form of which nothing could be read goes when it is stored.
            (Shape::SchemaOr(_), value) => value.is_null(),
            _ if field.keep || field.tells_empty => false,
            (Shape::List(_) | Shape::Map(_), Value::Array(items)) => items.is_empty(),
            (Shape::List(_) | Shape::Map(_), Value::Object(members)) => members.is_empty(),
            (Shape::String(StringFormat::Byte), Value::String(text)) => text.is_empty(),
            (Shape::String(StringFormat::Time | StringFormat::MicroTime), Value::Null) => true,
            _ if field.pointer => false,
            (_, Value::String(text)) => text.is_empty(),
            (_, Value::Int(0) | Value::Bool(false)) => true,
            (_, Value::Float(f)) => *f == 0.0,
            _ => false,
        };
        Ok(if empty { None } else { Some(value) })
    }

    fn map(&mut self, values: &Schema, members: Map, place: &Place<'_>) -> Result<Value, DecodeError> {
        if let Shape::String(StringFormat::Plain) = values.shape
            && members.values().all(|v| matches!(v, Value::String(_)))
        {
            return Ok(Value::Object(members)); // labels, annotations, data: most maps need no second look
        }
        let mut entries = members.into_entries();
        for (key, value) in &mut entries {
            *value = self.value(values, value.take(), &place.child(Step::Key(key)))?;
        }
        Ok(Value::Object(Map::from_entries(entries)))
    }

    fn list(&mut self, items: &Schema, mut array: Arc<Vec<Value>>, place: &Place<'_>) -> Result<Value, DecodeError> {
        if let Shape::String(StringFormat::Plain) = items.shape
            && array.iter().all(|v| matches!(v, Value::String(_)))
        {
            return Ok(Value::Array(array));
        }
        for (i, value) in Arc::make_mut(&mut array).iter_mut().enumerate() {
            *value = self.value(items, value.take(), &place.child(Step::Index(i)))?;
        }
        Ok(Value::Array(array))
    }

    fn bytes(&mut self, text: Str) -> Result<Value, DecodeError> {
        Ok(match packed_base64(&text) {
            Ok(packed) => Value::String(packed),
            Err(at) => {
                self.wrong.get_or_insert_with(|| DecodeError(format!("illegal base64 data at input byte {at}")));
                Value::Null
            }
        })
    }

    /// Go also reads bytes from a list of small numbers.
    fn byte_list(&mut self, array: &[Value], schema: &Schema, place: &Place<'_>) -> Result<Value, DecodeError> {
        use base64::Engine as _;
        let item = Schema::of(Shape::Integer(IntFormat::Uint8));
        let mut bytes = Vec::with_capacity(array.len());
        for (i, value) in array.iter().enumerate() {
            match value {
                Value::Int(b @ 0..=255) => bytes.push(*b as u8),
                Value::Null => bytes.push(0),
                other => self.wrong(
                    if other.as_array().is_some() { schema } else { &item },
                    other,
                    &place.child(Step::Index(i)),
                ),
            }
        }
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes).into())
    }

    fn time(&mut self, schema: &Schema, value: Value, form: TimeForm, place: &Place<'_>) -> Result<Value, DecodeError> {
        match value {
            Value::Null => Ok(Value::Null),
            Value::String(text) if time::is_normal(&text, form) => Ok(Value::String(text)),
            Value::String(text) => time::normalise(&text, form).map(Value::from).map_err(DecodeError),
            other => Err(DecodeError(self.type_error(schema, &other, place))),
        }
    }

    /// The short forms read their schemas leniently: unknown members in them are dropped without a word.
    fn schema_or(&mut self, form: ShortForm, value: Value, place: &Place<'_>) -> Result<Value, DecodeError> {
        let props = json_schema();
        let noted = self.unknown.len();
        let value = match (form, value) {
            (_, value @ Value::Object(_)) => self.value(props, value, place),
            (ShortForm::List, Value::Array(array)) if !array.is_empty() => self.list(props, array, place),
            (ShortForm::Strings, Value::Array(array)) if !array.is_empty() => {
                self.list(&Schema::of(Shape::String(StringFormat::Plain)), array, place)
            }
            (ShortForm::Bool, value @ Value::Bool(_)) => Ok(value),
            (ShortForm::Bool, _) => Err(DecodeError("boolean or JSON schema expected".into())),
            _ => Ok(Value::Null),
        };
        self.unknown.truncate(noted);
        value
    }
}

/// The type that schemas in definitions are of.
fn json_schema() -> &'static Schema {
    builtin::by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
        .map(builtin::schema)
        .expect("the table has JSONSchemaProps")
}

fn fits(format: IntFormat, i: i64) -> bool {
    match format {
        IntFormat::Int64 => true,
        IntFormat::Int32 => i32::try_from(i).is_ok(),
        IntFormat::Uint32 => u32::try_from(i).is_ok(),
        IntFormat::Uint8 => u8::try_from(i).is_ok(),
    }
}

/// Go's word for a JSON value that does not fit. A number that an integer cannot hold is shown.
fn found(schema: &Schema, value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::String(_) => "string".into(),
        Value::Array(_) => "array".into(),
        Value::Object(_) => "object".into(),
        Value::Int(_) | Value::Float(_) if !matches!(schema.shape, Shape::Integer(_) | Shape::IntOrString) => {
            "number".into()
        }
        Value::Int(i) => format!("number {i}"),
        Value::Float(f) => {
            let mut text = b"number ".to_vec();
            crate::value::write_float(&mut text, *f);
            String::from_utf8(text).expect("numbers are ASCII")
        }
    }
}

/// An integer as Go's float64 has it: the nearest double, where there is none for each integer.
fn double(integer: i64) -> Value {
    const EXACT: u64 = 1 << 53;
    if integer.unsigned_abs() <= EXACT { Value::Int(integer) } else { Value::Float(integer as f64) }
}

fn quantity(value: Value) -> Result<Value, DecodeError> {
    let quantity = Quantity::from_value(&value).map_err(|e| DecodeError(e.to_string()))?;
    let text = quantity.text();
    Ok(if value.as_str() == Some(&text) { value } else { text.into() })
}

/// Go reads base64 with line breaks and with bits left over at the end, and writes it without. The error is the byte at
/// which the text goes wrong.
pub fn packed_base64(text: &Str) -> Result<Str, usize> {
    let is_break = |c: char| matches!(c, '\r' | '\n');
    let packed: Str =
        if text.contains(is_break) { text.chars().filter(|c| !is_break(*c)).collect() } else { text.clone() };
    match base64_fault(packed.as_bytes()) {
        None => Ok(without_spare_bits(packed)),
        Some(at) => {
            let mut written = text.char_indices().filter(|(_, c)| !is_break(*c)).flat_map(|(i, c)| i..i + c.len_utf8());
            Err(written.nth(at).unwrap_or(text.len()))
        }
    }
}

/// The same text, with zeros for the bits of its last digit that belong to no byte.
fn without_spare_bits(text: Str) -> Str {
    use base64::Engine as _;
    use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
    const LENIENT: GeneralPurpose =
        GeneralPurpose::new(&base64::alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
    if !text.ends_with('=') {
        return text;
    }
    let last = text.len() - 4; // digits come in groups of four
    match LENIENT.decode(&text[last..]) {
        Ok(bytes) => {
            let end = STANDARD.encode(bytes);
            if text.ends_with(&end) { text } else { format!("{}{end}", &text[..last]).into() }
        }
        Err(_) => text,
    }
}

/// The byte at which padded base64 of the standard alphabet goes wrong, as Go counts; `None` if it does not.
fn base64_fault(bytes: &[u8]) -> Option<usize> {
    let digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let digits = bytes.iter().take_while(|b| digit(b)).count();
    let padding = &bytes[digits..];
    match (digits % 4, padding) {
        (0, []) | (2, b"==") | (3, b"=") => None,
        (left, []) => Some(digits - left), // the last group of four is cut short
        (2, b"=") => Some(bytes.len()),
        (2, [b'=', b'=', ..]) => Some(digits + 2),
        (3, [b'=', ..]) => Some(digits + 1),
        _ => Some(digits), // a foreign byte, or padding where none can be
    }
}

#[cfg(test)]
mod tests;
