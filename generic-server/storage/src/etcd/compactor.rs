//! Compaction of etcd's history by one of several API servers, as upstream's: all count the same key's versions, and
//! only the one that moves the count compacts.

use std::{sync::Weak, time::Duration};

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnOpResponse};

use super::{
    Shared,
    convert::{Failure, revision_of},
};
use crate::{Error, Revision};

/// Holds the revision of the last compaction; its version is the logical time.
const KEY: &str = "compact_rev_key";

/// Compacts every `interval` to the revision of the interval before, until the store is closed.
pub(super) async fn run(shared: Weak<Shared>, interval: Duration) {
    let (mut time, mut revision) = (0, 0);
    loop {
        let Some(closed) = shared.upgrade().map(|shared| shared.closed.clone()) else { return };
        tokio::select! {
            () = closed.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let Some(shared) = shared.upgrade() else { return };
        match tick(&shared, time, revision).await {
            Ok(next) => (time, revision) = next,
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(%error, "etcd could not be compacted"),
        }
    }
}

/// Moves the logical time on, and compacts if no other server did first; returns the time and etcd's revision.
pub(super) async fn tick(shared: &Shared, time: i64, revision: Revision) -> Result<(i64, Revision), Error> {
    let txn = Txn::new()
        .when([Compare::version(KEY, CompareOp::Equal, time)])
        .and_then([TxnOp::put(KEY, revision.to_string(), None)])
        .or_else([TxnOp::get(KEY, None)]);
    let answer = shared.call(false, || {
        let (mut kv, txn) = (shared.kv.clone(), txn.clone());
        async move { kv.txn(txn).await }
    });
    let answer = answer.await?;
    let now = revision_of(answer.header());
    if !answer.succeeded() {
        let version = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(get) => get.kvs().first().map(etcd_client::KeyValue::version),
            _ => None,
        });
        return Ok((version.unwrap_or(0), now));
    }
    if revision > 0 {
        let done = shared.call(true, || {
            let mut kv = shared.kv.clone();
            async move { kv.compact(revision as i64, None).await }
        });
        match done.await {
            Ok(_) | Err(Failure { error: None, compacted: true, .. }) => {
                tracing::debug!(revision, "etcd is compacted");
            }
            Err(failed) => return Err(failed.into()),
        }
    }
    Ok((time + 1, now))
}
