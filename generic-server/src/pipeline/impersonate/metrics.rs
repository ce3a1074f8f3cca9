//! Metrics of impersonation, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

use super::mode::Mode;
use crate::metrics::register;

/// Attempts, and the authorizer's answers that they took.
pub(super) struct ImpersonationMetrics {
    attempts: Pair,
    authorizations: Pair,
}

/// How many, and how long they took.
struct Pair {
    total: IntCounterVec,
    duration: HistogramVec,
}

impl Pair {
    fn new(registry: &Registry, name: &str, what: &str) -> Self {
        let labels = ["mode", "decision"];
        let options =
            Opts::new(format!("apiserver_impersonation_{name}_total"), format!("{what} by mode and decision."));
        let name = format!("apiserver_impersonation_{name}_duration_seconds");
        let buckets = exponential_buckets(0.001, 2.0, 15).expect("constant arguments");
        let histogram = HistogramOpts::new(name, format!("Time of {what}, in seconds.")).buckets(buckets);
        Pair {
            total: register(registry, IntCounterVec::new(options, &labels)),
            duration: register(registry, HistogramVec::new(histogram, &labels)),
        }
    }

    fn observe(&self, mode: &str, allowed: bool, elapsed: Duration) {
        let labels = [mode, if allowed { "allowed" } else { "denied" }];
        self.total.with_label_values(&labels).inc();
        self.duration.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }
}

impl ImpersonationMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        ImpersonationMetrics {
            attempts: Pair::new(registry, "attempts", "Attempts to impersonate"),
            authorizations: Pair::new(registry, "authorization_attempts", "Authorization checks of impersonation"),
        }
    }

    /// A request was allowed by this mode, or refused by all.
    pub(super) fn attempted(&self, mode: Option<Mode>, elapsed: Duration) {
        self.attempts.observe(mode.map_or("", Mode::name), mode.is_some(), elapsed);
    }

    /// The authorizer has answered.
    pub(super) fn authorized(&self, mode: Mode, allowed: bool, elapsed: Duration) {
        self.authorizations.observe(mode.name(), allowed, elapsed);
    }
}
