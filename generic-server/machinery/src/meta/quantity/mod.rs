//! `Quantity`: a decimal number with a suffix (`100m`, `1.5Gi`, `2e3`), as resources are counted.
//!
//! A number is a mantissa and a power of ten. Differs: upstream keeps any number of digits; this one keeps 38 and rounds
//! what is beyond away from zero, so that no text costs more than its length to read.

mod amount;
mod parse;

use std::cmp::Ordering;
use std::fmt;

use amount::{Amount, pow10};
use parse::{Parts, Unit};

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

/// A quantity. Equality and order are those of the numbers, whatever the suffix.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    fast: bool,        // upstream holds it as an int64
    text: Option<Str>, // as it was read, where upstream writes that again
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
            Value::Float(_) => Self::parse(&crate::json::encode_text(value)),
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
