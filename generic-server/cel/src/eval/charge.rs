//! What calls cost when they are made. Differs: work that upstream does not do (copying of lists), or does without counting it
//! (comparing what lists hold), is counted, so that no expression can take long.

use crate::cost::{CHARACTER, PATTERN_CHARACTER, compares_sizes};
use crate::syntax::ast::operator;
use crate::value::Value;

fn size(value: &Value) -> u64 {
    value.size().unwrap_or(1)
}

fn scaled(n: u64, factor: f64) -> u64 {
    (n as f64 * factor).ceil() as u64
}

/// The number of values in a value, as far as they count.
fn weight(value: &Value) -> u64 {
    let inner = |v: &Value| match v {
        Value::List(_) | Value::Map(_) | Value::Data(_) => weight(v),
        _ => 1,
    };
    match value {
        Value::List(items) => items.iter().map(inner).sum(),
        Value::Map(map) => map.values().map(inner).sum(),
        Value::Data(data) => data.weight(),
        other => size(other),
    }
}

/// What is charged before the work is done, because it is more than the result shows.
pub(super) fn before(id: &str, args: &[Value]) -> u64 {
    match (id, args) {
        (
            "string_replace_string_string" | "string_replace_string_string_int",
            [Value::String(s), Value::String(old), Value::String(new), ..],
        ) => {
            let times = if old.is_empty() { s.len() as u64 + 1 } else { s.matches(old.as_str()).count() as u64 };
            scaled(times.saturating_mul(new.len() as u64), CHARACTER)
        }
        ("add_list", [a, b]) => scaled(size(a) + size(b), CHARACTER / 2.0),
        _ => 0,
    }
}

/// What a call costs.
pub(super) fn of_call(function: &str, id: &str, args: &[Value], result: &Value) -> u64 {
    match (function, args) {
        ("check", _) => 350_000,
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", [of, ..]) => traversal(of),
        ("url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "isIP" | "isCIDR" | "cidr", [of, ..]) => {
            scaled(size(of), CHARACTER)
        }
        ("ip", [of]) if id != "cidr_ip" => scaled(size(of), CHARACTER),
        ("ip.isCanonical" | "replace" | "split", [of, ..]) => scaled(size(of), 2.0 * CHARACTER),
        ("quantity" | "isQuantity" | "semver" | "isSemver", [of, ..]) => scaled(size(of), CHARACTER),
        ("join", _) => scaled(size(result), 2.0 * CHARACTER),
        ("matches" | "find" | "findAll", [text, pattern, ..]) => {
            scaled(size(text) + 1, CHARACTER).saturating_mul(scaled(size(pattern), PATTERN_CHARACTER))
        }
        ("containsIP" | "containsCIDR", [of, other, ..]) => {
            let parsed = if id.ends_with("_string") { scaled(size(other), CHARACTER) } else { 0 };
            let masked = if function == "containsCIDR" { scaled(size(of), CHARACTER) + 1 } else { 0 };
            scaled(2 * size(of), CHARACTER) + masked + parsed
        }
        ("validate", [_, text]) => scaled(size(text), CHARACTER * 32.0),
        (
            "sort" | "@sortByAssociatedKeys" | "slice" | "flatten" | "distinct" | "reverse" | "first" | "last",
            [of, ..],
        ) => 1 + scaled(weight(of), CHARACTER),
        ("lists.range", _) => 1 + scaled(size(result), CHARACTER),
        ("sets.contains" | "sets.intersects" | "sets.equivalent", [a, b]) => 1 + weight(a).saturating_mul(weight(b)),
        _ => of_standard(id, args),
    }
}

fn of_standard(id: &str, args: &[Value]) -> u64 {
    match (id, args) {
        (
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "string_format"
            | "strings_quote",
            [of, ..],
        ) => scaled(size(of), CHARACTER),
        ("in_list", [wanted, list]) => match wanted {
            Value::List(_) | Value::Map(_) | Value::Data(_) => size(list) + scaled(weight(list), CHARACTER),
            _ => size(list),
        },
        ("contains_string", [text, part]) => {
            scaled(size(text), CHARACTER).saturating_mul(scaled(size(part), CHARACTER))
        }
        ("add_string" | "add_bytes", [a, b]) => scaled(size(a) + size(b), CHARACTER),
        (_, [a, b]) if compares_sizes(id) || id == operator::EQUALS => scaled(weight(a).min(weight(b)), CHARACTER),
        _ => 1,
    }
}

/// What going over all of a value costs.
fn traversal(value: &Value) -> u64 {
    match value {
        Value::String(s) => (s.len() as f64 * CHARACTER) as u64,
        Value::Bytes(b) => (b.len() as f64 * CHARACTER) as u64,
        Value::Opaque(_) => 1,
        other => match other.items() {
            Some(items) => items.map(|i| i.map_or(1, |i| traversal(&i))).sum(),
            None => 1,
        },
    }
}
