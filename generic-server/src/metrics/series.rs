//! The series that nearly every answer counts on, looked up once for all of them.

use std::{
    collections::HashMap,
    sync::{OnceLock, PoisonError, RwLock},
};

use histograms::Histogram;
use http::StatusCode;
use prometheus::IntCounter;

use super::{Labels, Metrics};

/// What the series of an answer are told apart by: its labels, its code, and whether it was a dry run.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct SeriesKey {
    pub(super) labels: Labels,
    pub(super) code: StatusCode,
    pub(super) dry_run: &'static str,
}

/// The series of answers with one key. Those that only some of them count on are made when they are needed.
pub(super) struct Series {
    pub(super) requests: IntCounter,
    pub(super) durations: Histogram,
    slis: OnceLock<Histogram>,
    sizes: OnceLock<Histogram>,
}

/// All that were looked up: as many as the family of requests has.
#[derive(Default)]
pub(super) struct AllSeries(RwLock<HashMap<SeriesKey, Series>>);

impl Series {
    pub(super) fn slis(&self, metrics: &Metrics, key: &SeriesKey) -> &Histogram {
        self.slis.get_or_init(|| metrics.slis.with_label_values(&key.labels.values()))
    }

    pub(super) fn sizes(&self, metrics: &Metrics, key: &SeriesKey) -> &Histogram {
        self.sizes.get_or_init(|| metrics.sizes.with_label_values(&key.labels.values()))
    }
}

impl Metrics {
    /// Counts an answer.
    pub(super) fn count(&self, key: &SeriesKey, count: impl FnOnce(&Series)) {
        if let Some(series) = self.series.0.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return count(series);
        }
        let SeriesKey { labels, code, dry_run } = key;
        let [verb, group, version, resource, subresource, scope, component] = labels.values();
        let with_both = [verb, group, version, resource, subresource, scope, component, code.as_str(), *dry_run];
        let with_dry_run = [verb, group, version, resource, subresource, scope, component, *dry_run];
        let series = Series {
            requests: self.requests.with_label_values(&with_both),
            durations: self.durations.with_label_values(&with_dry_run),
            slis: OnceLock::new(),
            sizes: OnceLock::new(),
        };
        let mut all = self.series.0.write().unwrap_or_else(PoisonError::into_inner);
        count(all.entry(key.clone()).or_insert(series));
    }
}

#[cfg(test)]
mod tests {
    use prometheus::proto::Metric;

    use super::*;

    #[test]
    fn answers_that_differ_in_a_label_or_their_code_are_counted_apart() {
        let metrics = Metrics::new();
        let key = |scope: &'static str, code: StatusCode| SeriesKey {
            labels: Labels::bare("GET", scope, ""),
            code,
            dry_run: "",
        };
        let (one, other) = (key("resource", StatusCode::OK), key("resource", StatusCode::CONFLICT));
        for key in [&one, &one, &other, &key("cluster", StatusCode::OK)] {
            metrics.count(key, |series| {
                series.requests.inc();
                series.durations.observe(0.1);
                series.slis(&metrics, key).observe(0.1);
            });
        }
        let families = metrics.registry().gather();
        let counts = |name: &str| {
            let family = families.iter().find(|family| family.name() == name).expect("it has series");
            let count =
                |metric: &Metric| (metric.get_counter().get_value() as u64) + metric.get_histogram().get_sample_count();
            let mut counts: Vec<u64> = family.get_metric().iter().map(count).collect();
            counts.sort_unstable();
            counts
        };
        assert_eq!(counts("apiserver_request_total"), [1, 1, 2]);
        assert_eq!(counts("apiserver_request_duration_seconds"), [1, 3], "only requests are told apart by codes");
        assert_eq!(counts("apiserver_request_sli_duration_seconds"), [1, 3]);
    }
}
