//! The Maintenance service: status, alarms, checksums, snapshots.

use std::sync::Arc;

use bytes::Bytes;
use storage::embedded::Snapshot;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use super::{Streamed, stream_of};
use crate::{
    CLUSTER_VERSION, VERSION,
    error::Refusal,
    proto::{
        AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse, HashKvRequest,
        HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest,
        SnapshotResponse, StatusRequest, StatusResponse, alarm_request::AlarmAction, maintenance_server,
    },
};

/// Pieces of a snapshot that may wait for the client.
const WAITING: usize = 4;

/// See the module.
#[derive(Clone)]
pub(crate) struct Maintenance(pub(crate) Arc<super::Context>);

impl Maintenance {
    fn alarm_members(&self) -> Vec<AlarmMember> {
        let member_id = self.0.database.header().member_id;
        self.0.database.alarms().into_iter().map(|alarm| AlarmMember { member_id, alarm }).collect()
    }

    async fn deactivate(&self, alarm: AlarmType) -> Result<Vec<AlarmMember>, Refusal> {
        let member_id = self.0.database.header().member_id;
        let mut done = Vec::new();
        for raised in self.0.database.alarms() {
            if alarm == AlarmType::None || raised == alarm as i32 {
                self.0.database.set_alarm(raised, false).await?;
                done.push(AlarmMember { member_id, alarm: raised });
            }
        }
        Ok(done)
    }
}

/// Hands on the pieces of a snapshot, each with how many bytes follow, as long as they are taken. Its size and its end are what
/// clients expect: 32 bytes more than a multiple of 512, the SHA-256.
fn send_pieces(mut snapshot: Snapshot, mut take: impl FnMut(Bytes, u64) -> bool) -> Result<(), storage::Error> {
    let mut left = snapshot.size();
    while let Some(piece) = snapshot.next_piece()? {
        left = left.saturating_sub(piece.len() as u64);
        if !take(piece, left) {
            break;
        }
    }
    Ok(())
}

#[tonic::async_trait]
impl maintenance_server::Maintenance for Maintenance {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        let own = self.0.database.header().member_id;
        let is_own = request.member_id == 0 || request.member_id == own;
        let alarm = request.alarm();
        let alarms = match request.action() {
            AlarmAction::Get => {
                let all = self.alarm_members().into_iter();
                all.filter(|raised| alarm == AlarmType::None || raised.alarm == alarm as i32).collect()
            }
            _ if !is_own => Vec::new(),
            AlarmAction::Activate if alarm != AlarmType::None => {
                self.0.database.set_alarm(alarm as i32, true).await?;
                vec![AlarmMember { member_id: own, alarm: alarm as i32 }]
            }
            AlarmAction::Activate => Vec::new(),
            AlarmAction::Deactivate => self.deactivate(alarm).await?,
        };
        Ok(Response::new(AlarmResponse { header: Some(self.0.database.header()), alarms }))
    }

    async fn status(&self, _request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let header = self.0.database.header();
        let (size, index) = (self.0.database.size().await? as i64, self.0.database.index());
        let alarm = |raised: AlarmMember| {
            let name = AlarmType::try_from(raised.alarm).unwrap_or_default().as_str_name();
            format!("memberID:{} alarm:{name} ", raised.member_id)
        };
        Ok(Response::new(StatusResponse {
            version: VERSION.to_owned(),
            db_size: size,
            db_size_in_use: size,
            leader: header.member_id,
            raft_index: index,
            raft_applied_index: index,
            raft_term: header.raft_term,
            errors: self.alarm_members().into_iter().map(alarm).collect(),
            is_learner: false,
            storage_version: CLUSTER_VERSION.to_owned(),
            db_size_quota: self.0.database.limits().quota as i64,
            header: Some(header),
        }))
    }

    async fn defragment(&self, _request: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        self.0.database.defragment().await?;
        Ok(Response::new(DefragmentResponse { header: Some(self.0.database.header()) }))
    }

    async fn hash(&self, _request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let (hash, revision) = self.0.database.hash(0).await?;
        Ok(Response::new(HashResponse { header: Some(self.0.database.header_at(revision)), hash }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let (hash, hash_revision) = self.0.database.hash(request.into_inner().revision).await?;
        let (header, compact_revision) = (Some(self.0.database.header()), self.0.database.compacted());
        Ok(Response::new(HashKvResponse { header, hash, compact_revision, hash_revision }))
    }

    type SnapshotStream = Streamed<SnapshotResponse>;

    async fn snapshot(&self, _request: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        let snapshot = self.0.database.snapshot().await?;
        let header = self.0.database.header();
        let (send, pieces) = mpsc::channel(WAITING);
        tokio::task::spawn_blocking(move || {
            let told = |error: storage::Error| Status::unavailable(format!("the snapshot cannot be read: {error}"));
            // Whoever does not take a piece is gone.
            let sent = send_pieces(snapshot, |blob, remaining_bytes| {
                let response =
                    SnapshotResponse { header: Some(header), remaining_bytes, blob, version: VERSION.into() };
                send.blocking_send(Ok(response)).is_ok()
            });
            if let Err(error) = sent {
                let _ = send.blocking_send(Err(told(error)));
            }
        });
        Ok(Response::new(stream_of(pieces)))
    }

    async fn move_leader(&self, request: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        let header = self.0.database.header();
        // The one member is the leader already.
        if request.into_inner().target_id != header.member_id {
            return Err(Refusal::BadTransferee.into());
        }
        Ok(Response::new(MoveLeaderResponse { header: Some(header) }))
    }
}
