//! `'%s: %d'.format([…])`, with numbers written as in American English.

use super::conversions::plain_text;
use super::strings::quote;
use crate::types::Type;
use crate::value::{Error, Key, Result, Value, time};

/// Digits of a fraction that are written where no number is given.
const DIGITS: usize = 6;
/// The most digits of a fraction that may be asked for.
const MOST_DIGITS: usize = 1000;

/// Fills in a form.
pub(super) fn format(form: &str, items: &[Value]) -> Result<String> {
    let mut text = String::with_capacity(form.len());
    let mut chars = form.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            text.push('%');
            continue;
        }
        let item = items.get(next).ok_or_else(|| Error::Failed(format!("index {next} out of range")))?;
        next += 1;
        let digits = precision(&mut chars)?;
        let verb = chars.next().ok_or_else(|| unparsed("unexpected end of string"))?;
        text.push_str(&clause(verb, digits, item)?);
    }
    Ok(text)
}

fn unparsed(why: &str) -> Error {
    Error::Failed(format!("could not parse formatting clause: {why}"))
}

fn precision(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>> {
    if chars.next_if_eq(&'.').is_none() {
        return Ok(None);
    }
    let mut digits = String::new();
    while let Some(d) = chars.next_if(char::is_ascii_digit) {
        digits.push(d);
    }
    let precision: usize = digits
        .parse()
        .map_err(|_| unparsed("error while parsing precision: could not find end of precision specifier"))?;
    if precision > MOST_DIGITS {
        return Err(unparsed(&format!("precision {precision} exceeds maximum of {MOST_DIGITS}")));
    }
    Ok(Some(precision))
}

fn clause(verb: char, digits: Option<usize>, item: &Value) -> Result<String> {
    let wrong = |clause: &str, wanted: &str| {
        let was = item.type_of();
        Error::Failed(format!("error during formatting: {clause} clause can only be used on {wanted}, was given {was}"))
    };
    match verb {
        's' => string(item, false),
        'd' => match item {
            Value::Int(i) => Ok(i.to_string()),
            Value::Uint(u) => Ok(u.to_string()),
            Value::Double(d) if !d.is_finite() => Ok(infinite(*d)),
            _ => Err(wrong("decimal", "integers")),
        },
        'f' => number(item).map(|d| fixed(d, digits.unwrap_or(DIGITS))).ok_or_else(|| wrong("fixed-point", "doubles")),
        'e' => {
            number(item).map(|d| scientific(d, digits.unwrap_or(DIGITS))).ok_or_else(|| wrong("scientific", "doubles"))
        }
        'b' => match item {
            Value::Int(i) => Ok(signed(*i, |u| format!("{u:b}"))),
            Value::Uint(u) => Ok(format!("{u:b}")),
            Value::Bool(b) => Ok(i32::from(*b).to_string()),
            _ => Err(wrong("binary", "integers and bools")),
        },
        'o' => match item {
            Value::Int(i) => Ok(signed(*i, |u| format!("{u:o}"))),
            Value::Uint(u) => Ok(format!("{u:o}")),
            _ => Err(wrong("octal", "integers")),
        },
        'x' | 'X' => {
            let hex = match item {
                Value::Int(i) => signed(*i, |u| format!("{u:x}")),
                Value::Uint(u) => format!("{u:x}"),
                Value::String(s) => hex(s.as_bytes()),
                Value::Bytes(b) => hex(b),
                _ => return Err(wrong("hex", "integers, byte buffers, and strings")),
            };
            Ok(if verb == 'X' { hex.to_uppercase() } else { hex })
        }
        other => Err(unrecognized(other)),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn signed(i: i64, digits: fn(u64) -> String) -> String {
    format!("{}{}", if i < 0 { "-" } else { "" }, digits(i.unsigned_abs()))
}

fn number(item: &Value) -> Option<f64> {
    match item {
        Value::Double(d) => Some(*d),
        Value::Int(i) => Some(*i as f64),
        Value::Uint(u) => Some(*u as f64),
        _ => None,
    }
}

fn infinite(d: f64) -> String {
    if d.is_nan() {
        "NaN".into()
    } else if d > 0.0 {
        "∞".into()
    } else {
        "-∞".into()
    }
}

/// Thousands are set apart with commas.
fn fixed(d: f64, digits: usize) -> String {
    if !d.is_finite() {
        return infinite(d);
    }
    let text = format!("{d:.digits$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |t| ("-", t));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(w, f)| (w, Some(f)));
    let mut grouped = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// `1.234568×10⁰³`
fn scientific(d: f64, digits: usize) -> String {
    if !d.is_finite() {
        return infinite(d);
    }
    let text = format!("{d:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').expect("the e format has an e");
    let (sign, size) = exponent.strip_prefix('-').map_or(("", exponent), |e| ("⁻", e));
    let raised = format!("{size:0>2}")
        .chars()
        .map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c as usize - '0' as usize).unwrap_or(c))
        .collect::<String>();
    format!("{mantissa}×10{sign}{raised}")
}

/// A value as text; `inside` a list or map, texts are quoted and types are told.
fn string(item: &Value, inside: bool) -> Result<String> {
    Ok(match item {
        Value::Null => "null".into(),
        Value::String(s) if inside => quote(s),
        Value::String(s) => s.to_string(),
        Value::Bytes(b) if inside => format!("b{}", quote(&String::from_utf8_lossy(b))),
        Value::Bytes(b) => String::from_utf8_lossy(b).into_owned(),
        Value::Double(d) if inside => fixed(*d, DIGITS),
        Value::Double(d) if !d.is_finite() => infinite(*d),
        Value::Double(d) => d.to_string(),
        Value::Duration(d) if inside => format!("duration(\"{}\")", time::seconds_text(*d)),
        Value::Timestamp(t) if inside => format!("timestamp(\"{}\")", time::text(*t)),
        Value::Type(of) => of.to_string(),
        other => match (plain_text(other), other.items(), other.keys()) {
            (Some(text), ..) => text,
            (_, Some(items), _) => {
                let items = items.map(|i| string(&i?, true)).collect::<Result<Vec<_>>>()?;
                format!("[{}]", items.join(", "))
            }
            (.., Some(keys)) => map(other, &keys)?,
            _ => {
                let was = other.type_of();
                let accepted = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
                return Err(Error::Failed(format!(
                    "error during formatting: string clause can only be used on {accepted}, was given {was}"
                )));
            }
        },
    })
}

fn map(of: &Value, keys: &[Key]) -> Result<String> {
    let mut entries = Vec::with_capacity(keys.len());
    for key in keys {
        let value = of.entry(key).ok_or_else(|| Error::no_key(key))??;
        entries.push(format!("{}:{}", string(&key.value(), true)?, string(&value, true)?));
    }
    entries.sort_unstable();
    Ok(format!("{{{}}}", entries.join(", ")))
}

/// What is wrong with a form and the types of what it is filled with, and the number of the item that does not fit: checked when
/// an expression is compiled.
pub(crate) fn check(form: &str, types: &[Type]) -> Result<(), (Option<usize>, Error)> {
    let of_form = |e| (None, e);
    let mut chars = form.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' || chars.next_if_eq(&'%').is_some() {
            continue;
        }
        let item = types.get(next).ok_or_else(|| of_form(Error::Failed(format!("index {next} out of range"))))?;
        let digits = precision(&mut chars).map_err(of_form)?;
        let verb = chars.next().ok_or_else(|| of_form(unparsed("unexpected end of string")))?;
        if !"sdfeboxX".contains(verb) {
            return Err(of_form(unrecognized(verb)));
        }
        if let Some(item) = sample(item) {
            clause(verb, digits, &item).map_err(|e| (Some(next), e))?;
        }
        next += 1;
    }
    Ok(())
}

fn unrecognized(verb: char) -> Error {
    unparsed(&format!("unrecognized formatting clause \"{verb}\""))
}

/// Some value of a type that says enough.
fn sample(of: &Type) -> Option<Value> {
    Some(match of {
        Type::Null => Value::Null,
        Type::Bool => Value::Bool(true),
        Type::Int => Value::Int(1),
        Type::Uint => Value::Uint(1),
        Type::Double => Value::Double(1.0),
        Type::String => Value::string(""),
        Type::Bytes => Value::Bytes([].into()),
        Type::Duration => Value::Duration(0),
        Type::Timestamp => Value::Timestamp(machinery::meta::Timestamp::new(0, 0)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_filled_in() {
        let check =
            |form: &str, item: Value, expect: &str| assert_eq!(format(form, &[item]).unwrap(), expect, "{form}");
        check("%.2f", Value::Double(1234.5678), "1,234.57");
        check("%e", Value::Double(1234.5678), "1.234568×10⁰³");
        check("%e", Value::Double(-0.5), "-5.000000×10⁻⁰¹");
        check("%x", Value::Int(-10), "-a");
        check("%X", Value::string("hé"), "68C3A9");
        check("%s", Value::list(vec![Value::Int(1), Value::string("a")]), "[1, \"a\"]");
        check("100%% %s", Value::Duration(90_000_000_000), "100% 90s");
    }

    #[test]
    fn forms_that_do_not_fit_are_refused() {
        let check = |form: &str, items: &[Value], expect: &str| {
            assert_eq!(format(form, items).unwrap_err().to_string(), expect)
        };
        check(
            "%d",
            &[Value::string("x")],
            "error during formatting: decimal clause can only be used on integers, was given string",
        );
        check("%s %s", &[Value::Int(1)], "index 1 out of range");
        check("%q", &[Value::Int(1)], "could not parse formatting clause: unrecognized formatting clause \"q\"");
    }
}
