//! Leases.

use std::sync::Arc;

use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

use super::{Context, Streamed, stream_of};
use crate::proto::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse, lease_server,
};

/// Answers that may wait for a client that keeps leases alive.
const WAITING: usize = 16;

/// See the module.
#[derive(Clone)]
pub(crate) struct Lease(pub(crate) Arc<Context>);

#[tonic::async_trait]
impl lease_server::Lease for Lease {
    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Result<Response<LeaseGrantResponse>, Status> {
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        let (id, ttl) = self.0.database.grant(id, ttl).await?;
        let header = Some(self.0.database.header());
        Ok(Response::new(LeaseGrantResponse { header, id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let revision = self.0.database.revoke(request.into_inner().id).await?;
        Ok(Response::new(LeaseRevokeResponse { header: Some(self.0.database.header_at(revision)) }))
    }

    type LeaseKeepAliveStream = Streamed<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (context, mut requests) = (self.0.clone(), request.into_inner());
        let (send, responses) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let stopped = context.stopped.clone();
            let serve = async {
                while let Ok(Some(LeaseKeepAliveRequest { id })) = requests.message().await {
                    let ttl = context.database.keep_alive(id);
                    let header = Some(context.database.header());
                    if send.send(Ok(LeaseKeepAliveResponse { header, id, ttl })).await.is_err() {
                        break;
                    }
                }
            };
            // What is cut off is begun again elsewhere.
            let _ = stopped.run_until_cancelled(serve).await;
        });
        Ok(Response::new(stream_of(responses)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let header = Some(self.0.database.header());
        let response = match self.0.database.remaining(id, keys) {
            Some(left) => {
                LeaseTimeToLiveResponse { header, id, ttl: left.ttl, granted_ttl: left.granted, keys: left.keys }
            }
            None => LeaseTimeToLiveResponse { header, id, ttl: -1, ..LeaseTimeToLiveResponse::default() },
        };
        Ok(Response::new(response))
    }

    async fn lease_leases(
        &self,
        _request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let leases = self.0.database.leases().into_iter().map(|id| LeaseStatus { id }).collect();
        Ok(Response::new(LeaseLeasesResponse { header: Some(self.0.database.header()), leases }))
    }
}
