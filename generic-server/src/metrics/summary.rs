//! Summaries: quantiles of what was observed in the last hours, which the library for metrics has none of. A quantile is
//! right to a sixteenth; times below a microsecond are one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus::{
    core::{Collector, Desc},
    proto::{LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary as Shown},
};

/// The quantiles that are told.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// What is older than twice this is no part of them.
const HALF_LIFE: Duration = Duration::from_secs(9000);
/// Each power of two is divided into so many.
const PARTS: usize = 16;
/// Powers of two microseconds: beyond the last are more than nineteen hours.
const POWERS: usize = 36;

/// A family of summaries of times, in seconds.
#[derive(Clone)]
pub(crate) struct Summaries(Arc<Family>);

struct Family {
    desc: Desc,
    labels: &'static [&'static str],
    members: Mutex<Vec<(Vec<String>, Summary)>>,
}

/// The times of one member.
#[derive(Clone)]
pub(crate) struct Summary(Arc<Times>);

struct Times {
    count: AtomicU64,
    nanos: AtomicU64,
    recent: Box<[AtomicU32]>,
    /// Those of before, and since when they are. Somebody who looks moves the recent ones there.
    older: Mutex<(Instant, Vec<u32>)>,
}

impl Summaries {
    pub(crate) fn new(name: &str, help: &str, labels: &'static [&'static str]) -> Self {
        let names = labels.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), names, HashMap::new());
        let desc = desc.expect("constant names and labels are valid");
        Summaries(Arc::new(Family { desc, labels, members: Mutex::default() }))
    }

    /// The member with these values of the labels.
    pub(crate) fn with(&self, values: &[&str]) -> Summary {
        let mut members = self.0.members.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, member)) = members.iter().find(|(known, _)| known == values) {
            return member.clone();
        }
        let member = Summary(Arc::new(Times {
            count: AtomicU64::default(),
            nanos: AtomicU64::default(),
            recent: (0..PARTS * POWERS).map(|_| AtomicU32::default()).collect(),
            older: Mutex::new((Instant::now(), Vec::new())),
        }));
        members.push((values.iter().map(|value| (*value).to_owned()).collect(), member.clone()));
        member
    }
}

impl Summary {
    pub(crate) fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.count.fetch_add(1, Ordering::Relaxed);
        self.0.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.0.recent[place(nanos / 1000)].fetch_add(1, Ordering::Relaxed);
    }

    fn shown(&self, now: Instant) -> Shown {
        let Times { count, nanos, recent, older } = &*self.0;
        let mut older = older.lock().unwrap_or_else(PoisonError::into_inner);
        let counts: Vec<u32> = recent
            .iter()
            .enumerate()
            .map(|(at, recent)| older.1.get(at).unwrap_or(&0).saturating_add(recent.load(Ordering::Relaxed)))
            .collect();
        if now.saturating_duration_since(older.0) >= HALF_LIFE {
            *older = (now, recent.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect());
        }
        let quantiles = QUANTILES.map(|quantile| {
            let mut shown = Quantile::default();
            shown.set_quantile(quantile);
            shown.set_value(of_quantile(&counts, quantile));
            shown
        });
        let mut shown = Shown::default();
        shown.set_sample_count(count.load(Ordering::Relaxed));
        shown.set_sample_sum(nanos.load(Ordering::Relaxed) as f64 / 1e9);
        shown.set_quantile(quantiles.to_vec());
        shown
    }
}

/// Where so many microseconds are counted.
fn place(micros: u64) -> usize {
    let Some(power) = micros.checked_ilog2() else { return 0 };
    let part = ((micros as u128 * PARTS as u128) >> power) as usize % PARTS;
    (power as usize * PARTS + part).min(PARTS * POWERS - 1)
}

/// The seconds in the middle of a place.
fn seconds(place: usize) -> f64 {
    let (power, part) = (place / PARTS, place % PARTS);
    let micros = (power as f64).exp2() * (1.0 + (part as f64 + 0.5) / PARTS as f64);
    micros / 1e6
}

fn of_quantile(counts: &[u32], quantile: f64) -> f64 {
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if all == 0 {
        return f64::NAN; // nobody knows
    }
    let wanted = (all as f64 * quantile).ceil() as u64;
    let mut below = 0;
    let found = counts.iter().position(|count| {
        below += u64::from(*count);
        below >= wanted
    });
    seconds(found.unwrap_or(counts.len() - 1))
}

impl Collector for Summaries {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (members, now) = (self.0.members.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        let metrics = members.iter().map(|(values, member)| {
            let pairs = self.0.labels.iter().zip(values).map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name((*name).to_owned());
                pair.set_value(value.clone());
                pair
            });
            let mut metric = Metric::from_label(pairs.collect());
            metric.set_summary(member.shown(now));
            metric
        });
        let mut family = MetricFamily::default();
        family.set_name(self.0.desc.fq_name.clone());
        family.set_help(self.0.desc.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        family.set_metric(metrics.collect());
        if family.get_metric().is_empty() { Vec::new() } else { vec![family] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_sixteenth() {
        let summaries = Summaries::new("a", "a", &["of"]);
        let one = summaries.with(&["one"]);
        for millis in 1..=1000 {
            one.observe(Duration::from_millis(millis));
        }
        let shown = one.shown(Instant::now());
        assert_eq!(shown.sample_count(), 1000);
        assert!((shown.sample_sum() - 500.5).abs() < 1e-6);
        for (quantile, expect) in shown.get_quantile().iter().zip([0.5, 0.9, 0.99]) {
            assert!((quantile.value() / expect - 1.0).abs() < 1.0 / 16.0, "{expect}: {}", quantile.value());
        }
        assert_eq!(summaries.collect()[0].get_metric().len(), 1);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let one = Summaries::new("a", "a", &["of"]).with(&["one"]);
        one.observe(Duration::from_secs(1));
        let mut now = Instant::now();
        for expect in [true, true, false] {
            now += HALF_LIFE;
            assert_eq!(one.shown(now).get_quantile()[0].value() > 0.9, expect);
        }
        assert_eq!(one.shown(now).sample_count(), 1, "how many there were in all is not");
    }

    #[test]
    fn every_time_has_its_place() {
        for (micros, expect) in [(0, 0), (1, 0), (2, PARTS), (3, PARTS + PARTS / 2), (u64::MAX, PARTS * POWERS - 1)] {
            assert_eq!(place(micros), expect, "{micros}");
        }
    }
}
