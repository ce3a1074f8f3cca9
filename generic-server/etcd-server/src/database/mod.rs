//! etcd's data model over the embedded store.
//!
//! One thread, the applier, decides all writes: it applies the requests that wait to a clone of the state, writes what they
//! change to the store as one, and makes the clone the current state when that is on the disk. Reads take the current state
//! and read values by their positions in the store, so they wait for nobody.

mod applier;
mod load;
mod replay;
mod snapshot;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::Instant,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use storage::{
    Store as _,
    embedded::{Embedded, EmbeddedOptions},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use self::applier::{Applier, Feed};
pub(crate) use self::replay::Replay;
pub use self::snapshot::start_from_saved;
use crate::{
    error::Refusal,
    lease::{Leases, Remaining},
    proto::{KeyValue, RangeRequest, RangeResponse, ResponseHeader, TxnRequest, TxnResponse, response_op::Response},
    record::value_of,
    state::State,
    txn::{Outcome, Request, Staging, key_value, select},
    window::Window,
};

/// How much may wait for the applier, in units of [`UNIT`] bytes: 32 MiB, or 32,768 small requests.
const ROOM: u32 = 32 * 1024;
const UNIT: usize = 1024;
/// Values read at once when all are looked at.
const CHUNK: usize = 256;

/// What a database takes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Operations in a transaction (`--max-txn-ops`).
    pub txn_ops: usize,
    /// Bytes of a request (`--max-request-bytes`).
    pub request_bytes: usize,
    /// Bytes on the disk from which on nothing is put any more (`--quota-backend-bytes`); 0: no limit.
    pub quota: u64,
}

/// Work for the applier.
enum Work {
    Apply { request: Request, answer: oneshot::Sender<Result<Response, Refusal>> },
    Grant { id: i64, ttl: i64, answer: oneshot::Sender<Result<(i64, i64), Refusal>> },
    Revoke { id: i64, answer: oneshot::Sender<Result<i64, Refusal>> },
    Compact { revision: i64, answer: oneshot::Sender<Result<i64, Refusal>> },
    Alarm { alarm: i32, raise: bool, answer: oneshot::Sender<Result<(), Refusal>> },
    Stop,
}

struct Queued {
    work: Work,
    bytes: usize,
    _room: Option<OwnedSemaphorePermit>,
}

/// What the applier and the readers share.
struct Shared {
    store: Arc<Embedded>,
    state: ArcSwap<State>,
    window: Window,
    leases: Mutex<Leases>,
    /// The types of the alarms that are raised.
    alarms: RwLock<BTreeSet<i32>>,
    limits: Limits,
    cluster: u64,
    member: u64,
}

impl Shared {
    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, positions: &[u64]) -> Result<Vec<Option<Bytes>>, Refusal> {
        Ok(self.store.values(positions)?)
    }

    /// A key as it was before a revision; `None` if it was not there, or that is not known any more.
    fn before(&self, state: &State, key: &Bytes, revision: i64) -> Result<Option<KeyValue>, Refusal> {
        let Some(version) = state.at(key, revision - 1) else { return Ok(None) };
        let stored = self.read(&[version.position])?.pop().flatten();
        Ok(stored.map(|stored| key_value(key.clone(), &version, value_of(&stored))))
    }

    /// Reads from the current state, and once more from a newer one if what was to be read has been compacted meanwhile.
    fn reading(&self, read: impl Fn(&State) -> Result<Response, Refusal>) -> Result<Response, Refusal> {
        let mut state = self.state.load_full();
        loop {
            let done = read(&state);
            if done != Err(Refusal::Compacted) {
                return done;
            }
            let now = self.state.load_full();
            if now.compacted == state.compacted {
                return done;
            }
            state = now;
        }
    }
}

/// A database in a folder.
pub struct Database {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    /// Tells when the applier has ended.
    ended: watch::Receiver<bool>,
}

impl Database {
    /// Opens the database in a folder, which it makes if need be. Must be called on a runtime with several threads.
    pub async fn open(dir: &Path, options: EmbeddedOptions, limits: Limits) -> Result<Arc<Database>, storage::Error> {
        // History goes when a client says so, and keys expire with their leases.
        let options = EmbeddedOptions { compaction_interval: std::time::Duration::ZERO, ..options };
        let path = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || Embedded::open(&path, options)).await;
        let store = opened.unwrap_or_else(|error| Err(storage::Error::Unavailable(error.to_string())))?;
        let feed = Arc::new(Feed::default());
        let loaded = load::load(&store).await?;
        let watch = store.watch("", loaded.state.position, feed.clone()).await?;
        let shared = Arc::new(Shared {
            window: Window::new(loaded.state.revision),
            state: ArcSwap::from_pointee(loaded.state),
            leases: Mutex::new(loaded.leases),
            alarms: RwLock::new(loaded.alarms),
            cluster: loaded.cluster,
            member: loaded.member,
            store,
            limits,
        });
        let (queue, requests) = mpsc::unbounded_channel();
        let (tell, ended) = watch::channel(false);
        let applier = Applier::new(shared.clone(), requests, feed, watch, loaded.superseded);
        let thread = std::thread::Builder::new().name("etcd-applier".into()).spawn(move || {
            // Told also if it panics.
            let _tell = Tell(tell);
            applier.run();
        });
        thread.map_err(|error| storage::Error::Unavailable(format!("no applier thread: {error}")))?;
        Ok(Arc::new(Database { shared, queue, room: Arc::new(Semaphore::new(ROOM as usize)), ended }))
    }

    async fn ask<T>(
        &self,
        bytes: usize,
        work: impl FnOnce(oneshot::Sender<Result<T, Refusal>>) -> Work,
    ) -> Result<T, Refusal> {
        let units = u32::try_from(1 + bytes / UNIT).unwrap_or(ROOM).min(ROOM);
        let room = self.room.clone().acquire_many_owned(units).await.map_err(|_| Refusal::Stopped)?;
        let (answer, answered) = oneshot::channel();
        let queued = Queued { work: work(answer), bytes, _room: Some(room) };
        self.queue.send(queued).map_err(|_| Refusal::Stopped)?;
        answered.await.unwrap_or(Err(Refusal::Stopped))
    }

    /// Does a request that may write; it was checked, and takes so many bytes.
    pub(crate) async fn apply(&self, request: Request, bytes: usize) -> Result<Response, Refusal> {
        self.ask(bytes, |answer| Work::Apply { request, answer }).await
    }

    /// Reads a range. A long one is read on another thread.
    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Refusal> {
        let is_short = request.range_end.is_empty();
        let shared = self.shared.clone();
        let read = move || {
            shared.reading(|state| Outcome::Range(select(state, &request)?).answer(&|positions| shared.read(positions)))
        };
        let response = if is_short { read()? } else { off_thread(read).await? };
        match response {
            Response::Range(response) => Ok(response),
            _ => unreachable!("a range is answered by a range"),
        }
    }

    /// Does a transaction that writes nothing.
    pub(crate) async fn read_txn(&self, request: TxnRequest) -> Result<TxnResponse, Refusal> {
        let shared = self.shared.clone();
        let request = Request::Txn(request);
        let read = move || {
            shared.reading(|state| {
                let read = |positions: &[u64]| shared.read(positions);
                Staging::new(state.clone(), &read, &|_| false).apply(&request)?.answer(&read)
            })
        };
        match off_thread(read).await? {
            Response::Txn(response) => Ok(response),
            _ => unreachable!("a transaction is answered by a transaction"),
        }
    }

    /// Forgets what is older than a revision. Returns the current one.
    pub(crate) async fn compact(&self, revision: i64) -> Result<i64, Refusal> {
        self.ask(0, |answer| Work::Compact { revision, answer }).await
    }

    /// Grants a lease (0: with a number that is free). Returns its number and its TTL.
    pub(crate) async fn grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Refusal> {
        self.ask(0, |answer| Work::Grant { id, ttl, answer }).await
    }

    /// Revokes a lease, which deletes what is attached to it. Returns the revision then.
    pub(crate) async fn revoke(&self, id: i64) -> Result<i64, Refusal> {
        self.ask(0, |answer| Work::Revoke { id, answer }).await
    }

    /// Keeps a lease alive; its TTL, or 0 if it is gone.
    pub(crate) fn keep_alive(&self, id: i64) -> i64 {
        self.shared.leases().keep_alive(id, Instant::now()).unwrap_or(0)
    }

    /// What is left of a lease.
    pub(crate) fn remaining(&self, id: i64, with_keys: bool) -> Option<Remaining> {
        self.shared.leases().remaining(id, with_keys, Instant::now())
    }

    /// All leases' numbers.
    pub(crate) fn leases(&self) -> Vec<i64> {
        self.shared.leases().ids()
    }

    /// Raises an alarm or takes it back.
    pub(crate) async fn set_alarm(&self, alarm: i32, raise: bool) -> Result<(), Refusal> {
        self.ask(0, |answer| Work::Alarm { alarm, raise, answer }).await
    }

    /// The types of the alarms that are raised.
    pub(crate) fn alarms(&self) -> Vec<i32> {
        self.shared.alarms.read().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// The header of an answer, at the current revision.
    pub(crate) fn header(&self) -> ResponseHeader {
        self.header_at(self.revision())
    }

    /// The header of an answer at a revision.
    pub(crate) fn header_at(&self, revision: i64) -> ResponseHeader {
        let Shared { cluster, member, .. } = *self.shared;
        ResponseHeader { cluster_id: cluster, member_id: member, revision, raft_term: TERM }
    }

    /// The current revision.
    pub fn revision(&self) -> i64 {
        self.shared.state.load().revision
    }

    /// What stands for the index of etcd's own log: it rises with every write.
    pub(crate) fn index(&self) -> u64 {
        self.shared.state.load().position
    }

    /// How many keys there are (those deleted and not yet compacted among them).
    pub(crate) fn keys(&self) -> usize {
        self.shared.state.load().len()
    }

    /// The revision that it was compacted to; -1: never.
    pub(crate) fn compacted(&self) -> i64 {
        self.shared.state.load().compacted
    }

    /// The newest changes.
    pub(crate) fn window(&self) -> &Window {
        &self.shared.window
    }

    /// What it takes.
    pub(crate) fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Whether the store can be written.
    pub(crate) async fn health(&self) -> Result<(), Refusal> {
        Ok(self.shared.store.health().await?)
    }

    /// Bytes on the disk.
    pub(crate) async fn size(&self) -> Result<u64, Refusal> {
        Ok(self.shared.store.size().await?)
    }

    /// A checksum over all that can be read up to a revision (0: the current one), and that revision.
    pub(crate) async fn hash(&self, revision: i64) -> Result<(u32, i64), Refusal> {
        let shared = self.shared.clone();
        off_thread(move || hash(&shared, revision)).await
    }

    /// Gives room on the disk back that is not used.
    pub(crate) async fn defragment(&self) -> Result<(), Refusal> {
        Ok(self.shared.store.defragment().await?)
    }

    /// The database as it is now, to be read while it serves.
    pub(crate) async fn snapshot(&self) -> Result<storage::embedded::Snapshot, Refusal> {
        Ok(self.shared.store.read_snapshot().await?)
    }

    /// The changes from a revision on, as far as they are read at once.
    pub(crate) async fn replay(&self, from: i64) -> Result<Replay, Refusal> {
        replay::replay(&self.shared, from).await
    }

    /// Returns when it has ended by itself and cannot go on, with the reason.
    pub async fn failed(&self) -> String {
        let mut ended = self.ended.clone();
        tokio::select! {
            error = self.shared.store.failed() => error.to_string(),
            // An error says that the thread is gone.
            _ = ended.wait_for(|ended| *ended) => "the applier has ended".into(),
        }
    }

    /// Takes no more requests, finishes those begun, and closes the store.
    pub async fn close(&self) {
        // It may have ended already.
        let _ = self.queue.send(Queued { work: Work::Stop, bytes: 0, _room: None });
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        self.shared.store.close().await;
    }
}

/// etcd's terms count elections; the one member has won its own.
pub(crate) const TERM: u64 = 2;

struct Tell(watch::Sender<bool>);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

async fn off_thread<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|error| Err(Refusal::Unavailable(format!("a read failed: {error}"))))
}

fn hash(shared: &Shared, asked: i64) -> Result<(u32, i64), Refusal> {
    let state = shared.state.load_full();
    let revision = state.readable(asked)?;
    let mut hasher = crc32fast::Hasher::new();
    let all: Vec<_> = state.history(revision).filter(|(_, version)| version.exists()).collect();
    for chunk in all.chunks(CHUNK) {
        let positions: Vec<u64> = chunk.iter().map(|(_, version)| version.position).collect();
        for ((key, version), stored) in chunk.iter().zip(shared.read(&positions)?) {
            let stored = stored.ok_or(Refusal::Compacted)?;
            hasher.update(key);
            for number in [version.revision, version.create_revision, version.version, version.lease] {
                hasher.update(&number.to_le_bytes());
            }
            hasher.update(&value_of(&stored));
        }
    }
    Ok((hasher.finalize(), revision))
}
