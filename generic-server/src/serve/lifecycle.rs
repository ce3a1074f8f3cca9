//! The end of the server's life, in upstream's order: readyz fails, the shutdown delay passes, the listeners close,
//! requests finish, watches are ended, connections close; then the caller closes the storage.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// How long a connection that is still busy after its streams were told to end may take to say its last words.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What the `--shutdown-*` flags say.
#[derive(Clone, Debug)]
pub struct ShutdownOptions {
    /// `--shutdown-delay-duration`: readyz fails for so long before anything else changes.
    pub delay: Duration,
    /// Requests in flight may take so long to finish (upstream: `--request-timeout`).
    pub drain: Duration,
    /// `--shutdown-watch-termination-grace-period`: watches are ended evenly over this time.
    pub stream_grace: Duration,
    /// `--shutdown-send-retry-after`: while requests drain, new ones are answered 429 instead of refused by a closed port.
    pub retry_after: bool,
}

impl Default for ShutdownOptions {
    fn default() -> Self {
        Self { delay: Duration::ZERO, drain: Duration::from_secs(60), stream_grace: Duration::ZERO, retry_after: false }
    }
}

/// A cheap handle to the phases of the shutdown. Every phase is a token: ask `is_cancelled`, or await `cancelled`.
#[derive(Clone, Debug)]
pub struct Lifecycle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ShutdownOptions,
    requested: CancellationToken,
    not_ready: CancellationToken,
    refuse_requests: CancellationToken,
    stopped_listening: CancellationToken,
    end_streams: CancellationToken,
    close_connections: CancellationToken,
    requests: TaskTracker,
    connections: TaskTracker,
    /// Streams that have asked for their turn to end.
    ended: AtomicU64,
}

impl Lifecycle {
    /// A server that is up.
    pub fn new(options: ShutdownOptions) -> Self {
        Self(Arc::new(Inner {
            options,
            requested: CancellationToken::new(),
            not_ready: CancellationToken::new(),
            refuse_requests: CancellationToken::new(),
            stopped_listening: CancellationToken::new(),
            end_streams: CancellationToken::new(),
            close_connections: CancellationToken::new(),
            requests: TaskTracker::new(),
            connections: TaskTracker::new(),
            ended: AtomicU64::new(0),
        }))
    }

    /// The shutdown was asked for (a signal, or [`Self::request_shutdown`]).
    pub fn requested(&self) -> &CancellationToken {
        &self.0.requested
    }

    /// readyz fails from here on: load balancers stop sending.
    pub fn not_ready(&self) -> &CancellationToken {
        &self.0.not_ready
    }

    /// New requests are answered 429 (only with `--shutdown-send-retry-after`).
    pub(crate) fn refuse_requests(&self) -> &CancellationToken {
        &self.0.refuse_requests
    }

    /// No new connections; those that are open finish what they have.
    pub fn stopped_listening(&self) -> &CancellationToken {
        &self.0.stopped_listening
    }

    /// Watches and other streams end. A stream that ends by itself should rather await [`Self::stream_end`].
    pub fn end_streams(&self) -> &CancellationToken {
        &self.0.end_streams
    }

    pub(crate) fn close_connections(&self) -> &CancellationToken {
        &self.0.close_connections
    }

    /// Returns when this stream's turn to end has come: at once when streams are told to end, or spread evenly over
    /// `--shutdown-watch-termination-grace-period` so that the clients do not all reconnect in one moment.
    pub fn stream_end(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = Arc::clone(&self.0);
        async move {
            inner.end_streams.cancelled().await;
            if !inner.options.stream_grace.is_zero() {
                // Multiples of the golden ratio fill the interval evenly, however many they come to be.
                let turn = inner.ended.fetch_add(1, Ordering::Relaxed) as f64 * 0.618_033_988_749_895;
                tokio::time::sleep(inner.options.stream_grace.mul_f64(turn.fract())).await;
            }
        }
    }

    /// A request in flight, until the guard is dropped. The connection layer does this for every request until its
    /// response begins; work that outlives that (an upgraded connection) takes a guard of its own if it must be awaited.
    pub fn track_request(&self) -> TaskTrackerToken {
        self.0.requests.token()
    }

    pub(crate) fn track_connection(&self) -> TaskTrackerToken {
        self.0.connections.token()
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.0.connections.len()
    }

    /// Asks for the shutdown, as a first signal does.
    pub fn request_shutdown(&self) {
        self.0.requested.cancel();
    }

    /// SIGTERM and SIGINT ask for the shutdown; a second one ends the process at once with exit code 1.
    ///
    /// # Errors
    /// When the process cannot listen for signals.
    pub fn listen_for_signals(&self) -> io::Result<()> {
        let mut term = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let lifecycle = self.clone();
        tokio::spawn(async move {
            let name = tokio::select! { _ = term.recv() => "SIGTERM", _ = interrupt.recv() => "SIGINT" };
            tracing::info!(signal = name, "shutting down; a second signal exits at once");
            lifecycle.request_shutdown();
            tokio::select! { _ = term.recv() => {}, _ = interrupt.recv() => {} }
            tracing::warn!("second signal: exiting without finishing");
            std::process::exit(1);
        });
        Ok(())
    }

    /// Goes through the shutdown. When it returns, no request is running and every connection is closed.
    pub async fn shutdown(&self) {
        let Inner { options, requests, connections, .. } = &*self.0;
        self.0.requested.cancel();
        self.0.not_ready.cancel();
        tracing::info!(delay = ?options.delay, "readyz fails from now on");
        tokio::time::sleep(options.delay).await;
        if options.retry_after {
            self.0.refuse_requests.cancel();
            self.drain_requests().await;
        }
        self.0.stopped_listening.cancel();
        tracing::info!(requests = requests.len(), connections = connections.len(), "stopped listening");
        self.drain_requests().await;
        self.0.end_streams.cancel();
        connections.close();
        if timeout(options.stream_grace + LAST_WORDS, connections.wait()).await.is_err() {
            tracing::warn!(connections = connections.len(), "closing connections that are still busy");
        }
        self.0.close_connections.cancel();
        connections.wait().await;
        tracing::info!("all connections are closed");
    }

    async fn drain_requests(&self) {
        self.0.requests.close();
        if timeout(self.0.options.drain, self.0.requests.wait()).await.is_err() {
            tracing::warn!(requests = self.0.requests.len(), "requests are still running after the drain time");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_phases_come_in_order_and_wait_for_requests_and_connections() {
        let lifecycle = Lifecycle::new(ShutdownOptions { delay: Duration::from_secs(5), ..Default::default() });
        let request = lifecycle.track_request();
        let connection = lifecycle.track_connection();
        let shutdown = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.shutdown().await }
        });
        lifecycle.not_ready().cancelled().await;
        assert!(!lifecycle.stopped_listening().is_cancelled(), "the delay comes first");
        lifecycle.stopped_listening().cancelled().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!lifecycle.end_streams().is_cancelled(), "a request is still running");
        drop(request);
        lifecycle.end_streams().cancelled().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!shutdown.is_finished(), "a connection is still open");
        drop(connection);
        shutdown.await.expect("the shutdown ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_and_a_connection_that_hangs_do_not_hold_the_shutdown_for_ever() {
        let lifecycle = Lifecycle::new(ShutdownOptions { drain: Duration::from_secs(3), ..Default::default() });
        let _request = lifecycle.track_request();
        let guard = lifecycle.track_connection();
        tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move {
                let _guard = guard;
                lifecycle.close_connections().cancelled().await;
            }
        });
        let start = tokio::time::Instant::now();
        lifecycle.shutdown().await;
        assert_eq!(start.elapsed().as_secs(), 3 + LAST_WORDS.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn with_retry_after_the_port_stays_open_while_requests_drain() {
        let lifecycle = Lifecycle::new(ShutdownOptions { retry_after: true, ..Default::default() });
        let request = lifecycle.track_request();
        let shutdown = tokio::spawn({
            let lifecycle = lifecycle.clone();
            async move { lifecycle.shutdown().await }
        });
        lifecycle.refuse_requests().cancelled().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!lifecycle.stopped_listening().is_cancelled());
        drop(request);
        shutdown.await.expect("the shutdown ends");
    }

    #[tokio::test(start_paused = true)]
    async fn streams_end_spread_over_the_grace_period() {
        let grace = Duration::from_secs(10);
        let lifecycle = Lifecycle::new(ShutdownOptions { stream_grace: grace, ..Default::default() });
        let streams: Vec<_> = (0..100).map(|_| tokio::spawn(lifecycle.stream_end())).collect();
        lifecycle.end_streams().cancel();
        tokio::time::sleep(grace / 2).await;
        let ended = streams.iter().filter(|stream| stream.is_finished()).count();
        assert!((40..=60).contains(&ended), "{ended} of 100 ended in the first half");
        tokio::time::sleep(grace / 2).await;
        assert!(streams.iter().all(tokio::task::JoinHandle::is_finished));
    }
}
