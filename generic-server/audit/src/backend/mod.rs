//! Where events go. Backends are handed lines that are encoded already, and never hold up who hands them over: whether
//! and for what a request waits is the mode's to say.

mod batch;
mod log;
mod rotate;
mod throttle;
mod webhook;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

pub use batch::Batching;
pub use log::{Format, Log, LogFile};
pub use webhook::{Deliver, DeliveryError, Webhook};

use crate::{
    ack::Ack,
    event::{Prepared, Stage},
    level::Level,
    metrics::Metrics,
};
use batch::Batches;

/// How much may wait for one backend.
pub(crate) const MAX_WAITING: usize = 64 << 20;
/// How long the end of the server waits for a backend.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// How a backend is fed.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// Beside the requests; what finds no room is lost.
    Batch(Batching),
    /// Before the answer; what fails is lost.
    Blocking,
    /// The same, and a request whose first event fails is refused.
    BlockingStrict,
}

/// Limits of sizes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longer events go without their bodies, or not at all.
    pub event: usize,
    /// Batches are cut to this.
    pub batch: usize,
}

/// One backend.
pub struct Backend {
    limits: Option<Limits>,
    feed: Feed,
    output: Output,
}

enum Feed {
    Batch(Batches),
    Blocking { strict: bool },
}

/// What is at the end of it.
pub enum Output {
    /// A file, or standard output.
    Log(Log),
    /// Somebody else's server.
    Webhook(Webhook),
}

impl Output {
    fn plugin(&self) -> &'static str {
        match self {
            Output::Log(_) => "log",
            Output::Webhook(_) => "webhook",
        }
    }

    fn takes_text(&self) -> bool {
        matches!(self, Output::Log(log) if log.format() == Format::Legacy)
    }

    fn close(&self) {
        if let Output::Webhook(webhook) = self {
            webhook.hurry();
        }
    }
}

impl Backend {
    /// A backend. Call it within a runtime.
    pub fn new(output: Output, mode: Mode, limits: Option<Limits>, metrics: &Metrics) -> Self {
        let feed = match mode {
            Mode::Batch(batching) => {
                let output: Arc<dyn batch::Sink> = match &output {
                    Output::Log(log) => Arc::new(log.clone()),
                    Output::Webhook(webhook) => Arc::new(webhook.clone()),
                };
                let max_bytes = limits.map_or(usize::MAX, |limits| limits.batch);
                Feed::Batch(Batches::start(batching, max_bytes, output, metrics.clone()))
            }
            Mode::Blocking => Feed::Blocking { strict: false },
            Mode::BlockingStrict => Feed::Blocking { strict: true },
        };
        Backend { limits, feed, output }
    }

    pub(crate) fn max_event_size(&self) -> Option<usize> {
        self.limits.map(|limits| limits.event)
    }

    pub(crate) fn takes_text(&self) -> bool {
        self.output.takes_text()
    }

    /// Takes an event, or loses and counts it.
    pub(crate) fn push(&self, event: &Prepared, metrics: &Metrics) -> Ack {
        let line = match self.fitting(event) {
            Ok(line) => line,
            Err((plugin, why)) => {
                metrics.lost(plugin, 1, &why);
                // What is cut away is no failure of the backend's; what cannot be written is one.
                let strict = matches!(self.feed, Feed::Blocking { strict: true });
                return Ack::taken(!strict || plugin == TRUNCATE);
            }
        };
        match &self.feed {
            Feed::Batch(batches) => {
                batches.push(line);
                Ack::taken(true)
            }
            Feed::Blocking { strict } => {
                let ack = match &self.output {
                    // Lines are written in order: the last event of a request waits for those before it.
                    Output::Log(log) => log.push(vec![line], *strict || event.stage != Stage::RequestReceived),
                    Output::Webhook(webhook) => webhook.push(line),
                };
                if *strict { ack } else { ack.ignoring_failures() }
            }
        }
    }

    /// The text of an event that the backend takes.
    fn fitting(&self, event: &Prepared) -> Result<Bytes, (&'static str, String)> {
        let whole = match (&event.line, self.limits) {
            (Ok(line), Some(limits)) if line.len() > limits.event => {
                let lean =
                    event.lean.as_ref().filter(|lean| event.level >= Level::Request && lean.len() <= limits.event);
                Ok(lean.ok_or_else(|| (TRUNCATE, "event is too large even after truncating".to_owned()))?)
            }
            (Ok(line), _) => Ok(line),
            (Err(why), Some(_)) => return Err((TRUNCATE, why.0.clone())),
            (Err(why), None) => Err(why),
        };
        match (&event.legacy, self.takes_text()) {
            (Some(text), true) => Ok(text.clone()),
            _ => whole.cloned().map_err(|why| (self.output.plugin(), why.0.clone())),
        }
    }

    pub(crate) async fn close(&self) {
        let end = async {
            if let Feed::Batch(batches) = &self.feed {
                batches.close().await;
            }
            match &self.output {
                Output::Log(log) => log.flush().await,
                Output::Webhook(webhook) => webhook.finish().await,
            }
        };
        self.output.close();
        if tokio::time::timeout(GRACE, end).await.is_err() {
            tracing::warn!(plugin = self.output.plugin(), "an audit backend did not take all events before the end");
        }
    }
}

const TRUNCATE: &str = "truncate";
