//! Elections: one leader of a name at a time, which tells a value, as long as its lease lives.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use super::{Context, Streamed, stream_of, turns::Queue};
use crate::{
    error::Refusal,
    proto::{
        KeyValue, ResponseHeader,
        v3electionpb::{
            CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
            ProclaimResponse, ResignRequest, ResignResponse, election_server,
        },
    },
    window::is_delete,
};

/// Leaders that may wait for a client that observes.
const WAITING: usize = 16;

/// See the module.
#[derive(Clone)]
pub(crate) struct Election(pub(crate) Arc<Context>);

/// Who says that it leads.
fn leader(given: Option<LeaderKey>) -> Result<LeaderKey, Status> {
    given.ok_or_else(|| Status::unknown("\"leader\" field must be provided"))
}

#[tonic::async_trait]
impl election_server::Election for Election {
    async fn campaign(&self, request: Request<CampaignRequest>) -> Result<Response<CampaignResponse>, Status> {
        let CampaignRequest { name, lease, value } = request.into_inner();
        let queue = Queue::new(&self.0, &name);
        let place = queue.enter(lease, value.clone()).await?;
        if place.before.as_ref().is_some_and(|before| before.value != value)
            && queue.put(&place.key, place.revision, place.lease, value).await?.is_none()
        {
            return Err(Status::unknown("election: not leader"));
        }
        queue.turn(&place).await?;
        let header = Some(self.0.database.header());
        let leader = LeaderKey { name, key: place.key, rev: place.revision, lease: place.lease };
        Ok(Response::new(CampaignResponse { header, leader: Some(leader) }))
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> Result<Response<ProclaimResponse>, Status> {
        let ProclaimRequest { leader: given, value } = request.into_inner();
        let LeaderKey { name, key, rev, lease } = leader(given)?;
        match Queue::new(&self.0, &name).put(&key, rev, lease, value).await? {
            Some(header) => Ok(Response::new(ProclaimResponse { header: Some(header) })),
            None => Err(Status::unknown("election: not leader")),
        }
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        match Queue::new(&self.0, &request.into_inner().name).first().await? {
            (header, Some(kv)) => Ok(Response::new(LeaderResponse { header, kv: Some(kv) })),
            (_, None) => Err(Status::unknown("election: no leader")),
        }
    }

    type ObserveStream = Streamed<LeaderResponse>;

    async fn observe(&self, request: Request<LeaderRequest>) -> Result<Response<Self::ObserveStream>, Status> {
        let queue = Queue::new(&self.0, &request.into_inner().name);
        let (send, leaders) = mpsc::channel(WAITING);
        let context = self.0.clone();
        tokio::spawn(async move {
            let observe = observe(&context, &queue, &send);
            let observed = tokio::select! {
                observed = observe => observed,
                () = context.stopped.cancelled() => Err(Refusal::Stopped.into()),
                () = send.closed() => return,
            };
            if let Err(status) = observed {
                // Whoever observes may be gone.
                let _ = send.send(Err(status)).await;
            }
        });
        Ok(Response::new(stream_of(leaders)))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        let LeaderKey { name, key, rev, .. } = leader(request.into_inner().leader)?;
        let header = Queue::new(&self.0, &name).leave(&key, rev).await?;
        Ok(Response::new(ResignResponse { header }))
    }
}

type Leaders = mpsc::Sender<Result<LeaderResponse, Status>>;

/// Tells each leader, and each value that it proclaims.
async fn observe(context: &Context, queue: &Queue, send: &Leaders) -> Result<(), Status> {
    let tell = async |header: Option<ResponseHeader>, kv: KeyValue| {
        send.send(Ok(LeaderResponse { header, kv: Some(kv) })).await.map_err(|_| Status::cancelled("nobody observes"))
    };
    let mut told = 0;
    loop {
        let mut newest = context.database.window().newest();
        let (header, found) = queue.first().await?;
        let mut seen = header.as_ref().map_or(0, |header| header.revision);
        let leader: Option<Bytes> = found.as_ref().map(|kv| kv.key.clone());
        if let Some(kv) = found.filter(|kv| kv.mod_revision > told) {
            told = kv.mod_revision;
            tell(header, kv).await?;
        }
        // Until another one leads: the leader's key is gone, or there is a first one.
        'same: while let Ok(groups) = context.database.window().after(seen) {
            for group in groups {
                seen = group.revision;
                for event in &group.events {
                    let Some(kv) = event.kv.as_ref() else { continue };
                    match &leader {
                        None if queue.has(&kv.key) => break 'same,
                        Some(leader) if *leader == kv.key && is_delete(event) => break 'same,
                        Some(leader) if *leader == kv.key => {
                            told = kv.mod_revision;
                            tell(Some(context.database.header_at(group.revision)), kv.clone()).await?;
                        }
                        _ => {}
                    }
                }
            }
            newest.changed().await.map_err(|_| Refusal::Stopped)?;
        }
    }
}
