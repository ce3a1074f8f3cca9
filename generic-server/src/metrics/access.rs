//! What requests were allowed, and how long it took to tell; how long certificates last that clients come with.

use std::time::Duration;

use auth::{Decision, Verdict};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets,
};

use super::register;

/// What authorization counts, and what certificates of clients tell.
pub(crate) struct AccessMetrics {
    authorizations: Results<4>,
    expirations: Histogram,
}

/// Attempts and their durations by result. Both are looked up once, not once a request.
struct Results<const N: usize>([(IntCounter, Histogram); N]);

impl<const N: usize> Results<N> {
    fn new(registry: &Registry, attempts: Opts, durations: (&str, &str), results: [&str; N]) -> Self {
        let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant arguments");
        let attempts = register(registry, IntCounterVec::new(attempts, &["result"]));
        let durations = HistogramOpts::new(durations.0, durations.1).buckets(buckets);
        let durations = register(registry, HistogramVec::new(durations, &["result"]));
        Results(results.map(|result| (attempts.with_label_values(&[result]), durations.with_label_values(&[result]))))
    }

    fn note(&self, result: usize, took: Duration) {
        let (attempts, durations) = &self.0[result];
        attempts.inc();
        durations.observe(took.as_secs_f64());
    }
}

/// Seconds.
const LIFETIMES: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21600.0,
    43200.0,
    86400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

impl AccessMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let expirations = HistogramOpts::new(
            "apiserver_client_certificate_expiration_seconds",
            "How long the certificates by which requests were authenticated last on, in seconds.",
        );
        AccessMetrics {
            authorizations: Results::new(
                registry,
                Opts::new("authorization_attempts_total", "Attempts to authorize by result."),
                ("authorization_duration_seconds", "Time to authorize in seconds, by result."),
                ["allowed", "denied", "no-opinion", "error"],
            ),
            expirations: register(registry, Histogram::with_opts(expirations.buckets(LIFETIMES.to_vec()))),
        }
    }

    /// A decision was made.
    pub(crate) fn authorized(&self, decision: &Decision, took: Duration) {
        let result = match decision.verdict {
            Verdict::Allow => 0,
            _ if decision.error.is_some() => 3,
            Verdict::Deny => 1,
            Verdict::NoOpinion => 2,
        };
        self.authorizations.note(result, took);
    }

    /// A certificate that lasts until then (seconds since 1970) has authenticated a request.
    pub(crate) fn certificate_lasts(&self, until: i64, now: i64) {
        self.expirations.observe((until - now) as f64);
    }
}
