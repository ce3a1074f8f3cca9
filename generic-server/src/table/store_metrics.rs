//! What the store and its encryption count of themselves, under upstream's names.

use std::collections::HashMap;

use prometheus::{
    IntCounter,
    core::{Collector, Desc},
    proto::{Bucket, Histogram, Metric, MetricFamily, MetricType},
};
use storage::tally::{Count, DATA_KEY_FAILURES, DATA_KEY_MISSES, DATA_KEYS, LEASE_KEYS, Tally};

/// The families of histograms: whether they are shown before anything was noted.
const SPREADS: [(&str, &str, &Tally, bool); 2] = [
    ("etcd_lease_object_counts", "Keys that a lease had when another one took its place.", &LEASE_KEYS, false),
    (
        "apiserver_storage_data_key_generation_duration_seconds",
        "Time to make a data key and to have it encrypted, in seconds.",
        &DATA_KEYS,
        true,
    ),
];

const COUNTS: [(&str, &str, &Count); 2] = [
    ("apiserver_storage_data_key_generation_failures_total", "Data keys that could not be made.", &DATA_KEY_FAILURES),
    (
        "apiserver_storage_envelope_transformation_cache_misses_total",
        "Data keys that a plugin had to be asked for, to read values.",
        &DATA_KEY_MISSES,
    ),
];

/// The families, read when somebody looks.
pub struct StoreMetrics(Vec<Desc>);

impl Default for StoreMetrics {
    fn default() -> Self {
        let spreads = SPREADS.iter().map(|(name, help, ..)| (name, help));
        let all = spreads.chain(COUNTS.iter().map(|(name, help, _)| (name, help)));
        let describe = |(name, help): (&&str, &&str)| {
            let desc = Desc::new((*name).to_owned(), (*help).to_owned(), Vec::new(), HashMap::new());
            desc.expect("constant names are valid")
        };
        StoreMetrics(all.map(describe).collect())
    }
}

impl Collector for StoreMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.0.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counts = COUNTS.iter().flat_map(|(name, help, count)| {
            let counter = IntCounter::new(*name, *help).expect("constant names are valid");
            counter.inc_by(count.get());
            counter.collect()
        });
        let spreads = SPREADS.iter().filter(|(.., tally, always)| *always || tally.read().count > 0);
        spreads.map(|(name, help, tally, _)| family(name, help, tally)).chain(counts).collect()
    }
}

fn family(name: &str, help: &str, tally: &Tally) -> MetricFamily {
    let spread = tally.read();
    let buckets = spread.up_to.iter().map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(*count);
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_bucket(buckets.collect());
    histogram.set_sample_count(spread.count);
    histogram.set_sample_sum(spread.sum);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(MetricType::HISTOGRAM);
    family.set_metric(vec![metric]);
    family
}
