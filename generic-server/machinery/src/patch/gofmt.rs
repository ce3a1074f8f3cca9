//! Values as Go's `%v` prints them: some upstream error texts show a patch that way.

use std::fmt::Write;

use crate::Value;
use crate::value::write_float;

/// `map[a:1 b:[x y] c:<nil>]`, keys sorted. The text stops growing at `MAX` bytes: it is meant for a person.
pub fn go_format(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value);
    out
}

/// As Go's `%s` prints a value: what is no text is marked as such (`%!s(int64=7)`).
pub(super) fn go_format_verb_s(value: &Value) -> String {
    match value {
        Value::Null => "%!s(<nil>)".into(),
        Value::Bool(_) => format!("%!s(bool={})", go_format(value)),
        Value::Int(_) => format!("%!s(int64={})", go_format(value)),
        Value::Float(_) => format!("%!s(float64={})", go_format(value)),
        other => go_format(other),
    }
}

/// Longer texts are cut; a Status is no place for a megabyte.
const MAX: usize = 64 * 1024;

fn write(out: &mut String, value: &Value) {
    if out.len() > MAX {
        return;
    }
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => {
            let _ = write!(out, "{i}"); // a String takes everything
        }
        Value::Float(f) => out.push_str(&format_float(*f)),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (i, v) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write(out, v);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push_str("map[");
            for (i, (k, v)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(k);
                out.push(':');
                write(out, v);
            }
            out.push(']');
        }
    }
}

/// Go's `%v` of a float64 is `%g` with the exponent from 21 digits on, and below 1e-4.
fn format_float(f: f64) -> String {
    let size = f.abs();
    if size != 0.0 && size < 1e-4 {
        let text = format!("{f:e}");
        let (digits, exponent) = text.split_once("e-").expect("a small number has a negative exponent");
        return format!("{digits}e-{exponent:0>2}");
    }
    let mut out = Vec::new();
    write_float(&mut out, f);
    String::from_utf8(out).expect("digits are ASCII")
}

#[cfg(test)]
mod tests {
    use crate::{Value, array, object};

    #[test]
    fn values_read_like_gos() {
        let check = |v: Value, want: &str| assert_eq!(super::go_format(&v), want);
        check(
            object! { "b" => array!["x", 1, true], "a" => object! { "n" => Value::Null } },
            "map[a:map[n:<nil>] b:[x 1 true]]",
        );
        check(Value::Float(2.5), "2.5");
        check(Value::Float(0.00001), "1e-05");
        check(Value::Float(1e21), "1e+21");
        check(object! {}, "map[]");
    }
}
