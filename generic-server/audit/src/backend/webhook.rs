//! The webhook: lists of events are sent to somebody else's server, and again if that fails, with growing pauses.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot, watch};

use super::batch::Sink;
use crate::{ack::Ack, event::encode, metrics::Metrics};

const PLUGIN: &str = "webhook";
/// How often a list is sent at most.
const MAX_ATTEMPTS: u32 = 5;
/// Each pause is so many times the one before, and up to a part of itself longer.
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// Batches that are under way at once.
const BATCHES: usize = 32;
/// Events that requests wait for at once.
const EVENTS: usize = 1024;

/// Sends a list of events.
#[async_trait]
pub trait Deliver: Send + Sync {
    /// Sends it once, within a time of its own.
    ///
    /// # Errors
    /// It was not taken.
    async fn deliver(&self, list: Bytes) -> Result<(), DeliveryError>;
}

/// Why a list of events was not taken: what whoever sends it says.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct DeliveryError(pub Box<dyn std::error::Error + Send + Sync>);

/// A webhook.
#[derive(Clone)]
pub struct Webhook {
    client: Arc<dyn Deliver>,
    backoff: Duration,
    metrics: Metrics,
    /// Room for events that requests wait for.
    room: Arc<Semaphore>,
    /// Whether the server ends: nothing is tried again then.
    ends: Arc<watch::Sender<bool>>,
}

impl Webhook {
    /// A webhook; `backoff`: the first pause after a failure.
    pub fn new(client: Arc<dyn Deliver>, backoff: Duration, metrics: &Metrics) -> Self {
        let ends = Arc::new(watch::Sender::new(false));
        Webhook { client, backoff, metrics: metrics.clone(), room: Arc::new(Semaphore::new(EVENTS)), ends }
    }

    /// Sends one event by itself.
    pub(super) fn push(&self, line: Bytes) -> Ack {
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            self.metrics.lost(PLUGIN, 1, "too many events wait for the webhook");
            return Ack::taken(false);
        };
        let (sender, receiver) = oneshot::channel();
        let webhook = self.clone();
        tokio::spawn(async move {
            let taken = webhook.send(&[line]).await;
            let _ = sender.send(taken); // whoever waited may have gone
            drop(room);
        });
        Ack::waiting(receiver)
    }

    /// Sends a list until it is taken.
    async fn send(&self, lines: &[Bytes]) -> bool {
        let list = encode::list(lines.iter());
        let mut ends = self.ends.subscribe();
        let mut pause = self.backoff;
        for attempt in 1.. {
            let Err(why) = self.client.deliver(list.clone()).await else { return true };
            if attempt == MAX_ATTEMPTS || *ends.borrow_and_update() {
                self.metrics.lost(PLUGIN, lines.len(), &why.to_string());
                break;
            }
            tracing::debug!(attempt, error = why.0, "the audit webhook has failed");
            let jitter = f64::from(uuid::Uuid::new_v4().as_u64_pair().0 as u32) / f64::from(u32::MAX) * JITTER;
            tokio::select! {
                () = tokio::time::sleep(pause.mul_f64(1.0 + jitter)) => {}
                // The last attempt is made at once.
                _ = ends.changed() => {}
            }
            pause = pause.mul_f64(FACTOR);
        }
        false
    }

    /// Tries nothing again from now on but once.
    pub(super) fn hurry(&self) {
        self.ends.send_replace(true);
    }

    /// Waits for the events that requests waited for.
    pub(super) async fn finish(&self) {
        let _ = self.room.acquire_many(EVENTS as u32).await;
    }
}

#[async_trait]
impl Sink for Webhook {
    async fn take(&self, batch: Vec<Bytes>) {
        self.send(&batch).await;
    }

    fn at_once(&self) -> usize {
        BATCHES
    }
}
