//! The services of etcd's API, each in a file.

mod cluster;
mod election;
mod kv;
mod lease;
mod lock;
mod maintenance;
mod turns;
mod watch;

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::Stream;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub(crate) use cluster::Cluster;
pub(crate) use election::Election;
pub(crate) use kv::Kv;
pub(crate) use lease::Lease;
pub(crate) use lock::Lock;
pub(crate) use maintenance::Maintenance;
pub(crate) use watch::Watch;

use crate::{database::Database, metrics::Metrics};

/// How the one member calls itself.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// `--name`.
    pub(crate) name: String,
    /// `--initial-advertise-peer-urls`.
    pub(crate) peer_urls: Vec<String>,
    /// `--advertise-client-urls`.
    pub(crate) client_urls: Vec<String>,
}

/// What all services share.
pub(crate) struct Context {
    pub(crate) database: Arc<Database>,
    pub(crate) identity: Identity,
    /// How often a quiet watch that asked for it is told how far it is.
    pub(crate) progress_interval: Duration,
    pub(crate) metrics: Metrics,
    /// The server stops.
    pub(crate) stopped: CancellationToken,
}

/// Responses of a stream.
pub(crate) type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What comes out of a channel.
fn stream_of<T: Send + 'static>(receiver: mpsc::Receiver<Result<T, Status>>) -> Streamed<T> {
    Box::pin(futures_util::stream::unfold(receiver, async |mut receiver| {
        receiver.recv().await.map(|item| (item, receiver))
    }))
}
