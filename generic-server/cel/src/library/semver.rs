//! `semver()`: semantic versions, read as strictly as upstream reads them.

use std::cmp::Ordering;
use std::sync::Arc;

use machinery::meta::semver::Version;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Opaque, Result, Value};

const TYPE: &str = "kubernetes.Semver";

/// A version, as expressions hold it.
#[derive(Clone, Debug)]
struct Semver(Version);

impl Opaque for Semver {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Semver>().is_some_and(|o| self.0.compare(&o.0).is_eq())
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Int, String};
    let version = || Type::opaque(TYPE);
    let make = |a: &[Value]| read(a)?.map(|v| Value::Opaque(Arc::new(Semver(v)))).map_err(Error::Failed);
    library.global("semver", "string_to_semver", &[String], version(), make);
    library.global("semver", "string_bool_to_semver", &[String, Bool], version(), make);
    let is = |a: &[Value]| Ok(Value::Bool(read(a)?.is_ok()));
    library.global("isSemver", "is_semver_string", &[String], Bool, is);
    library.global("isSemver", "is_semver_string_bool", &[String, Bool], Bool, is);
    let numbers: [(&'static str, &'static str, super::Call); 3] = [
        ("major", "semver_major", |a| number(a, 0)),
        ("minor", "semver_minor", |a| number(a, 1)),
        ("patch", "semver_patch", |a| number(a, 2)),
    ];
    for (name, id, call) in numbers {
        library.member(name, id, &[version()], Int, call);
    }
    let pair = [version(), version()];
    library.member("isGreaterThan", "semver_is_greater_than", &pair, Bool, |a| compared(a, |o| Value::Bool(o.is_gt())));
    library.member("isLessThan", "semver_is_less_than", &pair, Bool, |a| compared(a, |o| Value::Bool(o.is_lt())));
    library.member("compareTo", "semver_compare_to", &pair, Int, |a| compared(a, |o| Value::Int(o as i64)));
}

fn of(value: &Value) -> Result<&Version> {
    value.opaque::<Semver>().map(|semver| &semver.0).ok_or_else(Error::no_overload)
}

fn number(args: &[Value], which: usize) -> Result {
    args!(args, v => Ok(Value::Int(of(v)?.numbers[which] as i64)))
}

fn compared(args: &[Value], answer: fn(Ordering) -> Value) -> Result {
    args!(args, x, y => Ok(answer(of(x)?.compare(of(y)?))))
}

fn read(args: &[Value]) -> Result<Result<Version, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Ok(Version::parse(text).map_err(|why| why.to_string()))
        }
        [Value::String(text), Value::Bool(true)] => {
            Ok(normalized(text).and_then(|text| Version::parse(&text).map_err(|why| why.to_string())))
        }
        _ => Err(Error::no_overload()),
    }
}

/// `v1.02` is `1.2.0`
fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|p| p.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".into());
    }
    parts.resize(3, "0".into());
    Ok(parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_filled_up() {
        assert_eq!(normalized("v1.02").unwrap(), "1.2.0");
    }
}
