//! Points in time as the API writes them: `Time` in seconds, `MicroTime` in microseconds, both RFC 3339 in UTC.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A text that is no time; the messages are those of Go's time.Parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {0}")]
pub struct TimeError(String);

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64, // since 1970, negative before
    nanos: u32,   // after that second
}

/// Which of the two forms a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeForm {
    /// metav1.Time: whole seconds are written; fractions are read and dropped.
    Seconds,
    /// metav1.MicroTime: six digits of a fraction are written, and must be there when read.
    Micros,
}

impl TimeForm {
    /// Go's layout, which error texts name.
    fn layout(self) -> &'static str {
        match self {
            TimeForm::Seconds => "2006-01-02T15:04:05Z07:00",
            TimeForm::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

impl Timestamp {
    /// The zero time of Go, 0001-01-01T00:00:00Z, which the API writes as `null`.
    pub const ZERO: Timestamp = Timestamp { seconds: -62_135_596_800, nanos: 0 };

    /// From seconds since 1970, and nanoseconds (below 1e9) after that second.
    pub fn new(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos: nanos.min(999_999_999) }
    }

    /// The present.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// Seconds since 1970.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after the second.
    pub fn nanos(self) -> u32 {
        self.nanos
    }

    /// This many seconds later.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self { seconds: self.seconds.saturating_add(seconds), ..self }
    }

    /// Without the fraction of the second.
    pub fn truncated(self) -> Self {
        Self { nanos: 0, ..self }
    }

    /// Reads a text of one of the forms.
    pub fn parse(text: &str, form: TimeForm) -> Result<Self, TimeError> {
        Reader { text, rest: text, form }.read()
    }

    /// The text of one of the forms.
    pub fn text(self, form: TimeForm) -> String {
        let days = self.seconds.div_euclid(86_400);
        let of_day = self.seconds.rem_euclid(86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        if !(0..=9999).contains(&year) {
            let fraction = if form == TimeForm::Micros { format!(".{:06}", self.nanos / 1000) } else { String::new() };
            return format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z");
        }
        // By hand: every object has a few times.
        let mut text = String::with_capacity(27);
        put_digits(&mut text, year, 4);
        for (mark, number) in [('-', month), ('-', day), ('T', hour), (':', minute), (':', second)] {
            text.push(mark);
            put_digits(&mut text, number, 2);
        }
        if form == TimeForm::Micros {
            text.push('.');
            put_digits(&mut text, i64::from(self.nanos / 1000), 6);
        }
        text.push('Z');
        text
    }
}

/// Appends the last `count` decimal digits of a number that is not negative.
fn put_digits(text: &mut String, number: i64, count: u32) {
    for place in (0..count).rev() {
        let digit = number / 10i64.pow(place) % 10;
        text.push(char::from(b'0' + digit as u8));
    }
}

impl fmt::Display for Timestamp {
    /// The text of [`TimeForm::Seconds`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(TimeForm::Seconds))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { seconds: after.as_secs() as i64, nanos: after.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                let borrow = u32::from(before.subsec_nanos() > 0);
                let seconds = -(before.as_secs() as i64) - i64::from(borrow);
                Self { seconds, nanos: borrow * 1_000_000_000 - before.subsec_nanos() }
            }
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let fraction = Duration::from_nanos(time.nanos.into());
        match u64::try_from(time.seconds) {
            Ok(after) => UNIX_EPOCH + Duration::from_secs(after) + fraction,
            Err(_) => UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) + fraction,
        }
    }
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2); // years begin in March, so that the leap day is the last
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = (shifted + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Text in quotes as Go's time package puts it: bytes beyond ASCII and control characters in hexadecimal.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.bytes() {
        match c {
            b'"' | b'\\' => out.extend(['\\', c as char]),
            b' '..=0x7f => out.push(c as char),
            _ => out.push_str(&format!("\\x{c:02x}")),
        }
    }
    out.push('"');
    out
}

/// Reads element after element, each named in errors by its part of Go's layout.
struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    form: TimeForm,
}

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<Timestamp, TimeError> {
        let year = self.year()?;
        self.literal("-")?;
        let month = self.number("01", true, "month", 1..=12)?;
        self.literal("-")?;
        let day = self.number("02", true, "day", 0..=99)?;
        self.literal("T")?;
        let hour = self.number("15", false, "hour", 0..=23)?;
        self.literal(":")?;
        let minute = self.number("04", true, "minute", 0..=59)?;
        self.literal(":")?;
        let second = self.number("05", true, "second", 0..=59)?;
        let nanos = self.fraction()?;
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            let extra = quoted(self.rest);
            return Err(self.plain(&format!("extra text: {extra}")));
        }
        if day < 1 || day > days_in(year, month) {
            return Err(self.plain("day out of range"));
        }
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Ok(Timestamp { seconds, nanos })
    }

    fn plain(&self, message: &str) -> TimeError {
        TimeError(format!("{}: {message}", quoted(self.text)))
    }

    fn bad(&self, at: &str, element: &str) -> TimeError {
        let (text, layout) = (quoted(self.text), quoted(self.form.layout()));
        TimeError(format!("{text} as {layout}: cannot parse {} as {}", quoted(at), quoted(element)))
    }

    /// The first `len` bytes, which the caller knows to be ASCII.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn literal(&mut self, literal: &str) -> Result<(), TimeError> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.bad(self.rest, literal))?;
        Ok(())
    }

    fn year(&mut self) -> Result<i64, TimeError> {
        if digits(self.rest) < 4 {
            return Err(self.bad(self.rest, "2006"));
        }
        Ok(self.take(4).parse().expect("four digits"))
    }

    /// Two digits, or one where it need not be two.
    fn number(
        &mut self,
        element: &str,
        fixed: bool,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, TimeError> {
        let len = digits(self.rest).min(2);
        if len == 0 || (fixed && len < 2) {
            return Err(self.bad(self.rest, element));
        }
        let number = self.take(len).parse().expect("one or two digits");
        if range.contains(&number) { Ok(number) } else { Err(self.plain(&format!("{name} out of range"))) }
    }

    /// Nanoseconds. A fraction may stand where the layout has none; digits beyond nine are cut off.
    fn fraction(&mut self) -> Result<u32, TimeError> {
        let point = self.rest.starts_with(['.', ',']);
        let len = if point { digits(&self.rest[1..]) } else { 0 };
        let len = match self.form {
            TimeForm::Seconds if len == 0 => return Ok(0),
            TimeForm::Seconds => len,
            TimeForm::Micros if len < 6 => return Err(self.bad(self.rest, ".000000")),
            TimeForm::Micros => 6,
        };
        let taken = self.take(1 + len);
        let number = taken[1..].bytes().chain(std::iter::repeat(b'0')).take(9);
        Ok(number.fold(0, |n, c| n * 10 + u32::from(c - b'0')))
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Result<i64, TimeError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let bad = || self.bad(self.rest, "Z07:00");
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return Err(bad()),
        };
        let two = |i: usize| match bytes.get(i..i + 2)? {
            [a, b] if a.is_ascii_digit() && b.is_ascii_digit() => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
            _ => None,
        };
        let (Some(hours), Some(b':'), Some(minutes)) = (two(1), bytes.get(3), two(4)) else {
            return Err(bad());
        };
        if hours > 24 {
            return Err(self.plain("time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.plain("time zone offset minute out of range"));
        }
        self.take(6);
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_and_writes_in_utc() {
        for (text, want) in [
            ("2024-03-01T10:00:00Z", "2024-03-01T10:00:00Z"),
            ("2024-03-01T10:00:00.999Z", "2024-03-01T10:00:00Z"),
            ("2024-03-01T00:30:00+02:00", "2024-02-29T22:30:00Z"),
            ("2024-12-31T23:30:00-01:00", "2025-01-01T00:30:00Z"),
            ("2024-03-01T1:00:00Z", "2024-03-01T01:00:00Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59,5Z", "1969-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ] {
            let time = Timestamp::parse(text, TimeForm::Seconds).expect(text);
            assert_eq!(time.to_string(), want, "{text}");
            assert_eq!(Timestamp::from(SystemTime::from(time)), time, "{text}");
        }
        let micro = Timestamp::parse("2024-03-01T12:00:00.000120+02:00", TimeForm::Micros).expect("six digits");
        assert_eq!(micro.text(TimeForm::Micros), "2024-03-01T10:00:00.000120Z");
        assert_eq!(Timestamp::parse("0001-01-01T00:00:00Z", TimeForm::Seconds), Ok(Timestamp::ZERO));
    }

    #[test]
    fn days_count_both_ways() {
        for n in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = civil(n);
            assert!((1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day), "{n}");
            assert_eq!(days(year, month, day), n);
        }
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1)), (0, 11_017));
    }

    #[test]
    fn errors_are_gos() {
        let seconds = |text: &str| Timestamp::parse(text, TimeForm::Seconds).expect_err(text).to_string();
        let as_seconds = r#"as "2006-01-02T15:04:05Z07:00": cannot parse"#;
        for (text, want) in [
            ("", r#""" as "2006""#),
            ("yesterday", r#""yesterday" as "2006""#),
            ("2024", r#""" as "-""#),
            ("2024-3-01T10:00:00Z", r#""3-01T10:00:00Z" as "01""#),
            ("2024-03-01 10:00:00Z", r#"" 10:00:00Z" as "T""#),
            ("2024-03-01T10:00:00", r#""" as "Z07:00""#),
            ("2024-03-01T10:00:00+0200", r#""+0200" as "Z07:00""#),
        ] {
            assert_eq!(seconds(text), format!("parsing time \"{text}\" {as_seconds} {want}"));
        }
        for (text, want) in [
            ("2024-13-01T10:00:00Z", "month out of range"),
            ("2023-02-29T10:00:00Z", "day out of range"),
            ("2024-03-01T24:00:00Z", "hour out of range"),
            ("2024-03-01T10:60:00Z", "minute out of range"),
            ("2024-03-01T10:00:60Z", "second out of range"),
            ("2024-03-01T10:00:00+25:00", "time zone offset hour out of range"),
            ("2024-03-01T10:00:00Zz", r#"extra text: "z""#),
        ] {
            assert_eq!(seconds(text), format!("parsing time \"{text}\": {want}"));
        }
        let micros = |text: &str| Timestamp::parse(text, TimeForm::Micros).expect_err(text).to_string();
        let as_micros = r#"as "2006-01-02T15:04:05.000000Z07:00": cannot parse"#;
        for (text, want) in [
            ("2020-01-01", r#""" as "T""#),
            ("2024-03-01T10:00:00.123456789Z", r#""789Z" as "Z07:00""#),
            ("2024-03-01T10:00:00Z", r#""Z" as ".000000""#),
            ("2024-03-01T12:00:00.5+02:00", r#"".5+02:00" as ".000000""#),
        ] {
            assert_eq!(micros(text), format!("parsing time \"{text}\" {as_micros} {want}"));
        }
    }
}
