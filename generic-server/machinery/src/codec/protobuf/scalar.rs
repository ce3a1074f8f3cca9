//! Messages that JSON shows as one value: texts, times, quantities and the like.

use std::sync::Arc;

use super::names::wrong_wire;
use super::wire::{BYTES, Reader, VARINT};
use super::{Fault, ProtoError};
use crate::json;
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
            (1 | 2, wire) => return Err(wrong_wire(wire, if number == 1 { "seconds" } else { "nanos" })),
            (_, wire) => reader.skip(wire)?,
        }
    }
    if !(-62_167_219_200..=253_402_300_799).contains(&seconds) {
        return Err(Box::new(ProtoError::Value("Time.MarshalJSON: year outside of range [0,9999]".into())));
    }
    let seconds = seconds + i64::from(nanos.div_euclid(1_000_000_000));
    let time = Timestamp::new(seconds, nanos.rem_euclid(1_000_000_000).unsigned_abs());
    Ok(if time == Timestamp::ZERO { Value::Null } else { Value::from(time.text(form)) })
}

pub(super) fn duration(old: Value, bytes: &[u8]) -> Result<Value, Fault> {
    let mut nanos = None;
    let mut reader = Reader::new(bytes, "Duration");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => nanos = Some(reader.varint()? as i64),
            (1, wire) => return Err(wrong_wire(wire, "duration")),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(match nanos {
        None if !old.is_null() => old,
        nanos => Value::from(GoDuration { nanoseconds: nanos.unwrap_or(0) }.to_string()),
    })
}

pub(super) fn quantity(old: Value, bytes: &[u8]) -> Result<Value, Fault> {
    let mut found = if old.is_null() { Value::from("0") } else { old };
    let mut reader = Reader::new(bytes, "Quantity");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => {
                let text = text(reader.bytes()?);
                found = Value::String(Quantity::parse(&text).map_err(ProtoError::from)?.text());
            }
            (1, wire) => return Err(wrong_wire(wire, "string_")),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(found)
}

pub(super) fn int_or_string(old: Value, bytes: &[u8]) -> Result<Value, Fault> {
    let (mut is_text, mut int, mut string) = match old {
        Value::String(old) => (true, 0, old),
        old => (false, old.as_i64().and_then(|i| i32::try_from(i).ok()).unwrap_or(0), Str::default()),
    };
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, VARINT) => is_text = reader.varint()? == 1,
            (2, VARINT) => int = reader.varint()? as i32,
            (3, BYTES) => string = text(reader.bytes()?),
            (1..=3, wire) => return Err(wrong_wire(wire, ["type", "intVal", "strVal"][number as usize - 1])),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(if is_text { Value::String(string) } else { Value::from(int) })
}

pub(super) fn strings(old: Value, bytes: &[u8]) -> Result<Value, Fault> {
    let mut items = if let Value::Array(old) = old { Arc::unwrap_or_clone(old) } else { Vec::new() };
    let mut reader = Reader::new(bytes, "");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => items.push(Value::String(text(reader.bytes()?))),
            (1, wire) => return Err(wrong_wire(wire, "items")),
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(if items.is_empty() { Value::Null } else { Value::from(items) })
}
