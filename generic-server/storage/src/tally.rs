//! What stores and encryption count of themselves, one in a process: plain numbers, which the server exports under upstream's
//! names.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// Keys that a lease had when another one took its place.
pub static LEASE_KEYS: Tally = Tally::new(&[10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0]);

/// Seconds that it took to make a data key and to have it encrypted.
pub static DATA_KEYS: Tally = Tally::new(&[
    5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 1.6e-4, 3.2e-4, 6.4e-4, 1.28e-3, 2.56e-3, 5.12e-3, 1.024e-2, 2.048e-2, 4.096e-2,
]);

/// Data keys that could not be made.
pub static DATA_KEY_FAILURES: Count = Count::new();

/// Data keys that a plugin had to be asked for, to read values.
pub static DATA_KEY_MISSES: Count = Count::new();

/// A number that only grows.
pub struct Count(AtomicU64);

impl Count {
    const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How values are spread.
pub struct Tally {
    bounds: &'static [f64],
    noted: Mutex<Noted>,
}

struct Noted {
    counts: Vec<u64>,
    sum: f64,
}

/// What a [`Tally`] has noted.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Each bound, and how many values are not beyond it.
    pub up_to: Vec<(f64, u64)>,
    /// How many values there are.
    pub count: u64,
    /// All of them together.
    pub sum: f64,
}

impl Tally {
    const fn new(bounds: &'static [f64]) -> Self {
        Tally { bounds, noted: Mutex::new(Noted { counts: Vec::new(), sum: 0.0 }) }
    }

    pub(crate) fn note(&self, value: f64) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.counts.resize(self.bounds.len() + 1, 0);
        noted.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        noted.sum += value;
    }

    /// What was noted.
    pub fn read(&self) -> Spread {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        let up_to = self.bounds.iter().enumerate().map(|(at, bound)| {
            count += noted.counts.get(at).unwrap_or(&0);
            (*bound, count)
        });
        Spread { up_to: up_to.collect(), count: noted.counts.iter().sum(), sum: noted.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_bounds() {
        let tally = Tally::new(&[1.0, 10.0]);
        assert_eq!(tally.read(), Spread { up_to: vec![(1.0, 0), (10.0, 0)], count: 0, sum: 0.0 });
        [0.5, 1.0, 10.0, 11.0].into_iter().for_each(|value| tally.note(value));
        assert_eq!(tally.read(), Spread { up_to: vec![(1.0, 2), (10.0, 3)], count: 4, sum: 22.5 });
    }
}
