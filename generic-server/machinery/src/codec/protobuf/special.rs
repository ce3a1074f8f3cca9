//! Messages that JSON shows as something else than an object of their fields.
//!
//! Each is read into what an earlier occurrence of its field has left: a field of it that does not come keeps its value.

use std::sync::Arc;

use super::decode::Decoder;
use super::envelope::MAGIC;
use super::names::wrong_wire;
use super::plan::{Kind, json_schema_props};
use super::scalar::{duration, int_or_string, quantity, strings, text, time};
use super::wire::{BYTES, Reader, VARINT};
use super::{Fault, ProtoError};
use crate::Value;
use crate::json;
use crate::meta::TimeForm;
use crate::schema::ShortForm;

impl Decoder {
    /// Reads such a message; `old` is null where it comes for the first time. Times begin anew each time, as upstream's do.
    pub(super) fn special(&mut self, kind: Kind, old: Value, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        match kind {
            Kind::Time => time(bytes, TimeForm::Seconds),
            Kind::MicroTime => time(bytes, TimeForm::Micros),
            Kind::Duration => duration(old, bytes),
            Kind::Quantity => quantity(old, bytes),
            Kind::IntOrString => int_or_string(old, bytes),
            Kind::Raw => self.raw(old, bytes, depth),
            Kind::Strings => strings(old, bytes),
            Kind::SchemaOr(form) => self.schema_or(form, old, bytes, depth),
            _ => Ok(Value::object()),
        }
    }

    fn raw(&mut self, old: Value, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        let mut raw: Option<&[u8]> = None;
        let mut reader = Reader::new(bytes, "RawExtension");
        while let Some((number, wire)) = reader.key()? {
            match (number, wire) {
                (1, BYTES) => raw = Some(reader.bytes()?),
                (1, wire) => return Err(wrong_wire(wire, "raw")),
                (_, wire) => reader.skip(wire)?,
            }
        }
        match raw {
            None => Ok(old),
            Some([]) => Ok(Value::Null),
            Some(inner) if inner.starts_with(MAGIC) => self.enveloped(inner, depth),
            Some(text) => Ok(json::decode(text).map_err(ProtoError::from)?),
        }
    }

    /// A schema, or one of two short forms: a flag (1, with the schema as 2), or a list (2, with the schema as 1).
    fn schema_or(&mut self, form: ShortForm, old: Value, bytes: &[u8], depth: usize) -> Result<Value, Fault> {
        let (message, schema_number, other) = match form {
            ShortForm::Bool => ("JSONSchemaPropsOrBool", 2, "allows"),
            ShortForm::List => ("JSONSchemaPropsOrArray", 1, "JSONSchemas"),
            ShortForm::Strings => ("JSONSchemaPropsOrStringArray", 1, "property"),
        };
        let (mut schema, mut allows, mut items) = (Value::Null, false, Vec::new());
        match old {
            Value::Bool(old) => allows = old,
            Value::Array(old) => items = Arc::unwrap_or_clone(old),
            old => schema = old,
        }
        let mut reader = Reader::new(bytes, message);
        while let Some((number, wire)) = reader.key()? {
            match (number, wire, form) {
                (n, BYTES, _) if n == schema_number => {
                    schema = self.merged(json_schema_props(), schema, reader.bytes()?, depth)?;
                }
                (1, VARINT, ShortForm::Bool) => allows = reader.varint()? != 0,
                (2, BYTES, ShortForm::List) => {
                    items.push(self.merged(json_schema_props(), Value::Null, reader.bytes()?, depth)?);
                }
                (2, BYTES, ShortForm::Strings) => items.push(Value::String(text(reader.bytes()?))),
                (1 | 2, wire, _) => {
                    return Err(wrong_wire(wire, if number == schema_number { "schema" } else { other }));
                }
                (_, wire, _) => reader.skip(wire)?,
            }
        }
        Ok(match form {
            ShortForm::Bool if schema.is_null() => Value::Bool(allows),
            _ if !items.is_empty() => Value::from(items),
            _ => schema,
        })
    }
}
