//! A merged object in the form of its type. Upstream goes from a map to a Go struct here: numbers are converted, and
//! what a member cannot hold is refused with the converter's words.

use std::sync::Arc;

use crate::Value;
use crate::schema::{IntFormat, Schema, Shape, StringFormat};

/// Converts what differs from `before`; what is shared with it is in form already. The error is upstream's text.
///
/// Strings that are parsed (times, quantities) are left to decoding.
pub(in crate::patch) fn to_type(value: &mut Value, before: Option<&Value>, schema: &Schema) -> Result<(), String> {
    if before.is_some_and(|b| same(value, b)) {
        return Ok(());
    }
    let schema = schema.resolve();
    match (&schema.shape, &mut *value) {
        (_, Value::Null) => Ok(()),
        (Shape::Any | Shape::Quantity | Shape::IntOrString | Shape::SchemaOr(_) | Shape::Ref(_), _) => Ok(()),
        (Shape::Object(object), Value::Object(members)) => {
            for (key, member) in members.iter_mut() {
                if let Some(field) = object.field(key) {
                    to_type(member, before.and_then(|b| b.get(key)), &field.schema)?;
                }
            }
            Ok(())
        }
        (Shape::Object(_), other) => Err(format!("cannot restore struct from: {}", kind(other))),
        (Shape::Map(inner), Value::Object(members)) => {
            for (key, member) in members.iter_mut() {
                if member.is_null() {
                    *member = zero(inner);
                }
                to_type(member, before.and_then(|b| b.get(key)), inner)?;
            }
            Ok(())
        }
        (Shape::Map(_), other) => Err(format!("cannot restore map from {}", kind(other))),
        (Shape::List(inner), Value::Array(items)) => {
            let before = before.and_then(Value::as_array).unwrap_or_default();
            for (i, item) in Arc::make_mut(items).iter_mut().enumerate() {
                to_type(item, before.get(i), inner)?;
            }
            Ok(())
        }
        (Shape::List(_), other) => Err(format!("cannot restore slice from {}", kind(other))),
        (scalar, _) => to_scalar(value, scalar),
    }
}

/// What null stands for as a map's value: there is no absent there.
fn zero(schema: &Schema) -> Value {
    match schema.resolve().shape {
        Shape::String(_) => Value::from(""),
        Shape::Integer(_) | Shape::Number | Shape::IntOrString => Value::Int(0),
        Shape::Boolean => Value::Bool(false),
        Shape::Quantity => Value::from("0"),
        Shape::Object(_) => Value::object(),
        _ => Value::Null,
    }
}

fn to_scalar(value: &mut Value, shape: &Shape) -> Result<(), String> {
    let converted = match (shape, &*value) {
        (Shape::String(StringFormat::Byte), Value::String(text)) => crate::schema::packed_base64(text)
            .map_err(|at| format!("error decoding from json: illegal base64 data at input byte {at}"))?
            .into(),
        (Shape::String(StringFormat::Byte), Value::Array(_)) => return Ok(()),
        (Shape::String(StringFormat::Byte), other) => return Err(format!("cannot restore slice from {}", kind(other))),
        (Shape::String(StringFormat::Plain), Value::String(_)) => return Ok(()),
        // Go could, as the text of that one code point, but JSON has no such conversions.
        (Shape::String(StringFormat::Plain), Value::Int(_)) => return Err("cannot convert int64 to string".into()),
        (Shape::String(StringFormat::Plain), _) => return Err("unrecognized type: string".into()),
        (Shape::Integer(format), Value::Int(i)) => Value::Int(wrap(*i, *format)),
        (Shape::Integer(format), Value::Float(f)) if f.trunc() != *f => {
            return Err(format!("cannot convert float64 to {}", integer_name(*format)));
        }
        (Shape::Integer(format), Value::Float(f)) => Value::Int(wrap(*f as i64, *format)),
        (Shape::Integer(format), _) => return Err(format!("unrecognized type: {}", integer_name(*format))),
        (Shape::Number, Value::Int(_) | Value::Float(_)) => return Ok(()),
        (Shape::Number, _) => return Err("unrecognized type: float64".into()),
        (Shape::Boolean, Value::Bool(_)) => return Ok(()),
        (Shape::Boolean, _) => return Err("unrecognized type: bool".into()),
        _ => return Ok(()),
    };
    *value = converted;
    Ok(())
}

/// Go's conversion keeps the low bits.
fn wrap(i: i64, format: IntFormat) -> i64 {
    match format {
        IntFormat::Int64 => i,
        IntFormat::Int32 => (i as i32).into(),
        IntFormat::Uint32 => (i as u32).into(),
        IntFormat::Uint8 => (i as u8).into(),
    }
}

fn integer_name(format: IntFormat) -> &'static str {
    match format {
        IntFormat::Int64 => "int64",
        IntFormat::Int32 => "int32",
        IntFormat::Uint32 => "uint32",
        IntFormat::Uint8 => "uint8",
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => Arc::ptr_eq(a, b),
        (Value::Object(a), Value::Object(b)) => a.shares(b),
        _ => a == b,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
