//! The cluster, which has one member.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::Context;
use crate::{
    error::Refusal,
    proto::{
        Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
        MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse,
        cluster_server,
    },
};

/// See the module.
#[derive(Clone)]
pub(crate) struct Cluster(pub(crate) Arc<Context>);

impl Cluster {
    /// Why this member cannot be changed, or another one.
    fn refuse<T>(&self, id: u64) -> Result<T, Status> {
        let own = self.0.database.header().member_id;
        Err(if id == own { Refusal::OneMember } else { Refusal::MemberNotFound }.into())
    }
}

#[tonic::async_trait]
impl cluster_server::Cluster for Cluster {
    async fn member_add(&self, _request: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        Err(Refusal::OneMember.into())
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        self.refuse(request.into_inner().id)
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        self.refuse(request.into_inner().id)
    }

    async fn member_list(&self, _request: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        let header = self.0.database.header();
        let identity = &self.0.identity;
        let member = Member {
            id: header.member_id,
            name: identity.name.clone(),
            peer_urls: identity.peer_urls.clone(),
            client_urls: identity.client_urls.clone(),
            is_learner: false,
        };
        Ok(Response::new(MemberListResponse { header: Some(header), members: vec![member] }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        self.refuse(request.into_inner().id)
    }
}
