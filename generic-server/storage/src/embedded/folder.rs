//! The data folder: its lock, its format, and what is read from it at start.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};

use super::{
    disk::{Unsynced, failed, io_failed, make_database, open_database, sound},
    files::{self, FileSystem},
    format::{
        LOG, Record, STATE, STATE_APPLIED, STATE_FLOOR, STATE_FORMAT, STATE_JOURNAL, STATE_OLDEST, VALUES, VERSION,
    },
    index::Index,
    journal::{self, Files},
    snapshot::KEPT,
};
use crate::{Error, Revision};

/// The database file's name.
pub(crate) const DATABASE: &str = "store.redb";
/// A copy of the database that is being made; worthless after a crash.
pub(crate) const COPY: &str = "store.redb.new";
const FORMAT: &str = "FORMAT";
const LOCK: &str = "LOCK";
const FORMAT_HEAD: &str = "kube-apiserver store, format ";
/// The revision of an empty store, as in etcd.
const FIRST: Revision = 1;

/// A data folder that this process has for itself.
pub(crate) struct Folder {
    pub(crate) dir: PathBuf,
    pub(crate) files: Arc<dyn FileSystem>,
    /// Which file has the database's name may be lost with the power: see [`Self::sync`].
    unsynced: AtomicBool,
    /// What was written to the database and may not be on the disk.
    unsynced_database: Mutex<Arc<Unsynced>>,
    /// Held as long as the folder is in use.
    lock: Mutex<Option<File>>,
}

/// The numbers about a store as a whole.
pub(crate) struct State {
    /// The oldest revision that can be read.
    pub(crate) oldest: Revision,
    /// Revisions up to this one may have been given out.
    pub(crate) floor: Revision,
    /// The tables have all revisions up to this one.
    pub(crate) applied: Revision,
    /// The number that the journal's frames carry, if there is a journal.
    pub(crate) journal: Option<u64>,
}

/// What a database holds, as far as memory needs it.
pub(crate) struct Loaded {
    pub(crate) index: Index,
    /// The newest write whose time is known, by the store's clock (ms).
    pub(crate) newest: u64,
    pub(crate) state: State,
}

/// A folder's files, open.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) loaded: Loaded,
    pub(crate) journal: Files,
}

impl Folder {
    /// Takes the folder, making it if it is not there. Fails with [`Error::Locked`] or [`Error::NewerFormat`].
    pub(crate) fn take(dir: &Path, files: Arc<dyn FileSystem>) -> Result<Folder, Error> {
        let tell = |error: io::Error| io_failed(&error, &dir.display().to_string());
        files::make_dirs(&*files, dir)?;
        let mut lock = OpenOptions::new();
        let lock = lock.read(true).write(true).create(true).truncate(false).open(dir.join(LOCK)).map_err(tell)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Locked(dir.display().to_string())),
            Err(TryLockError::Error(error)) => return Err(tell(error)),
        }
        // An earlier run may have ended between a rename and its sync.
        let (unsynced, lock) = (AtomicBool::new(true), Mutex::new(Some(lock)));
        Ok(Folder { dir: dir.into(), files, unsynced, unsynced_database: Mutex::default(), lock })
    }

    /// Lets others have the folder.
    pub(crate) fn release(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whether it holds a store, or once did.
    pub(crate) fn is_used(&self) -> Result<bool, Error> {
        Ok(self.size(DATABASE)?.unwrap_or(0) > 0 || self.read_format()?.is_some())
    }

    /// Opens the folder's files; makes them in a new folder only, so that a lost file is not taken for an empty store.
    /// What an older version made gets a journal.
    pub(crate) fn open(&self, cache: usize) -> Result<Opened, Error> {
        let path = self.dir.join(DATABASE);
        let format = self.read_format()?;
        let size = self.size(DATABASE)?;
        // A copy is made anew before it is used.
        let _ = self.files.remove(&self.dir.join(COPY));
        let _ = self.files.remove(&self.dir.join(KEPT));
        if size.unwrap_or(0) == 0 {
            if format.is_some() {
                let what = if size.is_some() { "empty" } else { "missing" };
                return Err(Error::Corrupt(format!("{} is {what}, though the folder has been in use", path.display())));
            }
            let new = self.dir.join(COPY);
            create_database(&*self.files, &new, cache)?.close().map_err(failed)?;
            self.put_in_place(&new)?;
            self.sync()?;
        }
        let database = open_database(&*self.files, &path, cache, &self.unsynced_database())?;
        let loaded = load(&database)?;
        let number = match loaded.state.journal {
            Some(number) => number,
            None => self.add_journal(&database, loaded.index.revision)?,
        };
        let journal = Files::open(&self.dir, &*self.files, number)?;
        if format != Some(VERSION) {
            self.write_format()?;
        }
        Ok(Opened { database, loaded, journal })
    }

    /// Makes a journal for a database that has none; returns its number.
    pub(crate) fn add_journal(&self, database: &Database, revision: Revision) -> Result<u64, Error> {
        journal::make(&self.dir, &*self.files)?;
        let mut number = [0; 8];
        aws_lc_rs::rand::fill(&mut number).map_err(|_| Error::Unavailable("no random numbers".into()))?;
        let number = u64::from_le_bytes(number);
        let mut write = database.begin_write().map_err(failed)?;
        write.set_quick_repair(true);
        {
            let mut state = write.open_table(STATE).map_err(failed)?;
            let numbers = [(STATE_FORMAT, u64::from(VERSION)), (STATE_APPLIED, revision), (STATE_JOURNAL, number)];
            for (name, value) in numbers {
                state.insert(name, value).map_err(|error| in_table("state", error))?;
            }
        }
        write.commit().map_err(failed)?;
        Ok(number)
    }

    /// Puts a finished database file in the place of the current one. It is the database then, but a loss of power brings
    /// the one before back until [`Self::sync`] has succeeded. After an error either of them may have the name.
    pub(crate) fn put_in_place(&self, new: &Path) -> Result<(), Error> {
        self.unsynced.store(true, Ordering::Release);
        let renamed = self.files.rename(new, &self.dir.join(DATABASE));
        renamed.map_err(|error| io_failed(&error, &new.display().to_string()))
    }

    /// What was written to the database and may not be on the disk.
    pub(crate) fn unsynced_database(&self) -> Arc<Unsynced> {
        self.unsynced_database.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another file is the database.
    pub(crate) fn set_unsynced_database(&self, unsynced: Arc<Unsynced>) {
        *self.unsynced_database.lock().unwrap_or_else(PoisonError::into_inner) = unsynced;
    }

    /// Makes sure that a loss of power changes nothing about which file is the database. Nothing may be dropped that only
    /// this one has before that.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        if self.unsynced.load(Ordering::Acquire) {
            let synced = self.files.sync_dir(&self.dir);
            synced.map_err(|error| io_failed(&error, &format!("cannot sync {}", self.dir.display())))?;
            self.unsynced.store(false, Ordering::Release);
        }
        Ok(())
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Error> {
        let path = self.dir.join(name);
        self.files.len(&path).map_err(|error| io_failed(&error, &path.display().to_string()))
    }

    /// The folder's format; `None` if it has not been in use. Refuses formats that are newer than this version.
    fn read_format(&self) -> Result<Option<u32>, Error> {
        let path = self.dir.join(FORMAT);
        let read = files::read(&*self.files, &path).map_err(|error| io_failed(&error, &path.display().to_string()))?;
        let Some(text) = read else { return Ok(None) };
        let version = std::str::from_utf8(&text).ok().and_then(|text| text.trim_end().strip_prefix(FORMAT_HEAD));
        match version.and_then(|version| version.parse::<u32>().ok()) {
            Some(version) => check_version(version.into()).map(|()| Some(version)),
            None => Err(Error::Corrupt(format!("{} does not name a format", path.display()))),
        }
    }

    pub(crate) fn write_format(&self) -> Result<(), Error> {
        let path = self.dir.join(FORMAT);
        let written = files::replace(&*self.files, &path, format!("{FORMAT_HEAD}{VERSION}\n").as_bytes());
        written.map_err(|error| io_failed(&error, &path.display().to_string()))
    }
}

/// Makes an empty store in a new file.
pub(crate) fn create_database(files: &dyn FileSystem, path: &Path, cache: usize) -> Result<Database, Error> {
    let database = make_database(files, path, cache)?;
    let mut write = database.begin_write().map_err(failed)?;
    write.set_quick_repair(true);
    {
        write.open_table(LOG).map_err(failed)?;
        write.open_table(VALUES).map_err(failed)?;
        let mut state = write.open_table(STATE).map_err(failed)?;
        state.insert(STATE_FORMAT, u64::from(VERSION)).map_err(failed)?;
        state.insert(STATE_OLDEST, FIRST).map_err(failed)?;
        state.insert(STATE_FLOOR, FIRST).map_err(failed)?;
    }
    write.commit().map_err(failed)?;
    Ok(database)
}

fn check_version(found: u64) -> Result<(), Error> {
    match u32::try_from(found) {
        Ok(found) if found <= VERSION => Ok(()),
        found => Err(Error::NewerFormat { found: found.unwrap_or(u32::MAX), supported: VERSION }),
    }
}

/// Reads the numbers about a store.
pub(crate) fn read_state(read: &ReadTransaction) -> Result<State, Error> {
    sound("table state", || {
        let state = read.open_table(STATE).map_err(failed)?;
        let get = |name| Ok::<_, Error>(state.get(name).map_err(failed)?.map(|value| value.value()));
        check_version(get(STATE_FORMAT)?.ok_or_else(|| Error::Corrupt("table state does not name a format".into()))?)?;
        Ok(State {
            oldest: get(STATE_OLDEST)?.unwrap_or(FIRST),
            floor: get(STATE_FLOOR)?.unwrap_or(FIRST),
            applied: get(STATE_APPLIED)?.unwrap_or(FIRST),
            journal: get(STATE_JOURNAL)?,
        })
    })
}

/// Reads what memory needs: the state and the log, whose every record is checked on the way.
pub(crate) fn load(database: &impl ReadableDatabase) -> Result<Loaded, Error> {
    let read = database.begin_read().map_err(failed)?;
    let state = read_state(&read)?;
    let mut loaded = Loaded { index: Index::new(FIRST, state.oldest), newest: 0, state };
    let mut last = 0;
    sound("table log", || {
        let log = read.open_table(LOG).map_err(failed)?;
        for entry in log.iter().map_err(|error| in_table("log", error))? {
            let (revision, bytes) = entry.map_err(|error| in_table("log", error))?;
            let record = Record::decode(revision.value(), bytes.value())?;
            // The checksum does not tell all revisions apart.
            let newest = if loaded.state.journal.is_some() { loaded.state.applied } else { Revision::MAX };
            if revision.value() <= last || revision.value() > newest {
                return Err(Error::Corrupt(format!("table log: the record of revision {last} or the next is damaged")));
            }
            last = revision.value();
            let key = loaded.index.key(record.key).unwrap_or_else(|| Arc::from(record.key));
            loaded.take(revision.value(), &record, key);
        }
        Ok(())
    })?;
    sound("table values", || read.open_table(VALUES).map(drop).map_err(failed))?;
    let State { oldest, floor, applied, .. } = loaded.state;
    loaded.index.revision = loaded.index.revision.max(floor).max(oldest).max(applied);
    Ok(loaded)
}

impl Loaded {
    /// Takes in the next revision.
    pub(crate) fn take(&mut self, revision: Revision, record: &Record<'_>, key: Arc<str>) {
        self.newest = self.newest.max(record.written).max(record.lifetime.map_or(0, |lifetime| lifetime.written));
        self.index.apply(revision, record, key);
    }
}

/// Tells a failure to read a table, naming it.
pub(crate) fn in_table(table: &str, error: impl Into<redb::Error>) -> Error {
    match failed(error) {
        Error::Corrupt(message) => Error::Corrupt(format!("table {table}: {message}")),
        error => error,
    }
}
