//! How many seats a level could use: measured over time, and smoothed from period to period.

use crate::Nanos;

/// What was seen of a number over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// How long the period was, in seconds.
    pub seconds: f64,
    /// The mean, weighted by time.
    pub average: f64,
    /// The standard deviation, weighted by time.
    pub deviation: f64,
    /// The greatest value.
    pub max: f64,
}

/// Integrates a number that changes in steps, and its square, over time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Integrator {
    value: f64,
    since: Nanos,
    seconds: f64,
    sum: f64,
    squares: f64,
    max: f64,
}

impl Integrator {
    /// The number is `value` from now on.
    pub fn set(&mut self, now: Nanos, value: f64) {
        self.advance(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Ends the period: what was seen in it. The next one begins with the number as it is.
    pub fn reset(&mut self, now: Nanos) -> Demand {
        self.advance(now);
        let mut seen = Demand { seconds: self.seconds, max: self.max, ..Demand::default() };
        if self.seconds > 0.0 {
            seen.average = self.sum / self.seconds;
            seen.deviation = (self.squares / self.seconds - seen.average * seen.average).max(0.0).sqrt();
        }
        *self = Integrator { value: self.value, since: self.since, max: self.value, ..Integrator::default() };
        seen
    }

    fn advance(&mut self, now: Nanos) {
        let seconds = now.saturating_sub(self.since) as f64 / 1e9;
        self.since = self.since.max(now);
        self.seconds += seconds;
        self.sum += self.value * seconds;
        self.squares += self.value * self.value * seconds;
    }
}

/// How much of the past stays in the smoothed demand: half of it is gone after five minutes of periods of ten seconds.
const SMOOTHING: f64 = 0.977;

/// A level's demand as borrowing sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeatDemand {
    /// The mean of the last period.
    pub average: f64,
    /// Its standard deviation.
    pub deviation: f64,
    /// Its greatest value.
    pub high_watermark: u64,
    /// Rises at once with the demand, and sinks slowly.
    pub smoothed: f64,
}

impl SeatDemand {
    /// Takes a period in.
    pub fn update(&mut self, seen: Demand) {
        self.high_watermark = seen.max.round().max(0.0) as u64;
        if seen.seconds <= 0.0 {
            return;
        }
        self.average = seen.average;
        self.deviation = seen.deviation;
        let envelope = seen.average + seen.deviation;
        self.smoothed = envelope.max(SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn means_are_weighted_by_time() {
        let mut integrator = Integrator::default();
        integrator.set(0, 4.0);
        integrator.set(SECOND, 0.0);
        let seen = integrator.reset(4 * SECOND);
        assert_eq!((seen.seconds, seen.average, seen.max), (4.0, 1.0, 4.0));
        assert!((seen.deviation - 3.0_f64.sqrt()).abs() < 1e-9);
        let next = integrator.reset(5 * SECOND);
        assert_eq!((next.seconds, next.average, next.max), (1.0, 0.0, 0.0));
    }

    #[test]
    fn demand_rises_at_once_and_sinks_slowly() {
        let period = |average| Demand { seconds: 10.0, average, deviation: 0.0, max: average };
        let mut demand = SeatDemand::default();
        demand.update(period(100.0));
        assert_eq!(demand.smoothed, 100.0);
        for _ in 0..30 {
            demand.update(period(0.0)); // five minutes
        }
        assert!((demand.smoothed - 50.0).abs() < 1.0, "{}", demand.smoothed);
        assert_eq!(demand.high_watermark, 0);
    }
}
