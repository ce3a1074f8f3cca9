//! Messages that JSON shows as one value: texts, times, quantities and the like.

use super::wire::{BYTES, Reader, VARINT};
use super::{Fault, ProtoError};
use crate::codec::json;
use crate::meta::{GoDuration, Quantity, TimeForm, Timestamp};
use crate::{Str, Value};

/// Text; bytes that are not UTF-8 become U+FFFD, as they would in JSON.
pub(super) fn text(bytes: &[u8]) -> Str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json::mend_utf8(bytes).into(),
    }
}

pub(super) fn double(f: f64) -> Result<Value, Fault> {
    if f.is_finite() {
        Ok(Value::Float(f))
    } else {
        Err(Box::new(ProtoError::Value(format!("json: unsupported value: {f}"))))
    }
}

pub(super) fn time(bytes: &[u8], form: TimeForm) -> Result<Value, Fault> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes, "Timestamp");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => seconds = reader.varint()? as i64,
            (2, VARINT) => nanos = reader.varint()? as i32,
            (_, wire) => reader.skip(wire)?,
        }
    }
    if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
        return Err(Box::new(ProtoError::Value("Time.MarshalJSON: year outside of range [0,9999]".into())));
    }
    let time = Timestamp::new(seconds, u32::try_from(nanos).unwrap_or(0));
    Ok(if time == Timestamp::ZERO { Value::Null } else { Value::from(time.text(form)) })
}

pub(super) fn duration(bytes: &[u8]) -> Result<Value, Fault> {
    let mut nanos = 0;
    let mut reader = Reader::new(bytes, "Duration");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => nanos = reader.varint()? as i64,
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(Value::from(GoDuration { nanoseconds: nanos }.to_string()))
}

pub(super) fn quantity(bytes: &[u8]) -> Result<Value, Fault> {
    let mut found: &[u8] = b"";
    let mut reader = Reader::new(bytes, "Quantity");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => found = reader.bytes()?,
            (_, wire) => reader.skip(wire)?,
        }
    }
    if found.is_empty() {
        return Ok(Value::from("0"));
    }
    let text = text(found);
    Ok(Value::String(Quantity::parse(&text).map_err(ProtoError::from)?.text()))
}

pub(super) fn int_or_string(bytes: &[u8]) -> Result<Value, Fault> {
    let (mut is_text, mut int, mut string) = (false, 0, Str::default());
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => is_text = reader.varint()? == 1,
            (2, VARINT) => int = reader.varint()? as i32,
            (3, BYTES) => string = text(reader.bytes()?),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(if is_text { Value::String(string) } else { Value::from(int) })
}

pub(super) fn strings(bytes: &[u8]) -> Result<Value, Fault> {
    let mut items = Vec::new();
    let mut reader = Reader::new(bytes, "");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => items.push(Value::String(text(reader.bytes()?))),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(if items.is_empty() { Value::Null } else { Value::from(items) })
}
