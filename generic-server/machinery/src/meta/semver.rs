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

/// Why a text is no version. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// There is no text.
    #[error("Version string empty")]
    Empty,
    /// There are fewer than three parts.
    #[error("No Major.Minor.Patch elements found")]
    TooFewParts,
    /// A part that is to be a number has other characters, or none.
    #[error("Invalid character(s) found in {} number {}", .part.to_ascii_lowercase(), quote(.text))]
    NoNumber {
        /// `Major`, `Minor` or `Patch`.
        part: &'static str,
        /// What stands there.
        text: String,
    },
    /// A number is filled up with zeros.
    #[error("{part} number must not contain leading zeroes {}", quote(.text))]
    LeadingZero {
        /// `Major`, `Minor` or `Patch`.
        part: &'static str,
        /// What stands there.
        text: String,
    },
    /// A number has more than 64 bits.
    #[error("strconv.ParseUint: parsing {}: value out of range", quote(.0))]
    OutOfRange(String),
    /// A part of what tells a pre-release is empty.
    #[error("Prerelease is empty")]
    EmptyPreRelease,
    /// A number of a pre-release is filled up with zeros.
    #[error("Numeric PreRelease version must not contain leading zeroes {}", quote(.0))]
    PreReleaseLeadingZero(String),
    /// A part of what tells a pre-release has characters that cannot stand there.
    #[error("Invalid character(s) found in prerelease {}", quote(.0))]
    PreRelease(String),
    /// A part of what tells the build is empty.
    #[error("Build meta data is empty")]
    EmptyBuild,
    /// A part of what tells the build has characters that cannot stand there.
    #[error("Invalid character(s) found in build meta data {}", quote(.0))]
    Build(String),
}

impl Version {
    /// Reads a version.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Version, VersionError> {
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

fn parse(text: &str) -> Result<Version, VersionError> {
    if text.is_empty() {
        return Err(VersionError::Empty);
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts[..] else { return Err(VersionError::TooFewParts) };
    let (rest, build) = rest.split_once('+').map_or((rest, None), |(r, b)| (r, Some(b)));
    let (patch, pre) = rest.split_once('-').map_or((rest, None), |(r, p)| (r, Some(p)));
    let numbers = [whole("Major", major)?, whole("Minor", minor)?, whole("Patch", patch)?];
    let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(pre_release).collect())?;
    for part in build.into_iter().flat_map(|b| b.split('.')) {
        if part.is_empty() {
            return Err(VersionError::EmptyBuild);
        }
        if !part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(VersionError::Build(part.to_owned()));
        }
    }
    Ok(Version { numbers, pre })
}

fn whole(part: &'static str, text: &str) -> Result<u64, VersionError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(VersionError::NoNumber { part, text: text.to_owned() });
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::LeadingZero { part, text: text.to_owned() });
    }
    text.parse().map_err(|_| VersionError::OutOfRange(text.to_owned()))
}

fn pre_release(part: &str) -> Result<Part, VersionError> {
    if part.is_empty() {
        return Err(VersionError::EmptyPreRelease);
    }
    if part.bytes().all(|b| b.is_ascii_digit()) {
        if part.len() > 1 && part.starts_with('0') {
            return Err(VersionError::PreReleaseLeadingZero(part.to_owned()));
        }
        return part.parse().map(Part::Number).map_err(|_| VersionError::OutOfRange(part.to_owned()));
    }
    match part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        true => Ok(Part::Text(part.to_owned())),
        false => Err(VersionError::PreRelease(part.to_owned())),
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
        let check = |text: &str, expect: &str| assert_eq!(parse(text).unwrap_err().to_string(), expect);
        check("01.2.3", "Major number must not contain leading zeroes \"01\"");
        check("1.2", "No Major.Minor.Patch elements found");
        check("1.2.x", "Invalid character(s) found in patch number \"x\"");
        check("", "Version string empty");
        check("1.2.99999999999999999999", "strconv.ParseUint: parsing \"99999999999999999999\": value out of range");
        check("1.2.3-", "Prerelease is empty");
        check("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\"");
        check("1.2.3-a_b", "Invalid character(s) found in prerelease \"a_b\"");
        check("1.2.3+", "Build meta data is empty");
        check("1.2.3+a_b", "Invalid character(s) found in build meta data \"a_b\"");
    }
}
