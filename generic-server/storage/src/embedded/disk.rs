//! The database file under redb, and how its failures are told.

use std::{
    any::Any,
    fmt, io,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use redb::{Database, StorageBackend};

use super::{files::FileSystem, frozen::Frozen};
use crate::Error;

/// What was written to a database's file since its last sync.
///
/// After a sync that failed the operating system takes what it could not write for written: reads show it, and no later sync
/// brings it to the disk. So it is written once more before the file is used again.
///
/// Who reads the file as it was at some moment is told of each write beforehand.
#[derive(Default)]
pub(crate) struct Unsynced {
    ranges: Mutex<Vec<Range<u64>>>,
    frozen: Mutex<Vec<Weak<Frozen>>>,
}

impl fmt::Debug for Unsynced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsynced").field("ranges", &self.ranges).finish_non_exhaustive()
    }
}

impl Unsynced {
    fn ranges(&self) -> MutexGuard<'_, Vec<Range<u64>>> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on what is overwritten is kept for this reader, as long as it is there.
    pub(crate) fn freeze(&self, frozen: &Arc<Frozen>) {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(frozen));
    }

    /// A part of the file is going to be overwritten or cut off.
    fn changes(&self, range: &Range<u64>) {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        frozen.retain(|frozen| frozen.upgrade().inspect(|frozen| frozen.keep(range.clone())).is_some());
    }

    fn note(&self, range: Range<u64>) {
        self.ranges().push(range);
    }

    /// Takes over what was written to a file that may be this one.
    pub(crate) fn add(&self, other: &Unsynced) {
        let more = std::mem::take(&mut *other.ranges());
        self.ranges().extend(more);
    }

    /// Brings to the disk what reads of the file show.
    fn mend(&self, file: &dyn StorageBackend) -> io::Result<()> {
        let ranges = self.ranges().clone();
        if ranges.is_empty() {
            return Ok(());
        }
        let len = file.len()?;
        for range in ranges {
            for start in range.clone().step_by(MEND) {
                let mut content = vec![0; (range.end.min(len).saturating_sub(start) as usize).min(MEND)];
                file.read(start.min(len), &mut content)?;
                file.write(start.min(len), &content)?;
            }
        }
        file.sync_data()?;
        self.ranges().clear();
        Ok(())
    }
}

/// Bytes mended at once.
const MEND: usize = 1 << 20;

#[derive(Debug)]
struct Tracked(Box<dyn StorageBackend>, Arc<Unsynced>);

impl StorageBackend for Tracked {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.1.changes(&(len..u64::MAX));
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        // What is written meanwhile may or may not be synced.
        let before = self.1.ranges().len();
        self.0.sync_data()?;
        let mut ranges = self.1.ranges();
        let synced = before.min(ranges.len());
        ranges.drain(..synced);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let range = offset..offset + data.len() as u64;
        self.1.changes(&range);
        self.1.note(range);
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// Opens a database file that is there, once what was written to it and not synced is on the disk.
pub(crate) fn open_database(
    files: &dyn FileSystem,
    path: &Path,
    cache: usize,
    unsynced: &Arc<Unsynced>,
) -> Result<Database, Error> {
    let open = || {
        let file = files.open(path)?;
        unsynced.mend(&*file)?;
        Ok(file)
    };
    start_engine(path, cache, unsynced, open)
}

/// Makes an empty database in a new file.
pub(crate) fn make_database(files: &dyn FileSystem, path: &Path, cache: usize) -> Result<Database, Error> {
    start_engine(path, cache, &Arc::default(), || files.create(path))
}

fn start_engine(
    path: &Path,
    cache: usize,
    unsynced: &Arc<Unsynced>,
    open: impl FnOnce() -> io::Result<Box<dyn StorageBackend>>,
) -> Result<Database, Error> {
    let file = open().map_err(|error| io_failed(&error, &format!("cannot open {}", path.display())))?;
    let backend = Tracked(file, unsynced.clone());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The engine trusts a file that was closed well, and may panic on one that was altered since.
    sound(&name, || redb::Builder::new().set_cache_size(cache).create_with_backend(backend).map_err(failed)).map_err(
        |error| match error {
            Error::Corrupt(message) if !message.starts_with(&name) => Error::Corrupt(format!("{name}: {message}")),
            error => error,
        },
    )
}

/// Closes a database. What the engine cannot write then it does not need: a panic here is no other failure than the one
/// for which the database is given up, or is told when the file is opened next.
pub(crate) fn close(database: Option<Database>) {
    let closed = sound("store.redb", || {
        drop(database);
        Ok(())
    });
    if let Err(error) = closed {
        tracing::error!(%error, "the database could not be closed");
    }
}

/// Runs an action on stored data; a panic of the engine in it means that `what` is damaged.
pub(crate) fn sound<T>(what: &str, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        Err(Error::Corrupt(format!("{what}: {}", panic_text(&*panic).unwrap_or("the engine could not read it"))))
    })
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

/// Tells the engine's failure.
pub(crate) fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => io_failed(&error, "store.redb"),
        redb::Error::Corrupted(message) => Error::Corrupt(message),
        redb::Error::TableDoesNotExist(table) => Error::Corrupt(format!("table {table} is missing")),
        redb::Error::TableTypeMismatch { table, .. } => Error::Corrupt(format!("table {table} has other types")),
        redb::Error::UpgradeRequired(version) => Error::Corrupt(format!("the engine's file format is {version}")),
        redb::Error::RepairAborted => Error::Corrupt("the file was not closed well".into()),
        redb::Error::DatabaseAlreadyOpen => Error::Locked("store.redb".into()),
        error => Error::Unavailable(error.to_string()),
    }
}

/// Tells an I/O failure.
pub(crate) fn io_failed(error: &io::Error, what: &str) -> Error {
    use io::ErrorKind::{FileTooLarge, InvalidData, QuotaExceeded, StorageFull, UnexpectedEof};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => Error::NoSpace(format!("{what}: {error}")),
        InvalidData | UnexpectedEof => Error::Corrupt(format!("{what}: {error}")),
        _ => Error::Unavailable(format!("{what}: {error}")),
    }
}
