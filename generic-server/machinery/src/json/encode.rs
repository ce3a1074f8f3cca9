//! [`Value`] to JSON text: compact, members sorted, Go's escapes and numbers.

use crate::{Map, Value, value::write_float};

/// The compact text of a value, without a line end.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    encode_into(&mut out, value);
    out
}

/// Appends the compact text of a value.
pub fn encode_into(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                encode_into(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => encode_members(out, members),
        scalar => write_scalar(out, scalar),
    }
}

/// Whether the compact text of a value has more than about `limit` bytes. Looks no further than that: a small document can
/// be a huge value, where a default that it does not name stands in each of many items.
pub fn is_longer_than(value: &Value, limit: usize) -> bool {
    fn take(value: &Value, left: usize) -> Option<usize> {
        match value {
            Value::Array(items) => {
                items.iter().try_fold(left.checked_sub(2)?, |left, item| take(item, left.checked_sub(1)?))
            }
            Value::Object(members) => members
                .iter()
                .try_fold(left.checked_sub(2)?, |left, (name, value)| take(value, left.checked_sub(name.len() + 4)?)),
            Value::String(text) => left.checked_sub(text.len() + 2),
            _ => left.checked_sub(1),
        }
    }
    take(value, limit).is_none()
}

fn encode_members(out: &mut Vec<u8>, members: &Map) {
    out.push(b'{');
    for (i, (name, value)) in members.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        encode_into(out, value);
    }
    out.push(b'}');
}

/// The text of a value, indented by two spaces a level, without a line end (`?pretty=true`).
pub fn encode_pretty(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_pretty(&mut out, value, 0);
    out
}

/// Appends the indented text of a value that stands `level` levels deep in a document.
pub fn encode_pretty_into(out: &mut Vec<u8>, value: &Value, level: usize) {
    write_pretty(out, value, level);
}

fn write_pretty(out: &mut Vec<u8>, value: &Value, level: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                out.push(if i == 0 { b'[' } else { b',' });
                new_line(out, level + 1);
                write_pretty(out, item, level + 1);
            }
            new_line(out, level);
            out.push(b']');
        }
        Value::Object(members) if !members.is_empty() => {
            for (i, (name, value)) in members.iter().enumerate() {
                out.push(if i == 0 { b'{' } else { b',' });
                new_line(out, level + 1);
                write_string(out, name);
                out.extend_from_slice(b": ");
                write_pretty(out, value, level + 1);
            }
            new_line(out, level);
            out.push(b'}');
        }
        other => encode_into(out, other),
    }
}

pub(super) fn new_line(out: &mut Vec<u8>, level: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * level, b' ');
}

fn write_scalar(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(i) => out.extend_from_slice(itoa::Buffer::new().format(*i).as_bytes()),
        Value::Float(f) => write_float(out, *f),
        Value::String(s) => write_string(out, s),
        Value::Null | Value::Array(_) | Value::Object(_) => out.extend_from_slice(b"null"),
    }
}

/// Appends a string with its quotes. `<`, `>`, `&`, U+2028 and U+2029 are escaped, as Go does for HTML's sake.
pub fn write_string(out: &mut Vec<u8>, s: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = s.as_bytes();
    out.push(b'"');
    let mut start = 0;
    for (i, &b) in bytes.iter().enumerate() {
        if !STOPS[usize::from(b)] {
            continue;
        }
        let separator = b == 0xe2;
        if separator && !matches!(bytes.get(i + 1..i + 3), Some([0x80, 0xa8 | 0xa9])) {
            continue;
        }
        out.extend_from_slice(&bytes[start..i]);
        start = i + 1;
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ if separator => {
                out.extend_from_slice(b"\\u202");
                out.push(HEX[usize::from(bytes[i + 2] & 0xf)]);
                start = i + 3;
            }
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(b >> 4)]);
                out.push(HEX[usize::from(b & 0xf)]);
            }
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}

/// Bytes that may need an escape: controls, quotes, HTML's, and the first byte of U+2028 and U+2029.
const STOPS: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = true;
        i += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'<' as usize] = true;
    table[b'>' as usize] = true;
    table[b'&' as usize] = true;
    table[0xe2] = true;
    table
};

/// Compact text, keys sorted, as Go's json.Marshal writes it: `<`, `>`, `&`, U+2028 and U+2029 escaped.
pub fn encode_text(value: &Value) -> String {
    String::from_utf8(encode(value)).expect("JSON text is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }

    #[test]
    fn what_is_too_long_is_known_before_it_is_written() {
        let big = Value::from("x".repeat(1000));
        let many: Value = (0..1_000_000).map(|_| big.clone()).collect();
        assert!(is_longer_than(&many, 1 << 20));
        assert!(!is_longer_than(&array![1, "abc", object! { "k" => true }], 40));
        assert!(is_longer_than(&array![1, "abc", object! { "k" => true }], 10));
    }

    #[test]
    fn values_are_written_like_gos() {
        for (value, want) in [
            (Value::Null, "null"),
            (Value::Float(2.0), "2"),
            (Value::Int(-7), "-7"),
            (
                Value::from("a\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}<>&é\u{2028}\u{2029}\u{2030}"),
                "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\u{7f}\\u003c\\u003e\\u0026é\\u2028\\u2029\u{2030}\"",
            ),
            (object! {"b" => array![1, "x", Value::Null], "a" => object! {}}, r#"{"a":{},"b":[1,"x",null]}"#),
        ] {
            assert_eq!(text(encode(&value)), want);
        }
    }

    #[test]
    fn the_deepest_values_are_written() {
        let text = "[".repeat(super::super::MAX_DEPTH) + &"]".repeat(super::super::MAX_DEPTH);
        let value = super::super::decode(text.as_bytes()).expect("JSON");
        assert_eq!(encode(&value), text.as_bytes());
        assert!(encode_pretty(&value).len() > text.len());
    }

    #[test]
    fn compact_text_is_gos() {
        let value = object! { "b" => array!["x<y&z", 1, 2.5], "a" => Value::Null };
        assert_eq!(encode_text(&value), r#"{"a":null,"b":["x\u003cy\u0026z",1,2.5]}"#);
    }

    #[test]
    fn pretty_text_is_indented() {
        let value =
            object! {"a" => array![], "b" => object! {"c" => array![1, object! {"d" => "e"}]}, "f" => object! {}};
        let want = r#"{
  "a": [],
  "b": {
    "c": [
      1,
      {
        "d": "e"
      }
    ]
  },
  "f": {}
}"#;
        assert_eq!(text(encode_pretty(&value)), want);
    }
}
