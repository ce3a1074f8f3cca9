//! Metrics of an external signer, under upstream's names.

use std::time::Duration;

use prometheus::{Gauge, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};
use tonic::Code;

use super::external::now;

const BUCKETS: [f64; 14] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The metrics.
pub(super) struct ExternalMetrics {
    fetched_at: Gauge,
    data_from: Gauge,
    fetches: IntCounterVec,
    signatures: IntCounterVec,
    durations: HistogramVec,
}

impl ExternalMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let name = |name: &str| format!("apiserver_externaljwt_{name}");
        let counter =
            |own: &str, help: &str| IntCounterVec::new(Opts::new(name(own), help), &["code"]).expect("valid names");
        let durations = HistogramOpts::new(name("request_duration_seconds"), "Time that the external signer took.");
        let metrics = ExternalMetrics {
            fetched_at: Gauge::new(name("fetch_keys_success_timestamp"), "When keys were fetched last.")
                .expect("valid names"),
            data_from: Gauge::new(name("fetch_keys_data_timestamp"), "Of when the keys are, as the signer says.")
                .expect("valid names"),
            fetches: counter("fetch_keys_request_total", "How often keys were asked for."),
            signatures: counter("sign_request_total", "How often a signature was asked for."),
            durations: HistogramVec::new(durations.buckets(BUCKETS.to_vec()), &["method", "code"])
                .expect("valid names"),
        };
        for collector in [
            Box::new(metrics.fetched_at.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.data_from.clone()),
            Box::new(metrics.fetches.clone()),
            Box::new(metrics.signatures.clone()),
            Box::new(metrics.durations.clone()),
        ] {
            registry.register(collector).expect("there is one external signer");
        }
        metrics
    }

    /// Keys were asked for; an error without a code is one of what the signer said.
    pub(super) fn fetched(&self, result: Result<(), Option<Code>>) {
        let code = match result {
            Ok(()) => {
                self.fetched_at.set(now());
                text(Code::Ok)
            }
            Err(Some(code)) => text(code),
            Err(None) => "unknown-non-grpc".to_owned(),
        };
        self.fetches.with_label_values(&[code]).inc();
    }

    pub(super) fn data_of(&self, seconds: f64) {
        self.data_from.set(seconds);
    }

    pub(super) fn signed(&self, code: Code) {
        self.signatures.with_label_values(&[text(code)]).inc();
    }

    pub(super) fn called(&self, method: &str, code: Code, took: Duration) {
        self.durations.with_label_values(&[method, &text(code)]).observe(took.as_secs_f64());
    }
}

/// A code as Go prints it.
fn text(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}
