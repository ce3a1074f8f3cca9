//! Durations as Go reads and writes them: `1h30m`, `1.5s`, `100ms`.

use std::fmt;

use super::go_text::quote;

/// A text that is no duration; the messages are Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: {what} duration {text}")]
pub struct DurationError {
    what: String,
    text: String, // in quotes
}

/// A span of time in nanoseconds, at most about 292 years either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration {
    /// The whole span.
    pub nanoseconds: i64,
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000), // micro sign
    ("μs", 1_000), // Greek mu
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl GoDuration {
    /// A number of seconds.
    pub fn from_secs(seconds: i64) -> Self {
        Self { nanoseconds: seconds.saturating_mul(1_000_000_000) }
    }

    /// The span as the standard library has it; `None` if negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        Some(std::time::Duration::from_nanos(u64::try_from(self.nanoseconds).ok()?))
    }

    /// Reads a text: a sign, then numbers with units, fractions allowed; `0` needs no unit.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let fail = |what: &str| DurationError { what: what.to_owned(), text: quote(text) };
        let invalid = || fail("invalid");
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let whole = split_digits(&mut rest);
            let mut fraction = "";
            if let Some(behind) = rest.strip_prefix('.') {
                rest = behind;
                fraction = split_digits(&mut rest);
            }
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let unit_len = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
            let (unit, behind) = rest.split_at(unit_len);
            rest = behind;
            if unit.is_empty() {
                return Err(fail("missing unit in"));
            }
            let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(fail(&format!("unknown unit {} in", quote(unit))));
            };
            let whole = if whole.is_empty() { Some(0) } else { whole.parse::<u64>().ok() };
            let nanoseconds =
                whole.and_then(|w| w.checked_mul(*size)).and_then(|w| w.checked_add(part(fraction, *size)));
            total = nanoseconds.and_then(|n| total.checked_add(n)).filter(|t| *t <= 1 << 63).ok_or_else(invalid)?;
        }
        match (negative, i64::try_from(total)) {
            (true, _) => Ok(Self { nanoseconds: (total as i64).wrapping_neg() }),
            (false, Ok(nanoseconds)) => Ok(Self { nanoseconds }),
            (false, Err(_)) => Err(invalid()),
        }
    }
}

fn split_digits<'a>(rest: &mut &'a str) -> &'a str {
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, behind) = rest.split_at(len);
    *rest = behind;
    digits
}

/// `0.digits × size` in floating point, as Go computes it; digits that do not fit a u64 do not count.
fn part(digits: &str, size: u64) -> u64 {
    let (mut number, mut scale) = (0u64, 1f64);
    for c in digits.bytes() {
        let Some(next) = number.checked_mul(10).and_then(|n| n.checked_add(u64::from(c - b'0'))) else { break };
        if next > 1 << 63 {
            break;
        }
        number = next;
        scale *= 10.0;
    }
    (number as f64 * (size as f64 / scale)) as u64
}

impl fmt::Display for GoDuration {
    /// `0s`, `1.5µs`, `1m0s`, `2h0m1.5s`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.nanoseconds.unsigned_abs();
        if self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let (unit, name) = match size {
            0 => return f.write_str("0s"),
            1..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let mut whole = size / unit;
        if unit == 1_000_000_000 {
            let (hours, minutes) = (whole / 3600, whole / 60 % 60);
            whole %= 60;
            if hours > 0 {
                write!(f, "{hours}h")?;
            }
            if hours > 0 || minutes > 0 {
                write!(f, "{minutes}m")?;
            }
        }
        write!(f, "{whole}")?;
        if !size.is_multiple_of(unit) {
            let width = unit.ilog10() as usize;
            let digits = format!("{:0width$}", size % unit);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_and_writes() {
        for (text, want) in [
            ("0", "0s"),
            ("0s", "0s"),
            ("-0", "0s"),
            ("5s", "5s"),
            ("+1.5h", "1h30m0s"),
            ("90m", "1h30m0s"),
            ("60s", "1m0s"),
            ("-1.5ms", "-1.5ms"),
            ("1h1ns", "1h0m0.000000001s"),
            (".5s", "500ms"),
            ("1.s", "1s"),
            ("1500ns", "1.5µs"),
            ("2us", "2µs"),
            ("2μs", "2µs"),
            ("-9223372036854775808ns", "-2562047h47m16.854775808s"),
            ("9223372036854775807ns", "2562047h47m16.854775807s"),
            ("0.3333333333333333333h", "20m0s"),
        ] {
            let got = GoDuration::parse(text).expect(text).to_string();
            assert_eq!(got, want, "{text}");
        }
    }

    #[test]
    fn errors_are_gos() {
        for (text, want) in [
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("s", r#"time: invalid duration "s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("3", r#"time: missing unit in duration "3""#),
            ("1h3", r#"time: missing unit in duration "1h3""#),
            ("1d", r#"time: unknown unit "d" in duration "1d""#),
            ("1 s", r#"time: unknown unit " s" in duration "1 s""#),
            ("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#),
            ("99999999999999999999h", r#"time: invalid duration "99999999999999999999h""#),
        ] {
            assert_eq!(GoDuration::parse(text).expect_err(text).to_string(), want);
        }
    }
}
