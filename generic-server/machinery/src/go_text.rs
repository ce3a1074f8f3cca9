//! Values as Go prints them in messages: quoted text, numbers, JSON.

use std::fmt::Write;

use crate::Value;

/// Text as Go's `%q` prints it: in double quotes, with Go's escapes for control and unprintable characters.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if c < '\u{80}' => push_escape(&mut out, format_args!("\\x{:02x}", c as u32)),
            c if is_print(c) => out.push(c),
            c if c <= '\u{ffff}' => push_escape(&mut out, format_args!("\\u{:04x}", c as u32)),
            c => push_escape(&mut out, format_args!("\\U{:08x}", c as u32)),
        }
    }
    out.push('"');
    out
}

fn push_escape(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("writing to a String does not fail");
}

/// Whether Go's unicode.IsPrint holds: letters, marks, numbers, punctuation, symbols, and of the spaces only U+0020.
pub fn is_print(c: char) -> bool {
    if c < '\u{80}' {
        return (' '..='~').contains(&c);
    }
    // Rust's own escaping knows the printable ranges; behind a letter it leaves combining marks alone, as Go does.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let len = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..len]).expect("a letter and an encoded char");
    text.escape_debug().nth(1) == Some(c)
}

/// A float as Go's `%v` prints it: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn float(f: f64) -> String {
    let size = f.abs();
    if f == 0.0 || (1e-4..1e6).contains(&size) {
        return f.to_string();
    }
    if f.is_nan() {
        return "NaN".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let text = format!("{f:e}");
    let (digits, exponent) = text.split_once('e').expect("the e format has an e");
    match exponent.strip_prefix('-') {
        Some(e) => format!("{digits}e-{e:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// What Go calls the type of a JSON value.
pub fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A document that has no type, for it is no object. Shown, it is what Go says where it looks for the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion \
     string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
)]
pub struct NotAnObject {
    /// What it is, as Go names it.
    pub found: &'static str,
}

/// A value of another type than its place has. Shown, it is what Go says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go struct field {field} of type {expected}")]
pub struct WrongType {
    /// What it is, as Go names it.
    pub found: &'static str,
    /// Its place, as Go names it: `Policy.spec`.
    pub field: String,
    /// The type that it should be of, as Go names it.
    pub expected: String,
}

impl WrongType {
    /// A value that stands in a field whose type is another one.
    pub fn of(found: &Value, field: impl Into<String>, expected: impl Into<String>) -> Self {
        WrongType { found: json_type_name(found), field: field.into(), expected: expected.into() }
    }
}

impl NotAnObject {
    /// A document that is none.
    pub fn of(document: &Value) -> Self {
        NotAnObject { found: json_type_name(document) }
    }
}

/// What Go says of a document that is no object, where it looks for its type.
pub fn no_type_in(document: &Value) -> String {
    NotAnObject::of(document).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, want) in [
            ("", r#""""#),
            ("a \"b\" \\", r#""a \"b\" \\""#),
            ("\n\t\x01\x7f\x07", r#""\n\t\x01\x7f\a""#),
            ("grüße ✓ 😀", "\"grüße ✓ 😀\""),
            ("e\u{301}", "\"e\u{301}\""),
            ("a\u{200b}b\u{a0}", r#""a\u200bb\u00a0""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), want);
        }
    }

    #[test]
    fn floats_print_as_in_go() {
        for (f, want) in [
            (0.35, "0.35"),
            (2.0, "2"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1e21, "1e+21"),
        ] {
            assert_eq!(float(f), want);
        }
    }
}
