//! Watches.

use std::sync::Arc;

use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::{Context, Streamed, stream_of};
use crate::{
    proto::{WatchRequest, WatchResponse, watch_server},
    watch::Stream,
};

/// Responses that may wait for a client.
const WAITING: usize = 4;

/// See the module.
#[derive(Clone)]
pub(crate) struct Watch(pub(crate) Arc<Context>);

#[tonic::async_trait]
impl watch_server::Watch for Watch {
    type WatchStream = Streamed<WatchResponse>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        let (send, responses) = mpsc::channel(WAITING);
        let stream = Stream::new(self.0.database.clone(), send, self.0.progress_interval);
        let (requests, stopped, open) = (request.into_inner(), self.0.stopped.clone(), self.0.metrics.streams.clone());
        tokio::spawn(async move {
            open.inc();
            stream.run(requests, stopped).await;
            open.dec();
        });
        Ok(Response::new(stream_of(responses)))
    }
}
