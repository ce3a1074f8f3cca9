//! `semver()`: semantic versions, read as strictly as upstream reads them.

use std::cmp::Ordering;
use std::sync::Arc;

use machinery::meta::go_text::quote;

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Opaque, Result, Value};

const TYPE: &str = "kubernetes.Semver";

/// A version; what is built of it does not count.
#[derive(Clone, Debug, PartialEq)]
struct Version {
    numbers: [u64; 3],
    pre: Vec<Part>,
}

/// A part of what tells a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Version {
    fn compare(&self, other: &Version) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        })
    }
}

impl Opaque for Version {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        (other as &dyn std::any::Any).downcast_ref::<Version>().is_some_and(|o| self.compare(o).is_eq())
    }
}

pub(super) fn add(library: &mut Library) {
    use Type::{Bool, Int, String};
    let version = || Type::opaque(TYPE);
    let make = |a: &[Value]| read(a)?.map(|v| Value::Opaque(Arc::new(v))).map_err(Error::Failed);
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
    value.opaque().ok_or_else(Error::no_overload)
}

fn number(args: &[Value], which: usize) -> Result {
    args!(args, v => Ok(Value::Int(of(v)?.numbers[which] as i64)))
}

fn compared(args: &[Value], answer: fn(Ordering) -> Value) -> Result {
    args!(args, x, y => Ok(answer(of(x)?.compare(of(y)?))))
}

fn read(args: &[Value]) -> Result<Result<Version, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(normalized(text).and_then(|t| parse(&t))),
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

fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".into());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else { return Err("No Major.Minor.Patch elements found".into()) };
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(r, b)| (r, Some(b)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(r, p)| (r, Some(p)));
    let numbers = [whole("Major", "major", major)?, whole("Minor", "minor", minor)?, whole("Patch", "patch", patch)?];
    let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(pre_release).collect())?;
    for part in build.into_iter().flat_map(|b| b.split('.')) {
        if part.is_empty() {
            return Err("Build meta data is empty".into());
        }
        if !part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("Invalid character(s) found in build meta data {}", quote(part)));
        }
    }
    Ok(Version { numbers, pre })
}

fn whole(name: &str, lower: &str, text: &str) -> Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {lower} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{name} number must not contain leading zeroes {}", quote(text)));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(text)))
}

fn pre_release(part: &str) -> Result<Part, String> {
    if part.is_empty() {
        return Err("Prerelease is empty".into());
    }
    if part.bytes().all(|b| b.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {}", quote(part)));
        }
        return part
            .parse()
            .map(Part::Number)
            .map_err(|_| format!("strconv.ParseUint: parsing {}: value out of range", quote(part)));
    }
    match part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        true => Ok(Part::Text(part.to_owned())),
        false => Err(format!("Invalid character(s) found in prerelease {}", quote(part))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let check =
            |a: &str, b: &str, expect| assert_eq!(parse(a).unwrap().compare(&parse(b).unwrap()), expect, "{a} {b}");
        check("1.2.3", "1.2.3+build", Ordering::Equal);
        check("1.2.3-rc.1", "1.2.3", Ordering::Less);
        check("1.2.3-rc.2", "1.2.3-rc.10", Ordering::Less);
        check("1.2.3-1", "1.2.3-a", Ordering::Less);
    }

    #[test]
    fn what_is_no_version_is_told() {
        let check = |text: &str, expect: &str| assert_eq!(parse(text).unwrap_err(), expect);
        check("01.2.3", "Major number must not contain leading zeroes \"01\"");
        check("1.2", "No Major.Minor.Patch elements found");
        check("1.2.x", "Invalid character(s) found in patch number \"x\"");
        assert_eq!(normalized("v1.02").unwrap(), "1.2.0");
    }
}
