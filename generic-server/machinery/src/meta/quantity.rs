//! `Quantity`: a decimal number with a suffix (`100m`, `1.5Gi`, `2e3`), as resources are counted.
//!
//! A number is a mantissa and a power of ten. Differs: upstream keeps any number of digits; this one keeps 38 and rounds
//! what is beyond away from zero, so that no text costs more than its length to read.

use std::cmp::Ordering;
use std::fmt;

use super::go_text;
use crate::{Str, Value};

/// How a quantity is written; it is remembered from the text that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `2e3`
    DecimalExponent,
    /// `2Ki`
    BinarySI,
    /// `2k`
    #[default]
    DecimalSI,
}

/// A text that is no quantity; the messages are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not of the form number, suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// No number.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// An unknown suffix.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The power of ten of thousandths, for [`Quantity::round_up`] and [`Quantity::scaled`].
pub const MILLI: i32 = -3;

const NANO: i32 = -9; // nothing finer is kept
const FAST_DIGITS: usize = 18; // what upstream reads as an int64, and only there keeps the text as it was written

/// A quantity. Equality and order are those of the numbers, whatever the suffix.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    fast: bool,        // upstream holds it as an int64
    text: Option<Str>, // as it was read, where upstream writes that again
}

/// `mantissa × 10^scale`
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    mantissa: i128,
    scale: i32,
}

impl Quantity {
    /// A whole number.
    pub fn new(value: i64, format: Format) -> Self {
        Self { amount: Amount { mantissa: value.into(), scale: 0 }, format, fast: true, text: None }
    }

    /// A number of thousandths.
    pub fn from_milli(value: i64, format: Format) -> Self {
        Self { amount: Amount { mantissa: value.into(), scale: MILLI }, format, fast: true, text: None }
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = Parts::split(text)?;
        let (unit, format) = Unit::parse(parts.suffix).ok_or(QuantityError::Suffix)?;
        match parts.fast(text, unit, format) {
            Some(quantity) => Ok(quantity),
            None => parts.slow(unit, format),
        }
    }

    /// From JSON: text, spaces around it allowed, or a number; `null` is zero.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::String(text) => Self::parse(text.trim()),
            Value::Int(i) => Self::parse(itoa::Buffer::new().format(*i)),
            Value::Float(_) => Self::parse(&go_text::json(value)),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(QuantityError::Format),
        }
    }

    /// How it is written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.amount.mantissa == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        self.amount.mantissa.signum() as i32
    }

    /// The number, rounded away from zero to an integer, kept within i64.
    pub fn value(&self) -> i64 {
        self.scaled(0)
    }

    /// The number of thousandths, rounded away from zero, kept within i64.
    pub fn milli_value(&self) -> i64 {
        self.scaled(MILLI)
    }

    /// The number of units of `10^scale`, rounded away from zero, kept within i64.
    pub fn scaled(&self, scale: i32) -> i64 {
        if self.is_zero() {
            return 0;
        }
        let rounded = self.amount.rounded_up(scale).0;
        let shift = rounded.scale.saturating_sub(scale);
        let wide = pow10(shift).and_then(|p| rounded.mantissa.checked_mul(p));
        let limit = if self.amount.mantissa < 0 { i64::MIN } else { i64::MAX };
        wide.and_then(|w| i64::try_from(w).ok()).unwrap_or(limit)
    }

    /// The integer, if upstream can give it without a loss and without big numbers (its AsInt64): `1500m` and `8Ei` give
    /// none.
    pub fn as_i64(&self) -> Option<i64> {
        if !self.fast || self.amount.scale < 0 {
            return None;
        }
        i64::try_from(self.amount.mantissa.checked_mul(pow10(self.amount.scale)?)?).ok()
    }

    /// The nearest float.
    pub fn as_f64(&self) -> f64 {
        self.amount.mantissa as f64 * 10f64.powi(self.amount.scale)
    }

    /// Rounds away from zero to units of `10^scale`, and says whether nothing was lost.
    pub fn round_up(&mut self, scale: i32) -> bool {
        if self.amount.scale >= scale {
            if !self.fast {
                self.text = None;
            }
            return true;
        }
        self.text = None;
        let (amount, exact) = self.amount.rounded_up(scale);
        self.amount = amount;
        exact
    }

    /// Adds; zero takes the other's format.
    pub fn add(&mut self, other: &Quantity) {
        self.combine(other, other.amount);
    }

    /// Subtracts; zero takes the other's format.
    pub fn sub(&mut self, other: &Quantity) {
        self.combine(other, Amount { mantissa: other.amount.mantissa.saturating_neg(), scale: other.amount.scale });
    }

    fn combine(&mut self, other: &Quantity, addend: Amount) {
        self.text = None;
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.plus(addend);
        self.fast = self.fast && other.fast && i64::try_from(self.amount.mantissa).is_ok();
    }

    /// The negative.
    pub fn neg(&mut self) {
        self.text = None;
        self.amount.mantissa = self.amount.mantissa.saturating_neg();
    }

    /// Multiplies, and says whether the result fits an i64 at its scale.
    pub fn mul(&mut self, factor: i64) -> bool {
        self.text = None;
        self.amount.mantissa = self.amount.mantissa.saturating_mul(factor.into());
        let fits = i64::try_from(self.amount.mantissa).is_ok();
        self.fast = self.fast && fits;
        fits
    }

    /// The text that the API shows: the one that was read where that is canonical enough for upstream, else the canonical
    /// one.
    pub fn text(&self) -> Str {
        self.text.clone().unwrap_or_else(|| self.canonical())
    }

    fn canonical(&self) -> Str {
        if self.is_zero() {
            return Str::new_static("0");
        }
        if self.format == Format::BinarySI
            && let Some(text) = self.amount.binary_text()
        {
            return text;
        }
        let (mantissa, exponent) = self.amount.thousands();
        let suffix = match self.format {
            Format::DecimalExponent => None,
            _ => decimal_suffix(exponent),
        };
        match suffix {
            Some(suffix) => smol_str::format_smolstr!("{mantissa}{suffix}"),
            None if exponent == 0 => smol_str::format_smolstr!("{mantissa}"),
            None => smol_str::format_smolstr!("{mantissa}e{exponent}"),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl From<&Quantity> for Value {
    fn from(quantity: &Quantity) -> Self {
        Value::String(quantity.text())
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(other.amount)
    }
}

fn pow10(exponent: i32) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

fn decimal_suffix(exponent: i32) -> Option<&'static str> {
    Some(match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        0 => "",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => return None, // Differs: upstream would write no suffix, and so another number
    })
}

impl Amount {
    fn plus(self, other: Amount) -> Amount {
        if self.mantissa == 0 {
            return other;
        }
        if other.mantissa == 0 {
            return self;
        }
        let (high, low) = if self.scale >= other.scale { (self, other) } else { (other, self) };
        let aligned = pow10(high.scale.saturating_sub(low.scale)).and_then(|p| high.mantissa.checked_mul(p));
        match aligned.and_then(|a| a.checked_add(low.mantissa)) {
            Some(mantissa) => Amount { mantissa, scale: low.scale },
            // more than 38 digits apart: the smaller one does not show
            None if self.magnitude() >= other.magnitude() => self,
            None => other,
        }
    }

    /// The power of ten just above the number; only of numbers other than zero.
    fn magnitude(self) -> i64 {
        i64::from(self.scale) + i64::from(self.mantissa.unsigned_abs().ilog10()) + 1
    }

    fn compare(self, other: Amount) -> Ordering {
        let signs = self.mantissa.signum().cmp(&other.mantissa.signum());
        if signs != Ordering::Equal || self.mantissa == 0 {
            return signs;
        }
        if self.scale == other.scale {
            return self.mantissa.cmp(&other.mantissa);
        }
        let larger = self.magnitude().cmp(&other.magnitude()).then_with(|| {
            // equal magnitudes: the scales differ by no more than a mantissa has digits
            let aligned = |x: Amount, y: Amount| {
                pow10(x.scale.saturating_sub(y.scale).max(0))
                    .and_then(|p| x.mantissa.unsigned_abs().checked_mul(p.unsigned_abs()))
                    .unwrap_or(u128::MAX)
            };
            aligned(self, other).cmp(&aligned(other, self))
        });
        if self.mantissa < 0 { larger.reverse() } else { larger }
    }

    /// Rounded away from zero so that the scale is at least this, and whether nothing was lost.
    fn rounded_up(self, scale: i32) -> (Amount, bool) {
        if self.scale >= scale {
            return (self, true);
        }
        if self.mantissa == 0 {
            return (Amount { mantissa: 0, scale }, true);
        }
        match pow10(scale.saturating_sub(self.scale)) {
            Some(p) => {
                let (quotient, rest) = (self.mantissa / p, self.mantissa % p);
                (Amount { mantissa: quotient + rest.signum(), scale }, rest == 0)
            }
            None => (Amount { mantissa: self.mantissa.signum(), scale }, false),
        }
    }

    /// The mantissa for the greatest exponent of ten that is a multiple of three and needs no fraction.
    fn thousands(self) -> (i128, i32) {
        let Amount { mut mantissa, mut scale } = self;
        while mantissa % 10 == 0 && mantissa != 0 {
            mantissa /= 10;
            scale = scale.saturating_add(1);
        }
        let extra = scale.rem_euclid(3);
        match mantissa.checked_mul(10i128.pow(extra.unsigned_abs())) {
            Some(m) => (m, scale - extra),
            None => (mantissa, scale), // 38 digits: no room for more; still the same number
        }
    }

    /// With a power of 1024; `None` if it is no integer or less than 1024, which read better in decimal.
    fn binary_text(self) -> Option<Str> {
        let (whole, exact) = self.rounded_up(0);
        let mut number = whole.mantissa.checked_mul(pow10(whole.scale)?)?;
        if !exact || number.unsigned_abs() < 1024 {
            return None;
        }
        let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
        let mut suffix = suffixes.next()?;
        while number % 1024 == 0 {
            let Some(next) = suffixes.next() else { break };
            suffix = next;
            number /= 1024;
        }
        Some(smol_str::format_smolstr!("{number}{suffix}"))
    }
}

#[derive(Clone, Copy)]
enum Unit {
    /// `10^n`
    Ten(i32),
    /// `2^n`
    Two(u32),
}

impl Unit {
    fn parse(suffix: &str) -> Option<(Unit, Format)> {
        let decimal = |n| Some((Unit::Ten(n), Format::DecimalSI));
        let binary = |n| Some((Unit::Two(n), Format::BinarySI));
        match suffix {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
                Some((Unit::Ten(exponent as i32), Format::DecimalExponent)) // upstream cuts off the high bits, too
            }
        }
    }
}

/// A text taken apart: sign, digits before the point without leading zeros, digits behind it, suffix.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    has_digits: bool,
    suffix: &'a str,
}

fn digits_from(text: &str, start: usize) -> usize {
    text.as_bytes()[start..].iter().take_while(|c| c.is_ascii_digit()).count()
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        let bytes = text.as_bytes();
        let negative = bytes[0] == b'-';
        let mut pos = usize::from(matches!(bytes[0], b'-' | b'+'));
        let zeros = bytes[pos..].iter().take_while(|c| **c == b'0').count();
        let whole_start = pos + zeros;
        let whole_end = whole_start + digits_from(text, whole_start);
        pos = whole_end;
        let mut fraction = "";
        if bytes.get(pos) == Some(&b'.') {
            let end = pos + 1 + digits_from(text, pos + 1);
            fraction = &text[pos + 1..end];
            pos = end;
        }
        let suffix_start = pos;
        pos += bytes[pos..].iter().take_while(|c| b"eEinumkKMGTP".contains(c)).count();
        if matches!(bytes.get(pos), Some(b'-' | b'+')) {
            pos += 1;
        }
        pos += digits_from(text, pos);
        if pos < bytes.len() {
            return Err(QuantityError::Format);
        }
        Ok(Self {
            negative,
            whole: &text[whole_start..whole_end],
            fraction,
            has_digits: zeros + (whole_end - whole_start) + fraction.len() > 0,
            suffix: &text[suffix_start..],
        })
    }

    /// The number in an int64, where upstream reads it so; there it also keeps the text if it is about canonical.
    fn fast(&self, text: &str, unit: Unit, format: Format) -> Option<Quantity> {
        let whole_len = self.whole.len().max(1); // upstream has a zero for no digits
        let digits = whole_len + self.fraction.len();
        let (scale, factor) = match unit {
            Unit::Ten(exponent) if digits <= FAST_DIGITS => {
                (exponent.checked_sub(i32::try_from(self.fraction.len()).ok()?)?, 1)
            }
            Unit::Two(exponent) if self.fraction.is_empty() && whole_len + exponent as usize * 3 / 10 <= 14 => {
                (0, 1i64 << exponent)
            }
            _ => return None,
        };
        if scale < NANO {
            return None;
        }
        let number = self.whole.bytes().chain(self.fraction.bytes()).fold(0i64, |n, c| n * 10 + i64::from(c - b'0'));
        let mut value = number.checked_mul(factor)?;
        if self.negative {
            value = -value;
        }
        let kept = match unit {
            Unit::Two(_) => number & 7 != 0,
            Unit::Ten(_) => {
                let leading_zero = self.whole.is_empty(); // zeros before the point were dropped
                let thousands = number % 1000 == 0 && digits >= 3;
                scale % 3 == 0 && !thousands && !leading_zero
            }
        };
        Some(Quantity {
            amount: Amount { mantissa: value.into(), scale },
            format,
            fast: true,
            text: kept.then(|| text.into()),
        })
    }

    fn slow(&self, unit: Unit, mut format: Format) -> Result<Quantity, QuantityError> {
        if !self.has_digits {
            return Err(QuantityError::Numeric);
        }
        let mut amount = self.read_digits();
        match unit {
            Unit::Ten(exponent) => amount.scale = amount.scale.saturating_add(exponent),
            Unit::Two(exponent) => {
                let factor = 1i128 << exponent;
                while amount.mantissa.checked_mul(factor).is_none() {
                    amount = amount.rounded_up(amount.scale.saturating_add(1)).0;
                }
                amount.mantissa *= factor;
            }
        }
        amount = amount.rounded_up(NANO).0;
        if format == Format::BinarySI {
            let most = Amount { mantissa: i64::MAX.into(), scale: 0 };
            if amount.compare(most) == Ordering::Greater {
                amount = most;
            }
            if amount.mantissa > 0 && amount.compare(Amount { mantissa: 1, scale: 0 }) == Ordering::Less {
                format = Format::DecimalSI;
            }
        }
        if self.negative {
            amount.mantissa = -amount.mantissa;
        }
        Ok(Quantity { amount, format, fast: false, text: None })
    }

    /// The digits as a number of at most 38 digits; what is beyond is rounded up.
    fn read_digits(&self) -> Amount {
        let mut out = Amount { mantissa: 0, scale: 0 };
        let (mut full, mut lost) = (false, false);
        let whole = self.whole.bytes().map(|c| (c, false));
        for (c, behind_point) in whole.chain(self.fraction.bytes().map(|c| (c, true))) {
            let digit = i128::from(c - b'0');
            full = full || out.mantissa > (i128::MAX - 10) / 10;
            if full {
                lost = lost || digit != 0;
                out.scale = out.scale.saturating_add(i32::from(!behind_point));
            } else {
                out.mantissa = out.mantissa * 10 + digit;
                out.scale = out.scale.saturating_sub(i32::from(behind_point));
            }
        }
        out.mantissa += i128::from(lost);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Quantity {
        Quantity::parse(text).expect(text)
    }

    #[test]
    fn a_text_is_written_canonically_or_as_it_was() {
        for (text, want) in [
            ("0", "0"),
            ("-0", "0"),
            ("0Gi", "0"),
            ("0.0", "0"),
            (".", "0"),
            ("k", "0"),
            ("1", "1"),
            ("+5", "+5"),
            ("005", "005"),
            ("5.", "5."),
            (".5", "500m"),
            ("1.50", "1500m"),
            ("1.500", "1.500"),
            ("12.345k", "12.345k"),
            ("1.5k", "1500"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1000P", "1E"),
            ("1500k", "1500k"),
            ("1234567k", "1234567k"),
            ("100m", "100m"),
            ("-1m", "-1m"),
            ("1024Ki", "1Mi"),
            ("1000Mi", "1000Mi"),
            ("1023Mi", "1023Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("00.500Gi", "512Mi"),
            ("2048Gi", "2Ti"),
            ("7Ei", "7Ei"),
            ("8Ei", "9223372036854775807"),
            ("1Pi", "1Pi"),
            ("1e3", "1e3"),
            ("1E3", "1E3"),
            ("12e6", "12e6"),
            ("1e-1", "100e-3"),
            ("1.5e2", "150"),
            ("1e0", "1e0"),
            ("123e4", "1230e3"),
            ("1E+2", "100"),
            ("1000e0", "1e3"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("9223372036854775807m", "9223372036854775807m"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("100E", "100E"),
            ("100000000000000000000", "100E"),
            ("1000E", "1e21"),
            ("1e100", "10e99"),
            ("0.0000000000001", "1n"),
            ("-0.0000000000001", "-1n"),
            ("1e-100", "1e-9"),
            ("1.0000000001", "1000000001n"),
            ("999999999n", "999999999n"),
        ] {
            assert_eq!(read(text).to_string(), want, "{text}");
        }
    }

    #[test]
    fn errors_are_upstreams() {
        for (text, want) in [
            ("", QuantityError::Format),
            ("1e3k", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            ("0x10", QuantityError::Format),
            ("1,5", QuantityError::Format),
            ("1 ", QuantityError::Format),
            ("ä", QuantityError::Format),
            ("1ki", QuantityError::Suffix),
            ("1K", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("--1", QuantityError::Suffix),
            ("1e99999999999999999999", QuantityError::Suffix),
            ("Pi", QuantityError::Numeric),
        ] {
            assert_eq!(Quantity::parse(text).expect_err(text), want, "{text}");
        }
        assert!(Quantity::from_value(&Value::Bool(true)).is_err());
        assert_eq!(Quantity::from_value(&Value::from(" 1 ")).expect("trimmed").to_string(), "1");
        assert_eq!(Quantity::from_value(&Value::Float(0.1)).expect("a number").to_string(), "100m");
    }

    #[test]
    fn numbers_compare_whatever_their_suffix() {
        for (a, b, want) in [
            ("1", "1000m", Ordering::Equal),
            ("1Ki", "1024", Ordering::Equal),
            ("1k", "1Ki", Ordering::Less),
            ("-1", "1n", Ordering::Less),
            ("-2", "-1500m", Ordering::Less),
            ("0", "0n", Ordering::Equal),
            ("1e1000", "9E", Ordering::Greater),
            ("1e2000000000", "1e1000000000", Ordering::Greater),
            ("99999999999999999999999999999999999999", "1e38", Ordering::Less),
            ("1e30", "1000000000000000000000000000001", Ordering::Less),
        ] {
            assert_eq!(read(a).cmp(&read(b)), want, "{a} {b}");
            assert_eq!(read(b).cmp(&read(a)), want.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn arithmetic_keeps_the_format() {
        let sum = |a: &str, b: &str| {
            let mut q = read(a);
            q.add(&read(b));
            q.to_string()
        };
        assert_eq!(sum("1.5k", "500"), "2k");
        assert_eq!(sum("1Gi", "512Mi"), "1536Mi");
        assert_eq!(sum("1Gi", "1"), "1073741825");
        assert_eq!(sum("1Gi", "1m"), "1073741824001m");
        assert_eq!(sum("0", "1Gi"), "1Gi");
        assert_eq!(sum("1", "-1"), "0");
        assert_eq!(sum("1e1000", "1"), "10e999");
        let mut q = read("1");
        q.sub(&read("1500m"));
        assert_eq!(q.to_string(), "-500m");
        assert!(read("3").mul(2) && !read("9223372036854775807").mul(2));
    }

    #[test]
    fn integers_are_rounded_away_from_zero() {
        for (text, value, milli) in [
            ("1500m", 2, 1500),
            ("-1500m", -2, -1500),
            ("1n", 1, 1),
            ("1Gi", 1 << 30, (1 << 30) * 1000),
            ("1e30", i64::MAX, i64::MAX),
            ("-1e30", i64::MIN, i64::MIN),
            ("0e30", 0, 0),
        ] {
            assert_eq!((read(text).value(), read(text).milli_value()), (value, milli), "{text}");
        }
        for (text, want) in [("1u", "1m"), ("1500u", "2m"), ("999999999n", "1"), ("1.0001", "1001m"), ("+5", "+5")] {
            let mut q = read(text);
            q.round_up(MILLI);
            assert_eq!(q.to_string(), want, "{text}");
        }
        assert_eq!((read("1.5k").as_i64(), read("1500m").as_i64(), read("8Ei").as_i64()), (Some(1500), None, None));
    }
}
