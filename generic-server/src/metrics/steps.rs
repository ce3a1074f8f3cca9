//! How long the steps of the pipeline take, of every request: each thread counts on its own, so that a step costs a few
//! nanoseconds and threads do not wait for each other's cache lines.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use prometheus::{
    core::{Collector, Desc},
    proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

/// The steps that are timed, upstream's filters.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Authentication,
    Audit,
    Impersonation,
    ConstrainedImpersonation,
    PriorityAndFairness,
    Authorization,
}

/// As metrics call them, in the order of [`Step`].
const NAMES: [&str; 6] =
    ["authentication", "audit", "impersonation", "constrainedimpersonation", "priorityandfairness", "authorization"];

/// Nanoseconds.
const BOUNDS: [u64; 13] = [
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    5_000_000_000,
    10_000_000_000,
    15_000_000_000,
    30_000_000_000,
];

const NAME: &str = "apiserver_request_filter_duration_seconds";
const HELP: &str = "Time that a step of the pipeline took, in seconds.";

/// A clock that tells how long it was since it was last asked.
pub(crate) struct Laps(Instant);

impl Laps {
    pub(crate) fn begin() -> Self {
        Laps(Instant::now())
    }

    pub(crate) fn next(&mut self) -> Duration {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.0);
        self.0 = now;
        took
    }
}

/// What one thread has counted; only that thread writes it.
#[derive(Default)]
struct Counted {
    steps: [OfStep; 6],
}

#[derive(Default)]
struct OfStep {
    /// By bucket, and above all of them.
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Counted {
    fn note(&self, step: Step, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let place = BOUNDS.iter().position(|bound| nanos <= *bound).unwrap_or(BOUNDS.len());
        let OfStep { counts, nanos: sum } = &self.steps[step as usize];
        add(&counts[place], 1);
        add(sum, nanos);
    }

    fn take_over(&self, other: &Counted) {
        for (mine, others) in self.steps.iter().zip(&other.steps) {
            mine.counts.iter().zip(&others.counts).for_each(|(mine, other)| add(mine, other.load(Ordering::Relaxed)));
            add(&mine.nanos, others.nanos.load(Ordering::Relaxed));
        }
    }
}

/// Adds where nobody else writes.
fn add(to: &AtomicU64, more: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// The threads that count, and what those have counted that are gone.
struct All {
    threads: Vec<Arc<Counted>>,
    gone: Option<Counted>,
}

static ALL: Mutex<All> = Mutex::new(All { threads: Vec::new(), gone: None });

fn all() -> std::sync::MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Own(Arc<Counted>);

impl Own {
    fn begin() -> Self {
        let own = Arc::<Counted>::default();
        all().threads.push(own.clone());
        Own(own)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let mut all = all();
        all.threads.retain(|thread| !Arc::ptr_eq(thread, &self.0));
        all.gone.get_or_insert_default().take_over(&self.0);
    }
}

thread_local! {
    static OWN: Own = Own::begin();
}

/// A step took so long.
pub(crate) fn note(step: Step, took: Duration) {
    // A thread that ends has no request left.
    let _ = OWN.try_with(|own| own.0.note(step, took));
}

/// The family, which is one in a process.
pub(super) struct StepTimes(Desc);

impl StepTimes {
    pub(super) fn new() -> Self {
        let desc = Desc::new(NAME.to_owned(), HELP.to_owned(), vec!["filter".to_owned()], HashMap::new());
        StepTimes(desc.expect("constant names are valid"))
    }
}

impl Collector for StepTimes {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let sum = Counted::default();
        {
            let all = all();
            all.threads.iter().map(|thread| &**thread).chain(&all.gone).for_each(|counted| sum.take_over(counted));
        }
        let metrics = NAMES.iter().zip(&sum.steps).filter_map(|(name, step)| {
            let histogram = histogram(step);
            (histogram.get_sample_count() > 0).then(|| {
                let mut label = LabelPair::default();
                label.set_name("filter".to_owned());
                label.set_value((*name).to_owned());
                let mut metric = Metric::from_label(vec![label]);
                metric.set_histogram(histogram);
                metric
            })
        });
        let mut family = MetricFamily::default();
        family.set_name(NAME.to_owned());
        family.set_help(HELP.to_owned());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(metrics.collect());
        if family.get_metric().is_empty() { Vec::new() } else { vec![family] }
    }
}

fn histogram(step: &OfStep) -> Histogram {
    let mut count = 0;
    let buckets = BOUNDS.iter().zip(&step.counts).map(|(bound, here)| {
        count += here.load(Ordering::Relaxed);
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound as f64 / 1e9);
        bucket.set_cumulative_count(count);
        bucket
    });
    let buckets = buckets.collect();
    count += step.counts[BOUNDS.len()].load(Ordering::Relaxed);
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets);
    histogram.set_sample_count(count);
    histogram.set_sample_sum(step.nanos.load(Ordering::Relaxed) as f64 / 1e9);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> (u64, u64, f64) {
        let families = StepTimes::new().collect();
        let mut metrics = families.iter().flat_map(MetricFamily::get_metric);
        let found = metrics.find(|metric| metric.get_label()[0].value() == name).map(|metric| {
            let histogram = metric.get_histogram();
            let first = histogram.get_bucket()[0].cumulative_count();
            (first, histogram.get_sample_count(), histogram.get_sample_sum())
        });
        found.unwrap_or_default()
    }

    #[test]
    fn what_threads_have_counted_is_one_sum_whether_or_not_they_are_gone() {
        // No other test of this crate impersonates in the old way alone.
        let before = of("impersonation");
        note(Step::Impersonation, Duration::from_micros(100));
        std::thread::spawn(|| note(Step::Impersonation, Duration::from_secs(60))).join().expect("no panic");
        let after = of("impersonation");
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 2));
        assert!((after.2 - before.2 - 60.0001).abs() < 1e-6, "{after:?}");
    }
}
