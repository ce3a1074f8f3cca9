//! Diagnostic notation (RFC 8949, section 8), in which errors show documents.

use std::fmt::Write as _;

use super::any::Reader;
use super::head::*;
use super::scalar;

/// A well-formed document in diagnostic notation; byte strings that are UTF-8 are shown as text in single quotes. What
/// nests deeper than `Value`s may is cut.
pub fn notation(document: &[u8]) -> String {
    let mut out = String::with_capacity(document.len());
    item(&mut Reader::new(document), &mut out, crate::json::MAX_DEPTH);
    out
}

fn item(reader: &mut Reader<'_>, out: &mut String, room: usize) {
    let mut tags = 0;
    while reader.peek().major == TAG {
        let tag = reader.head().argument;
        _ = write!(out, "{tag}(");
        tags += 1;
    }
    let head = reader.peek();
    match head.major {
        POSITIVE | NEGATIVE => {
            reader.head();
            _ = write!(out, "{}", scalar::value(head));
        }
        ARRAY | MAP if room == 0 => {
            reader.skip();
            out.push_str("...");
        }
        ARRAY | MAP => container(reader, out, head, room - 1),
        BYTES | TEXT if head.is_indefinite() => pieces(reader, out, head.major),
        BYTES | TEXT => string(&reader.bytes(), head.major, out),
        _ => {
            reader.head();
            primitive(head, out);
        }
    }
    out.extend(std::iter::repeat_n(')', tags));
}

fn container(reader: &mut Reader<'_>, out: &mut String, head: Head, room: usize) {
    let (open, close) = if head.major == MAP { ('{', '}') } else { ('[', ']') };
    out.push(open);
    if head.is_indefinite() {
        out.push_str("_ ");
    }
    let mut entries = reader.entries();
    while let Some(index) = entries.next(reader) {
        if index > 0 {
            out.push_str(", ");
        }
        item(reader, out, room);
        if head.major == MAP {
            out.push_str(": ");
            item(reader, out, room);
        }
    }
    out.push(close);
}

fn pieces(reader: &mut Reader<'_>, out: &mut String, major: u8) {
    let mut entries = reader.entries();
    let mut begun = false;
    while entries.next(reader).is_some() {
        out.push_str(if begun { ", " } else { "(_ " });
        begun = true;
        string(&reader.bytes(), major, out);
    }
    out.push_str(match (begun, major) {
        (true, _) => ")",
        (false, BYTES) => "''_",
        (false, _) => "\"\"_",
    });
}

fn string(bytes: &[u8], major: u8, out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) if major == TEXT => quoted(text, '"', out),
        Ok(text) if !text.is_empty() => quoted(text, '\'', out),
        _ => {
            out.push_str("h'");
            for byte in bytes {
                _ = write!(out, "{byte:02x}");
            }
            out.push('\'');
        }
    }
}

fn quoted(text: &str, quote: char, out: &mut String) {
    out.push(quote);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c == '\\' || c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push(quote);
}

fn primitive(head: Head, out: &mut String) {
    match (head.float(), head.argument) {
        (Some(f), _) => {
            let mut text = Vec::new();
            crate::value::write_float(&mut text, f);
            let text = String::from_utf8_lossy(&text);
            let (digits, exponent) = text.split_once('e').map_or((&*text, None), |(d, e)| (d, Some(e)));
            out.push_str(digits);
            if !digits.contains('.') {
                out.push_str(".0");
            }
            if let Some(exponent) = exponent {
                _ = write!(out, "e{exponent}");
            }
        }
        (None, 20) => out.push_str("false"),
        (None, 21) => out.push_str("true"),
        (None, 22) => out.push_str("null"),
        (None, 23) => out.push_str("undefined"),
        (None, value) => _ = write!(out, "simple({value})"),
    }
}
