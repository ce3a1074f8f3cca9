//! What a plain scalar means in YAML 1.1, as go-yaml v2 resolves it.

use crate::{Str, Value};

/// A resolved scalar. Like [`Value`], but tells apart what JSON cannot.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond `i64`.
    Uint(u64),
    Float(f64),
    /// A date or time: text to JSON, but quoted when it is written.
    Timestamp(Str),
    Text(Str),
}

/// Resolves a plain, untagged scalar.
pub(super) fn resolve(text: &str) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => word(text),
        Some(b'.') => match special_float(text).or_else(|| float(text)) {
            Some(f) => Scalar::Float(f),
            None => Scalar::Text(text.into()),
        },
        Some(b'+' | b'-' | b'0'..=b'9') => number(text),
        Some(_) => Scalar::Text(text.into()),
    }
}

fn word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => Scalar::Text(text.into()),
    }
}

fn special_float(text: &str) -> Option<f64> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn number(text: &str) -> Scalar {
    if let Some(f) = special_float(text) {
        return Scalar::Float(f);
    }
    if is_timestamp(text) {
        return Scalar::Timestamp(text.into());
    }
    let plain = text.replace('_', "");
    if let Some(i) = integer(&plain) {
        return i;
    }
    match float(&plain) {
        Some(f) => Scalar::Float(f),
        None => Scalar::Text(text.into()),
    }
}

/// An integer with Go's prefixes: `0x`, `0b`, `0o`, and `0` for octal.
fn integer(plain: &str) -> Option<Scalar> {
    let (negative, signed, digits) = match plain.as_bytes() {
        [b'-', ..] => (true, true, &plain[1..]),
        [b'+', ..] => (false, true, &plain[1..]),
        _ => (false, false, plain),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    match i64::try_from(value) {
        Ok(i) => Some(Scalar::Int(i)),
        Err(_) if !signed => Some(Scalar::Uint(magnitude)),
        Err(_) => None,
    }
}

/// `-1.5e+3`, `.5`, `1.`; not Go's hexadecimal floats, not infinities, nothing out of range.
fn float(text: &str) -> Option<f64> {
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = digits(rest);
    rest = &rest[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = digits(after);
        if whole == 0 && fraction == 0 {
            return None;
        }
        rest = &after[fraction..];
    } else if whole == 0 {
        return None;
    }
    if let Some(after) = rest.strip_prefix(['e', 'E']) {
        let after = after.strip_prefix(['-', '+']).unwrap_or(after);
        if after.is_empty() || digits(after) != after.len() {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    text.parse().ok().filter(|f: &f64| f.is_finite())
}

/// Whether go-yaml reads a plain scalar as a time: `2001-1-2`, `2001-1-2 3:4:5.6`, `2001-1-2T3:4:5.6Z`.
fn is_timestamp(text: &str) -> bool {
    let mut at = Fields(text);
    let (Some(year), Some(true)) = (at.number(4, 4), at.eat(b"-")) else { return false };
    let (Some(month), Some(true), Some(day)) = (at.number(1, 2), at.eat(b"-"), at.number(1, 2)) else { return false };
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return false;
    }
    if at.0.is_empty() {
        return true;
    }
    let zoned = at.eat(b"Tt") == Some(true);
    if !zoned && at.eat(b" ") != Some(true) {
        return false;
    }
    at.time_of_day() && if zoned { at.zone() } else { at.0.is_empty() }
}

/// The rest of a timestamp's text.
struct Fields<'a>(&'a str);

impl Fields<'_> {
    fn number(&mut self, min: usize, max: usize) -> Option<u32> {
        let n = self.0.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if n < min {
            return None;
        }
        let (digits, rest) = self.0.split_at(n);
        self.0 = rest;
        digits.parse().ok()
    }

    fn eat(&mut self, any_of: &[u8]) -> Option<bool> {
        let first = self.0.bytes().next()?;
        if !any_of.contains(&first) {
            return Some(false);
        }
        self.0 = &self.0[1..];
        Some(true)
    }

    fn time_of_day(&mut self) -> bool {
        let Some(hour) = self.number(1, 2) else { return false };
        let (Some(true), Some(minute)) = (self.eat(b":"), self.number(1, 2)) else { return false };
        let (Some(true), Some(second)) = (self.eat(b":"), self.number(1, 2)) else { return false };
        if self.0.starts_with(['.', ',']) && self.0[1..].starts_with(|c: char| c.is_ascii_digit()) {
            self.0 = self.0[1..].trim_start_matches(|c: char| c.is_ascii_digit());
        }
        hour < 24 && minute < 60 && second < 60
    }

    fn zone(&mut self) -> bool {
        if self.0 == "Z" {
            return true;
        }
        if self.eat(b"+-") != Some(true) {
            return false;
        }
        match (self.number(2, 2), self.eat(b":"), self.number(2, 2)) {
            (Some(hours), Some(true), Some(minutes)) => hours <= 24 && minutes < 60 && self.0.is_empty(),
            _ => false,
        }
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Scalar {
    /// The value as JSON has it; `None` for NaN and the infinities, which it has not.
    pub(super) fn into_value(self) -> Option<Value> {
        Some(match self {
            Scalar::Null => Value::Null,
            Scalar::Bool(b) => Value::Bool(b),
            Scalar::Int(i) => Value::Int(i),
            Scalar::Uint(u) => Value::Float(u as f64),
            Scalar::Float(f) if !f.is_finite() => return None,
            // A float without a fraction is written without one, and so read as an integer.
            Scalar::Float(f) if f.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&f) => {
                Value::Int(f as i64)
            }
            Scalar::Float(f) => Value::Float(f),
            Scalar::Timestamp(s) | Scalar::Text(s) => Value::String(s),
        })
    }

    /// go-yaml's short tag.
    pub(super) fn tag(&self) -> &'static str {
        match self {
            Scalar::Null => "!!null",
            Scalar::Bool(_) => "!!bool",
            Scalar::Int(_) | Scalar::Uint(_) => "!!int",
            Scalar::Float(_) => "!!float",
            Scalar::Timestamp(_) => "!!timestamp",
            Scalar::Text(_) => "!!str",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_resolve_as_in_yaml_1_1() {
        let text = |s: &str| Scalar::Text(s.into());
        let time = |s: &str| Scalar::Timestamp(s.into());
        for (source, want) in [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("nUll", text("nUll")),
            ("yes", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("n", Scalar::Bool(false)),
            ("12", Scalar::Int(12)),
            ("+12", Scalar::Int(12)),
            ("1_000", Scalar::Int(1000)),
            ("0x10", Scalar::Int(16)),
            ("-0b11", Scalar::Int(-3)),
            ("0o17", Scalar::Int(15)),
            ("0644", Scalar::Int(420)),
            ("09", Scalar::Float(9.0)),
            ("9223372036854775808", Scalar::Uint(1 << 63)),
            ("-9223372036854775808", Scalar::Int(i64::MIN)),
            ("99999999999999999999", Scalar::Float(1e20)),
            ("1.5", Scalar::Float(1.5)),
            ("1.", Scalar::Float(1.0)),
            (".5e1", Scalar::Float(5.0)),
            ("1e3", Scalar::Float(1000.0)),
            ("1e400", text("1e400")),
            ("-.inf", Scalar::Float(f64::NEG_INFINITY)),
            (".", text(".")),
            ("-", text("-")),
            ("0x", text("0x")),
            ("1.2.3", text("1.2.3")),
            ("10.0.0.1", text("10.0.0.1")),
            ("1:30", text("1:30")),
            ("2001-01-02", time("2001-01-02")),
            ("2001-2-30", text("2001-2-30")),
            ("2026-11-27T23:08:00Z", time("2026-11-27T23:08:00Z")),
            ("2026-11-27T23:08:00.5+01:00", time("2026-11-27T23:08:00.5+01:00")),
            ("2026-11-27 23:08:00", time("2026-11-27 23:08:00")),
            ("2026-11-27T25:08:00Z", text("2026-11-27T25:08:00Z")),
            ("2026-11-27T23:08:00", text("2026-11-27T23:08:00")),
            ("<<", text("<<")),
            ("a", text("a")),
        ] {
            assert_eq!(resolve(source), want, "{source}");
        }
    }
}
