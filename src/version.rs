//! This build's version.

use generic_server::{features::Versions, pages::Build};
use machinery::meta::{TimeForm, Timestamp};

/// The version of this build.
pub const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// The build, under the version that it reports, and the versions that it behaves by.
pub(crate) fn build(reported: &str, versions: Versions) -> Build {
    let seconds = env!("BUILD_SECONDS").parse().expect("the build script writes a number");
    Build {
        version: reported.to_owned(),
        commit: env!("BUILD_COMMIT"),
        tree_state: env!("BUILD_TREE_STATE"),
        date: Timestamp::new(seconds, 0).text(TimeForm::Seconds),
        versions,
    }
}

/// Checks a version to report (`--version=v1.36.2-custom`): a semantic one of the same release.
pub(crate) fn check(text: &str) -> Result<(), String> {
    if text == VERSION {
        return Ok(());
    }
    if parse(text)? == parse(VERSION)? {
        return Ok(());
    }
    Err(format!("version {text:?} must match major/minor/patch of default version {VERSION:?}"))
}

/// The numbers that a version begins with, two at least, in upstream's words where it is none: `1.36`, `v1.36.2-custom`.
pub(crate) fn numbers(text: &str) -> Result<Vec<u64>, String> {
    let (numbers, _) = split(text)?;
    let parts: Vec<&str> = numbers.split('.').collect();
    if parts.len() < 2 {
        return Err(format!("illegal version string {text:?}"));
    }
    parts.into_iter().map(|part| number(part, text)).collect()
}

/// The text of the numbers, and what comes after them.
fn split(text: &str) -> Result<(&str, &str), String> {
    let trimmed = text.trim_start();
    let rest = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let (numbers, extra) = rest.split_at(numbers_end(rest));
    if numbers.is_empty() {
        return Err(format!("could not parse {text:?} as version"));
    }
    Ok((numbers, extra))
}

fn number(part: &str, text: &str) -> Result<u64, String> {
    part.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing {part:?}: value out of range");
        format!("illegal non-numeric version component {part:?} in {text:?}: {why}")
    })
}

/// The numbers of a semantic version, in upstream's words where it is none.
fn parse(text: &str) -> Result<[u64; 3], String> {
    let (numbers, extra) = split(text)?;
    let parts: Vec<&str> = numbers.split('.').collect();
    let [major, minor, patch] = parts[..] else { return Err(format!("illegal version string {text:?}")) };
    let number = |part: &str| {
        if has_leading_zero(part) {
            return Err(format!("illegal zero-prefixed version component {part:?} in {text:?}"));
        }
        self::number(part, text)
    };
    let numbers = [number(major)?, number(minor)?, number(patch)?];
    let refused = || format!("could not parse pre-release/metadata ({extra}) in version {text:?}");
    let (before, metadata) = match extra.trim_end().split_once('+') {
        Some((before, metadata)) => (before, Some(metadata)),
        None => (extra.trim_end(), None),
    };
    let identifiers = |list: &str| {
        list.split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
    };
    let release = match before.strip_prefix('-') {
        Some(release) if identifiers(release) => release,
        None if before.is_empty() => "",
        _ => return Err(refused()),
    };
    if metadata.is_some_and(|metadata| !identifiers(metadata)) {
        return Err(refused());
    }
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match release.split('.').filter(is_number).find(|part| has_leading_zero(part)) {
        Some(part) => Err(format!("illegal zero-prefixed version component {part:?} in {text:?}")),
        None => Ok(numbers),
    }
}

fn has_leading_zero(part: &str) -> bool {
    part.len() > 1 && part.starts_with('0')
}

/// Where the numbers end that begin a text: digits, and dots between digits.
fn numbers_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    (0..).find(|at| !(digit(*at) || (*at > 0 && bytes.get(*at) == Some(&b'.') && digit(at + 1)))).expect("a text ends")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_the_same_release_may_be_reported() {
        for text in ["v1.36.2", "v1.36.2-custom", "v1.36.2+build.7", "v1.36.2-rc.1+x-y.00", "v1.36.2-0a"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let refused = |text: &str, expect: &str| assert_eq!(check(text), Err(expect.to_owned()));
        refused("v1.36.3", r#"version "v1.36.3" must match major/minor/patch of default version "v1.36.2""#);
        refused("v1.36", r#"illegal version string "v1.36""#);
        refused("vx", r#"could not parse "vx" as version"#);
        refused("v1.36.02", r#"illegal zero-prefixed version component "02" in "v1.36.02""#);
        refused("v1.36.2-01", r#"illegal zero-prefixed version component "01" in "v1.36.2-01""#);
        refused("v1.36.2_x", r#"could not parse pre-release/metadata (_x) in version "v1.36.2_x""#);
        refused("v1.36.2-", r#"could not parse pre-release/metadata (-) in version "v1.36.2-""#);
        refused("v1.36.2-a+b+c", r#"could not parse pre-release/metadata (-a+b+c) in version "v1.36.2-a+b+c""#);
    }
}
