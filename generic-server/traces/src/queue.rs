//! Spans that have ended, on their way to whoever sends them: a queue of a fixed length, and the count of what it had no room
//! for.

use prometheus::{IntCounterVec, Opts};
use tokio::sync::mpsc;

use crate::otlp;

/// So many spans wait to be sent; more are lost (OpenTelemetry's default).
pub(crate) const LENGTH: usize = 2048;

/// Which part of the server makes a span.
#[derive(Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its name.
    pub name: &'static str,
    /// Its version; empty: none.
    pub version: &'static str,
}

/// Spans of what the server does itself.
pub(crate) static COMPONENT: Instrument = Instrument { name: "k8s.io/component-base/tracing", version: "" };
/// Spans of requests, that come in and that go out.
pub(crate) static HTTP: Instrument =
    Instrument { name: "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp", version: "0.65.0" };

/// A span that has ended, and who made it.
pub(crate) struct Ended {
    pub(crate) instrument: &'static Instrument,
    pub(crate) span: otlp::Span,
}

/// Spans that were lost.
#[derive(Clone)]
pub struct Losses(IntCounterVec);

impl Default for Losses {
    fn default() -> Self {
        let name = "apiserver_tracing_lost_spans_total";
        let opts = Opts::new(name, "Spans that were lost, by why: the queue was full, or the collector took none.");
        Losses(IntCounterVec::new(opts, &["reason"]).expect("constant names are valid"))
    }
}

impl Losses {
    /// Has them shown among these metrics.
    pub fn register(&self, registry: &prometheus::Registry) {
        for reason in ["queue_full", "export_failed"] {
            self.0.with_label_values(&[reason]);
        }
        // Another tracer of the same process (of a test) may be shown there already.
        let _ = registry.register(Box::new(self.0.clone()));
    }

    fn no_room(&self, count: u64) {
        self.0.with_label_values(&["queue_full"]).inc_by(count);
    }

    pub(crate) fn not_taken(&self, count: usize) {
        self.0.with_label_values(&["export_failed"]).inc_by(count as u64);
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        ["queue_full", "export_failed"].iter().map(|reason| self.0.with_label_values(&[reason]).get()).sum()
    }
}

/// Where spans go that have ended.
#[derive(Clone)]
pub(crate) struct Queue {
    ended: mpsc::Sender<Ended>,
    losses: Losses,
}

impl Queue {
    /// A queue, and its other end.
    pub(crate) fn new(losses: Losses) -> (Self, mpsc::Receiver<Ended>) {
        let (ended, waiting) = mpsc::channel(LENGTH);
        (Queue { ended, losses }, waiting)
    }

    /// Hands a span over. Nobody waits for room.
    pub(crate) fn put(&self, ended: Ended) {
        if self.ended.try_send(ended).is_err() {
            self.losses.no_room(1);
        }
    }
}
