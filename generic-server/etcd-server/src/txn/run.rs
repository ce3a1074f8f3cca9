//! What requests do: they are applied to a state that becomes the current one when the writes are on the disk.

use std::sync::Arc;

use bytes::Bytes;

use super::{Request, answer::Outcome, answer::Reading, compare::holds, select::select};
use crate::{
    error::Refusal,
    key::{KeyRange, store_key},
    proto::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest, request_op},
    record::{Version, value_of},
    state::State,
};

/// One key that was changed.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Bytes,
    pub(crate) version: Version,
    /// The client's value; empty for a delete.
    pub(crate) value: Bytes,
    /// What was there before.
    pub(crate) previous: Option<Version>,
}

/// Requests being applied, one after the other.
pub(crate) struct Staging<'a> {
    /// The state after them.
    pub(crate) state: State,
    /// What is to be written to the store, at the positions after `before`.
    pub(crate) writes: Vec<(Arc<str>, Option<Bytes>)>,
    before: u64,
    /// What watches are told.
    pub(crate) changes: Vec<Change>,
    /// Bytes of keys and values in `writes`.
    pub(crate) bytes: usize,
    /// Keys that the current request has deleted.
    deleted: Vec<Bytes>,
    read: &'a Reading<'a>,
    has_lease: &'a dyn Fn(i64) -> bool,
}

impl<'a> Staging<'a> {
    /// Nothing applied yet.
    pub(crate) fn new(state: State, read: &'a Reading<'a>, has_lease: &'a dyn Fn(i64) -> bool) -> Staging<'a> {
        let before = state.position;
        Staging {
            state,
            writes: Vec::new(),
            before,
            changes: Vec::new(),
            bytes: 0,
            deleted: Vec::new(),
            read,
            has_lease,
        }
    }

    /// Applies a request, which was checked. One that is refused changes nothing.
    pub(crate) fn apply(&mut self, request: &Request) -> Result<Outcome, Refusal> {
        let before = (self.state.clone(), self.writes.len(), self.changes.len(), self.bytes);
        let applied = self.apply_all(request);
        if applied.is_ok() {
            self.end_request();
        } else {
            self.writes.truncate(before.1);
            self.changes.truncate(before.2);
            self.deleted.clear();
            (self.state, self.bytes) = (before.0, before.3);
        }
        applied
    }

    /// After all that a request writes come the store's own deletes, which let compaction drop keys: so a compaction to just
    /// before them drops what the request has replaced, and keeps what it has done.
    pub(crate) fn end_request(&mut self) {
        for key in std::mem::take(&mut self.deleted) {
            // One request may delete a key and write it again.
            if self.state.latest(&key).is_none() {
                self.push(store_key(&key), None);
            }
        }
    }

    fn apply_all(&mut self, request: &Request) -> Result<Outcome, Refusal> {
        match request {
            Request::Put(request) => {
                // Which of the two is told is up to etcd: alone it is the lease, in a transaction the key.
                self.check_lease(request)?;
                self.check_put(request)?;
                self.put(request, self.state.revision + 1)
            }
            Request::DeleteRange(request) => {
                let revision = self.state.revision + 1;
                Ok(self.delete(request, revision))
            }
            Request::Txn(request) => {
                let path = self.path(request)?;
                self.check_path(&path)?;
                let (succeeded, revision) = (path.succeeded, self.state.revision + 1);
                let outcomes = self.run(path, revision)?;
                Ok(Outcome::Txn { revision: self.state.revision, succeeded, outcomes })
            }
        }
    }

    /// The value of a version, which may be one that is not written yet.
    fn value(&self, position: u64) -> Result<Bytes, Refusal> {
        if position > self.before {
            let staged = self.writes.get((position - self.before - 1) as usize);
            return Ok(staged.and_then(|(_, stored)| stored.as_ref()).map(value_of).unwrap_or_default());
        }
        let stored = (self.read)(&[position])?.pop().flatten();
        stored.map(|stored| value_of(&stored)).ok_or(Refusal::Compacted)
    }

    /// Which branches are taken: all comparisons, also those of nested transactions, are made before the first write.
    fn path<'r>(&self, request: &'r TxnRequest) -> Result<Path<'r>, Refusal> {
        let mut succeeded = true;
        for compare in &request.compare {
            if !holds(compare, &self.state, &mut |position| self.value(position))? {
                succeeded = false;
                break;
            }
        }
        let ops = if succeeded { &request.success } else { &request.failure };
        let nested = ops.iter().map(|op| match &op.request {
            Some(request_op::Request::Txn(request)) => self.path(request).map(Some),
            _ => Ok(None),
        });
        Ok(Path { succeeded, ops, nested: nested.collect::<Result<_, _>>()? })
    }

    /// Refuses what cannot be done, before anything is: first of all puts, then of all ranges.
    fn check_path(&self, path: &Path<'_>) -> Result<(), Refusal> {
        self.check_each(path, &|op| match op {
            request_op::Request::Put(request) => self.check_put(request),
            _ => Ok(()),
        })?;
        self.check_each(path, &|op| match op {
            request_op::Request::Range(request) => self.state.readable(request.revision).map(drop),
            _ => Ok(()),
        })
    }

    fn check_each(
        &self,
        path: &Path<'_>,
        check: &dyn Fn(&request_op::Request) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        for (op, nested) in path.ops.iter().zip(&path.nested) {
            match (&op.request, nested) {
                (_, Some(nested)) => self.check_each(nested, check)?,
                (Some(op), None) => check(op)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn check_put(&self, request: &PutRequest) -> Result<(), Refusal> {
        if (request.ignore_value || request.ignore_lease) && self.state.latest(&request.key).is_none() {
            return Err(Refusal::KeyNotFound);
        }
        self.check_lease(request)
    }

    fn check_lease(&self, request: &PutRequest) -> Result<(), Refusal> {
        if request.lease != 0 && !(self.has_lease)(request.lease) { Err(Refusal::LeaseNotFound) } else { Ok(()) }
    }

    fn run(&mut self, path: Path<'_>, revision: i64) -> Result<Vec<Outcome>, Refusal> {
        let mut outcomes = Vec::with_capacity(path.ops.len());
        for (op, nested) in path.ops.iter().zip(path.nested) {
            outcomes.push(match (&op.request, nested) {
                (Some(request_op::Request::Range(request)), _) => Outcome::Range(select(&self.state, request)?),
                (Some(request_op::Request::Put(request)), _) => self.put(request, revision)?,
                (Some(request_op::Request::DeleteRange(request)), _) => self.delete(request, revision),
                (_, Some(nested)) => {
                    // etcd tells the revision in the outermost header alone.
                    let succeeded = nested.succeeded;
                    Outcome::Txn { revision: 0, succeeded, outcomes: self.run(nested, revision)? }
                }
                (Some(request_op::Request::Txn(_)) | None, None) => continue,
            });
        }
        Ok(outcomes)
    }

    fn put(&mut self, request: &PutRequest, revision: i64) -> Result<Outcome, Refusal> {
        let previous = self.state.latest(&request.key);
        let value = match previous {
            Some(previous) if request.ignore_value => self.value(previous.position)?,
            _ => request.value.clone(),
        };
        let lease = match previous {
            Some(previous) if request.ignore_lease => previous.lease,
            _ => request.lease,
        };
        let version = Version {
            revision,
            create_revision: previous.map_or(revision, |previous| previous.create_revision),
            version: previous.map_or(0, |previous| previous.version) + 1,
            lease,
            position: self.next_position(),
        };
        self.push(store_key(&request.key), Some(version.encode(&value)));
        self.write(&request.key, version, value);
        let previous = previous.filter(|_| request.prev_kv).map(|previous| (request.key.clone(), previous));
        Ok(Outcome::Put { revision, previous })
    }

    fn delete(&mut self, request: &DeleteRangeRequest, revision: i64) -> Outcome {
        let range = KeyRange::of(&request.key, &request.range_end);
        let found: Vec<(Bytes, Version)> =
            self.state.range(&range, i64::MAX).map(|(key, version)| (key.clone(), *version)).collect();
        for (key, _) in &found {
            self.delete_key(key, revision);
        }
        let previous = if request.prev_kv { found.clone() } else { Vec::new() };
        Outcome::DeleteRange { revision: self.state.revision, deleted: found.len() as i64, previous }
    }

    /// Deletes a key that is there. [`Staging::end_request`] must follow.
    pub(crate) fn delete_key(&mut self, key: &Bytes, revision: i64) {
        let version = Version { revision, position: self.next_position(), ..Version::default() };
        // What happened is stored too, for who asks for it later.
        self.push(store_key(key), Some(version.encode(&[])));
        self.write(key, version, Bytes::new());
        self.deleted.push(key.clone());
    }

    /// Writes something to the store that is no key of a client's.
    pub(crate) fn push(&mut self, name: Arc<str>, stored: Option<Bytes>) {
        self.bytes += name.len() + stored.as_ref().map_or(0, Bytes::len);
        self.writes.push((name, stored));
        self.state.position += 1;
    }

    fn next_position(&self) -> u64 {
        self.before + self.writes.len() as u64 + 1
    }

    fn write(&mut self, key: &Bytes, version: Version, value: Bytes) {
        let previous = self.state.write(key, version);
        self.changes.push(Change { key: key.clone(), version, value, previous });
    }
}

/// The operations of a transaction that are to be done, and of those that are transactions theirs.
struct Path<'r> {
    succeeded: bool,
    ops: &'r [RequestOp],
    nested: Vec<Option<Path<'r>>>,
}
