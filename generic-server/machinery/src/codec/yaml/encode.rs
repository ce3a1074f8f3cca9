//! [`Value`] to YAML text, as sigs.k8s.io/yaml lays it out: keys sorted, lists not indented, two spaces a level.

use super::emit::Emitter;
use super::order;
use crate::{Map, Str, Value, value::write_float};

/// The document, with a line end.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut emitter = Emitter::new();
    write(&mut emitter, value, Place { indent: 0, scalar_indent: 2, in_mapping: false });
    emitter.finish()
}

/// Where a node stands.
#[derive(Clone, Copy)]
struct Place {
    /// The column where a collection's entries begin.
    indent: usize,
    /// The column of the further lines of a scalar.
    scalar_indent: usize,
    /// It is the value of a mapping's key: a list does not go deeper.
    in_mapping: bool,
}

fn write(emitter: &mut Emitter, value: &Value, place: Place) {
    match value {
        Value::Null => emitter.plain("null", place.scalar_indent, false),
        Value::Bool(b) => emitter.plain(if *b { "true" } else { "false" }, place.scalar_indent, false),
        Value::Int(i) => emitter.plain(itoa::Buffer::new().format(*i), place.scalar_indent, false),
        Value::Float(f) => emitter.plain(&float(*f), place.scalar_indent, false),
        Value::String(s) => emitter.string(s, place.scalar_indent, false),
        Value::Array(items) if items.is_empty() => emitter.indicator("[]", true, false),
        Value::Object(members) if members.is_empty() => emitter.indicator("{}", true, false),
        Value::Array(items) => write_list(emitter, items, place),
        Value::Object(members) => write_mapping(emitter, members, place.indent),
    }
}

fn write_list(emitter: &mut Emitter, items: &[Value], place: Place) {
    let indent = if place.in_mapping && !emitter.indention { place.indent.saturating_sub(2) } else { place.indent };
    for item in items {
        emitter.indent(indent);
        emitter.indicator("-", true, true);
        write(emitter, item, Place { indent: indent + 2, scalar_indent: indent + 2, in_mapping: false });
    }
}

fn write_mapping(emitter: &mut Emitter, members: &Map, indent: usize) {
    let sorted: Vec<&(Str, Value)> = order::sort(members.iter().collect(), |(name, _)| name);
    let place = Place { indent: indent + 2, scalar_indent: indent + 2, in_mapping: true };
    for (name, value) in sorted {
        emitter.indent(indent);
        if Emitter::is_simple_key(name) {
            emitter.string(name, indent + 2, true);
            emitter.indicator(":", false, false);
        } else {
            emitter.indicator("?", true, true);
            emitter.string(name, indent + 2, false);
            emitter.indent(indent);
            emitter.indicator(":", true, true);
        }
        write(emitter, value, place);
    }
}

/// A float as go-yaml writes what it read from its JSON text: digits if they fit an unsigned integer, else Go's `%g`.
fn float(f: f64) -> String {
    let mut json = Vec::new();
    write_float(&mut json, f);
    let json = String::from_utf8(json).expect("numbers are ASCII");
    if json.parse::<u64>().is_ok() || json.parse::<i64>().is_ok() {
        return json;
    }
    general(format!("{f:e}"), || format!("{f}"))
}

/// Go's `%g` of a 32-bit float, which is how a float becomes a key.
pub(super) fn general_float_32(f: f32) -> String {
    general(format!("{f:e}"), || format!("{f}"))
}

/// From the shortest digits in e notation: decimal notation for exponents from -4 to 5.
fn general(scientific: String, decimal: impl FnOnce() -> String) -> String {
    let (digits, exponent) = scientific.split_once('e').expect("the e format has an e");
    let exponent: i32 = exponent.parse().expect("the e format ends in an integer");
    if (-4..6).contains(&exponent) {
        return decimal();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
