//! Gnostic's protobuf form of OpenAPI documents, which clients from before OpenAPI v3 ask for. One encoder walks a document
//! along a table of fields; [`v2`] and [`v3`] are the tables. What a table does not know is left out.

pub(super) mod v2;
pub(super) mod v3;

use std::convert::Infallible;

use machinery::{
    Value,
    codec::{
        protobuf::wire::{self, BYTES, FIXED64, VARINT, key, put_bytes, put_varint},
        yaml,
    },
    schema::openapi::Flavor,
};

use super::members::Part;

/// How a value is written.
pub(super) enum Type {
    Text,
    Flag,
    Integer,
    Number,
    /// Anything, as YAML in a message of its own.
    Any,
    /// A message whose fields are members of an object.
    Message(&'static [Field]),
    /// A message that holds one of several things under a number of its own.
    Choice(fn(&Value) -> Option<(u32, &'static Type)>),
    /// A message of pairs of a name and a value, for an object with any members.
    Named(u32, &'static Type),
    /// A message of several values, for an array or for a value that may stand alone.
    List(u32, &'static Type),
}

/// A field of a message.
pub(super) struct Field {
    member: &'static str,
    number: u32,
    /// Whether the member is an array and the field repeated.
    repeated: bool,
    of: &'static Type,
}

/// The member name of a field that takes all of `x-…`.
const EXTENSIONS: &str = "x-";

const fn one(member: &'static str, number: u32, of: &'static Type) -> Field {
    Field { member, number, repeated: false, of }
}

const fn many(member: &'static str, number: u32, of: &'static Type) -> Field {
    Field { member, number, repeated: true, of }
}

const fn extensions(number: u32) -> Field {
    many(EXTENSIONS, number, &Type::Any)
}

/// Appends a member of a document's paths or definitions, as it stands in the message of all of them.
pub(super) fn put_member(out: &mut Vec<u8>, flavor: Flavor, part: Part, name: &str, value: &Value) {
    let of = match (flavor, part) {
        (Flavor::V2, Part::Paths) => &v2::PATHS,
        (Flavor::V2, Part::Definitions) => &v2::SCHEMAS,
        (Flavor::V2, Part::Parameters) => &v2::PARAMETERS,
        (Flavor::V3, Part::Paths) => &v3::PATHS,
        (Flavor::V3, Part::Definitions) => &v3::SCHEMAS,
        (Flavor::V3, Part::Parameters) => unreachable!("documents of v3 share no parameters"),
    };
    if let Type::Named(number, of) = of {
        put_named(out, *number, of, name, value);
    }
}

/// The fields of a message.
pub(super) fn encode(of: &Type, document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_body(&mut out, of, document);
    out
}

/// Appends a field that holds what `write` appends.
fn put_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let done: Result<(), Infallible> = wire::put_message(out, key(number, BYTES), |out| {
        write(out);
        Ok(())
    });
    match done {
        Ok(()) => {}
    }
}

/// Appends a field. `zeros`: also where the value is what an absent field means.
fn put(out: &mut Vec<u8>, number: u32, of: &Type, value: &Value, zeros: bool) {
    match of {
        Type::Text => {
            if let Some(text) = value.as_str().filter(|text| zeros || !text.is_empty()) {
                put_bytes(out, key(number, BYTES), text.as_bytes());
            }
        }
        Type::Flag => {
            if let Some(flag) = value.as_bool().filter(|flag| zeros || *flag) {
                put_varint(out, key(number, VARINT).into());
                put_varint(out, flag.into());
            }
        }
        Type::Integer => {
            if let Some(integer) = value.as_i64().filter(|integer| zeros || *integer != 0) {
                put_varint(out, key(number, VARINT).into());
                put_varint(out, integer.cast_unsigned());
            }
        }
        Type::Number => {
            if let Some(float) = value.as_f64().filter(|float| zeros || *float != 0.0) {
                put_varint(out, key(number, FIXED64).into());
                out.extend_from_slice(&float.to_le_bytes());
            }
        }
        Type::Choice(choose) if choose(value).is_none() => {}
        of => put_message(out, number, |out| put_body(out, of, value)),
    }
}

/// Appends the fields of a message.
fn put_body(out: &mut Vec<u8>, of: &Type, value: &Value) {
    match of {
        Type::Text | Type::Flag | Type::Integer | Type::Number => {}
        Type::Any => put_bytes(out, key(2, BYTES), &yaml::encode(value)),
        Type::Message(fields) => fields.iter().for_each(|field| put_field(out, field, value)),
        Type::Choice(choose) => {
            if let Some((number, of)) = choose(value) {
                put(out, number, of, value, true);
            }
        }
        Type::Named(number, of) => {
            for (name, value) in value.as_object().into_iter().flat_map(|map| map.iter()) {
                put_named(out, *number, of, name, value);
            }
        }
        Type::List(number, of) => match value {
            Value::Array(_) => {
                for item in value.as_array().into_iter().flatten() {
                    put(out, *number, of, item, true);
                }
            }
            alone => put(out, *number, of, alone, true),
        },
    }
}

fn put_field(out: &mut Vec<u8>, field: &Field, value: &Value) {
    if field.member == EXTENSIONS {
        for (name, value) in value.as_object().into_iter().flat_map(|map| map.iter()) {
            if name.starts_with(EXTENSIONS) {
                put_named(out, field.number, field.of, name, value);
            }
        }
        return;
    }
    let Some(held) = value.get(field.member) else { return };
    if field.repeated {
        for item in held.as_array().into_iter().flatten() {
            put(out, field.number, field.of, item, true);
        }
    } else {
        put(out, field.number, field.of, held, false);
    }
}

fn put_named(out: &mut Vec<u8>, number: u32, of: &Type, name: &str, value: &Value) {
    put_message(out, number, |out| {
        put_bytes(out, key(1, BYTES), name.as_bytes());
        put(out, 2, of, value, false);
    });
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn documents_are_written_by_gnostics_numbers() {
        let check = |of: &Type, value: Value, expect: &[u8]| assert_eq!(encode(of, &value), expect, "{value:?}");
        check(&v2::DOCUMENT, object! { "swagger" => "2.0", "unknown" => 1 }, b"\x0a\x032.0");
        check(&v3::DOCUMENT, object! { "openapi" => "3.0.0" }, b"\x0a\x053.0.0");
        let reference = object! { "$ref" => "#/d/a" };
        check(&v2::SCHEMA, reference.clone(), b"\x0a\x05#/d/a");
        check(&v3::SCHEMA_OR_REFERENCE, reference.clone(), b"\x12\x07\x0a\x05#/d/a");
        check(
            &v2::SCHEMA,
            object! { "type" => "array", "items" => reference },
            b"\xb2\x01\x07\x0a\x05array\xba\x01\x09\x0a\x07\x0a\x05#/d/a",
        );
        check(&v2::SCHEMA, object! { "additionalProperties" => false }, b"\xaa\x01\x02\x10\x00");
        check(&v2::SCHEMA, object! { "maximum" => 0.5, "minLength" => 3 }, b"\x39\0\0\0\0\0\0\xe0\x3f\x60\x03");
        check(
            &v2::SCHEMA,
            object! { "x-a" => "b", "default" => 1 },
            b"\x2a\x04\x12\x021\n\xfa\x01\x0b\x0a\x03x-a\x12\x04\x12\x02b\n",
        );
        check(&v3::SCHEMA_OR_REFERENCE, object! { "default" => "" }, b"\x0a\x05\x8a\x02\x02\x1a\x00");
        let body = object! { "name" => "body", "in" => "body", "required" => true };
        check(&v2::PARAMETER, body, b"\x0a\x10\x0a\x0e\x12\x04body\x1a\x04body\x20\x01");
        let query = object! { "name" => "q", "in" => "query", "type" => "string" };
        check(&v2::PARAMETER, query, b"\x0a\x16\x12\x14\x1a\x12\x12\x05query\x22\x01q\x32\x06string");
    }

    #[test]
    fn paths_and_answers_are_pairs() {
        let operation = object! {
            "tags" => array!["t"],
            "responses" => object! { "401" => object! { "description" => "no" } },
        };
        let document = object! { "paths" => object! { "/a" => object! { "get" => operation } } };
        let operation = b"\x0a\x01t\x4a\x0f\x0a\x0d\x0a\x03401\x12\x06\x0a\x04\x0a\x02no";
        assert_eq!(operation.len(), 20);
        let expect = [&b"\x42\x1e\x12\x1c\x0a\x02/a\x12\x16\x12\x14"[..], operation].concat();
        assert_eq!(encode(&v2::DOCUMENT, &document), expect);
    }
}
