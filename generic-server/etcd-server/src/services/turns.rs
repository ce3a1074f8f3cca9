//! Turns, as etcd's locks and elections have them: keys with a common prefix, each of a lease, and the one that was created
//! first has its turn. Clients that do the same themselves (etcdctl, clientv3/concurrency) stand in the same queues.

use std::sync::Arc;

use bytes::Bytes;
use tonic::{Request, Status};

use super::{Context, Kv};
use crate::{
    error::Refusal,
    proto::{
        Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest,
        TxnResponse,
        compare::{CompareResult, CompareTarget, TargetUnion},
        kv_server::Kv as _,
        range_request::{SortOrder, SortTarget},
        request_op, response_op,
    },
    window::is_delete,
};

/// How long a lease lasts that is granted for a call, in seconds.
const TTL: i64 = 60;

/// A queue.
#[derive(Clone)]
pub(crate) struct Queue {
    context: Arc<Context>,
    /// What its keys start with.
    prefix: Bytes,
}

/// A place in a queue.
pub(crate) struct Place {
    pub(crate) key: Bytes,
    /// The revision that created its key.
    pub(crate) revision: i64,
    pub(crate) lease: i64,
    /// What was there already, under the same lease.
    pub(crate) before: Option<KeyValue>,
}

/// Leaves the queue if whoever waits goes away.
struct Leaving {
    queue: Queue,
    place: Option<(Bytes, i64)>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let Some((key, revision)) = self.place.take() else { return };
        let queue = self.queue.clone();
        let leave = async move {
            // If that fails, the lease ends it.
            let _ = queue.leave(&key, revision).await;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(leave);
        }
    }
}

/// The key as it was created: a comparison that holds as long as it is the same one.
fn created_at(key: &Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Create as i32,
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..Compare::default()
    }
}

fn op(request: request_op::Request) -> Vec<RequestOp> {
    vec![RequestOp { request: Some(request) }]
}

impl Queue {
    /// The queue of this name.
    pub(crate) fn new(context: &Arc<Context>, name: &Bytes) -> Queue {
        Queue { context: context.clone(), prefix: [&name[..], b"/"].concat().into() }
    }

    /// Whether a key is one of its places.
    pub(crate) fn has(&self, key: &Bytes) -> bool {
        key.starts_with(&self.prefix)
    }

    fn kv(&self) -> Kv {
        Kv(self.context.clone())
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        Ok(self.kv().txn(Request::new(request)).await?.into_inner())
    }

    /// Takes a place with a value, under a lease (0: one that is granted now), or finds the one that the lease has.
    pub(crate) async fn enter(&self, lease: i64, value: Bytes) -> Result<Place, Status> {
        let lease = match lease {
            0 => self.context.database.grant(0, TTL).await?.0,
            lease => lease,
        };
        let key = Bytes::from([&self.prefix[..], format!("{lease:x}").as_bytes()].concat());
        let put = PutRequest { key: key.clone(), value, lease, ..PutRequest::default() };
        let get = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![created_at(&key, 0)],
            success: op(request_op::Request::Put(put)),
            failure: op(request_op::Request::Range(get)),
        };
        let response = self.txn(request).await?;
        let found = response.responses.into_iter().next().and_then(|response| response.response);
        let before = match found {
            Some(response_op::Response::Range(range)) => range.kvs.into_iter().next(),
            _ => None,
        };
        let now = response.header.map_or(0, |header| header.revision);
        let revision = before.as_ref().map_or(now, |before| before.create_revision);
        Ok(Place { key, revision, lease, before })
    }

    /// Waits until nobody is before a place. Whoever stops to wait leaves the queue.
    pub(crate) async fn turn(&self, place: &Place) -> Result<(), Status> {
        let mut leaving = Leaving { queue: self.clone(), place: Some((place.key.clone(), place.revision)) };
        let stopped = self.context.stopped.clone();
        let waited = stopped.run_until_cancelled(self.wait(place.revision)).await;
        let waited = waited.unwrap_or_else(|| Err(Refusal::Stopped.into()));
        if waited.is_ok() {
            leaving.place = None;
        }
        waited
    }

    async fn wait(&self, revision: i64) -> Result<(), Status> {
        loop {
            let mut newest = self.context.database.window().newest();
            let before = RangeRequest {
                sort_order: SortOrder::Descend as i32,
                max_create_revision: revision - 1,
                keys_only: true,
                ..self.by_creation()
            };
            let response = self.kv().range(Request::new(before)).await?.into_inner();
            let Some(before) = response.kvs.into_iter().next() else { return Ok(()) };
            let mut seen = response.header.map_or(0, |header| header.revision);
            // Until that one has gone, or so much has happened meanwhile that it must be looked for again.
            while let Ok(groups) = self.context.database.window().after(seen) {
                let gone = groups
                    .iter()
                    .flat_map(|group| &group.events)
                    .any(|event| is_delete(event) && event.kv.as_ref().is_some_and(|kv| kv.key == before.key));
                if gone {
                    break;
                }
                seen = groups.last().map_or(seen, |group| group.revision);
                newest.changed().await.map_err(|_| Refusal::Stopped)?;
            }
        }
    }

    fn by_creation(&self) -> RangeRequest {
        let mut range_end = self.prefix.to_vec();
        if let Some(last) = range_end.last_mut() {
            // A slash.
            *last += 1;
        }
        RangeRequest {
            key: self.prefix.clone(),
            range_end: range_end.into(),
            limit: 1,
            sort_target: SortTarget::Create as i32,
            sort_order: SortOrder::Ascend as i32,
            ..RangeRequest::default()
        }
    }

    /// Whose turn it is.
    pub(crate) async fn first(&self) -> Result<(Option<ResponseHeader>, Option<KeyValue>), Status> {
        let response = self.kv().range(Request::new(self.by_creation())).await?.into_inner();
        Ok((response.header, response.kvs.into_iter().next()))
    }

    /// The key of a place, if it is still there.
    pub(crate) async fn get(&self, key: &Bytes) -> Result<(Option<ResponseHeader>, Option<KeyValue>), Status> {
        let request = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let response = self.kv().range(Request::new(request)).await?.into_inner();
        Ok((response.header, response.kvs.into_iter().next()))
    }

    /// Sets the value of a place, if it is still there; `None` if not.
    pub(crate) async fn put(
        &self,
        key: &Bytes,
        revision: i64,
        lease: i64,
        value: Bytes,
    ) -> Result<Option<ResponseHeader>, Status> {
        let put = PutRequest { key: key.clone(), value, lease, ..PutRequest::default() };
        let request = TxnRequest {
            compare: vec![created_at(key, revision)],
            success: op(request_op::Request::Put(put)),
            failure: Vec::new(),
        };
        let response = self.txn(request).await?;
        Ok(response.header.filter(|_| response.succeeded))
    }

    /// Gives a place up, if it is still there.
    pub(crate) async fn leave(&self, key: &Bytes, revision: i64) -> Result<Option<ResponseHeader>, Status> {
        let delete = DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() };
        let request = TxnRequest {
            compare: vec![created_at(key, revision)],
            success: op(request_op::Request::DeleteRange(delete)),
            failure: Vec::new(),
        };
        Ok(self.txn(request).await?.header)
    }
}
