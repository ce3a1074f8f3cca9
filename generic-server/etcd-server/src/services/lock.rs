//! Locks: one holder of a name at a time, as long as its lease lives.

use std::sync::Arc;

use bytes::Bytes;
use tonic::{Request, Response, Status};

use super::{Context, Kv, turns::Queue};
use crate::proto::{
    DeleteRangeRequest,
    kv_server::Kv as _,
    v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server},
};

/// See the module.
#[derive(Clone)]
pub(crate) struct Lock(pub(crate) Arc<Context>);

#[tonic::async_trait]
impl lock_server::Lock for Lock {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let LockRequest { name, lease } = request.into_inner();
        let queue = Queue::new(&self.0, &name);
        let place = queue.enter(lease, Bytes::new()).await?;
        queue.turn(&place).await?;
        // The lease may have ended while it waited.
        let (header, found) = queue.get(&place.key).await?;
        match found {
            Some(found) if found.create_revision == place.revision => {
                Ok(Response::new(LockResponse { header, key: place.key }))
            }
            _ => Err(Status::unknown("mutex: session is expired")),
        }
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        let delete = DeleteRangeRequest { key: request.into_inner().key, ..DeleteRangeRequest::default() };
        let header = Kv(self.0.clone()).delete_range(Request::new(delete)).await?.into_inner().header;
        Ok(Response::new(UnlockResponse { header }))
    }
}
