//! Semantic versions, read as strictly as upstream reads them.

use std::cmp::Ordering;

use crate::go_text::quote;

/// A version; what is built of it does not count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    /// Major, minor, patch.
    pub numbers: [u64; 3],
    pre: Vec<Part>,
}

/// A part of what tells a pre-release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Version {
    /// Reads a version.
    ///
    /// # Errors
    /// Why it is none, in upstream's words.
    pub fn parse(text: &str) -> Result<Version, String> {
        parse(text)
    }

    /// Which comes first; a pre-release comes before its release.
    pub fn compare(&self, other: &Version) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        })
    }
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
    }
}
