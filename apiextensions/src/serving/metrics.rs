//! Metrics of conversions, under upstream's names.

use std::time::Duration;

use machinery::Str;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

use crate::rules;

/// What went wrong with a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Call,
    Malformed,
    Partial,
    Invalid,
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Failure::Call => "conversion_webhook_call_failure",
            Failure::Malformed => "conversion_webhook_malformed_response_failure",
            Failure::Partial => "conversion_webhook_partial_response_failure",
            Failure::Invalid => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// The metrics of all conversion webhooks.
pub struct ConversionMetrics {
    requests: IntCounterVec,
    latencies: HistogramVec,
    by_definition: HistogramVec,
}

impl ConversionMetrics {
    pub(crate) fn new() -> Self {
        let seconds = vec![0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
        let labels = ["result", "failure_type"];
        let name = "apiserver_conversion_webhook_request_total";
        let requests = IntCounterVec::new(Opts::new(name, "Calls of conversion webhooks by result."), &labels);
        let name = "apiserver_conversion_webhook_duration_seconds";
        let latencies = HistogramOpts::new(name, "Time of calls of conversion webhooks.").buckets(seconds);
        let name = "apiserver_crd_conversion_webhook_duration_seconds";
        let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant arguments");
        let by_definition = HistogramOpts::new(name, "Time of conversions by webhooks.").buckets(buckets);
        let definition_labels = ["crd_name", "from_version", "to_version", "succeeded"];
        let valid = "constant names and labels are valid";
        ConversionMetrics {
            requests: requests.expect(valid),
            latencies: HistogramVec::new(latencies, &labels).expect(valid),
            by_definition: HistogramVec::new(by_definition, &definition_labels).expect(valid),
        }
    }

    /// Adds them, and those of custom resources' rules, to those that the server shows.
    pub fn register(&self, registry: &Registry) {
        rules::register_metrics(registry);
        let collectors: [Box<dyn prometheus::core::Collector>; 3] =
            [Box::new(self.requests.clone()), Box::new(self.latencies.clone()), Box::new(self.by_definition.clone())];
        for collector in collectors {
            registry.register(collector).expect("each name is registered once");
        }
    }

    pub(super) fn observe(&self, definition: &str, from: &str, to: &str, elapsed: Duration, failure: Option<Failure>) {
        let result = if failure.is_none() { "success" } else { "failure" };
        let labels = [result, failure.map_or("", Failure::name)];
        self.requests.with_label_values(&labels).inc();
        self.latencies.with_label_values(&labels).observe(elapsed.as_secs_f64());
        let succeeded = if failure.is_none() { "true" } else { "false" };
        self.by_definition.with_label_values(&[definition, from, to, succeeded]).observe(elapsed.as_secs_f64());
    }

    /// Forgets the series of a definition that is gone.
    pub(crate) fn forget(&self, definition: &str, versions: &[Str]) {
        for (from, to) in versions.iter().flat_map(|from| versions.iter().map(move |to| (from, to))) {
            for succeeded in ["true", "false"] {
                // Most of them never were.
                let _ = self.by_definition.remove_label_values(&[definition, from.as_str(), to.as_str(), succeeded]);
            }
        }
    }
}
