//! Metrics of authorizers, under upstream's names.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use prometheus::{
    DEFAULT_BUCKETS, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, core::Collector,
};

use crate::Verdict;

/// The metrics of all authorizers of a server.
#[derive(Clone)]
pub struct AuthorizerMetrics(Arc<Families>);

struct Families {
    decisions: IntCounterVec,
    evaluations: IntCounterVec,
    durations: HistogramVec,
    fail_open: IntCounterVec,
    condition_errors: IntCounterVec,
    exclusions: IntCounterVec,
    condition_durations: HistogramVec,
}

/// How long conditions take to evaluate, in seconds.
const CONDITION_BUCKETS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

impl AuthorizerMetrics {
    /// Metrics that count nothing yet.
    pub fn new(registry: &Registry) -> Self {
        let by = |name: &str, help: &str, labels: &[&str]| {
            let options = Opts::new(format!("apiserver_authorization_{name}"), help);
            register(registry, IntCounterVec::new(options, labels))
        };
        let timed = |name: &str, help: &str, buckets: &[f64], labels: &[&str]| {
            let options = HistogramOpts::new(format!("apiserver_authorization_{name}"), help).buckets(buckets.to_vec());
            register(registry, HistogramVec::new(options, labels))
        };
        let (of_type, of_result) = (["type", "name"], ["name", "result"]);
        AuthorizerMetrics(Arc::new(Families {
            decisions: by(
                "decisions_total",
                "Decisions that end the question, by authorizer.",
                &["type", "name", "decision"],
            ),
            evaluations: by("webhook_evaluations_total", "Round trips to authorization webhooks.", &of_result),
            durations: timed(
                "webhook_duration_seconds",
                "Time of round trips to authorization webhooks, in seconds.",
                DEFAULT_BUCKETS,
                &of_result,
            ),
            fail_open: by(
                "webhook_evaluations_fail_open_total",
                "Failures of authorization webhooks that count as no opinion.",
                &of_result,
            ),
            condition_errors: by(
                "match_condition_evaluation_errors_total",
                "Match conditions that cannot be evaluated.",
                &of_type,
            ),
            exclusions: by(
                "match_condition_exclusions_total",
                "Requests that match conditions keep from a webhook.",
                &of_type,
            ),
            condition_durations: timed(
                "match_condition_evaluation_seconds",
                "Time to evaluate match conditions, in seconds.",
                &CONDITION_BUCKETS,
                &of_type,
            ),
        }))
    }

    /// The counters of one authorizer's decisions.
    pub(crate) fn decisions(&self, of_type: &str, name: &str) -> Decisions {
        Decisions {
            family: self.0.decisions.clone(),
            labels: [of_type.to_owned(), name.to_owned()],
            allowed: OnceLock::new(),
            denied: OnceLock::new(),
        }
    }

    /// What is counted of one webhook.
    pub(crate) fn webhook(&self, name: &str) -> WebhookMetrics {
        WebhookMetrics { families: self.0.clone(), name: name.to_owned() }
    }
}

/// How often an authorizer has decided.
pub(crate) struct Decisions {
    family: IntCounterVec,
    labels: [String; 2],
    /// Looked up once: every request counts.
    allowed: OnceLock<IntCounter>,
    denied: OnceLock<IntCounter>,
}

impl Decisions {
    pub(crate) fn count(&self, verdict: Verdict) {
        let (counter, decision) = match verdict {
            Verdict::Allow => (&self.allowed, "allowed"),
            Verdict::Deny => (&self.denied, "denied"),
            Verdict::NoOpinion => return,
        };
        let [of_type, name] = &self.labels;
        counter.get_or_init(|| self.family.with_label_values(&[of_type, name, decision])).inc();
    }
}

/// What is counted of one webhook.
pub(crate) struct WebhookMetrics {
    families: Arc<Families>,
    name: String,
}

impl WebhookMetrics {
    pub(crate) fn called(&self, result: &str, elapsed: Duration) {
        self.families.evaluations.with_label_values(&[&self.name, result]).inc();
        self.families.durations.with_label_values(&[&self.name, result]).observe(elapsed.as_secs_f64());
    }

    pub(crate) fn failed_open(&self, result: &str) {
        self.families.fail_open.with_label_values(&[&self.name, result]).inc();
    }

    pub(crate) fn matched(&self, found: &Result<bool, String>, elapsed: Duration) {
        let labels = ["Webhook", &self.name];
        self.families.condition_durations.with_label_values(&labels).observe(elapsed.as_secs_f64());
        match found {
            Ok(true) => {}
            Ok(false) => self.families.exclusions.with_label_values(&labels).inc(),
            Err(_) => self.families.condition_errors.with_label_values(&labels).inc(),
        }
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: prometheus::Result<C>) -> C {
    let collector = collector.expect("constant names and labels");
    registry.register(Box::new(collector.clone())).expect("one of each in a server");
    collector
}
