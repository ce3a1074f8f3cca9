//! The buckets of a native histogram: each is by a constant factor wider than the one before.

use std::collections::BTreeMap;

/// The narrowest buckets, 2^3 between a power of two and the next: each is less than 10% wider than the one before.
const SCHEMA: i32 = 3;
/// The widest.
const LAST_SCHEMA: i32 = -4;
/// More buckets than that are made wider.
const MOST: usize = 160;
/// Values up to it are zero: 2^-128.
pub const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// Lower bounds of the fractions of a value, from a half up to one, by schemas above zero: 2^(n / 2^schema) / 2.
const FRACTIONS: [f64; 8] = [
    0.5,
    0.545_253_866_332_628_8,
    0.594_603_557_501_360_5,
    0.648_419_777_325_504_8,
    std::f64::consts::FRAC_1_SQRT_2,
    0.771_105_412_703_970_4,
    0.840_896_415_253_714_4,
    0.917_004_043_204_671_2,
];

/// How many values there were in which bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    schema: i32,
    zero: u64,
    counts: BTreeMap<i32, u64>,
}

impl Default for Buckets {
    fn default() -> Self {
        Buckets { schema: SCHEMA, zero: 0, counts: BTreeMap::new() }
    }
}

impl Buckets {
    /// Buckets of this width that have counted this.
    pub fn new(schema: i32, zero: u64, counts: BTreeMap<i32, u64>) -> Self {
        Buckets { schema, zero, counts }
    }

    /// How wide they are: 2^schema lie between a power of two and the next.
    pub fn schema(&self) -> i32 {
        self.schema
    }

    /// How many values were zero.
    pub fn zero(&self) -> u64 {
        self.zero
    }

    /// How many values were in which bucket, by index: bucket 0 ends with the value 1.
    pub fn counts(&self) -> &BTreeMap<i32, u64> {
        &self.counts
    }

    /// Counts a value. What is below zero counts as zero; what is no number does not count.
    pub fn observe(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        if value <= ZERO_THRESHOLD {
            self.zero += 1;
            return;
        }
        *self.counts.entry(index(value, self.schema)).or_default() += 1;
        self.limit();
    }

    /// As wide ones that have counted nothing.
    #[must_use]
    pub fn none(&self) -> Buckets {
        Buckets::new(self.schema, 0, BTreeMap::new())
    }

    /// Counts what others have counted.
    pub fn add(&mut self, others: &Buckets) {
        let mut others = others.clone();
        while self.schema > others.schema {
            self.widen();
        }
        while others.schema > self.schema {
            others.widen();
        }
        self.zero += others.zero;
        for (index, count) in others.counts {
            *self.counts.entry(index).or_default() += count;
        }
        self.limit();
    }

    fn limit(&mut self) {
        while self.counts.len() > MOST && self.schema > LAST_SCHEMA {
            self.widen();
        }
    }

    /// Makes one bucket of each two.
    fn widen(&mut self) {
        self.schema -= 1;
        for (index, count) in std::mem::take(&mut self.counts) {
            let wider = if index > 0 { (index + 1) / 2 } else { index / 2 };
            *self.counts.entry(wider).or_default() += count;
        }
    }

    /// Runs of buckets, each with how many are left out before it and how many there are, and what each bucket has counted
    /// more than the one before. Of a gap of two or less the empty buckets are told.
    pub fn spans(&self) -> (Vec<(i32, u32)>, Vec<i64>) {
        let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = (Vec::new(), Vec::new());
        let (mut next, mut before) = (0, 0);
        for (index, count) in &self.counts {
            let gap = index - next;
            let mut put = |length: &mut u32, count: i64| {
                *length += 1;
                deltas.push(count - before);
                before = count;
            };
            match spans.last_mut() {
                Some((_, length)) if gap <= 2 => {
                    (0..gap).for_each(|_| put(length, 0));
                    put(length, *count as i64);
                }
                _ => {
                    let mut length = 0;
                    put(&mut length, *count as i64);
                    spans.push((gap, length));
                }
            }
            next = index + 1;
        }
        (spans, deltas)
    }
}

/// The bucket that a value above zero belongs to.
fn index(value: f64, schema: i32) -> i32 {
    let beyond = i32::from(value.is_infinite());
    let (fraction, exponent) = parts(value.min(f64::MAX));
    let index = if schema > 0 {
        let bounds = FRACTIONS.iter().step_by(8 >> schema);
        let below = bounds.clone().filter(|bound| **bound < fraction).count();
        below as i32 + (exponent - 1) * bounds.count() as i32
    } else {
        let exponent = if fraction == 0.5 { exponent - 1 } else { exponent };
        (exponent + (1 << -schema) - 1) >> -schema
    };
    index + beyond
}

/// A value as a fraction from a half up to one, times a power of two. The value is above the threshold, so it is normal.
fn parts(value: f64) -> (f64, i32) {
    const EXPONENT: u64 = 0x7ff << 52;
    const OF_HALF: u64 = 1022;
    let bits = value.to_bits();
    let exponent = (bits & EXPONENT) >> 52;
    (f64::from_bits((bits & !EXPONENT) | (OF_HALF << 52)), exponent as i32 - OF_HALF as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_that_ends_with_them_or_above_them() {
        let check = |value: f64, schema: i32, expect: i32| assert_eq!(index(value, schema), expect, "{value} {schema}");
        check(1.0, 3, 0);
        check(1.000_000_1, 3, 1);
        check(2.0, 3, 8);
        check(2.1, 3, 9);
        check(0.5, 3, -8);
        check(0.000_5, 3, -87);
        check(1.0, 0, 0);
        check(1.5, 0, 1);
        check(4.0, 0, 2);
        check(4.1, -1, 2);
        check(16.0, -2, 1);
        check(f64::INFINITY, 3, 8193);
        check(f64::MAX, 3, 8192);
    }

    #[test]
    fn more_buckets_than_allowed_are_made_wider() {
        let mut buckets = Buckets::default();
        // Values within their buckets: those at an end would depend on the last bit.
        (0..MOST as i32).for_each(|n| buckets.observe(2f64.powf((f64::from(n) - 0.5) / 8.0)));
        assert_eq!((buckets.schema, buckets.counts.len()), (3, 160));
        buckets.observe(0.1);
        assert_eq!((buckets.schema, buckets.counts.len()), (2, 82));
        assert_eq!(buckets.counts.values().sum::<u64>(), 161);
        let mut wide = Buckets::new(0, 7, BTreeMap::from([(0, 1), (20, 1)]));
        wide.add(&buckets);
        assert_eq!((wide.schema, wide.zero), (0, 7));
        assert_eq!(wide.counts.values().sum::<u64>(), 163);
        buckets.observe(f64::NAN);
        buckets.observe(-1.0);
        assert_eq!((buckets.zero, buckets.counts.values().sum::<u64>()), (1, 161));
    }

    #[test]
    fn small_gaps_are_told_as_empty_buckets() {
        let check = |counts: &[(i32, u64)], spans: &[(i32, u32)], deltas: &[i64]| {
            let buckets = Buckets::new(3, 0, counts.iter().copied().collect());
            assert_eq!(buckets.spans(), (spans.to_vec(), deltas.to_vec()), "{counts:?}");
        };
        check(&[], &[], &[]);
        check(&[(-93, 1), (-91, 1), (-90, 3), (-80, 1)], &[(-93, 4), (9, 1)], &[1, -1, 1, 2, -2]);
        check(&[(0, 5), (3, 5), (7, 5)], &[(0, 4), (3, 1)], &[5, -5, 0, 5, 0]);
    }
}
