//! The embedded durable store: a journal, history in a redb file, an index in memory, one writer with group commit.
//!
//! A write is queued; the writer thread takes all that wait, decides them in order, puts them into the journal with one
//! write and one sync, feeds the watches' sinks, and answers. Another thread brings what the journal holds into the
//! database, many writes in one commit. Reads wait for neither.

mod batch;
mod checkpoint;
mod clock;
mod copy;
mod disk;
mod files;
mod folder;
mod format;
mod frame;
mod frozen;
mod index;
mod journal;
mod overlay;
mod pending;
mod queue;
mod read;
mod recover;
mod replay;
mod restore;
mod room;
mod snapshot;
mod times;
mod together;
mod trouble;
mod writer;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::{oneshot, watch};

use self::{
    batch::{Change, Write},
    checkpoint::Checkpoints,
    clock::Clock,
    disk::{Unsynced, close, failed, open_database},
    folder::{DATABASE, Folder, Opened, read_state},
    index::Index,
    pending::Pending,
    queue::Queue,
    trouble::{Part, Troubles},
    writer::{Request, Writer},
};
pub use self::{
    files::{FileSystem, LocalFiles, UnsyncedFiles},
    restore::{Restored, restore_into},
    snapshot::{Fork, Snapshot, holds_store, start_from, verify},
    times::{Difference, Differences},
    together::LogPart,
};
use crate::{Error, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, Watch, limits};

/// How an embedded store works.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// Answers writes before they are on the disk: a crash loses up to a tenth of a second of them. Off: an answered
    /// write survives power loss.
    pub relaxed: bool,
    /// How often history is compacted to where it was an interval ago; zero: never by itself.
    pub compaction_interval: Duration,
    /// How long after a write the database gets what the journal holds, unless there is so much that it gets it sooner.
    pub checkpoint_after: Duration,
    /// Bytes of the engine's own page cache. The watch cache answers reads, so it is small.
    pub cache: usize,
    /// How often to look whether the file wastes so much room that it should be given back.
    pub copy_check: Duration,
    /// The wall clock's reading at start; `None`: now. (Tests set clocks that jump.)
    pub wall_clock: Option<SystemTime>,
    /// For at least how long history is kept: reads of the past can ask for any moment since then. Zero: as long as
    /// `compaction_interval` says.
    pub history: Duration,
    /// What a store begins as whose folder holds none yet: a snapshot, which stays as it is. Where the file system can do that
    /// both share their blocks, and this takes little longer than to read the snapshot's log. A folder that holds a store
    /// is opened as it is.
    pub from_snapshot: Option<PathBuf>,
    /// What the store's files are on. (Tests put disks that fail.)
    pub files: Arc<dyn FileSystem>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        EmbeddedOptions {
            relaxed: false,
            compaction_interval: Duration::from_secs(300),
            checkpoint_after: Duration::from_secs(5),
            cache: 4 << 20,
            copy_check: Duration::from_secs(30),
            wall_clock: None,
            history: Duration::ZERO,
            from_snapshot: None,
            files: Arc::new(LocalFiles),
        }
    }
}

impl fmt::Debug for EmbeddedOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedOptions")
            .field("relaxed", &self.relaxed)
            .field("compaction_interval", &self.compaction_interval)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// The embedded store.
pub struct Embedded {
    shared: Arc<Shared>,
}

/// What the writer, the readers and the callers share.
struct Shared {
    options: EmbeddedOptions,
    folder: Folder,
    index: RwLock<Index>,
    /// What was answered, or soon is, and the database does not yet have.
    pending: RwLock<Pending>,
    /// The database has all up to this revision.
    applied: AtomicU64,
    /// `None` after a failure, until it is open again, and in the end.
    engine: RwLock<Option<Database>>,
    queue: Queue<Request>,
    /// All sinks have been fed up to this revision.
    delivered: AtomicU64,
    /// How often another database has taken the engine's place.
    replaced: AtomicU64,
    clock: Clock,
    /// What is wrong at present.
    troubles: Troubles,
    /// Why the store has ended by itself.
    ended: watch::Sender<Option<Error>>,
}

impl Embedded {
    /// Opens the store in a folder, which it makes if need be, and has for itself until it is closed.
    ///
    /// Fails with [`Error::Locked`], [`Error::NewerFormat`], [`Error::NewerSnapshot`], [`Error::Corrupt`] (naming the table), [`Error::NoSpace`] or
    /// [`Error::Unavailable`].
    pub fn open(dir: &Path, options: EmbeddedOptions) -> Result<Arc<Embedded>, Error> {
        let folder = Folder::take(dir, options.files.clone())?;
        let begins = options.from_snapshot.as_deref().filter(|_| folder.is_used().is_ok_and(|used| !used));
        let Opened { database, mut loaded, journal } = match begins {
            Some(snapshot) => folder.open_as(snapshot, options.cache)?,
            None => folder.open(options.cache)?,
        };
        let applied = loaded.state.applied;
        let found = recover::recover(journal.store(), journal.contents(), applied)?;
        let (mut pending, known) = (Pending::default(), loaded.index.revision);
        for (revision, entry) in found.entries {
            let key = loaded.index.key(&entry.key).unwrap_or_else(|| entry.key.clone());
            loaded.take(revision, &entry.record(), key);
            pending.insert(revision, entry);
        }
        let revision = loaded.index.revision.max(known).max(found.floor);
        loaded.index.revision = revision;
        let shared = Arc::new(Shared {
            clock: Clock::new(options.wall_clock.unwrap_or_else(SystemTime::now), loaded.newest),
            delivered: AtomicU64::new(revision),
            replaced: AtomicU64::new(0),
            index: RwLock::new(loaded.index),
            pending: RwLock::new(pending),
            applied: AtomicU64::new(applied),
            engine: RwLock::new(Some(database)),
            queue: Queue::new(),
            troubles: Troubles::default(),
            ended: watch::Sender::new(None),
            options,
            folder,
        });
        let journal = journal.into_journal(found.segment, revision);
        let checkpoints = Checkpoints::start(&shared)?;
        let mut writer = Writer::new(shared.clone(), journal, checkpoints, loaded.state.floor.max(found.floor));
        writer.begin()?;
        let thread = std::thread::Builder::new().name("storage-writer".into());
        thread.spawn(move || writer.run()).map_err(|error| Error::Unavailable(format!("no writer thread: {error}")))?;
        Ok(Arc::new(Embedded { shared }))
    }

    async fn write(&self, key: &str, change: Change) -> Result<Revision, Error> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Request::Write(Write { key: key.into(), change, answer })).await?;
        // The writer answers all it takes; if it is gone without, what it did is unknown.
        answered.await.unwrap_or_else(|_| Err(Error::Unavailable("the writer ended".into())))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let (answer, _) = oneshot::channel();
        // It may have been closed already.
        let _ = self.shared.queue.push_now(Request::Stop(answer));
    }
}

async fn blocking<T: Send + 'static>(act: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|error| Err(Error::Unavailable(format!("a storage task failed: {error}"))))
}

impl Shared {
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine(&self) -> RwLockReadGuard<'_, Option<Database>> {
        self.engine.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn engine_mut(&self) -> RwLockWriteGuard<'_, Option<Database>> {
        self.engine.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> RwLockReadGuard<'_, Pending> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending_mut(&self) -> RwLockWriteGuard<'_, Pending> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn applied(&self) -> Revision {
        self.applied.load(Ordering::Acquire)
    }

    fn set_applied(&self, revision: Revision) {
        self.applied.store(revision, Ordering::Release);
    }

    fn key(&self, key: &str) -> Arc<str> {
        self.index().key(key).unwrap_or_else(|| Arc::from(key))
    }

    fn begin_read(&self) -> Result<ReadTransaction, Error> {
        match self.engine().as_ref() {
            Some(database) => database.begin_read().map_err(failed),
            None => Err(self.trouble()),
        }
    }

    /// Reads, and again from the start if another database has taken the engine's place meanwhile: that closes the one that
    /// was read.
    fn reading<T>(&self, mut read: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            let before = self.replaced.load(Ordering::Acquire);
            let done = read();
            if done.is_ok() || self.replaced.load(Ordering::Acquire) == before {
                return done;
            }
        }
    }

    /// Refuses when the store is closed.
    fn open(&self) -> Result<(), Error> {
        match self.queue.is_closed() {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    fn delivered(&self) -> Revision {
        self.delivered.load(Ordering::Acquire)
    }

    fn deliver(&self, revision: Revision) {
        self.delivered.store(revision, Ordering::Release);
    }

    /// Why it cannot be read or written at present.
    fn trouble(&self) -> Error {
        self.troubles.worst().map_or(Error::Closed, |(_, error)| error)
    }

    fn database_path(&self) -> PathBuf {
        self.folder.dir.join(DATABASE)
    }

    /// Opens the engine anew. Reads wait meanwhile.
    fn reopen(&self) -> Result<(), Error> {
        self.reopen_into(&mut self.engine_mut())
    }

    fn reopen_into(&self, engine: &mut Option<Database>) -> Result<(), Error> {
        self.replaced.fetch_add(1, Ordering::AcqRel);
        close(engine.take());
        let (folder, cache) = (&self.folder, self.options.cache);
        let opened = open_database(&*folder.files, &self.database_path(), cache, &folder.unsynced_database());
        let judged = opened.and_then(|database| {
            let applied = read_state(&database.begin_read().map_err(failed)?)?.applied;
            match applied >= self.applied() {
                true => Ok(database),
                false => Err(Error::Corrupt(format!("{DATABASE} has lost what was written after revision {applied}"))),
            }
        });
        match judged {
            Ok(database) => {
                *engine = Some(database);
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, "the store cannot be opened");
                self.troubles.set(Part::Database, error.clone());
                Err(error)
            }
        }
    }

    /// Goes on in a copy of the database, whose file takes the current one's place: until [`Folder::sync`] has succeeded not
    /// for good. After an error it goes on in the file that has the name, whichever that is: both have all up to the last
    /// checkpoint.
    fn replace(&self, copy: Database, unsynced: Arc<Unsynced>, path: &Path) -> Result<(), Error> {
        let mut engine = self.engine_mut();
        match self.folder.put_in_place(path) {
            Ok(()) => {
                self.replaced.fetch_add(1, Ordering::AcqRel);
                close(engine.replace(copy));
                self.folder.set_unsynced_database(unsynced);
                Ok(())
            }
            Err(error) => {
                close(Some(copy));
                self.folder.unsynced_database().add(&unsynced);
                self.reopen_into(&mut engine)?;
                Err(error)
            }
        }
    }

    /// Closes the engine and lets others have the folder.
    fn release(&self) {
        self.troubles.set_first(Part::Store, Error::Closed);
        close(self.engine_mut().take());
        self.folder.release();
    }
}

#[async_trait]
impl Store for Embedded {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        limits::check_key(key)?;
        limits::check_value(&value)?;
        let sum = format::value_sum(&value);
        self.write(key, Change::Put { value, sum, then: Vec::new(), expect, ttl }).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        limits::check_key(key)?;
        std::iter::once(&value).chain(&then).try_for_each(|value| limits::check_value(value))?;
        let sum = format::value_sum(&value);
        let then: Vec<(Bytes, u32)> =
            then.into_iter().map(|value| (value.clone(), format::value_sum(&value))).collect();
        let more = then.len() as Revision;
        let first = self.write(key, Change::Put { value, sum, then, expect, ttl: None }).await?;
        Ok((first..=first + more).collect())
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        limits::check_key(key)?;
        self.write(key, Change::Delete { expected }).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        // One page, mostly in memory: cheaper here than on another thread.
        self.shared.get(key)
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        let shared = self.shared.clone();
        blocking(move || shared.range(&range)).await
    }

    async fn revision_at(&self, time: SystemTime) -> Result<Revision, Error> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (shared, time) = (self.shared.clone(), u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        blocking(move || {
            shared.open()?;
            shared.revision_at(time)
        })
        .await
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.shared.open()?;
        Ok(self.shared.index().count(prefix))
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        replay::watch(&self.shared, prefix, after, sink).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.shared.open()?;
        Ok(self.shared.delivered())
    }

    fn delivered_revision(&self) -> Option<Revision> {
        Some(self.shared.delivered())
    }

    async fn request_progress(&self, _prefix: &str) -> Result<(), Error> {
        self.shared.queue.push_now(Request::Progress)
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Request::Compact { revision, answer }).await?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        self.shared.open()?;
        Ok(self.shared.index().oldest)
    }

    async fn health(&self) -> Result<(), Error> {
        match self.shared.troubles.worst() {
            None => Ok(()),
            // Room may have come back, though nobody has written since.
            Some((Part::Room, _)) => room::check(&self.shared, limits::MAX_VALUE as u64),
            Some((_, error)) => Err(error),
        }
    }

    async fn failed(&self) -> Error {
        let mut ended = self.shared.ended.subscribe();
        let ended = ended.wait_for(Option::is_some).await.map(|error| error.clone());
        ended.ok().flatten().unwrap_or(Error::Closed)
    }

    async fn size(&self) -> Result<u64, Error> {
        self.shared.open()?;
        Ok(room::on_disk(&self.shared))
    }

    async fn close(&self) {
        let (answer, answered) = oneshot::channel();
        if self.shared.queue.push_now(Request::Stop(answer)).is_ok() {
            // An error says that the writer has ended, too.
            let _ = answered.await;
        }
    }
}
