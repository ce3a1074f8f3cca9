//! Conversions between the language's own types: `int("1")`, `string(1)`.

use machinery::meta::{GoDuration, go_text};

use super::standard::{overflow, unsigned_overflow};
use super::{Call, Library, args};
use crate::types::Type;
use crate::value::{Error, Result, Value, time};

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    /// A function, its result, and what it converts from.
    type Row<'a> = (&'static str, Type, Call, &'a [(&'static str, Type)]);
    let rows: [Row<'_>; 8] = [
        ("bool", Bool, to_bool, &[("bool_to_bool", Bool), ("string_to_bool", String)]),
        ("bytes", Bytes, to_bytes, &[("bytes_to_bytes", Bytes), ("string_to_bytes", String)]),
        (
            "double",
            Double,
            to_double,
            &[
                ("double_to_double", Double),
                ("int64_to_double", Int),
                ("string_to_double", String),
                ("uint64_to_double", Uint),
            ],
        ),
        ("duration", Duration, to_duration, &[("duration_to_duration", Duration), ("string_to_duration", String)]),
        (
            "int",
            Int,
            to_int,
            &[
                ("int64_to_int64", Int),
                ("double_to_int64", Double),
                ("duration_to_int64", Duration),
                ("string_to_int64", String),
                ("timestamp_to_int64", Timestamp),
                ("uint64_to_int64", Uint),
            ],
        ),
        (
            "string",
            String,
            to_string,
            &[
                ("string_to_string", String),
                ("bool_to_string", Bool),
                ("bytes_to_string", Bytes),
                ("double_to_string", Double),
                ("duration_to_string", Duration),
                ("int64_to_string", Int),
                ("timestamp_to_string", Timestamp),
                ("uint64_to_string", Uint),
            ],
        ),
        (
            "timestamp",
            Timestamp,
            to_timestamp,
            &[("timestamp_to_timestamp", Timestamp), ("int64_to_timestamp", Int), ("string_to_timestamp", String)],
        ),
        (
            "uint",
            Uint,
            to_uint,
            &[
                ("uint64_to_uint64", Uint),
                ("double_to_uint64", Double),
                ("int64_to_uint64", Int),
                ("string_to_uint64", String),
            ],
        ),
    ];
    for (name, result, call, overloads) in rows {
        for (id, from) in overloads {
            library.global(name, id, std::slice::from_ref(from), result.clone(), call);
        }
    }
}

fn no_conversion(from: &Value, to: &str) -> Error {
    let from = match from {
        Value::Duration(_) => "google.protobuf.Duration".to_owned(),
        Value::Timestamp(_) => "google.protobuf.Timestamp".to_owned(),
        Value::Null => "null_type".to_owned(),
        other => other.type_of().to_string(),
    };
    Error::Failed(format!("type conversion error from '{from}' to '{to}'"))
}

fn to_bool(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::Bool(b) => Ok(Value::Bool(*b)),
        Value::String(s) => match s.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(no_conversion(value, "bool")),
        },
        _ => Err(Error::no_overload()),
    })
}

fn to_bytes(args: &[Value]) -> Result {
    match args {
        [Value::Bytes(b)] => Ok(Value::Bytes(b.clone())),
        [Value::String(s)] => Ok(Value::Bytes(s.as_bytes().into())),
        _ => Err(Error::no_overload()),
    }
}

fn to_double(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::Double(d) => Ok(Value::Double(*d)),
        Value::Int(i) => Ok(Value::Double(*i as f64)),
        Value::Uint(u) => Ok(Value::Double(*u as f64)),
        Value::String(s) => match s.parse::<f64>() {
            // What is too large is no number, unless it is written so.
            Ok(d) if d.is_infinite() && s.bytes().any(|b| b.is_ascii_digit()) => Err(no_conversion(value, "double")),
            Ok(d) => Ok(Value::Double(d)),
            Err(_) => Err(no_conversion(value, "double")),
        },
        _ => Err(Error::no_overload()),
    })
}

fn to_duration(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::Duration(d) => Ok(Value::Duration(*d)),
        Value::String(s) => match GoDuration::parse(s) {
            Ok(span) => Ok(Value::Duration(span.nanoseconds)),
            Err(_) => Err(no_conversion(value, "google.protobuf.Duration")),
        },
        _ => Err(Error::no_overload()),
    })
}

fn to_int(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::Int(i) => Ok(Value::Int(*i)),
        Value::Uint(u) => i64::try_from(*u).map(Value::Int).map_err(|_| overflow()),
        Value::Double(d) if *d > -9.223_372_036_854_776e18 && *d < 9.223_372_036_854_776e18 => Ok(Value::Int(*d as i64)),
        Value::Double(_) => Err(overflow()),
        Value::Duration(d) => Ok(Value::Int(*d)),
        Value::Timestamp(t) => Ok(Value::Int(t.seconds())),
        Value::String(s) => parse_int(s).map(Value::Int).ok_or_else(|| no_conversion(value, "int")),
        _ => Err(Error::no_overload()),
    })
}

/// Go's ParseInt in base 10.
fn parse_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn to_uint(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::Uint(u) => Ok(Value::Uint(*u)),
        Value::Int(i) => u64::try_from(*i).map(Value::Uint).map_err(|_| unsigned_overflow()),
        Value::Double(d) if *d >= 0.0 && *d < 1.844_674_407_370_955_2e19 => Ok(Value::Uint(*d as u64)),
        Value::Double(_) => Err(unsigned_overflow()),
        Value::String(s) if !s.starts_with('+') => s.parse().map(Value::Uint).map_err(|_| no_conversion(value, "uint")),
        Value::String(_) => Err(no_conversion(value, "uint")),
        _ => Err(Error::no_overload()),
    })
}

fn to_timestamp(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::Timestamp(t) => Ok(Value::Timestamp(*t)),
        Value::Int(seconds) => time::shifted(machinery::meta::Timestamp::new(0, 0), i128::from(*seconds) * 1_000_000_000),
        Value::String(s) => time::parse(s).map(Value::Timestamp).ok_or_else(|| no_conversion(value, "google.protobuf.Timestamp")),
        _ => Err(Error::no_overload()),
    })
}

pub(crate) fn to_string(args: &[Value]) -> Result {
    args!(args, value => match value {
        Value::String(s) => Ok(Value::String(s.clone())),
        Value::Bytes(b) => match std::str::from_utf8(b) {
            Ok(text) => Ok(Value::string(text)),
            Err(_) => Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        other => match plain_text(other) {
            Some(text) => Ok(Value::string(text)),
            None => Err(Error::no_overload()),
        },
    })
}

/// The text of a boolean, a number, a duration or a timestamp.
pub(super) fn plain_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Uint(u) => u.to_string(),
        Value::Double(d) => double_text(*d),
        Value::Duration(d) => time::seconds_text(*d),
        Value::Timestamp(t) => time::text(*t),
        _ => return None,
    })
}

/// Go's shortest form of a float (its `%g`): with an exponent below 1e-4 and from 1e21 on.
pub(super) fn double_text(d: f64) -> String {
    go_text::float(d)
}
