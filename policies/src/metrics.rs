//! How often policies were asked, and what came of it, under upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::{activation::OUT_OF_BUDGET, source::Binding};

/// The metrics of one kind of policies.
#[derive(Clone)]
pub(crate) struct Metrics {
    checks: IntCounterVec,
    durations: HistogramVec,
}

/// Buckets of seconds.
const BUCKETS: [f64; 5] = [0.000_000_5, 0.001, 0.01, 0.1, 1.0];

impl Metrics {
    /// `kind`: `validating`, which has a label for what was done, or `mutating`.
    pub(crate) fn new(kind: &str) -> Self {
        let labels = ["policy", "policy_binding", "error_type", "enforcement_action"];
        let labels = if kind == "validating" { &labels[..] } else { &labels[..3] };
        let name = |what: &str| format!("apiserver_{kind}_admission_policy_check_{what}");
        let help = "Findings of admission policies by policy, binding, kind of error and what was done.";
        let checks = IntCounterVec::new(Opts::new(name("total"), help), labels);
        let help = "Time of evaluations of admission policies that had findings, in seconds.";
        let durations = HistogramOpts::new(name("duration_seconds"), help).buckets(BUCKETS.to_vec());
        let valid = "constant names and labels are valid";
        Metrics { checks: checks.expect(valid), durations: HistogramVec::new(durations, labels).expect(valid) }
    }

    pub(crate) fn register(&self, registry: &Registry) {
        let collectors: [Box<dyn prometheus::core::Collector>; 2] =
            [Box::new(self.checks.clone()), Box::new(self.durations.clone())];
        for collector in collectors {
            registry.register(collector).expect("each name is registered once");
        }
    }

    /// Counts an evaluation; `error`: why it failed, `action`: what was done about what it found.
    pub(crate) fn observe(
        &self,
        policy: &str,
        binding: &Binding,
        error: Option<&str>,
        action: Option<&str>,
        elapsed: Duration,
    ) {
        let error = match error {
            None => "no_error",
            Some(text) if text.starts_with("compilation") => "compile_error",
            Some(text) if text.starts_with(OUT_OF_BUDGET) => "out_of_budget",
            Some(_) => "invalid_error",
        };
        let labels: Vec<&str> = [policy, binding.name.as_str(), error].into_iter().chain(action).collect();
        self.checks.with_label_values(&labels).inc();
        self.durations.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }
}
