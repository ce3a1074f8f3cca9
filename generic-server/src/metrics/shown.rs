//! Which metrics are shown, and with which labels.

use std::collections::{BTreeMap, BTreeSet};

use histograms::{Buckets, Labels, labels_of};
use prometheus::proto::{Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType, Summary};

/// What operators say of metrics that cost too much.
#[derive(Clone, Debug, Default)]
pub struct ShownMetrics {
    /// `--disabled-metrics`: families that are left out.
    pub disabled: BTreeSet<String>,
    /// `--allow-metric-labels`: by family and label the values that are shown; all others are one, `unexpected`.
    pub allowed: BTreeMap<(String, String), BTreeSet<String>>,
}

/// Native buckets, by family and labels.
pub(super) type Natives = BTreeMap<String, BTreeMap<Labels, Buckets>>;

/// What stands for all values of a label that are not allowed.
const UNEXPECTED: &str = "unexpected";

impl ShownMetrics {
    /// The families as they are shown.
    pub(super) fn apply(&self, families: Vec<MetricFamily>) -> (Vec<MetricFamily>, Natives) {
        let (families, natives) = histograms::split(families);
        if self.disabled.is_empty() && self.allowed.is_empty() {
            return (families, natives);
        }
        let shown = families.into_iter().filter(|family| !self.disabled.contains(family.name()));
        let natives = natives.into_iter().map(|(name, series)| {
            let allowed = self.allowed_of(&name);
            let mut sums: BTreeMap<Labels, Buckets> = BTreeMap::new();
            for (labels, buckets) in series {
                sums.entry(limited(&allowed, labels)).or_insert_with(|| buckets.none()).add(&buckets);
            }
            (name, sums)
        });
        (shown.map(|family| self.limited(family)).collect(), natives.collect())
    }

    /// By label of a family the values that are shown.
    fn allowed_of(&self, name: &str) -> Vec<(&str, &BTreeSet<String>)> {
        let (first, last) = ((name.to_owned(), String::new()), (format!("{name}\0"), String::new()));
        self.allowed.range(first..last).map(|((_, label), values)| (label.as_str(), values)).collect()
    }

    fn limited(&self, mut family: MetricFamily) -> MetricFamily {
        let allowed = self.allowed_of(family.name());
        if allowed.is_empty() {
            return family;
        }
        let kind = family.get_field_type();
        let mut sums: BTreeMap<Labels, Metric> = BTreeMap::new();
        for mut metric in family.take_metric() {
            let labels = limited(&allowed, labels_of(&metric));
            match sums.get_mut(&labels) {
                Some(sum) => add(sum, &metric, kind),
                None => {
                    let pairs = labels.iter().map(|(name, value)| {
                        let mut pair = LabelPair::default();
                        pair.set_name(name.clone());
                        pair.set_value(value.clone());
                        pair
                    });
                    metric.set_label(pairs.collect());
                    sums.insert(labels, metric);
                }
            }
        }
        family.set_metric(sums.into_values().collect());
        family
    }
}

/// Labels, of whose values all that are not allowed are one.
fn limited(allowed: &[(&str, &BTreeSet<String>)], mut labels: Labels) -> Labels {
    for (name, value) in &mut labels {
        let limits = allowed.iter().find(|(limited, _)| limited == name);
        if limits.is_some_and(|(_, values)| !values.contains(value)) {
            *value = UNEXPECTED.to_owned();
        }
    }
    labels
}

/// Adds the numbers of another metric of the same family.
fn add(sum: &mut Metric, other: &Metric, kind: MetricType) {
    match kind {
        MetricType::COUNTER => {
            let mut total = Counter::default();
            total.set_value(sum.get_counter().get_value() + other.get_counter().get_value());
            sum.set_counter(total);
        }
        MetricType::GAUGE => {
            let mut total = Gauge::default();
            total.set_value(sum.get_gauge().get_value() + other.get_gauge().get_value());
            sum.set_gauge(total);
        }
        MetricType::HISTOGRAM => {
            let (mine, others) = (sum.get_histogram(), other.get_histogram());
            let mut total = Histogram::default();
            total.set_sample_count(mine.get_sample_count() + others.get_sample_count());
            total.set_sample_sum(mine.get_sample_sum() + others.get_sample_sum());
            let buckets = mine.get_bucket().iter().zip(others.get_bucket()).map(|(mine, others)| {
                let mut bucket = mine.clone();
                bucket.set_cumulative_count(mine.cumulative_count() + others.cumulative_count());
                bucket
            });
            total.set_bucket(buckets.collect());
            sum.set_histogram(total);
        }
        // Quantiles of several are not known.
        MetricType::SUMMARY => {
            let mut total = Summary::default();
            total.set_sample_count(sum.get_summary().sample_count() + other.get_summary().sample_count());
            total.set_sample_sum(sum.get_summary().sample_sum() + other.get_summary().sample_sum());
            sum.set_summary(total);
        }
        // There are no others here.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TextEncoder};

    #[test]
    fn families_are_left_out_and_values_of_labels_made_one() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("a_total", "a"), &["user", "code"]).expect("a family");
        let histogram =
            HistogramVec::new(HistogramOpts::new("b", "b").buckets(vec![1.0]), &["user"]).expect("a family");
        let hidden = IntCounterVec::new(Opts::new("c_total", "c"), &["user"]).expect("a family");
        registry.register(Box::new(counter.clone())).expect("new");
        registry.register(Box::new(histogram.clone())).expect("new");
        registry.register(Box::new(hidden.clone())).expect("new");
        for user in ["ann", "bob", "eve"] {
            counter.with_label_values(&[user, "200"]).inc();
            histogram.with_label_values(&[user]).observe(0.5);
            hidden.with_label_values(&[user]).inc();
        }
        let only_ann = |family: &str| ((family.to_owned(), "user".to_owned()), BTreeSet::from(["ann".to_owned()]));
        let shown = ShownMetrics {
            disabled: BTreeSet::from(["c_total".to_owned()]),
            allowed: BTreeMap::from([only_ann("a_total"), only_ann("b")]),
        };
        let text = TextEncoder::new().encode_to_string(&shown.apply(registry.gather()).0).expect("text");
        for line in [
            "a_total{code=\"200\",user=\"ann\"} 1",
            "a_total{code=\"200\",user=\"unexpected\"} 2",
            "b_bucket{user=\"unexpected\",le=\"1\"} 2",
            "b_count{user=\"unexpected\"} 2",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("c_total") && !text.contains("bob"), "{text}");
    }
}
