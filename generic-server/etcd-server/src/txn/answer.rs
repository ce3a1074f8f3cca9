//! What requests have found, and the answers made of it when the values have been read.

use bytes::Bytes;

use super::select::directed;
use crate::{
    error::Refusal,
    proto::{
        DeleteRangeResponse, KeyValue, PutResponse, RangeResponse, ResponseHeader, ResponseOp, TxnResponse,
        response_op::Response,
    },
    record::{Version, value_of},
};

/// The keys that a range request has found.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    /// The newest revision when it was read.
    pub(crate) revision: i64,
    pub(crate) items: Vec<(Bytes, Version)>,
    /// Keys in the range, whatever the limit and the filters.
    pub(crate) count: i64,
    pub(crate) more: bool,
    pub(crate) keys_only: bool,
    /// They are still to be sorted by their values (downwards, if true) and cut at the limit.
    pub(crate) by_value: Option<bool>,
    pub(crate) limit: usize,
}

impl Selected {
    /// Keeps as many as the limit says (0: all).
    pub(crate) fn cut(&mut self) {
        if self.limit > 0 && self.items.len() > self.limit {
            self.items.truncate(self.limit);
            self.more = true;
        }
    }
}

/// What a request has found and done.
#[derive(Debug)]
pub(crate) enum Outcome {
    Range(Selected),
    Put { revision: i64, previous: Option<(Bytes, Version)> },
    DeleteRange { revision: i64, deleted: i64, previous: Vec<(Bytes, Version)> },
    Txn { revision: i64, succeeded: bool, outcomes: Vec<Outcome> },
}

/// Reads the stored forms of versions by their positions, all at once; `None` for what compaction has dropped.
pub(crate) type Reading<'a> = dyn Fn(&[u64]) -> Result<Vec<Option<Bytes>>, Refusal> + 'a;

impl Outcome {
    /// The answer, with the values. Fails with [`Refusal::Compacted`] if one of them is gone.
    pub(crate) fn answer(self, read: &Reading<'_>) -> Result<Response, Refusal> {
        let mut positions = Vec::new();
        self.positions(&mut positions);
        if positions.is_empty() {
            return Ok(self.finish(&mut std::iter::empty()));
        }
        let stored = read(&positions)?.into_iter().collect::<Option<Vec<_>>>().ok_or(Refusal::Compacted)?;
        Ok(self.finish(&mut stored.iter().map(value_of)))
    }

    fn positions(&self, into: &mut Vec<u64>) {
        let all = |items: &[(Bytes, Version)], into: &mut Vec<u64>| {
            into.extend(items.iter().map(|(_, version)| version.position));
        };
        match self {
            Outcome::Range(found) if found.keys_only && found.by_value.is_none() => {}
            Outcome::Range(found) => all(&found.items, into),
            Outcome::Put { previous, .. } => into.extend(previous.iter().map(|(_, version)| version.position)),
            Outcome::DeleteRange { previous, .. } => all(previous, into),
            Outcome::Txn { outcomes, .. } => outcomes.iter().for_each(|outcome| outcome.positions(into)),
        }
    }

    fn finish(self, values: &mut dyn Iterator<Item = Bytes>) -> Response {
        let mut with_value = |(key, version): (Bytes, Version)| {
            let value = values.next().unwrap_or_default();
            key_value(key, &version, value)
        };
        match self {
            Outcome::Range(found) => Response::Range(range_response(found, values)),
            Outcome::Put { revision, previous } => {
                Response::Put(PutResponse { header: at(revision), prev_kv: previous.map(with_value) })
            }
            Outcome::DeleteRange { revision, deleted, previous } => {
                let prev_kvs = previous.into_iter().map(&mut with_value).collect();
                Response::DeleteRange(DeleteRangeResponse { header: at(revision), deleted, prev_kvs })
            }
            Outcome::Txn { revision, succeeded, outcomes } => {
                let responses =
                    outcomes.into_iter().map(|outcome| ResponseOp { response: Some(outcome.finish(values)) });
                Response::Txn(TxnResponse { header: at(revision), succeeded, responses: responses.collect() })
            }
        }
    }
}

fn range_response(found: Selected, values: &mut dyn Iterator<Item = Bytes>) -> RangeResponse {
    let Selected { revision, items, count, mut more, keys_only, by_value, limit } = found;
    let mut kvs: Vec<KeyValue> = if keys_only && by_value.is_none() {
        items.into_iter().map(|(key, version)| key_value(key, &version, Bytes::new())).collect()
    } else {
        let with_value = |(key, version): (Bytes, Version)| {
            let value = values.next().unwrap_or_default();
            key_value(key, &version, value)
        };
        items.into_iter().map(with_value).collect()
    };
    if let Some(descend) = by_value {
        kvs.sort_by(|one, other| directed(one.value.cmp(&other.value), descend));
        if limit > 0 && kvs.len() > limit {
            kvs.truncate(limit);
            more = true;
        }
        if keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
        }
    }
    RangeResponse { header: at(revision), kvs, more, count }
}

/// A version of a key as clients see it.
pub(crate) fn key_value(key: Bytes, version: &Version, value: Bytes) -> KeyValue {
    KeyValue {
        key,
        create_revision: version.create_revision,
        mod_revision: version.revision,
        version: version.version,
        value,
        lease: version.lease,
    }
}

/// The header of a part of an answer: it has the revision alone.
fn at(revision: i64) -> Option<ResponseHeader> {
    Some(ResponseHeader { revision, ..ResponseHeader::default() })
}
