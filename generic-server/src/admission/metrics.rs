//! Metrics of admission plugins.

use std::{array::from_fn, sync::OnceLock, time::Duration};

use prometheus::{Histogram, HistogramOpts, HistogramVec, Registry};

use super::Operation;
use crate::metrics::{Summaries, Summary, register};

/// Seconds.
const BUCKETS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// What a plugin is asked to do.
#[derive(Clone, Copy)]
pub(super) enum Step {
    Mutate,
    Validate,
}

/// The times of single plugins, and of all of them together.
#[derive(Clone)]
pub struct AdmissionMetrics {
    plugins: HistogramVec,
    steps: HistogramVec,
    quantiles: Summaries,
}

impl AdmissionMetrics {
    /// Metrics that count nothing yet.
    pub fn new(registry: &Registry) -> Self {
        let histogram = |name, help, labels: &[&str]| {
            register(registry, HistogramVec::new(HistogramOpts::new(name, help).buckets(BUCKETS.to_vec()), labels))
        };
        let quantiles = Summaries::new(
            "apiserver_admission_step_admission_duration_seconds_summary",
            "Time that all admission plugins took in the last hours, in seconds, by operation and step.",
            &["type", "operation", "rejected"],
        );
        AdmissionMetrics {
            plugins: histogram(
                "apiserver_admission_controller_admission_duration_seconds",
                "Time that an admission plugin took, in seconds, by plugin, operation and step (admit or validate).",
                &["name", "type", "operation", "rejected"],
            ),
            steps: histogram(
                "apiserver_admission_step_admission_duration_seconds",
                "Time that all admission plugins took, in seconds, by operation and step (admit or validate).",
                &["type", "operation", "rejected"],
            ),
            quantiles: register(registry, Ok(quantiles)),
        }
    }

    /// The times of one plugin; `None`: of all together.
    pub(super) fn times_of(&self, plugin: Option<&'static str>) -> Times {
        Times { metrics: self.clone(), plugin, known: from_fn(|_| OnceLock::new()) }
    }
}

/// The histograms of one plugin, each looked up when it is first needed; and the quantiles of all together.
pub(super) struct Times {
    metrics: AdmissionMetrics,
    plugin: Option<&'static str>,
    known: [OnceLock<(Histogram, Option<Summary>)>; 16],
}

impl Times {
    pub(super) fn note(&self, step: Step, operation: Operation, rejected: bool, took: Duration) {
        let place = (step as usize) * 8 + (operation as usize) * 2 + usize::from(rejected);
        let (histogram, quantiles) = self.known[place].get_or_init(|| {
            let step = match step {
                Step::Mutate => "admit",
                Step::Validate => "validate",
            };
            let rejected = if rejected { "true" } else { "false" };
            let labels = [step, operation.name(), rejected];
            match self.plugin {
                Some(name) => (self.metrics.plugins.with_label_values(&[name, step, operation.name(), rejected]), None),
                None => (self.metrics.steps.with_label_values(&labels), Some(self.metrics.quantiles.with(&labels))),
            }
        });
        histogram.observe(took.as_secs_f64());
        if let Some(quantiles) = quantiles {
            quantiles.observe(took);
        }
    }
}
