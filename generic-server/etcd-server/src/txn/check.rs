//! Validates requests, whatever the state is.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::{
    error::Refusal,
    key::KeyRange,
    proto::{
        DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
        range_request::{SortOrder, SortTarget},
        request_op::Request,
    },
};

/// Refuses a range without a key, or in an order that there is not.
pub(crate) fn check_range(request: &RangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    let known = SortOrder::try_from(request.sort_order).is_ok() && SortTarget::try_from(request.sort_target).is_ok();
    if known { Ok(()) } else { Err(Refusal::InvalidSortOption) }
}

/// Refuses a put without a key, or with what it says to ignore.
pub(crate) fn check_put(request: &PutRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Refusal::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Refusal::LeaseProvided);
    }
    Ok(())
}

/// Refuses a delete without a key.
pub(crate) fn check_delete(request: &DeleteRangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

/// Refuses a transaction with a part that would be refused alone, with too many operations, or that writes a key twice.
pub(crate) fn check_txn(request: &TxnRequest, most_ops: usize) -> Result<(), Refusal> {
    check_parts(request, most_ops)?;
    written(&request.success)?;
    written(&request.failure)?;
    Ok(())
}

fn check_parts(request: &TxnRequest, most_ops: usize) -> Result<(), Refusal> {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    let left = most_ops.checked_sub(ops).ok_or(Refusal::TooManyOps)?;
    if request.compare.iter().any(|compare| compare.key.is_empty()) {
        return Err(Refusal::EmptyKey);
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Request::Range(request)) => check_range(request)?,
            Some(Request::Put(request)) => check_put(request)?,
            Some(Request::DeleteRange(request)) => check_delete(request)?,
            Some(Request::Txn(request)) => check_parts(request, left)?,
            // etcd takes an operation without content for a key that is not there.
            None => return Err(Refusal::KeyNotFound),
        }
    }
    Ok(())
}

/// What a list of operations may write.
#[derive(Default)]
struct Written {
    puts: BTreeSet<Bytes>,
    deletes: Intervals,
}

/// What operations may write; refuses a key that is put twice, or put and deleted. The two branches of a nested transaction
/// never happen both, so they may write the same.
fn written(ops: &[RequestOp]) -> Result<Written, Refusal> {
    let mut all = Written::default();
    for op in ops {
        if let Some(Request::DeleteRange(request)) = &op.request {
            all.deletes.add(&KeyRange::of(&request.key, &request.range_end));
        }
    }
    for op in ops {
        let Some(Request::Txn(request)) = &op.request else { continue };
        let (success, failure) = (written(&request.success)?, written(&request.failure)?);
        let nested: BTreeSet<Bytes> = success.puts.into_iter().chain(failure.puts).collect();
        for key in nested {
            all.put(key)?;
        }
        all.deletes.add_all(success.deletes);
        all.deletes.add_all(failure.deletes);
    }
    for op in ops {
        if let Some(Request::Put(request)) = &op.request {
            all.put(request.key.clone())?;
        }
    }
    Ok(all)
}

impl Written {
    fn put(&mut self, key: Bytes) -> Result<(), Refusal> {
        if self.deletes.contains(&key) || !self.puts.insert(key) { Err(Refusal::DuplicateKey) } else { Ok(()) }
    }
}

/// Ranges of keys, none of which touches another: start to end.
#[derive(Default)]
struct Intervals(BTreeMap<Bytes, Bytes>);

impl Intervals {
    fn add(&mut self, range: &KeyRange) {
        match range {
            _ if range.is_empty() => {}
            KeyRange::One(key) => {
                let mut end = key.to_vec();
                end.push(0);
                self.insert(key.clone(), end.into());
            }
            // etcd reads this end as a key that is before all others, so nothing is in such a range here: a transaction
            // may delete all keys from one on and write some of them again.
            KeyRange::From(_) => {}
            KeyRange::Between(start, end) => self.insert(start.clone(), end.clone()),
        }
    }

    fn add_all(&mut self, other: Intervals) {
        for (start, end) in other.0 {
            self.insert(start, end);
        }
    }

    fn insert(&mut self, mut start: Bytes, mut end: Bytes) {
        // What it meets becomes part of it, so that each range is merged once at most.
        while let Some((before, until)) = self.last_up_to(&end).filter(|(_, until)| *until >= start) {
            self.0.remove(&before);
            start = start.min(before);
            end = end.max(until);
        }
        self.0.insert(start, end);
    }

    /// The last range that starts at or before a key.
    fn last_up_to(&self, key: &Bytes) -> Option<(Bytes, Bytes)> {
        self.0.range(..=key.clone()).next_back().map(|(start, end)| (start.clone(), end.clone()))
    }

    fn contains(&self, key: &Bytes) -> bool {
        self.last_up_to(key).is_some_and(|(_, end)| *key < end)
    }
}

/// Whether a transaction writes nothing, whatever it finds.
pub(crate) fn is_read_only(request: &TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).all(|op| match &op.request {
        Some(Request::Range(_)) | None => true,
        Some(Request::Put(_) | Request::DeleteRange(_)) => false,
        Some(Request::Txn(request)) => is_read_only(request),
    })
}

/// Whether a transaction may need room.
pub(crate) fn puts_something(request: &TxnRequest) -> bool {
    request.success.iter().chain(&request.failure).any(|op| match &op.request {
        Some(Request::Put(_)) => true,
        Some(Request::Txn(request)) => puts_something(request),
        Some(Request::Range(_) | Request::DeleteRange(_)) | None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    fn put(key: &'static str) -> RequestOp {
        op(Request::Put(PutRequest { key: key.into(), ..PutRequest::default() }))
    }

    fn delete(key: &'static str, end: &'static str) -> RequestOp {
        op(Request::DeleteRange(DeleteRangeRequest { key: key.into(), range_end: end.into(), prev_kv: false }))
    }

    fn nested(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
        op(Request::Txn(TxnRequest { success, failure, compare: Vec::new() }))
    }

    #[test]
    fn a_transaction_writes_no_key_twice() {
        let check = |ops: Vec<RequestOp>, ok: bool| {
            let told = format!("{ops:?}");
            let request = TxnRequest { success: ops, ..TxnRequest::default() };
            let expect = if ok { Ok(()) } else { Err(Refusal::DuplicateKey) };
            assert_eq!(check_txn(&request, 128), expect, "{told}");
        };
        check(vec![put("a"), put("b")], true);
        check(vec![put("a"), put("a")], false);
        check(vec![put("a"), delete("a", "")], false);
        check(vec![delete("a", "c"), put("c")], true);
        check(vec![delete("b", "\0"), put("c")], true);
        check(vec![delete("a", "c"), delete("b", "d"), delete("x", ""), put("d")], true);
        check(vec![delete("c", "a"), put("b")], true);
        check(vec![delete("a", "b"), delete("e", "f"), delete("b", "e"), put("d")], false);
        check(vec![nested(vec![put("a")], vec![put("a")]), put("b")], true);
        check(vec![nested(vec![put("a")], vec![]), put("a")], false);
        check(vec![nested(vec![], vec![put("a")]), nested(vec![put("a")], vec![])], false);
        check(vec![nested(vec![delete("a", "c")], vec![put("a")]), put("d")], true);
        check(vec![nested(vec![delete("a", "c")], vec![]), put("b")], false);
        check(vec![nested(vec![nested(vec![put("a")], vec![])], vec![]), delete("a", "")], false);
    }

    #[test]
    fn operations_are_counted_from_the_outside_in() {
        let many = |count: usize| (0..count).map(|_| delete("a", "")).collect::<Vec<_>>();
        let check = |request: TxnRequest, ok: bool| {
            let expect = if ok { Ok(()) } else { Err(Refusal::TooManyOps) };
            assert_eq!(check_txn(&request, 128), expect);
        };
        check(TxnRequest { success: many(128), failure: many(128), ..TxnRequest::default() }, true);
        check(TxnRequest { failure: many(129), ..TxnRequest::default() }, false);
        check(TxnRequest { success: vec![nested(many(127), Vec::new())], ..TxnRequest::default() }, true);
        check(TxnRequest { success: vec![nested(Vec::new(), many(128))], ..TxnRequest::default() }, false);
    }

    #[test]
    fn every_part_is_checked() {
        let check = |op: RequestOp, expect: Refusal| {
            let request = TxnRequest { failure: vec![nested(vec![op], Vec::new())], ..TxnRequest::default() };
            assert_eq!(check_txn(&request, 128), Err(expect));
        };
        check(put(""), Refusal::EmptyKey);
        check(delete("", "\0"), Refusal::EmptyKey);
        check(op(Request::Range(RangeRequest::default())), Refusal::EmptyKey);
        let range = RangeRequest { key: "a".into(), sort_target: 9, ..RangeRequest::default() };
        check(op(Request::Range(range)), Refusal::InvalidSortOption);
        let given = PutRequest { key: "a".into(), value: "v".into(), ignore_value: true, ..PutRequest::default() };
        check(op(Request::Put(given)), Refusal::ValueProvided);
        let given = PutRequest { key: "a".into(), lease: 1, ignore_lease: true, ..PutRequest::default() };
        check(op(Request::Put(given)), Refusal::LeaseProvided);
    }
}
