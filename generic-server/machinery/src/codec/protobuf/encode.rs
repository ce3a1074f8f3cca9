//! [`Value`] to messages: the bytes that upstream's generated code makes of the same object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ProtoError;
use super::envelope::wrap;
use super::plan::{Fields, Holds, Kind, Many, Member, Plan, Target, json_schema_props, plan_of};
use super::wire::{BYTES, VARINT, key, put_bytes, put_message, put_varint};
use crate::json;

use crate::meta::{GoDuration, Quantity, TimeForm, Timestamp};
use crate::schema::{ShortForm, TypeId};
use crate::{Map, Value};

/// An object in its envelope, by its own apiVersion and kind.
pub fn encode(value: &Value) -> Result<Vec<u8>, ProtoError> {
    let (api_version, kind) = type_of(value);
    let plan = plan_for(value)?;
    let mut out = Vec::with_capacity(512);
    wrap(&mut out, api_version, kind, |out| Encoder::new().message(plan, value, out))?;
    Ok(out)
}

/// The message of an object without an envelope, by its own apiVersion and kind.
pub fn message_of(value: &Value) -> Result<Vec<u8>, ProtoError> {
    let mut out = Vec::with_capacity(512);
    Encoder::new().message(plan_for(value)?, value, &mut out)?;
    Ok(out)
}

fn type_of(value: &Value) -> (&str, &str) {
    (value.str_at(&["apiVersion"]).unwrap_or_default(), value.str_at(&["kind"]).unwrap_or_default())
}

fn plan_for(value: &Value) -> Result<&'static Plan, ProtoError> {
    let (api_version, kind) = type_of(value);
    let no_message = || ProtoError::NoMessage { kind: kind.into(), api_version: api_version.into() };
    Target::of_api_version(api_version, kind).and_then(Target::plan).ok_or_else(no_message)
}

/// An object of a definition in an envelope that says this apiVersion and kind.
pub fn encode_as(id: TypeId, api_version: &str, kind: &str, value: &Value) -> Result<Vec<u8>, ProtoError> {
    let mut out = Vec::with_capacity(512);
    wrap(&mut out, api_version, kind, |out| encode_raw(id, value, out))?;
    Ok(out)
}

/// Appends the message of a definition.
pub fn encode_raw(id: TypeId, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtoError> {
    Encoder::new().message(plan_of(id)?, value, out)
}

struct Encoder<'v> {
    /// The values of the members of all messages that are being written, the innermost last.
    found: Vec<Option<&'v Value>>,
}

impl<'v> Encoder<'v> {
    fn new() -> Self {
        Encoder { found: Vec::with_capacity(128) }
    }

    fn message(&mut self, plan: &'static Plan, value: &'v Value, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let first = self.found.len();
        match value {
            Value::Object(members) => self.find(plan, members),
            Value::Null => self.found.resize(first + plan.members.len(), None),
            other => return Err(mismatch(plan.message, other)),
        }
        self.fields(plan, &plan.fields, first, out)?;
        self.found.truncate(first);
        Ok(())
    }

    /// Puts the object's values beside the plan's members: both are sorted by name.
    fn find(&mut self, plan: &'static Plan, members: &'v Map) {
        let mut rest = members.iter().peekable();
        for member in &plan.members {
            while rest.next_if(|(name, _)| *name < member.name).is_some() {}
            let value = rest.next_if(|(name, _)| *name == member.name).map(|(_, value)| value);
            self.found.push(value.filter(|v| !v.is_null()));
        }
    }

    fn fields(
        &mut self,
        plan: &'static Plan,
        fields: &'static Fields,
        first: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        for field in &fields.list {
            match &field.holds {
                Holds::Embedded(_, inner) => {
                    put_message(out, field.key, |out| self.fields(plan, inner, first, out))?;
                }
                Holds::Member(i) => {
                    let (member, value) = (&plan.members[*i], self.found[first + i]);
                    self.field(field.key, member, value, out)?;
                }
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        key: u32,
        member: &'static Member,
        value: Option<&'v Value>,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        match (member.many, value) {
            (Many::One, Some(value)) => self.value(key, member, value, out),
            (Many::One, None) if member.pointer || member.kind == Kind::Bytes => Ok(()),
            (Many::One, None) if matches!(member.kind, Kind::Strings | Kind::SchemaOr(_)) => Ok(()),
            (Many::One, None) => self.value(key, member, &Value::Null, out),
            (_, None) => Ok(()),
            (Many::List, Some(Value::Array(items))) => {
                items.iter().try_for_each(|item| self.value(key, member, item, out))
            }
            (Many::Map, Some(Value::Object(members))) => members.iter().try_for_each(|(name, value)| {
                put_message(out, key, |out| {
                    put_bytes(out, KEY_1, name.as_bytes());
                    self.value(super::wire::key(2, member.kind.wire()), member, value, out)
                })
            }),
            (_, Some(other)) => Err(mismatch(&member.name, other)),
        }
    }

    /// One value with its key; `null` is the zero value.
    fn value(
        &mut self,
        key: u32,
        member: &'static Member,
        value: &'v Value,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        match (member.kind, value) {
            (Kind::Text, Value::String(text)) => put_bytes(out, key, text.as_bytes()),
            (Kind::Text | Kind::Bytes, Value::Null) => put_bytes(out, key, b""),
            (Kind::Bool, Value::Bool(b)) => put_int(out, key, i64::from(*b)),
            (Kind::Int32 | Kind::Int, Value::Int(i)) => put_int(out, key, *i),
            (Kind::Bool | Kind::Int32 | Kind::Int, Value::Null) => put_int(out, key, 0),
            (Kind::Double, value @ (Value::Int(_) | Value::Float(_) | Value::Null)) => {
                put_varint(out, key.into());
                out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            }
            (Kind::Bytes, Value::String(text)) => {
                let bytes = STANDARD.decode(text.as_bytes()).map_err(|_| mismatch(&member.name, value))?;
                put_bytes(out, key, &bytes);
            }
            (Kind::Message(target), value) => put_message(out, key, |out| match target.plan() {
                Some(inner) => self.message(inner, value, out),
                None => Ok(()),
            })?,
            (Kind::SchemaOr(form), value) => put_message(out, key, |out| self.schema_or(form, value, out))?,
            (kind, value) => put_message(out, key, |out| special(kind, member, value, out))?,
        }
        Ok(())
    }

    fn schema_or(&mut self, form: ShortForm, value: &'v Value, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let schema_key = if form == ShortForm::Bool { KEY_2 } else { KEY_1 };
        if form == ShortForm::Bool {
            // A schema implies that others than the named members are allowed.
            put_int(out, key(1, VARINT), i64::from(*value != Value::Bool(false)));
        }
        match value {
            Value::Object(_) => put_message(out, schema_key, |out| self.message(json_schema_props(), value, out)),
            Value::Array(items) => items.iter().try_for_each(|item| match (form, item) {
                (ShortForm::Strings, Value::String(text)) => {
                    put_bytes(out, KEY_2, text.as_bytes());
                    Ok(())
                }
                _ => put_message(out, KEY_2, |out| self.message(json_schema_props(), item, out)),
            }),
            _ => Ok(()),
        }
    }
}

const KEY_1: u32 = key(1, BYTES);
const KEY_2: u32 = key(2, BYTES);
const KEY_3: u32 = key(3, BYTES);

/// Appends the content of a message that JSON shows as something else than an object of its fields.
fn special(kind: Kind, member: &Member, value: &Value, out: &mut Vec<u8>) -> Result<(), ProtoError> {
    match (kind, value) {
        (Kind::Time | Kind::MicroTime, Value::Null) | (Kind::Empty, _) | (Kind::Raw | Kind::Strings, Value::Null) => {}
        (Kind::Time, Value::String(text)) => put_time(out, text, TimeForm::Seconds)?,
        (Kind::MicroTime, Value::String(text)) => put_time(out, text, TimeForm::Micros)?,
        (Kind::Duration, Value::Null) => put_int(out, key(1, VARINT), 0),
        (Kind::Duration, Value::String(text)) => {
            let duration = GoDuration::parse(text).map_err(|e| ProtoError::Value(e.to_string()))?;
            put_int(out, key(1, VARINT), duration.nanoseconds);
        }
        (Kind::Quantity, Value::Null) => put_bytes(out, KEY_1, b"0"),
        (Kind::Quantity, value) => put_bytes(out, KEY_1, Quantity::from_value(value)?.text().as_bytes()),
        (Kind::IntOrString, value) => put_int_or_string(out, value).ok_or_else(|| mismatch(&member.name, value))?,
        (Kind::Raw, value) => put_bytes(out, KEY_1, &json::encode(value)),
        (Kind::Strings, Value::Array(items)) => {
            for item in items.iter() {
                let text = item.as_str().ok_or_else(|| mismatch(&member.name, item))?;
                put_bytes(out, KEY_1, text.as_bytes());
            }
        }
        (_, value) => return Err(mismatch(&member.name, value)),
    }
    Ok(())
}

fn put_int(out: &mut Vec<u8>, key: u32, i: i64) {
    put_varint(out, key.into());
    put_varint(out, i as u64);
}

fn put_time(out: &mut Vec<u8>, text: &str, form: TimeForm) -> Result<(), ProtoError> {
    let time = Timestamp::parse(text, form).map_err(|e| ProtoError::Value(e.to_string()))?;
    if time == Timestamp::ZERO {
        return Ok(());
    }
    let nanos = if form == TimeForm::Seconds { 0 } else { time.nanos() };
    put_int(out, key(1, VARINT), time.seconds());
    put_int(out, key(2, VARINT), nanos.into());
    Ok(())
}

fn put_int_or_string(out: &mut Vec<u8>, value: &Value) -> Option<()> {
    let (kind, int, text) = match value {
        Value::Null => (0, 0, ""),
        Value::Int(i) => (0, *i, ""),
        Value::String(text) => (1, 0, text.as_str()),
        _ => return None,
    };
    put_int(out, key(1, VARINT), kind);
    put_int(out, key(2, VARINT), int);
    put_bytes(out, KEY_3, text.as_bytes());
    Some(())
}

#[cold]
fn mismatch(name: &str, value: &Value) -> ProtoError {
    ProtoError::Value(format!("proto: {name} cannot hold a value of type {}", value.type_name()))
}
