//! Batch mode: events wait in a queue that is bounded by events and by bytes, and go out in batches, beside the requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::JoinHandle,
    time::Instant,
};

use super::{MAX_WAITING, throttle::Throttle};
use crate::metrics::Metrics;

/// The plugin that upstream counts what finds no room under.
const PLUGIN: &str = "buffered";

/// How events are gathered.
#[derive(Clone, Debug, PartialEq)]
pub struct Batching {
    /// Events that wait at most.
    pub buffer: usize,
    /// Events of a batch at most.
    pub max_size: usize,
    /// How long a batch waits to fill.
    pub max_wait: Duration,
    /// Batches per second, and at once.
    pub throttle: Option<(f64, u64)>,
}

/// Takes batches.
#[async_trait]
pub(super) trait Sink: Send + Sync {
    /// Delivers one, as far as that can be done; counts what is lost.
    async fn take(&self, batch: Vec<Bytes>);

    /// How many batches may be under way at once.
    fn at_once(&self) -> usize;
}

/// The queue of a backend.
pub(super) struct Batches {
    queue: mpsc::Sender<Held>,
    waiting: Arc<AtomicUsize>,
    closing: Arc<Notify>,
    worker: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    metrics: Metrics,
}

/// An event that waits, and its share of the bytes that may.
struct Held {
    line: Bytes,
    waiting: Arc<AtomicUsize>,
}

impl Held {
    fn of(line: Bytes, waiting: &Arc<AtomicUsize>) -> Result<Self, Bytes> {
        let size = line.len();
        let before = waiting.fetch_add(size, Relaxed);
        let held = Held { line, waiting: waiting.clone() };
        // One alone may be larger than everything.
        if before > 0 && before + size > MAX_WAITING { Err(held.line.clone()) } else { Ok(held) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.line.len(), Relaxed);
    }
}

impl Batches {
    pub(super) fn start(batching: Batching, max_bytes: usize, sink: Arc<dyn Sink>, metrics: Metrics) -> Self {
        let (queue, events) = mpsc::channel(batching.buffer.max(1));
        let closing = Arc::new(Notify::new());
        let throttle = batching.throttle.map(|(per_second, burst)| Throttle::new(per_second, burst));
        let slots = Arc::new(Semaphore::new(sink.at_once()));
        let worker =
            Worker { batching, max_bytes, events, left: None, throttle, sink, slots, closing: closing.clone() };
        let worker = tokio::sync::Mutex::new(Some(tokio::spawn(worker.run())));
        Batches { queue, waiting: Arc::default(), closing, worker, metrics }
    }

    pub(super) fn push(&self, line: Bytes) {
        let why = match Held::of(line, &self.waiting).map(|held| self.queue.try_send(held)) {
            Ok(Ok(())) => return,
            Ok(Err(mpsc::error::TrySendError::Closed(_))) => "audit backend shut down",
            Ok(Err(mpsc::error::TrySendError::Full(_))) | Err(_) => "audit buffer queue blocked",
        };
        self.metrics.lost(PLUGIN, 1, why);
    }

    /// Takes no more, and waits until all that was taken is delivered or lost.
    pub(super) async fn close(&self) {
        self.closing.notify_one();
        if let Some(worker) = self.worker.lock().await.take()
            && let Err(error) = worker.await
        {
            tracing::error!(%error, "the queue of an audit backend has ended");
        }
    }
}

struct Worker {
    batching: Batching,
    max_bytes: usize,
    events: mpsc::Receiver<Held>,
    /// What would have made the last batch too large.
    left: Option<Held>,
    throttle: Option<Throttle>,
    sink: Arc<dyn Sink>,
    slots: Arc<Semaphore>,
    closing: Arc<Notify>,
}

impl Worker {
    async fn run(mut self) {
        let most = u32::try_from(self.sink.at_once()).unwrap_or(u32::MAX);
        loop {
            let batch = self.collect().await;
            if batch.is_empty() {
                if self.events.is_closed() && self.events.is_empty() {
                    break;
                }
                continue;
            }
            if let Some(throttle) = self.throttle.as_mut().filter(|_| !self.events.is_closed()) {
                throttle.accept().await;
            }
            // The semaphore is never closed.
            let Ok(slot) = self.slots.clone().acquire_owned().await else { break };
            let sink = self.sink.clone();
            let deliver = async move {
                sink.take(batch.iter().map(|held| held.line.clone()).collect()).await;
                drop((batch, slot));
            };
            if most == 1 { deliver.await } else { drop(tokio::spawn(deliver)) }
        }
        // All slots are free: nothing is under way.
        let _ = self.slots.acquire_many(most).await;
    }

    /// The next batch: full, or what there is when it has waited long enough or there will be no more.
    async fn collect(&mut self) -> Vec<Held> {
        let mut batch: Vec<Held> = self.left.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(|held| held.line.len()).sum();
        let until = Instant::now() + self.batching.max_wait;
        while batch.len() < self.batching.max_size {
            // A batch of one waits for nothing but its event.
            let timed = self.batching.max_size > 1;
            let next = tokio::select! {
                biased;
                next = self.events.recv() => next,
                () = self.closing.notified() => {
                    self.events.close();
                    continue;
                }
                () = tokio::time::sleep_until(until), if timed => None,
            };
            let Some(held) = next else { break };
            if !batch.is_empty() && bytes + held.line.len() > self.max_bytes {
                self.left = Some(held);
                break;
            }
            bytes += held.line.len();
            batch.push(held);
        }
        batch
    }
}
