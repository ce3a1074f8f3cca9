//! The number in a quantity: decimal arithmetic in 38 digits.

use std::cmp::Ordering;

use crate::Str;

/// `mantissa × 10^scale`
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) mantissa: i128,
    pub(super) scale: i32,
}

pub(super) fn pow10(exponent: i32) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

impl Amount {
    pub(super) fn plus(self, other: Amount) -> Amount {
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

    pub(super) fn compare(self, other: Amount) -> Ordering {
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
    pub(super) fn rounded_up(self, scale: i32) -> (Amount, bool) {
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
    pub(super) fn thousands(self) -> (i128, i32) {
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
    pub(super) fn binary_text(self) -> Option<Str> {
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
