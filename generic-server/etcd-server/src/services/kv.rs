//! Keys: reads, writes, transactions, compaction.

use std::sync::Arc;

use prost::Message;
use tonic::{Request, Response, Status};

use super::Context;
use crate::{
    error::Refusal,
    proto::{
        CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
        RangeRequest, RangeResponse, ResponseHeader, TxnRequest, TxnResponse, kv_server,
        response_op::Response as Answer,
    },
    txn,
};

/// See the module.
#[derive(Clone)]
pub(crate) struct Kv(pub(crate) Arc<Context>);

impl Kv {
    /// The whole header, with the revision of what the request has found.
    fn whole(&self, header: Option<ResponseHeader>) -> Option<ResponseHeader> {
        header.map(|header| self.0.database.header_at(header.revision))
    }

    /// Does a request that may write, if it is not too large.
    async fn apply(&self, request: txn::Request, bytes: usize) -> Result<Answer, Refusal> {
        if bytes > self.0.database.limits().request_bytes {
            return Err(Refusal::RequestTooLarge);
        }
        self.0.database.apply(request, bytes).await
    }
}

#[tonic::async_trait]
impl kv_server::Kv for Kv {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        txn::check_range(&request)?;
        let mut response = self.0.database.range(request).await?;
        response.header = self.whole(response.header);
        Ok(Response::new(response))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let request = request.into_inner();
        txn::check_put(&request)?;
        let bytes = request.encoded_len();
        match self.apply(txn::Request::Put(request), bytes).await? {
            Answer::Put(mut response) => {
                response.header = self.whole(response.header);
                Ok(Response::new(response))
            }
            _ => unreachable!("a put is answered by a put"),
        }
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let request = request.into_inner();
        txn::check_delete(&request)?;
        let bytes = request.encoded_len();
        match self.apply(txn::Request::DeleteRange(request), bytes).await? {
            Answer::DeleteRange(mut response) => {
                response.header = self.whole(response.header);
                Ok(Response::new(response))
            }
            _ => unreachable!("a delete is answered by a delete"),
        }
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let request = request.into_inner();
        txn::check_txn(&request, self.0.database.limits().txn_ops)?;
        let mut response = if txn::is_read_only(&request) {
            self.0.database.read_txn(request).await?
        } else {
            let bytes = request.encoded_len();
            match self.apply(txn::Request::Txn(request), bytes).await? {
                Answer::Txn(response) => response,
                _ => unreachable!("a transaction is answered by a transaction"),
            }
        };
        response.header = self.whole(response.header);
        Ok(Response::new(response))
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        let revision = self.0.database.compact(request.into_inner().revision).await?;
        let header = Some(self.0.database.header_at(revision));
        Ok(Response::new(CompactionResponse { header }))
    }
}
