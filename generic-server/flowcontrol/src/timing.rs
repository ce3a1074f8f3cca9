//! Histograms of ratios that are observed at the end of every nanosecond: how long a number had which value.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use prometheus::{
    core::{Collector, Desc},
    proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};
use tokio::time::Instant;

use crate::Nanos;

/// Nanoseconds since this process first asked, by a clock that tests can move.
pub(crate) fn now() -> Nanos {
    static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(EPOCH.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
}

/// A family of such histograms.
#[derive(Clone)]
pub(crate) struct TimingHistograms(Arc<Family>);

struct Family {
    desc: Desc,
    bounds: &'static [f64],
    labels: &'static [&'static str],
    members: Mutex<Vec<(Vec<String>, TimingHistogram)>>,
}

/// One ratio: a number and what it is compared with.
#[derive(Clone)]
pub(crate) struct TimingHistogram(Arc<Mutex<State>>);

struct State {
    bounds: &'static [f64],
    /// Nanoseconds in each bucket, and above all of them.
    nanos: Vec<u64>,
    sum: f64,
    numerator: f64,
    denominator: f64,
    since: Nanos,
}

impl TimingHistograms {
    pub(crate) fn new(name: &str, help: &str, bounds: &'static [f64], labels: &'static [&'static str]) -> Self {
        let names = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), names, std::collections::HashMap::new());
        let desc = desc.expect("constant names and labels are valid");
        TimingHistograms(Arc::new(Family { desc, bounds, labels, members: Mutex::default() }))
    }

    /// The member with these values of the labels.
    pub(crate) fn with(&self, values: &[&str]) -> TimingHistogram {
        let mut members = self.0.members.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, member)) = members.iter().find(|(known, _)| known == values) {
            return member.clone();
        }
        let state = State {
            bounds: self.0.bounds,
            nanos: vec![0; self.0.bounds.len() + 1],
            sum: 0.0,
            numerator: 0.0,
            denominator: 1.0,
            since: now(),
        };
        let member = TimingHistogram(Arc::new(Mutex::new(state)));
        members.push((values.iter().map(|value| (*value).to_owned()).collect(), member.clone()));
        member
    }
}

impl TimingHistogram {
    /// The number is this from `now` on.
    pub(crate) fn set(&self, now: Nanos, numerator: f64) {
        let mut state = self.lock();
        if state.numerator != numerator {
            state.advance(now);
            state.numerator = numerator;
        }
    }

    /// The number changes by so much.
    pub(crate) fn add(&self, now: Nanos, change: f64) {
        let mut state = self.lock();
        state.advance(now);
        state.numerator += change;
    }

    /// What it is compared with from `now` on.
    pub(crate) fn set_denominator(&self, now: Nanos, denominator: f64) {
        let mut state = self.lock();
        state.advance(now);
        state.denominator = denominator.max(f64::MIN_POSITIVE);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn advance(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        let ratio = self.numerator / self.denominator;
        let bucket = self.bounds.partition_point(|bound| *bound < ratio);
        self.nanos[bucket] += passed;
        self.sum += ratio * passed as f64;
    }

    fn histogram(&self) -> Histogram {
        let mut count = 0;
        let buckets = self.bounds.iter().zip(&self.nanos).map(|(bound, nanos)| {
            count += nanos;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            bucket
        });
        let buckets = buckets.collect();
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(self.nanos.iter().sum());
        histogram.set_sample_sum(self.sum);
        histogram
    }
}

impl Collector for TimingHistograms {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let members = self.0.members.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics: Vec<Metric> = members.iter().map(|(values, member)| self.metric(values, member)).collect();
        if metrics.is_empty() {
            return Vec::new();
        }
        let mut family = MetricFamily::default();
        family.set_name(self.0.desc.fq_name.clone());
        family.set_help(self.0.desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(metrics);
        vec![family]
    }
}

impl TimingHistograms {
    fn metric(&self, values: &[String], member: &TimingHistogram) -> Metric {
        let mut state = member.lock();
        state.advance(now());
        let pairs = self.0.labels.iter().zip(values).map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(value.clone());
            pair
        });
        let mut metric = Metric::from_label(pairs.collect());
        metric.set_histogram(state.histogram());
        metric
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_where_the_ratio_was() {
        let family = TimingHistograms::new("ratio", "A ratio.", &[0.0, 0.5, 1.0], &["level"]);
        let member = family.with(&["a"]);
        member.lock().since = 0;
        member.set_denominator(0, 4.0);
        member.set(10, 2.0);
        member.add(30, 6.0);
        member.set(35, 0.0);
        let state = member.lock();
        assert_eq!(state.nanos, [10, 20, 0, 5]);
        assert_eq!(state.sum, 0.5 * 20.0 + 2.0 * 5.0);
        drop(state);
        assert!(Arc::ptr_eq(&family.with(&["a"]).0, &member.0), "the same labels are the same member");
    }
}
