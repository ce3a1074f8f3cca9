//! How often webhooks were called, and what came of it, under upstream's names.

use std::time::Duration;

use generic_server::admission::Operation;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, core::Collector};

/// The metrics of both plugins; `kind` is `admit` or `validating`.
#[derive(Clone)]
pub(crate) struct Metrics {
    durations: HistogramVec,
    requests: IntCounterVec,
    rejections: IntCounterVec,
    open: IntCounterVec,
    exclusions: IntCounterVec,
}

/// Buckets of seconds.
const BUCKETS: [f64; 7] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let valid = "constant names and labels are valid";
        let counter =
            |name: &str, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name, help), labels).expect(valid);
        let durations = HistogramOpts::new(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Time of calls of admission webhooks, in seconds.",
        );
        Metrics {
            durations: HistogramVec::new(
                durations.buckets(BUCKETS.to_vec()),
                &["name", "type", "operation", "rejected"],
            )
            .expect(valid),
            requests: counter(
                "apiserver_admission_webhook_request_total",
                "Calls of admission webhooks by the code of what came of them.",
                &["name", "type", "operation", "code", "rejected"],
            ),
            rejections: counter(
                "apiserver_admission_webhook_rejection_count",
                "Writes that webhooks, or their failures, have refused.",
                &["name", "type", "operation", "error_type", "rejection_code"],
            ),
            open: counter(
                "apiserver_admission_webhook_fail_open_count",
                "Failures of admission webhooks that were ignored.",
                &["name", "type"],
            ),
            exclusions: counter(
                "apiserver_admission_match_condition_exclusions_total",
                "Writes that match conditions have kept from webhooks.",
                &["name", "kind", "type", "operation"],
            ),
        }
    }

    pub(crate) fn register(&self, registry: &Registry) {
        let collectors: [Box<dyn Collector>; 5] = [
            Box::new(self.durations.clone()),
            Box::new(self.requests.clone()),
            Box::new(self.rejections.clone()),
            Box::new(self.open.clone()),
            Box::new(self.exclusions.clone()),
        ];
        for collector in collectors {
            registry.register(collector).expect("each name is registered once");
        }
    }

    pub(super) fn called(
        &self,
        name: &str,
        kind: &str,
        operation: Operation,
        rejected: bool,
        code: u16,
        elapsed: Duration,
    ) {
        let (rejected, operation) = (if rejected { "true" } else { "false" }, operation.name());
        self.durations.with_label_values(&[name, kind, operation, rejected]).observe(elapsed.as_secs_f64());
        self.requests.with_label_values(&[name, kind, operation, &code.to_string(), rejected]).inc();
    }

    pub(super) fn rejected(&self, name: &str, kind: &str, operation: Operation, error: &str, code: u16) {
        // Codes beyond what HTTP knows would make a series each.
        let code = code.min(600).to_string();
        self.rejections.with_label_values(&[name, kind, operation.name(), error, &code]).inc();
    }

    pub(super) fn failed_open(&self, name: &str, kind: &str) {
        self.open.with_label_values(&[name, kind]).inc();
    }

    pub(super) fn excluded(&self, name: &str, kind: &str, operation: Operation) {
        self.exclusions.with_label_values(&[name, "webhook", kind, operation.name()]).inc();
    }
}
