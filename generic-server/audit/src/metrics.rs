//! Metrics, under upstream's names (`apiserver_audit_*`).

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use prometheus::{IntCounter, IntCounterVec, Opts, Registry, core::Collector};

use crate::level::Level;

/// All families.
#[derive(Clone)]
pub struct Metrics {
    events: IntCounter,
    errors: IntCounterVec,
    levels: IntCounterVec,
    rejected: IntCounter,
    told: Arc<Mutex<Told>>,
}

/// What was said of lost events: a backend that is down must not fill the log.
#[derive(Default)]
struct Told {
    last: Option<Instant>,
    unsaid: usize,
}

/// How often that is said at most.
const PAUSE: Duration = Duration::from_secs(1);

impl Metrics {
    /// Counts nothing yet.
    ///
    /// # Panics
    /// Another family of the registry has one of the names.
    pub fn new(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help));
        let by = |name: &str, help: &str, label: &str| {
            register(registry, IntCounterVec::new(Opts::new(name, help), &[label]))
        };
        Metrics {
            events: counter("apiserver_audit_event_total", "Events that were handed to the backends."),
            errors: by("apiserver_audit_error_total", "Events that a backend has lost, by its plugin.", "plugin"),
            levels: by("apiserver_audit_level_total", "Requests by the level that the policy gives them.", "level"),
            rejected: counter(
                "apiserver_audit_requests_rejected_total",
                "Requests that were refused because a backend did not take their event.",
            ),
            told: Arc::default(),
        }
    }

    pub(crate) fn event(&self) {
        self.events.inc();
    }

    pub(crate) fn level(&self, level: Level) {
        self.levels.with_label_values(&[level.name()]).inc();
    }

    pub(crate) fn rejected(&self) {
        self.rejected.inc();
    }

    /// Counts events that are lost, and logs why, once in a while.
    pub(crate) fn lost(&self, plugin: &str, events: usize, why: &str) {
        self.errors.with_label_values(&[plugin]).inc_by(events as u64);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.unsaid += events;
        if told.last.is_none_or(|last| last.elapsed() >= PAUSE) {
            tracing::error!(plugin, events = told.unsaid, error = why, "audit events are lost");
            *told = Told { last: Some(Instant::now()), unsaid: 0 };
        }
    }
}

fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: prometheus::Result<C>) -> C {
    let collector = collector.expect("constant names and labels are valid");
    registry.register(Box::new(collector.clone())).expect("each name is registered once");
    collector
}
