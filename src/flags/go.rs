//! Numbers, booleans and durations as Go's standard library reads them, with its error texts.

use std::time::Duration;

/// Go's strconv.ParseBool.
pub(crate) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("strconv.ParseBool: parsing {text:?}: invalid syntax")),
    }
}

/// Go's strconv.ParseInt with base 0: a prefix chooses the base, underscores may separate digits after one.
pub(crate) fn parse_int(text: &str, bits: u32) -> Result<i64, String> {
    let fail = |what: &str| Err(format!("strconv.ParseInt: parsing {text:?}: {what}"));
    let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = [("0x", 16), ("0b", 2), ("0o", 8)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((radix, lower.strip_prefix(prefix)?)))
        .unwrap_or_else(|| match lower.strip_prefix('0') {
            Some(octal) if !octal.is_empty() => (8, octal),
            _ => (10, lower.as_str()),
        });
    let digits = if radix == 10 { digits.to_owned() } else { digits.replace('_', "") };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return fail("invalid syntax");
    }
    let signed = if negative { format!("-{digits}") } else { digits };
    match i64::from_str_radix(&signed, radix) {
        Ok(number) if bits == 64 || i32::try_from(number).is_ok() => Ok(number),
        _ => fail("value out of range"),
    }
}

/// Go's strconv.ParseFloat, as far as flags need it.
pub(crate) fn parse_float(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("strconv.ParseFloat: parsing {text:?}: invalid syntax")),
    }
}

/// A duration of Go in nanoseconds; negative ones exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GoDuration(pub(crate) i64);

impl GoDuration {
    /// The duration, nothing when it is negative.
    pub(crate) fn positive(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

/// Go's time.ParseDuration: `1h15m30.5s`, units ns, us, µs, ms, s, m, h.
pub(crate) fn parse_duration(text: &str) -> Result<GoDuration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(GoDuration(0));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let scale: i128 = match unit {
            "" => return Err(format!("time: missing unit in duration {text:?}")),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
        };
        // Beyond 18 digits nothing fits, and what a fraction has beyond them is below a nanosecond.
        let digits = |text: &str| text.parse::<i128>().ok().filter(|_| text.len() <= 18);
        let whole = if whole.is_empty() { 0 } else { digits(whole).ok_or_else(invalid)? };
        let fraction = &fraction[..fraction.len().min(18)];
        let part = digits(fraction).map_or(0, |part| part * scale / 10_i128.pow(fraction.len() as u32));
        total += whole * scale + part;
        rest = after;
    }
    let total = if negative { -total } else { total };
    i64::try_from(total).map(GoDuration).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        let check = |text: &str, expect: Result<i64, &str>| {
            let expect = expect.map_err(|what| format!("strconv.ParseInt: parsing {text:?}: {what}"));
            assert_eq!(parse_int(text, 64), expect);
        };
        check("400", Ok(400));
        check("-5", Ok(-5));
        check("+5", Ok(5));
        check("0", Ok(0));
        check("0x1F", Ok(31));
        check("0o17", Ok(15));
        check("017", Ok(15));
        check("0b101", Ok(5));
        check("-9223372036854775808", Ok(i64::MIN));
        check("9223372036854775808", Err("value out of range"));
        for text in ["", "-", "4.5", "abc", "1e3", " 1", "09", "0x", "1_000"] {
            check(text, Err("invalid syntax"));
        }
        assert!(parse_int("2147483648", 32).is_err());
    }

    #[test]
    fn durations() {
        let check = |text: &str, expect: Result<i64, &str>| {
            assert_eq!(parse_duration(text), expect.map(GoDuration).map_err(str::to_owned), "{text}");
        };
        check("0", Ok(0));
        check("1m0s", Ok(60_000_000_000));
        check("1h0m0s", Ok(3_600_000_000_000));
        check("1.5h", Ok(5_400_000_000_000));
        check("-30s", Ok(-30_000_000_000));
        check("+.5s", Ok(500_000_000));
        check("1.s", Ok(1_000_000_000));
        check("2us3ns", Ok(2_003));
        check("1.0000000000000000000000009s", Ok(1_000_000_000));
        check("", Err("time: invalid duration \"\""));
        check("-", Err("time: invalid duration \"-\""));
        check("abc", Err("time: invalid duration \"abc\""));
        check("1..5s", Err("time: invalid duration \"1..5s\""));
        check(".s", Err("time: invalid duration \".s\""));
        check("5", Err("time: missing unit in duration \"5\""));
        check("5q", Err("time: unknown unit \"q\" in duration \"5q\""));
        check("9999999h", Err("time: invalid duration \"9999999h\""));
        check("99999999999999999999s", Err("time: invalid duration \"99999999999999999999s\""));
    }

    #[test]
    fn booleans_and_floats() {
        assert_eq!(parse_bool("T"), Ok(true));
        assert_eq!(parse_bool("0"), Ok(false));
        assert!(parse_bool("yes").is_err());
        assert_eq!(parse_float("0.01"), Ok(0.01));
        assert!(parse_float("NaN").is_err());
        assert!(parse_float("").is_err());
    }
}
