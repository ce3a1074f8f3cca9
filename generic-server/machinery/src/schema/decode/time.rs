//! Times as metav1.Time and metav1.MicroTime read and write them, with the texts of Go's time.Parse.

/// A layout of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Whole seconds; a fraction is read and dropped.
    Seconds,
    /// Exactly six digits of fraction.
    Micros,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Layout::Seconds => "2006-01-02T15:04:05Z07:00",
            Layout::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The text in UTC, `None` for the zero time, or Go's error.
pub(super) fn normalise(text: &str, layout: Layout) -> Result<Option<String>, String> {
    let mut reader = Reader { text, rest: text, layout };
    let year = reader.digits(4, "2006")?;
    reader.literal("-")?;
    let month = reader.ranged("01", 1..=12, "month")?;
    reader.literal("-")?;
    let day = reader.digits(2, "02")?;
    reader.literal("T")?;
    let hour = reader.ranged("15", 0..=23, "hour")?;
    reader.literal(":")?;
    let minute = reader.ranged("04", 0..=59, "minute")?;
    reader.literal(":")?;
    let second = reader.ranged("05", 0..=59, "second")?;
    let micros = reader.fraction()?;
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(reader.rest)));
    }
    if day < 1 || day > days_in(year, month) {
        return Err(reader.out_of_range("day"));
    }
    let seconds = days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    if seconds == days_before(1, 1, 1) * 86_400 && micros == 0 {
        return Ok(None);
    }
    Ok(Some(write(seconds, micros, layout)))
}

/// Whether the text is already what [`normalise`] gives, by its form alone; most times are.
pub(super) fn is_normal(text: &str, layout: Layout) -> bool {
    let pattern: &[u8] = match layout {
        Layout::Seconds => b"dddd-dd-ddTdd:dd:ddZ",
        Layout::Micros => b"dddd-dd-ddTdd:dd:dd.ddddddZ",
    };
    let bytes = text.as_bytes();
    let formed = bytes.len() == pattern.len()
        && bytes.iter().zip(pattern).all(|(b, p)| if *p == b'd' { b.is_ascii_digit() } else { b == p });
    if !formed {
        return false;
    }
    let two = |i: usize| (bytes[i] - b'0') * 10 + (bytes[i + 1] - b'0');
    // Days up to the 28th are in every month; the rest, and the zero time's year, take the long way.
    &bytes[..4] > b"0001".as_slice()
        && (1..=12).contains(&two(5))
        && (1..=28).contains(&two(8))
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: Layout,
}

impl Reader<'_> {
    fn bad(&self, element: &str) -> String {
        format!(
            "parsing time {} as \"{}\": cannot parse {} as \"{element}\"",
            quote(self.text),
            self.layout.text(),
            quote(self.rest)
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text))
    }

    fn literal(&mut self, literal: &str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.bad(literal))?;
        Ok(())
    }

    fn digits(&mut self, count: usize, element: &str) -> Result<i64, String> {
        let digits = self.rest.get(..count).filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|d| d.parse().ok()).ok_or_else(|| self.bad(element))?;
        self.rest = &self.rest[count..];
        Ok(number)
    }

    fn ranged(&mut self, element: &str, range: std::ops::RangeInclusive<i64>, what: &str) -> Result<i64, String> {
        let number = self.digits(2, element)?;
        if range.contains(&number) { Ok(number) } else { Err(self.out_of_range(what)) }
    }

    fn fraction(&mut self) -> Result<i64, String> {
        let bytes = self.rest.as_bytes();
        let digits = bytes.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
        let pointed = matches!(bytes.first(), Some(b'.' | b','));
        match self.layout {
            Layout::Seconds => {
                if pointed && digits > 0 {
                    self.rest = &self.rest[1 + digits..];
                }
                Ok(0)
            }
            Layout::Micros if pointed && digits >= 6 => {
                let micros = self.rest[1..7].parse().expect("six digits");
                self.rest = &self.rest[7..];
                Ok(micros)
            }
            Layout::Micros => Err(self.bad(".000000")),
        }
    }

    /// Seconds east of UTC.
    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let zone = self.rest.get(..6).map(str::as_bytes);
        let Some(&[sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]) = zone else { return Err(self.bad("Z07:00")) };
        if ![h1, h2, m1, m2].iter().all(u8::is_ascii_digit) {
            return Err(self.bad("Z07:00"));
        }
        let number = |a: u8, b: u8| i64::from(a - b'0') * 10 + i64::from(b - b'0');
        let (hours, minutes) = (number(h1, h2), number(m1, m2));
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        let offset = hours * 3600 + minutes * 60;
        Ok(if sign == b'-' { -offset } else { offset })
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let years = if month <= 2 { year - 1 } else { year }; // a year that starts in March ends with its leap day
    let era = years.div_euclid(400);
    let year_of_era = years.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn write(seconds: i64, micros: i64, layout: Layout) -> String {
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    match layout {
        Layout::Seconds => date + "Z",
        Layout::Micros => format!("{date}.{micros:06}Z"),
    }
}

/// Text in Go's quotes, as package time quotes it.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for b in text.bytes() {
        match b {
            b'"' | b'\\' => out.extend(['\\', b as char]),
            b' '..=b'~' => out.push(b as char),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_or_refused_in_gos_words() {
        let check = |text: &str, layout, want: &str| {
            let got = normalise(text, layout).map_or_else(|e| e, |t| t.unwrap_or_else(|| "zero".into()));
            assert_eq!(got, want);
            if is_normal(text, layout) {
                assert_eq!(got, text);
            }
        };
        let seconds = Layout::Seconds;
        check("2024-03-01T10:00:00Z", seconds, "2024-03-01T10:00:00Z");
        check("2024-03-01T00:30:00.999+01:00", seconds, "2024-02-29T23:30:00Z");
        check("1969-12-31T23:59:59-00:01", seconds, "1970-01-01T00:00:59Z");
        check("0001-01-01T00:00:00Z", seconds, "zero");
        check("0000-12-31T00:00:00Z", seconds, "0000-12-31T00:00:00Z");
        check("2023-02-29T00:00:00Z", seconds, r#"parsing time "2023-02-29T00:00:00Z": day out of range"#);
        check("2023-13-01T00:00:00Z", seconds, r#"parsing time "2023-13-01T00:00:00Z": month out of range"#);
        check("2023-01-01T00:00:00ZZ", seconds, r#"parsing time "2023-01-01T00:00:00ZZ": extra text: "Z""#);
        check(
            "yesterday",
            seconds,
            r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
        );
        let micros = Layout::Micros;
        check("2024-03-01T12:00:00.500000+02:00", micros, "2024-03-01T10:00:00.500000Z");
        check("2024-03-01T12:00:00.000000Z", micros, "2024-03-01T12:00:00.000000Z");
        let refused = |text: &str, rest: &str, element: &str| {
            let layout = micros.text();
            check(
                text,
                micros,
                &format!(r#"parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}""#),
            );
        };
        refused("2020-01-01", "", "T");
        refused("2024-03-01T10:00:00.123456789Z", "789Z", "Z07:00");
        refused("2024-03-01T10:00:00Z", "Z", ".000000");
        refused("2024-03-01T12:00:00.5+02:00", ".5+02:00", ".000000");
    }
}
