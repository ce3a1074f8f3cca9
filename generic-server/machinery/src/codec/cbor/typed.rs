//! Items as values of built-in types.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::any::Reader;
use super::error::CborError;
use super::head::*;
use super::{scalar, wellformed};
use crate::go_text::quote;
use crate::schema::{Field, IntFormat, Object, Schema, Shape, StringFormat, go_type, named_go_type, packed_base64};
use crate::{Map, Str, Value};

/// What a document says that it is: apiVersion and kind. Whatever else it holds only has to be well-formed, with no member
/// twice.
pub fn type_meta(bytes: &[u8]) -> Result<(Str, Str), CborError> {
    static TYPE_META: LazyLock<Schema> = LazyLock::new(|| {
        let field = |name| Field {
            name: Str::new_static(name),
            schema: Schema::of(Shape::String(StringFormat::Plain)),
            ..Field::default()
        };
        let go_type = Some(Str::new_static("v1.TypeMeta"));
        let fields = vec![field("apiVersion"), field("kind")];
        Schema::of(Shape::Object(Arc::new(Object { fields, go_type, ..Object::default() })))
    });
    wellformed::check(bytes)?;
    let found = Decoder { reader: Reader::new(bytes), strict: false }.root(&TYPE_META)?;
    let text = |key| found.get(key).and_then(Value::as_shared_str).cloned().unwrap_or_default();
    Ok((text("apiVersion"), text("kind")))
}

/// Reads a document of a type. Members that the type does not have are left out; the first one of them is told, as strict
/// readers hear of it. Members of the type that are `null` or not there are left for [`crate::schema::decode`].
pub fn decode_as(schema: &Schema, bytes: &[u8]) -> Result<(Value, Option<CborError>), CborError> {
    wellformed::check(bytes)?;
    let read = |strict| Decoder { reader: Reader::new(bytes), strict }.root(schema);
    match read(true) {
        Err(unknown @ CborError::UnknownField(_)) => Ok((read(false)?, Some(unknown))),
        other => Ok((other?, None)),
    }
}

struct Decoder<'a> {
    reader: Reader<'a>,
    /// Whether a member that a type does not have is an error.
    strict: bool,
}

/// A place in a type.
struct Place<'s> {
    schema: &'s Schema,
    /// Go holds a pointer there.
    pointer: bool,
    /// The struct and the member, for the name of its type in Go.
    member: Option<(&'s Object, &'s Field)>,
    /// It is an item of that member.
    is_item: bool,
}

impl<'s> Place<'s> {
    fn of(schema: &'s Schema) -> Self {
        Place { schema, pointer: false, member: None, is_item: false }
    }

    /// What Go calls its type.
    fn go_type(&self) -> String {
        let named = self.member.and_then(|(object, field)| named_go_type(object.definition?, &field.name));
        let named = if self.is_item { named.and_then(|name| name.strip_prefix("[]")) } else { named };
        named.map_or_else(|| go_type(self.schema), str::to_owned)
    }

    fn wrong(&self, major: u8) -> CborError {
        CborError::mismatch(name(major), self.go_type())
    }
}

impl Decoder<'_> {
    fn root(&mut self, schema: &Schema) -> Result<Value, CborError> {
        self.value(&Place::of(schema))
    }

    /// The next item, as its place has it.
    fn value(&mut self, place: &Place<'_>) -> Result<Value, CborError> {
        let before = self.reader.later.len();
        let value = loop {
            if place.pointer && self.reader.is_nil() {
                self.reader.head();
                break Ok(Value::Null);
            }
            self.reader.strip();
            if let Err(error) = self.reader.check_tags() {
                break Err(error);
            }
            if let Some(value) = self.special(place) {
                break value;
            }
            match self.reader.peek().major {
                TAG => self.reader.tag(),
                _ => break self.plain(place),
            }
        };
        self.reader.later.truncate(before);
        value
    }

    /// A value of a type that reads itself. It does not know of the tags around it.
    fn special(&mut self, place: &Place<'_>) -> Option<Result<Value, CborError>> {
        let shape = &place.schema.resolve().shape;
        let is_text = match shape {
            Shape::String(StringFormat::Time | StringFormat::MicroTime) | Shape::Quantity => true,
            Shape::Any | Shape::SchemaOr(_) | Shape::IntOrString | Shape::String(StringFormat::Duration) => false,
            _ => return None,
        };
        let later = std::mem::take(&mut self.reader.later);
        let value = match shape {
            _ if is_text && self.reader.is_nil() => {
                self.reader.head();
                Ok(Value::Null)
            }
            _ if is_text => self.reader.text().map(Value::String),
            Shape::IntOrString => self.int_or_string(),
            _ => self.reader.any().map_err(|error| of_raw(place.schema, &error)),
        };
        self.reader.later = later;
        Some(value)
    }

    fn int_or_string(&mut self) -> Result<Value, CborError> {
        self.reader.strip();
        self.reader.check_tags()?;
        while self.reader.peek().major == TAG {
            self.reader.tag();
        }
        let head = self.reader.peek();
        let value = match head.major {
            POSITIVE | NEGATIVE => {
                self.reader.head();
                integer(head, IntFormat::Int32, "int32")
            }
            BYTES | TEXT => self.reader.text().map(Value::String),
            PRIMITIVE if head.argument == 22 && head.info == 22 => self.reader.text().map(Value::String),
            major => {
                self.reader.skip();
                Err(CborError::mismatch(name(major), "int32"))
            }
        };
        self.reader.later.clear();
        value
    }

    fn plain(&mut self, place: &Place<'_>) -> Result<Value, CborError> {
        let head = self.reader.peek();
        let schema = place.schema.resolve();
        match (head.major, &schema.shape) {
            (POSITIVE | NEGATIVE, Shape::Integer(format)) => {
                self.reader.head();
                integer(head, *format, &place.go_type())
            }
            (POSITIVE | NEGATIVE, Shape::Number) => {
                self.reader.head();
                let value = scalar::value(head);
                match i64::try_from(value) {
                    Ok(integer) => Ok(Value::Int(integer)),
                    Err(_) if head.major == POSITIVE => Ok(Value::Float(value as f64)),
                    Err(_) => Err(scalar::overflow(head, &place.go_type(), "Go's int64")),
                }
            }
            (NEGATIVE, _) if i64::try_from(head.argument).is_err() => {
                self.reader.head();
                Err(scalar::overflow(head, &place.go_type(), "Go's int64"))
            }
            (BYTES | TEXT, Shape::String(StringFormat::Plain)) => self.reader_text(head).map(Value::String),
            (BYTES, Shape::String(StringFormat::Byte)) => self.byte_string(),
            (ARRAY, Shape::List(items)) => self.list(place, items),
            (ARRAY, Shape::String(StringFormat::Byte)) => self.byte_list(),
            (ARRAY, Shape::Object(_)) => {
                self.reader.skip();
                let why = "cannot decode CBOR array to struct without toarray option";
                Err(CborError::detailed(name(ARRAY), place.go_type(), why.to_owned()))
            }
            (MAP, Shape::Object(object)) => self.object(object, &go_type(schema)),
            (MAP, Shape::Map(values)) => {
                let value = Place::of(values);
                let strict = self.strict;
                self.map(&value, strict)
            }
            (PRIMITIVE, shape) => match (head.float(), shape) {
                (Some(f), Shape::Number) => {
                    self.reader.head();
                    Ok(Value::Float(f))
                }
                (Some(_), _) => {
                    self.reader.head();
                    Err(place.wrong(PRIMITIVE))
                }
                (None, shape) => match (self.reader.simple(head)?, shape) {
                    (value @ Value::Bool(_), Shape::Boolean) => Ok(value),
                    (Value::Null, _) => Ok(Value::Null),
                    _ => Err(place.wrong(PRIMITIVE)),
                },
            },
            (TEXT, _) => {
                // What is no text is a wrong text all the same.
                self.reader.text_bytes()?;
                Err(place.wrong(TEXT))
            }
            (major, _) => {
                self.reader.skip();
                Err(place.wrong(major))
            }
        }
    }

    /// A text; a byte string is encoded as the tags around it say.
    fn reader_text(&mut self, head: Head) -> Result<Str, CborError> {
        match head.major {
            TEXT => Ok(scalar::text(&self.reader.text_bytes()?, None)),
            _ => {
                let later = self.reader.later.last().copied();
                Ok(scalar::text(&self.reader.bytes(), later))
            }
        }
    }

    /// The base64 of Go's `[]byte`: bytes if a tag expects an encoding later, and else base64 already.
    fn byte_string(&mut self) -> Result<Value, CborError> {
        let is_raw = !self.reader.later.is_empty();
        let bytes = self.reader.bytes();
        if is_raw {
            return Ok(STANDARD.encode(&bytes).into());
        }
        packed_base64(&scalar::text(&bytes, None)).map(Value::String).map_err(|at| {
            CborError::Other(format!(
                "cbor: failed to decode base64 from byte string: illegal base64 data at input byte {at}"
            ))
        })
    }

    /// Go also reads bytes from a list of small numbers.
    fn byte_list(&mut self) -> Result<Value, CborError> {
        let item = Schema::of(Shape::Integer(IntFormat::Uint8));
        let place = Place::of(&item);
        let (mut bytes, mut wrong) = (Vec::new(), None);
        let mut entries = self.reader.entries();
        while entries.next(&mut self.reader).is_some() {
            match self.value(&place) {
                Ok(Value::Int(byte)) => bytes.push(byte as u8),
                Ok(_) => bytes.push(0),
                Err(error) => _ = wrong.get_or_insert(error),
            }
        }
        wrong.map_or_else(|| Ok(STANDARD.encode(bytes).into()), Err)
    }

    fn list(&mut self, place: &Place<'_>, items: &Schema) -> Result<Value, CborError> {
        self.reader.enter()?;
        let item = Place { schema: items, pointer: false, member: place.member, is_item: true };
        let (mut values, mut wrong) = (Vec::new(), None);
        let mut entries = self.reader.entries();
        while entries.next(&mut self.reader).is_some() {
            match self.value(&item) {
                Ok(value) if wrong.is_none() => values.push(value),
                Ok(_) => {}
                Err(error) => _ = wrong.get_or_insert(error),
            }
        }
        self.reader.leave();
        wrong.map_or(Ok(Value::from(values)), Err)
    }

    fn map(&mut self, value: &Place<'_>, strict: bool) -> Result<Value, CborError> {
        self.reader.map(&mut |reader| {
            let taken = std::mem::replace(reader, Reader::new(&[]));
            let mut decoder = Decoder { reader: taken, strict };
            let read = decoder.value(value);
            *reader = decoder.reader;
            read
        })
    }

    fn object(&mut self, object: &Object, own: &str) -> Result<Value, CborError> {
        self.reader.enter()?;
        let found = self.members(object, own);
        self.reader.leave();
        found.map(|members| Value::Object(Map::from_entries(members)))
    }

    /// The members of a struct. A member that comes twice, or that nobody knows where that counts, ends the struct and is
    /// what is told of it; of all else that is wrong the first is.
    fn members(&mut self, object: &Object, own: &str) -> Result<Vec<(Str, Value)>, CborError> {
        let mut entries = self.reader.entries();
        let (mut members, mut wrong): (Vec<(Str, Value)>, Option<CborError>) = (Vec::new(), None);
        let (mut found, mut unknown) = (HashSet::new(), HashSet::new());
        while let Some(index) = entries.next(&mut self.reader) {
            let key = match self.key(&mut wrong) {
                Ok(Some(key)) => key,
                Ok(None) => {
                    self.reader.skip();
                    continue;
                }
                Err(error) => {
                    self.reader.skip();
                    wrong.get_or_insert(error);
                    continue;
                }
            };
            let field = match &key {
                Key::Text(name) => std::str::from_utf8(name).ok().and_then(|name| object.field(name)),
                Key::Other(_) => None,
            };
            let Some(field) = field else {
                let error = match self.strict {
                    true => CborError::UnknownField(index),
                    false if unknown.contains(&key) => CborError::duplicate(&key.shown(), index),
                    false => {
                        unknown.insert(key);
                        self.reader.skip();
                        continue;
                    }
                };
                self.reader.skip_rest(&mut entries);
                return Err(error);
            };
            if !found.insert(field.name.as_str()) {
                self.reader.skip_rest(&mut entries);
                return Err(CborError::duplicate(&quote(&field.name), index));
            }
            let (schema, pointer) = (&field.schema, field.pointer);
            match self.value(&Place { schema, pointer, member: Some((object, field)), is_item: false }) {
                Ok(value) => members.push((field.name.clone(), value)),
                Err(error) => {
                    wrong.get_or_insert_with(|| error.of_field(|| format!("{own}.{}", field.name)));
                }
            }
        }
        wrong.map_or(Ok(members), Err)
    }

    /// A key of a struct's member; `None` if it is one that nothing can be compared with.
    fn key(&mut self, wrong: &mut Option<CborError>) -> Result<Option<Key>, CborError> {
        let head = self.reader.peek();
        match head.major {
            TEXT => self.reader.text_bytes().map(|text| Some(Key::Text(text.into_owned()))),
            BYTES => Ok(Some(Key::Text(self.reader.bytes().into_owned()))),
            POSITIVE => {
                self.reader.head();
                Ok(Some(Key::Other((head.argument as i64).to_string())))
            }
            NEGATIVE => {
                self.reader.head();
                scalar::integer(head).map(|value| Some(Key::Other(value.to_string()))).map_err(|_| {
                    let why = format!("-1-{} overflows Go's int64", head.argument);
                    CborError::detailed(name(NEGATIVE), "int64", why)
                })
            }
            major => {
                let what = name(major);
                wrong.get_or_insert_with(|| {
                    let why = format!("map key is of type {what} and cannot be used to match struct field name");
                    CborError::detailed(what, "string", why)
                });
                Ok(match self.reader.any() {
                    Ok(Value::String(text)) => Some(Key::Text(text.as_bytes().to_vec())),
                    Ok(Value::Null) => Some(Key::Other("<nil>".into())),
                    Ok(Value::Bool(flag)) => Some(Key::Other(flag.to_string())),
                    Ok(Value::Int(value)) => Some(Key::Other(value.to_string())),
                    Ok(Value::Float(f)) => Some(Key::Other(crate::go_text::float(f))),
                    Ok(Value::Array(_) | Value::Object(_)) | Err(_) => None,
                })
            }
        }
    }
}

/// A key as upstream compares it.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Text(Vec<u8>),
    Other(String),
}

impl Key {
    fn shown(&self) -> Cow<'_, str> {
        match self {
            Key::Text(text) => quote(&String::from_utf8_lossy(text)).into(),
            Key::Other(text) => text.as_str().into(),
        }
    }
}

fn integer(head: Head, format: IntFormat, wanted: &str) -> Result<Value, CborError> {
    let value = scalar::value(head);
    let (least, most) = match format {
        IntFormat::Int64 => (i64::MIN, i64::MAX),
        IntFormat::Int32 => (i32::MIN.into(), i32::MAX.into()),
        IntFormat::Uint32 => (0, u32::MAX.into()),
        IntFormat::Uint8 => (0, u8::MAX.into()),
    };
    match i64::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(Value::Int(value)),
        Ok(_) if head.major == NEGATIVE && least == 0 => Err(CborError::mismatch(name(NEGATIVE), wanted)),
        Err(_) if head.major == NEGATIVE => Err(scalar::overflow(head, wanted, "Go's int64")),
        _ => Err(scalar::overflow(head, wanted, wanted)),
    }
}

/// The error of a value that holds any item, for which upstream's types have words of their own.
fn of_raw(schema: &Schema, error: &CborError) -> CborError {
    let held = match schema.shape {
        Shape::Ref(id) => crate::schema::builtin::type_name(id),
        _ => "",
    };
    CborError::Other(match held {
        "RawExtension" => {
            format!("failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR: {error}")
        }
        "FieldsV1" => format!("failed to transcode FieldsV1 to JSON: metav1.FieldsV1 cbor invalid: {error}"),
        _ => format!("cbor: cannot transcode from cbor to json: {error}"),
    })
}
