//! The text of a quantity, taken apart and read.

use std::cmp::Ordering;

use super::amount::Amount;
use super::{Format, Quantity, QuantityError};

const NANO: i32 = -9; // nothing finer is kept
const FAST_DIGITS: usize = 18; // what upstream reads as an int64, and only there keeps the text as it was written

#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// `10^n`
    Ten(i32),
    /// `2^n`
    Two(u32),
}

impl Unit {
    pub(super) fn parse(suffix: &str) -> Option<(Unit, Format)> {
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
pub(super) struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    has_digits: bool,
    pub(super) suffix: &'a str,
}

fn digits_from(text: &str, start: usize) -> usize {
    text.as_bytes()[start..].iter().take_while(|c| c.is_ascii_digit()).count()
}

impl<'a> Parts<'a> {
    pub(super) fn split(text: &'a str) -> Result<Self, QuantityError> {
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
    pub(super) fn fast(&self, text: &str, unit: Unit, format: Format) -> Option<Quantity> {
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

    pub(super) fn slow(&self, unit: Unit, mut format: Format) -> Result<Quantity, QuantityError> {
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
