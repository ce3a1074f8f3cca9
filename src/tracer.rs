//! Makes the tracer, and sends what it gathers to the collector.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use traces::{Dial, Exporter, Losses, Tracer};

use crate::config::{Config, Tracing};

/// Upstream's name for this service.
const SERVICE: &str = "apiserver";
/// How long the end of the server waits for the last spans to be sent.
const LAST: Duration = Duration::from_secs(5);

/// What sends spans while the server runs.
pub struct Exporting {
    ended: CancellationToken,
    task: JoinHandle<()>,
}

/// The tracer that the configuration asks for, and what sends its spans away.
pub(crate) fn tracer(
    config: &Config,
    server: &str,
    dial: Option<Dial>,
    metrics: &prometheus::Registry,
) -> (Option<Tracer>, Option<Exporting>) {
    let Some(tracing) = &config.tracing else { return (None, None) };
    let losses = Losses::default();
    losses.register(metrics);
    let (tracer, exporter) = Tracer::new(tracing.per_million, losses);
    (Some(tracer), Some(Exporting::start(exporter, tracing, server.to_owned(), dial)))
}

impl Exporting {
    fn start(exporter: Exporter, tracing: &Tracing, server: String, dial: Option<Dial>) -> Self {
        let ended = CancellationToken::new();
        let (destination, until) = (tracing.destination.clone(), ended.clone());
        let task = tokio::spawn(async move { exporter.run(destination, dial, (SERVICE, &server), until).await });
        Exporting { ended, task }
    }

    /// Sends what is left, if the collector takes it in a moment.
    pub(crate) async fn finish(self) {
        self.ended.cancel();
        let _ = tokio::time::timeout(LAST, self.task).await;
    }
}
