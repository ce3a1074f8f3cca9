//! Values as deterministic CBOR.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::head::*;
use super::{SELF_DESCRIBED, schema_of};
use crate::schema::{Schema, Shape, StringFormat};
use crate::{Str, Value};

/// A document. What a built-in type has as bytes or as numbers with a fraction is written so.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = SELF_DESCRIBED.to_vec();
    put(&mut out, document, schema_of(document));
    out
}

/// A document as it is, whatever it says that it is: a custom resource.
pub fn encode_plain(document: &Value) -> Vec<u8> {
    let mut out = SELF_DESCRIBED.to_vec();
    put(&mut out, document, None);
    out
}

/// Appends a value, as a type has it if there is one.
pub fn put(out: &mut Vec<u8>, value: &Value, schema: Option<&Schema>) {
    let shape = schema.map(|schema| &schema.resolve().shape);
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(flag) => out.push(if *flag { 0xf5 } else { 0xf4 }),
        Value::Int(integer) if matches!(shape, Some(Shape::Number)) => put_float(out, *integer as f64),
        Value::Int(integer) => match u64::try_from(*integer) {
            Ok(size) => put_head(out, POSITIVE, size),
            Err(_) => put_head(out, NEGATIVE, !*integer as u64),
        },
        Value::Float(f) => put_float(out, *f),
        Value::String(text) => match bytes_of(text, shape) {
            Some(bytes) => {
                put_head(out, TAG, TAG_BASE64);
                put_bytes(out, &bytes);
            }
            None => put_text(out, text),
        },
        Value::Array(items) => {
            begin_array(out, items.len());
            let of_items = match shape {
                Some(Shape::List(items)) => Some(&**items),
                _ => None,
            };
            for item in items.iter() {
                put(out, item, of_items);
            }
        }
        Value::Object(members) => {
            let mut members: Vec<&(Str, Value)> = members.iter().collect();
            members.sort_unstable_by(|(a, _), (b, _)| (a.len(), a.as_str()).cmp(&(b.len(), b.as_str())));
            begin_map(out, members.len());
            for (name, member) in members {
                put_text(out, name);
                let of_member = match shape {
                    Some(Shape::Object(object)) => object.field(name).map(|field| &field.schema),
                    Some(Shape::Map(values)) => Some(&**values),
                    _ => None,
                };
                put(out, member, of_member);
            }
        }
    }
}

/// The bytes that a text stands for, if its place holds bytes.
fn bytes_of(text: &str, shape: Option<&Shape>) -> Option<Vec<u8>> {
    matches!(shape, Some(Shape::String(StringFormat::Byte))).then(|| STANDARD.decode(text).ok()).flatten()
}

/// Begins an array of so many items.
pub fn begin_array(out: &mut Vec<u8>, items: usize) {
    put_head(out, ARRAY, items as u64);
}

/// Begins a map of so many members.
pub fn begin_map(out: &mut Vec<u8>, members: usize) {
    put_head(out, MAP, members as u64);
}

/// Appends a text.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_head(out, BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_head(out: &mut Vec<u8>, major: u8, argument: u64) {
    let major = major << 5;
    match argument {
        0..=23 => out.push(major | argument as u8),
        24..=0xff => out.extend([major | 24, argument as u8]),
        0x100..=0xffff => {
            out.push(major | 25);
            out.extend((argument as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(major | 26);
            out.extend((argument as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend(argument.to_be_bytes());
        }
    }
}

/// Appends a number in the fewest bytes that hold it exactly.
fn put_float(out: &mut Vec<u8>, f: f64) {
    if let Some(bits) = exact_half(f) {
        out.push(0xf9);
        out.extend(bits.to_be_bytes());
    } else if f64::from(f as f32) == f {
        out.push(0xfa);
        out.extend((f as f32).to_bits().to_be_bytes());
    } else {
        out.push(0xfb);
        out.extend(f.to_bits().to_be_bytes());
    }
}

/// The number in half precision, if that holds it exactly.
fn exact_half(f: f64) -> Option<u16> {
    let (bits, size) = (f.to_bits(), f.abs());
    let sign = (bits >> 48) as u16 & 0x8000;
    let found = if size == 0.0 {
        sign
    } else {
        let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
        match exponent {
            // The lower 42 of the 52 bits of the fraction have no place; the number is read again to see whether they are zero.
            -14..=15 => sign | ((exponent + 15) as u16) << 10 | (bits >> 42 & 0x3ff) as u16,
            -24..=-15 => sign | (size * 2f64.powi(24)) as u16,
            _ => return None,
        }
    };
    (half(found) == f).then_some(found)
}
