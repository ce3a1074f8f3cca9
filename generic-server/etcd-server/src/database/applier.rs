//! The applier: the thread that decides all writes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use storage::{Error, Event as StoreEvent, Revision, Sink, Store as _, Watch};
use tokio::{
    runtime::Handle,
    sync::{mpsc::UnboundedReceiver, oneshot},
};

use super::{
    Queued, Shared, Work,
    load::{COMPACTED, alarm_name},
    replay::event,
};
use crate::{
    error::Refusal,
    key::{lease_key, meta_key},
    lease::granted_ttl,
    proto::{AlarmType, response_op::Response},
    record::value_of,
    state::State,
    txn::{Change, Outcome, Request, Staging, key_value, puts_something},
    window::Group,
};

/// The most requests, and (beyond the first) bytes of them, that are written as one.
const MOST_REQUESTS: usize = 1024;
const MOST_BYTES: usize = 1 << 20;
/// How long to leave a store alone that failed, before a lease is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What the store tells of its writes: among it the values that they replace.
#[derive(Debug, Default)]
pub(super) struct Feed(Mutex<VecDeque<StoreEvent>>);

impl Sink for Feed {
    fn apply(&self, events: &[StoreEvent]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(events.iter().cloned());
    }

    fn progress(&self, _revision: Revision) {}

    fn closed(&self, _error: Error) {}
}

impl Feed {
    fn take(&self) -> VecDeque<StoreEvent> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// See the module.
pub(super) struct Applier {
    shared: Arc<Shared>,
    requests: UnboundedReceiver<Queued>,
    feed: Arc<Feed>,
    /// Feeds `feed`.
    _watch: Watch,
    /// Keys of which compaction to a revision may drop something, in rising order of that.
    superseded: VecDeque<(i64, Bytes)>,
    runtime: Handle,
    /// It cannot go on: what is in memory may not be what is in the store.
    lost: bool,
}

type Answer = oneshot::Sender<Result<Response, Refusal>>;

enum Waited {
    Work(Queued),
    LeaseDue,
    Ended,
}

impl Applier {
    pub(super) fn new(
        shared: Arc<Shared>,
        requests: UnboundedReceiver<Queued>,
        feed: Arc<Feed>,
        watch: Watch,
        superseded: VecDeque<(i64, Bytes)>,
    ) -> Applier {
        Applier { shared, requests, feed, _watch: watch, superseded, runtime: Handle::current(), lost: false }
    }

    /// Works until it is told to stop.
    pub(super) fn run(mut self) {
        while !self.lost {
            match self.wait() {
                Waited::Work(Queued { work: Work::Stop, .. }) | Waited::Ended => return,
                Waited::Work(first) => self.turn(first),
                Waited::LeaseDue => self.expire(),
            }
        }
        tracing::error!("the store has other revisions than were expected; the server must be started again");
    }

    fn wait(&mut self) -> Waited {
        let due = self.shared.leases().next();
        let requests = &mut self.requests;
        self.runtime.block_on(async move {
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => Waited::LeaseDue,
                queued = requests.recv() => queued.map_or(Waited::Ended, Waited::Work),
            }
        })
    }

    /// Does what waits: requests that write keys together, other work alone.
    fn turn(&mut self, first: Queued) {
        let (mut together, mut bytes, mut next) = (Vec::new(), 0, Some(first));
        while let Some(queued) = next {
            bytes += queued.bytes;
            match queued.work {
                Work::Apply { request, answer } => together.push((request, answer)),
                work => {
                    self.apply(std::mem::take(&mut together));
                    self.alone(work);
                }
            }
            let more = bytes < MOST_BYTES && together.len() < MOST_REQUESTS && !self.lost;
            next = if more { self.requests.try_recv().ok() } else { None };
        }
        self.apply(together);
    }

    fn alone(&mut self, work: Work) {
        // Whoever asked may be gone.
        match work {
            Work::Grant { id, ttl, answer } => drop(answer.send(self.grant(id, ttl))),
            Work::Revoke { id, answer } => drop(answer.send(self.revoke(id))),
            Work::Compact { revision, answer } => drop(answer.send(self.compact(revision))),
            Work::Alarm { alarm, raise, answer } => drop(answer.send(self.set_alarm(alarm, raise))),
            Work::Stop => self.requests.close(),
            Work::Apply { .. } => unreachable!("these are done together"),
        }
    }

    /// Applies requests, in order. They are answered when what they do is on the disk, those that are refused too: they may
    /// have seen what the others did.
    fn apply(&mut self, requests: Vec<(Request, Answer)>) {
        if requests.is_empty() {
            return;
        }
        let is_full = requests.iter().any(|(request, _)| needs_room(request)) && self.is_full();
        let shared = self.shared.clone();
        let read = |positions: &[u64]| shared.read(positions);
        let has_lease = |id| shared.leases().has(id);
        let mut staging = Staging::new((*shared.state.load_full()).clone(), &read, &has_lease);
        let mut outcomes: Vec<(Answer, Result<Outcome, Refusal>)> = Vec::with_capacity(requests.len());
        for (request, answer) in requests {
            let refused = is_full && needs_room(&request);
            outcomes.push((answer, if refused { Err(Refusal::NoSpace) } else { staging.apply(&request) }));
        }
        let committed = self.commit(staging);
        for (answer, outcome) in outcomes {
            let answered = committed.clone().and(outcome).and_then(|outcome| outcome.answer(&read));
            let _ = answer.send(answered);
        }
    }

    /// Makes what was applied durable, and then the current state.
    fn commit(&mut self, staging: Staging<'_>) -> Result<(), Refusal> {
        let Staging { state, writes, changes, .. } = staging;
        if writes.is_empty() {
            return Ok(());
        }
        let expected = self.shared.state.load().position + 1;
        self.feed.take();
        let first = self.runtime.block_on(self.shared.store.write_all(writes))?;
        if first != expected {
            self.lost = true;
            return Err(Refusal::Unavailable(format!("a write at {first} was expected at {expected}")));
        }
        for change in &changes {
            if change.previous.is_some() {
                self.superseded.push_back((change.version.revision, change.key.clone()));
            }
        }
        let mut leases = self.shared.leases();
        changes.iter().for_each(|change| leases.note(change));
        drop(leases);
        let groups = groups(&self.shared, &state, changes, self.feed.take());
        self.shared.state.store(Arc::new(state));
        self.shared.window.push(groups);
        Ok(())
    }

    /// Writes something that is no key of a client's.
    fn write(&mut self, name: Arc<str>, stored: Option<Bytes>) -> Result<(), Refusal> {
        let state = (*self.shared.state.load_full()).clone();
        let mut staging = Staging::new(state, &|_| Ok(Vec::new()), &|_| false);
        staging.push(name, stored);
        self.commit(staging)
    }

    fn grant(&mut self, id: i64, ttl: i64) -> Result<(i64, i64), Refusal> {
        let ttl = granted_ttl(ttl)?;
        if self.is_full() {
            return Err(Refusal::NoSpace);
        }
        let id = if id == 0 { self.free_lease() } else { id };
        if self.shared.leases().has(id) {
            return Err(Refusal::LeaseExists);
        }
        self.write(lease_key(id), Some(Bytes::copy_from_slice(&ttl.to_le_bytes())))?;
        self.shared.leases().add(id, ttl, Instant::now());
        Ok((id, ttl))
    }

    fn free_lease(&self) -> i64 {
        loop {
            let id = (uuid::Uuid::new_v4().as_u64_pair().0 >> 1) as i64;
            if id != 0 && !self.shared.leases().has(id) {
                return id;
            }
        }
    }

    fn revoke(&mut self, id: i64) -> Result<i64, Refusal> {
        let keys = self.shared.leases().keys(id).ok_or(Refusal::LeaseNotFound)?;
        let state = (*self.shared.state.load_full()).clone();
        let revision = state.revision + 1;
        let mut staging = Staging::new(state, &|_| Ok(Vec::new()), &|_| false);
        for key in keys {
            staging.delete_key(&key, revision);
        }
        staging.end_request();
        staging.push(lease_key(id), None);
        self.commit(staging)?;
        self.shared.leases().remove(id);
        Ok(self.shared.state.load().revision)
    }

    fn expire(&mut self) {
        let now = Instant::now();
        let Some(id) = self.shared.leases().expired(now) else { return };
        if let Err(refusal) = self.revoke(id) {
            tracing::warn!(lease = id, %refusal, "a lease that has expired cannot be revoked yet");
            self.shared.leases().postpone(id, now + PAUSE);
        }
    }

    fn compact(&mut self, revision: i64) -> Result<i64, Refusal> {
        let state = self.shared.state.load_full();
        if revision <= state.compacted {
            return Err(Refusal::Compacted);
        }
        if revision > state.revision {
            return Err(Refusal::FutureRevision);
        }
        self.write(meta_key(COMPACTED), Some(Bytes::copy_from_slice(&revision.to_le_bytes())))?;
        let mut state = (*self.shared.state.load_full()).clone();
        let position = state.compaction_position(revision);
        let gone = self.superseded.partition_point(|(superseded, _)| *superseded <= revision);
        state.compact(revision, self.superseded.drain(..gone).map(|(_, key)| key));
        let newest = state.revision;
        self.shared.state.store(Arc::new(state));
        self.runtime.block_on(self.shared.store.compact(position))?;
        Ok(newest)
    }

    fn set_alarm(&mut self, alarm: i32, raise: bool) -> Result<(), Refusal> {
        let alarms = &self.shared.alarms;
        if alarms.read().unwrap_or_else(PoisonError::into_inner).contains(&alarm) == raise {
            return Ok(());
        }
        self.write(meta_key(&alarm_name(alarm)), raise.then(Bytes::new))?;
        let mut alarms = self.shared.alarms.write().unwrap_or_else(PoisonError::into_inner);
        if raise {
            alarms.insert(alarm);
        } else {
            alarms.remove(&alarm);
        }
        Ok(())
    }

    /// Whether nothing more may be put. When the quota is reached that is an alarm, until somebody takes it back.
    fn is_full(&mut self) -> bool {
        let alarm = AlarmType::Nospace as i32;
        if self.shared.alarms.read().unwrap_or_else(PoisonError::into_inner).contains(&alarm) {
            return true;
        }
        let quota = self.shared.limits.quota;
        let size = self.runtime.block_on(self.shared.store.size()).unwrap_or(0);
        if quota == 0 || size < quota {
            return false;
        }
        tracing::warn!(size, quota, "the quota is reached: nothing is put any more");
        if let Err(refusal) = self.set_alarm(alarm, true) {
            tracing::warn!(%refusal, "the alarm could not be stored");
        }
        true
    }
}

fn needs_room(request: &Request) -> bool {
    match request {
        Request::Put(_) => true,
        Request::Txn(request) => puts_something(request),
        Request::DeleteRange(_) => false,
    }
}

/// What watches are told of changes, which are in the order of their positions as the store's events are.
fn groups(shared: &Shared, state: &State, changes: Vec<Change>, events: VecDeque<StoreEvent>) -> Vec<Group> {
    let (mut groups, mut events): (Vec<Group>, _) = (Vec::new(), events.into_iter().peekable());
    for Change { key, version, value, previous } in changes {
        while events.next_if(|event| event.revision < version.position).is_some() {}
        let stored = events.next_if(|event| event.revision == version.position).and_then(|event| event.previous);
        let prev_kv = match previous.zip(stored) {
            // What the same revision wrote before is not what was there before it. What cannot be read is not told.
            Some((previous, _)) if previous.revision == version.revision => {
                shared.before(state, &key, version.revision).unwrap_or_default()
            }
            both => both.map(|(previous, stored)| key_value(key.clone(), &previous, value_of(&stored.value))),
        };
        let event = event(key_value(key, &version, value), version.exists(), prev_kv);
        match groups.last_mut() {
            Some(group) if group.revision == version.revision => group.events.push(event),
            _ => groups.push(Group { revision: version.revision, events: vec![event] }),
        }
    }
    groups
}
