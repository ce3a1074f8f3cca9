//! The file under redb, and how its failures are told.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use redb::{Database, StorageBackend};

use crate::Error;

/// Opens the file under a database; tests put one that fails in its place.
pub type OpenBackend = dyn Fn(&Path) -> io::Result<Box<dyn StorageBackend>> + Send + Sync;

/// A plain file. The folder's lock keeps other processes out, so it needs none of its own.
#[derive(Debug)]
pub struct Disk(File);

impl Disk {
    /// Opens or creates the file, readable by its owner alone.
    pub fn open(path: &Path) -> io::Result<Disk> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map(Disk)
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

#[derive(Debug)]
struct Boxed(Box<dyn StorageBackend>);

impl StorageBackend for Boxed {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// Opens a database file, or makes one if it is not there or empty.
pub(crate) fn open_database(path: &Path, backend: &OpenBackend, cache: usize) -> Result<Database, Error> {
    let backend = Boxed(backend(path).map_err(|error| io_failed(&error, &format!("cannot open {}", path.display())))?);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // The engine trusts a file that was closed well, and may panic on one that was altered since.
    sound(&name, || redb::Builder::new().set_cache_size(cache).create_with_backend(backend).map_err(failed)).map_err(
        |error| match error {
            Error::Corrupt(message) if !message.starts_with(&name) => Error::Corrupt(format!("{name}: {message}")),
            error => error,
        },
    )
}

/// Runs an action on stored data; a panic of the engine in it means that `what` is damaged.
pub(crate) fn sound<T>(what: &str, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::Corrupt(format!("{what}: {}", text.unwrap_or("the engine could not read it"))))
    })
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
