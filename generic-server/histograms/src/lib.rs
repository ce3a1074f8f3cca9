//! Histograms for Prometheus. They have the buckets that they are made with and, once [`enable_native`] was called, native ones
//! besides (KEP-5808): the narrower, the smaller the values are, and only where there are values.
//!
//! The crate `prometheus` knows no native buckets. They are gathered as families of their own, which [`split`] takes out
//! again: whoever shows metrics to others must call it.

mod buckets;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

pub use buckets::{Buckets, ZERO_THRESHOLD};
use prometheus::{
    HistogramOpts, Result,
    core::{Collector, Desc},
    proto::{self, LabelPair, Metric, MetricFamily, MetricType},
};

/// Whether histograms that are made from now on have native buckets. It is one for the process, as families of the storage are.
static NATIVE: AtomicBool = AtomicBool::new(false);

/// Ends the names of families that carry native buckets; no other name has it.
const CARRIES: char = '\u{1}';

/// Histograms that are made from now on have native buckets, too (the gate NativeHistograms).
pub fn enable_native() {
    NATIVE.store(true, Relaxed);
}

/// Histograms of one name, by the values of their labels.
#[derive(Clone)]
pub struct HistogramVec {
    classic: prometheus::HistogramVec,
    native: Option<Arc<Natives>>,
}

/// The native buckets of all histograms of one name.
struct Natives {
    name: String,
    labels: Vec<String>,
    series: Mutex<HashMap<Vec<String>, Arc<Mutex<Buckets>>>>,
}

/// A histogram.
#[derive(Clone)]
pub struct Histogram {
    classic: prometheus::Histogram,
    native: Option<Arc<Mutex<Buckets>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HistogramVec {
    /// Histograms that observe nothing yet.
    ///
    /// # Errors
    /// Names that are no names.
    pub fn new(opts: HistogramOpts, labels: &[&str]) -> Result<Self> {
        Self::with(opts, labels, NATIVE.load(Relaxed))
    }

    fn with(opts: HistogramOpts, labels: &[&str], native: bool) -> Result<Self> {
        let native = native.then(|| {
            Arc::new(Natives {
                name: opts.common_opts.fq_name(),
                labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                series: Mutex::default(),
            })
        });
        Ok(HistogramVec { classic: prometheus::HistogramVec::new(opts, labels)?, native })
    }

    /// The histogram with these values of the labels.
    ///
    /// # Panics
    /// If there are more or fewer labels.
    pub fn with_label_values(&self, values: &[&str]) -> Histogram {
        let classic = self.classic.with_label_values(values);
        let native = self.native.as_ref().map(|native| native.with_label_values(values));
        Histogram { classic, native }
    }

    /// Forgets the histogram with these values of the labels.
    ///
    /// # Errors
    /// There is none.
    pub fn remove_label_values(&self, values: &[&str]) -> Result<()> {
        if let Some(native) = &self.native {
            lock(&native.series).remove(&owned(values));
        }
        self.classic.remove_label_values(values)
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

impl Histogram {
    /// Counts a value, which is not below zero.
    pub fn observe(&self, value: f64) {
        self.classic.observe(value);
        if let Some(native) = &self.native {
            lock(native).observe(value);
        }
    }
}

impl Collector for HistogramVec {
    fn desc(&self) -> Vec<&Desc> {
        self.classic.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.classic.collect();
        families.extend(self.native.as_ref().map(|native| native.carried()));
        families
    }
}

impl Natives {
    fn with_label_values(&self, values: &[&str]) -> Arc<Mutex<Buckets>> {
        lock(&self.series).entry(owned(values)).or_default().clone()
    }

    /// A family that carries what they have counted.
    fn carried(&self) -> MetricFamily {
        let mut family = MetricFamily::default();
        family.set_name(format!("{}{CARRIES}", self.name));
        family.set_field_type(MetricType::HISTOGRAM);
        let series = lock(&self.series);
        let metrics = series.iter().map(|(values, buckets)| {
            let mut labels: Vec<LabelPair> =
                self.labels.iter().zip(values).map(|(name, value)| pair(name, value)).collect();
            labels.sort_by(|a, b| a.name().cmp(b.name()));
            let mut metric = Metric::default();
            metric.set_label(labels);
            metric.set_histogram(lock(buckets).carried());
            metric
        });
        family.set_metric(metrics.collect());
        family
    }
}

fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

/// Names and values of labels, sorted.
pub type Labels = Vec<(String, String)>;

/// The labels of a series.
pub fn labels_of(metric: &Metric) -> Labels {
    metric.get_label().iter().map(|label| (label.name().to_owned(), label.value().to_owned())).collect()
}

/// Takes native buckets out of what was gathered: by family and labels.
pub fn split(families: Vec<MetricFamily>) -> (Vec<MetricFamily>, BTreeMap<String, BTreeMap<Labels, Buckets>>) {
    let (mut others, mut natives) = (Vec::with_capacity(families.len()), BTreeMap::new());
    for family in families {
        match family.name().strip_suffix(CARRIES) {
            Some(name) => {
                let series = family.get_metric().iter();
                let series = series.map(|metric| (labels_of(metric), Buckets::of_carried(metric.get_histogram())));
                natives.insert(name.to_owned(), series.collect());
            }
            None => others.push(family),
        }
    }
    (others, natives)
}

impl Buckets {
    /// A classic histogram that holds these: its buckets are a bucket's index and how many it has counted.
    fn carried(&self) -> proto::Histogram {
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(self.zero());
        histogram.set_sample_sum(self.schema().into());
        let buckets = self.counts().iter().map(|(index, count)| {
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound((*index).into());
            bucket.set_cumulative_count(*count);
            bucket
        });
        histogram.set_bucket(buckets.collect());
        histogram
    }

    fn of_carried(histogram: &proto::Histogram) -> Self {
        let counts = histogram.get_bucket().iter();
        let counts = counts.map(|bucket| (bucket.upper_bound() as i32, bucket.cumulative_count()));
        Buckets::new(histogram.get_sample_sum() as i32, histogram.get_sample_count(), counts.collect())
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    #[test]
    fn native_buckets_come_beside_the_others_and_go_with_their_series() {
        let opts = || HistogramOpts::new("a_seconds", "a").buckets(vec![1.0, 2.0]);
        let check = |native: bool| {
            let (registry, vec) =
                (Registry::new(), HistogramVec::with(opts(), &["verb", "code"], native).expect("names"));
            registry.register(Box::new(vec.clone())).expect("new");
            vec.with_label_values(&["GET", "200"]).observe(1.5);
            vec.with_label_values(&["PUT", "409"]).observe(0.0);
            vec.remove_label_values(&["PUT", "409"]).expect("it is there");
            let (families, natives) = split(registry.gather());
            assert_eq!(families.len(), 1);
            assert_eq!(families[0].get_metric()[0].get_histogram().get_sample_count(), 1);
            natives
        };
        assert!(check(false).is_empty());
        let natives = check(true);
        let mut expect = Buckets::default();
        expect.observe(1.5);
        let labels = vec![("code".to_owned(), "200".to_owned()), ("verb".to_owned(), "GET".to_owned())];
        assert_eq!(natives, BTreeMap::from([("a_seconds".to_owned(), BTreeMap::from([(labels, expect)]))]));
    }
}
