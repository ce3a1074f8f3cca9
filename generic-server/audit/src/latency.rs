//! Where the time of a request went: annotated where it took long.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use machinery::{Str, meta::duration::GoDuration};

/// Requests that take longer have their layers annotated.
pub(crate) const THRESHOLD: Duration = Duration::from_millis(500);
/// The annotation of the whole time.
const TOTAL: &str = "apiserver.latency.k8s.io/total";

/// A layer whose share of a request's time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// What comes of the store is made what is answered.
    Transform,
    /// The store.
    Storage,
    /// Answers are encoded.
    Serialize,
    /// Answers are sent.
    Write,
    /// Mutating webhooks, one after the other.
    MutatingWebhook,
    /// Validating webhooks, the longest of them.
    ValidatingWebhook,
    /// What comes of the store is decoded.
    Decode,
    /// The wait for a turn.
    QueueWait,
    /// Who asks?
    Authentication,
    /// May they?
    Authorization,
    /// Who may act as somebody else?
    Impersonation,
}

const KEYS: [&str; 11] = [
    "apiserver.latency.k8s.io/transform-response-object",
    "apiserver.latency.k8s.io/etcd",
    "apiserver.latency.k8s.io/serialize-response-object",
    "apiserver.latency.k8s.io/response-write",
    "apiserver.latency.k8s.io/mutating-webhook",
    "apiserver.latency.k8s.io/validating-webhook",
    "apiserver.latency.k8s.io/decode-response-object",
    "apiserver.latency.k8s.io/apf-queue-wait",
    "apiserver.latency.k8s.io/authentication",
    "apiserver.latency.k8s.io/authorization",
    "apiserver.latency.k8s.io/impersonation",
];

/// What the layers took so far, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies([AtomicU64; KEYS.len()]);

impl Latencies {
    /// Adds to a layer.
    pub(crate) fn add(&self, layer: Layer, took: Duration) {
        self.0[layer as usize].fetch_add(nanoseconds(took), Relaxed);
    }

    /// Notes the longest of what runs at once.
    pub(crate) fn longest(&self, layer: Layer, took: Duration) {
        self.0[layer as usize].fetch_max(nanoseconds(took), Relaxed);
    }

    /// The annotations, once all is over.
    pub(crate) fn annotations(&self, total: Duration) -> Vec<(&'static str, Str)> {
        let text = |nanoseconds: u64| {
            let nanoseconds = i64::try_from(nanoseconds).unwrap_or(i64::MAX);
            Str::from(GoDuration { nanoseconds }.to_string())
        };
        let layers = self.0.iter().map(|layer| layer.load(Relaxed)).zip(KEYS);
        let mut found: Vec<_> = layers.filter(|(took, _)| *took > 0).map(|(took, key)| (key, text(took))).collect();
        if !found.is_empty() {
            found.push((TOTAL, text(nanoseconds(total))));
        }
        found
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}
