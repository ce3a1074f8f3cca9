//! Points in time and spans of time, as text and as numbers.

use machinery::meta::{GoDuration, TimeForm, Timestamp};

use super::{Error, Result, Value};

const SECOND: i128 = 1_000_000_000;
/// The years 1 to 9999, in seconds since 1970.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

pub(crate) fn overflow() -> Error {
    Error::new("timestamp overflow")
}

/// Nanoseconds since 1970.
pub(crate) fn nanoseconds(at: Timestamp) -> i128 {
    i128::from(at.seconds()) * SECOND + i128::from(at.nanos())
}

/// A point in time and so many nanoseconds.
pub(crate) fn shifted(at: Timestamp, by: i128) -> Result {
    let total = nanoseconds(at) + by;
    let seconds = i64::try_from(total.div_euclid(SECOND)).map_err(|_| overflow())?;
    if !(FIRST..=LAST).contains(&seconds) {
        return Err(overflow());
    }
    Ok(Value::Timestamp(Timestamp::new(seconds, total.rem_euclid(SECOND) as u32)))
}

/// Reads RFC 3339, with fractions.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let fits = bytes.len() > shape.len()
        && shape.iter().zip(bytes).all(|(s, b)| if *s == b'd' { b.is_ascii_digit() } else { s == b });
    let zone = text.get(shape.len()..)?.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let zoned = zone == "Z" || (zone.len() == 6 && zone.starts_with(['+', '-']) && zone.as_bytes()[3] == b':');
    if !fits || !zoned || bytes[17] > b'5' {
        return None;
    }
    let seconds = Timestamp::parse(text, TimeForm::Seconds).ok()?.seconds();
    let digits = text[shape.len()..text.len() - zone.len()].trim_start_matches('.');
    let nanos = format!("{digits:0<9}").get(..9)?.parse().ok()?;
    (FIRST..=LAST).contains(&seconds).then(|| Timestamp::new(seconds, nanos))
}

/// Reads a span as the format `duration` of schemas has it: as Go does, or in words: `2d`, `3 weeks`.
pub(crate) fn parse_span(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano", "nanosecond", "nanoseconds"], 1),
        (&["us", "µs", "micro", "microsecond", "microseconds"], 1_000),
        (&["ms", "milli", "millisecond", "milliseconds"], 1_000_000),
        (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
        (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
        (&["h", "hr", "hour", "hours"], 3_600_000_000_000),
        (&["d", "day", "days"], 86_400_000_000_000),
        (&["w", "wk", "week", "weeks"], 604_800_000_000_000),
    ];
    if let Ok(span) = GoDuration::parse(text) {
        return Some(span.nanoseconds);
    }
    let mut total: i64 = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let unit = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let (_, size) = UNITS.iter().find(|(names, _)| names.contains(&&rest[..unit]))?;
        total = total.checked_add(number.checked_mul(*size)?)?;
        rest = rest[unit..].trim_start();
    }
    (!text.trim().is_empty()).then_some(total)
}

/// RFC 3339 in UTC, with as many digits of the fraction as are needed.
pub(crate) fn text(at: Timestamp) -> String {
    let whole = Timestamp::new(at.seconds(), 0).text(TimeForm::Seconds);
    if at.nanos() == 0 {
        return whole;
    }
    let fraction = format!("{:09}", at.nanos());
    format!("{}.{}Z", whole.trim_end_matches('Z'), fraction.trim_end_matches('0'))
}

/// A span as seconds: `5400s`, `1.5s`.
pub(crate) fn seconds_text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    let (whole, fraction) = (size / 1_000_000_000, size % 1_000_000_000);
    if fraction == 0 {
        return format!("{sign}{whole}s");
    }
    let fraction = format!("{fraction:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let check =
            |text: &str, expect: Option<&str>| assert_eq!(parse(text).map(super::text).as_deref(), expect, "{text}");
        check("2024-02-29T23:59:58.500Z", Some("2024-02-29T23:59:58.5Z"));
        check("2024-02-29T23:59:58+01:00", Some("2024-02-29T22:59:58Z"));
        check("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z"));
        check("2023-02-29T00:00:00Z", None);
        check("2024-02-29 23:59:58Z", None);
        check("2024-02-29T23:59:60Z", None);
        check("2024-02-29T23:59:58", None);
        check("today", None);
    }
}
