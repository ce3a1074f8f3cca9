//! What is counted of requests that peers serve, and of learning what they serve.

use http::StatusCode;
use prometheus::{IntCounterVec, Opts, Registry};

/// The counters, under upstream's names.
pub(super) struct PeerMetrics {
    rerouted: IntCounterVec,
    failed: IntCounterVec,
    unlearned: IntCounterVec,
}

impl PeerMetrics {
    pub(super) fn registered(registry: &Registry) -> Self {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels).expect("constant names are valid");
            registry.register(Box::new(counter.clone())).expect("the name is registered once");
            counter
        };
        PeerMetrics {
            rerouted: counter(
                "apiserver_rerouted_request_total",
                "Requests that a peer was asked to serve; without group, version and resource those for discovery.",
                &["code", "group", "version", "resource"],
            ),
            failed: counter(
                "apiserver_peer_proxy_errors_total",
                "Requests that could not be handed on to a peer.",
                &["type", "group", "version", "resource"],
            ),
            unlearned: counter(
                "apiserver_peer_discovery_sync_errors_total",
                "What went wrong in learning what peers serve.",
                &["type"],
            ),
        }
    }

    pub(super) fn rerouted(&self, code: StatusCode, [group, version, resource]: [&str; 3]) {
        self.rerouted.with_label_values(&[code.as_str(), group, version, resource]).inc();
    }

    pub(super) fn failed(&self, why: &str, [group, version, resource]: [&str; 3]) {
        self.failed.with_label_values(&[why, group, version, resource]).inc();
    }

    pub(super) fn unlearned(&self, why: &str) {
        self.unlearned.with_label_values(&[why]).inc();
    }
}
