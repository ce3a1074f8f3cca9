//! The auditor: a policy, and the backends that its events go to.

use std::sync::Arc;

use crate::{
    ack::Ack,
    backend::Backend,
    event::{Event, Prepared, encode::Bodies},
    level::Level,
    metrics::Metrics,
    policy::{Attributes, Policy, Verdict},
};

/// Records requests by a policy.
pub struct Auditor {
    policy: Policy,
    backends: Vec<Backend>,
    metrics: Metrics,
}

impl Auditor {
    /// An auditor. Call it within a runtime: backends run beside the requests.
    pub fn new(policy: Policy, backends: Vec<Backend>, metrics: Metrics) -> Arc<Self> {
        Arc::new(Auditor { policy, backends, metrics })
    }

    /// Delivers what waits, as far as backends take it in time. What comes afterwards is lost, and counted.
    pub async fn close(&self) {
        for backend in &self.backends {
            backend.close().await;
        }
    }

    pub(crate) fn evaluate(&self, attributes: &Attributes<'_>) -> Verdict {
        let verdict = self.policy.evaluate(attributes);
        self.metrics.level(verdict.level);
        verdict
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Hands an event to all backends.
    pub(crate) fn hand_out(&self, event: &Event) -> Ack {
        self.metrics.event();
        let line = event.encode(Bodies::Whole);
        let is_too_long = line.as_ref().is_ok_and(|line| {
            let limits = self.backends.iter().filter_map(Backend::max_event_size);
            event.level >= Level::Request && limits.min().is_some_and(|limit| line.len() > limit)
        });
        let prepared = Prepared {
            level: event.level,
            stage: event.stage,
            lean: is_too_long.then(|| event.encode(Bodies::LeftOut).ok()).flatten(),
            legacy: self.backends.iter().any(Backend::takes_text).then(|| event.legacy().into()),
            line,
        };
        let acks = self.backends.iter().map(|backend| backend.push(&prepared, &self.metrics)).collect();
        Ack::all(acks)
    }
}
