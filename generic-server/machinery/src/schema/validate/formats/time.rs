//! Dates, times and durations.

use crate::meta::{GoDuration, TimeForm, Timestamp};

pub(super) fn is_date(text: &str) -> bool {
    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z"), TimeForm::Seconds).is_ok()
}

/// `date t hh:mm:ss[.fraction](z|±hh:mm)`, in either case.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(time: &str) -> bool {
    let (Some(clock), Some(rest)) = (time.get(..8), time.get(8..)) else { return false };
    let bytes = clock.as_bytes();
    let formed = bytes.iter().enumerate().all(|(i, b)| if i == 2 || i == 5 { *b == b':' } else { b.is_ascii_digit() });
    if !formed || clock[..2] > *"23" || clock[3..5] > *"59" || clock[6..] > *"59" {
        return false;
    }
    is_zone(rest) || fraction(rest).is_some_and(is_zone)
}

/// What follows a fraction: any one character, and digits.
fn fraction(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    chars.next().filter(|c| *c != '\n')?;
    let digits = chars.as_str();
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

fn is_zone(text: &str) -> bool {
    text == "z"
        || matches!(text.as_bytes(), [b'+' | b'-', a, b, b':', c, d] if [a, b, c, d].iter().all(|x| x.is_ascii_digit()))
}

/// The units beside Go's: names that a unit is, and at the end the word that it may begin with.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "week", "wk"],
];

/// Go's durations, and numbers with words: `3 days`.
pub(super) fn is_duration(text: &str) -> bool {
    if GoDuration::parse(text).is_ok() {
        return true;
    }
    let mut rest = text;
    let mut found = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = &rest[start..];
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &number[..number.len() - after.len()];
        let unit_text = after.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        let tail = unit_text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
        let unit = unit_text[..unit_text.len() - tail.len()].to_lowercase();
        rest = tail;
        if unit.is_empty() {
            rest = after;
            continue;
        }
        if digits.parse::<i64>().is_err() {
            return false;
        }
        found |= UNITS
            .iter()
            .any(|names| names.contains(&unit.as_str()) || names.last().is_some_and(|word| unit.starts_with(word)));
    }
    found
}
