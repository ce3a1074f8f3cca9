//! Copies of the database while it serves, which give unused room back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{Database, ReadTransaction, ReadableTable};

use super::{
    Shared,
    disk::{failed, open_database, panic_text},
    files::{FileSystem, parent},
    folder::{COPY, Folder, create_database, in_table},
    format::{LOG, Record, STATE, VALUES, decode_value},
    room,
    trouble::Part,
    writer::{Request, Writer},
};
use crate::{Error, Revision};

/// Records copied in one transaction.
const CHUNK: usize = 1000;
/// How many revisions behind a copy may be for the writer to do the rest.
const CLOSE: Revision = 500;
/// A file is copied when it takes more than this many times what it holds, and this many bytes more.
const WASTE: u64 = 3;
const WASTE_BYTES: u64 = 32 << 20;

/// A finished copy.
pub(crate) struct Copied {
    path: PathBuf,
    /// It has all revisions up to this one.
    upto: Revision,
}

/// Copies a database into a new file. Returns the newest revision in its log.
fn copy_all(files: &dyn FileSystem, read: &ReadTransaction, path: &Path) -> Result<Revision, Error> {
    let copy = create_database(files, path, 4 << 20)?;
    copy_state(read, &copy)?;
    let upto = copy_after(read, &copy, 0, || room::check_copy(files, parent(path), 0))?;
    copy.close().map_err(failed)?;
    Ok(upto)
}

fn copy_state(read: &ReadTransaction, copy: &Database) -> Result<(), Error> {
    let write = copy.begin_write().map_err(failed)?;
    {
        let from = read.open_table(STATE).map_err(failed)?;
        let mut into = write.open_table(STATE).map_err(failed)?;
        for entry in from.iter().map_err(|error| in_table("state", error))? {
            let (name, value) = entry.map_err(|error| in_table("state", error))?;
            into.insert(name.value(), value.value()).map_err(failed)?;
        }
    }
    write.commit().map_err(failed)
}

/// Copies the records after a revision, each checked, as long as there is room; returns the last one copied (or what was
/// given).
fn copy_after(
    read: &ReadTransaction,
    copy: &Database,
    after: Revision,
    room: impl Fn() -> Result<(), Error>,
) -> Result<Revision, Error> {
    let log = read.open_table(LOG).map_err(failed)?;
    let values = read.open_table(VALUES).map_err(failed)?;
    let mut entries = log.range(after + 1..).map_err(|error| in_table("log", error))?;
    let (mut upto, mut done) = (after, false);
    while !done {
        room()?;
        let mut write = copy.begin_write().map_err(failed)?;
        write.set_quick_repair(true);
        {
            let mut log_copy = write.open_table(LOG).map_err(failed)?;
            let mut values_copy = write.open_table(VALUES).map_err(failed)?;
            for _ in 0..CHUNK {
                let Some(entry) = entries.next() else {
                    done = true;
                    break;
                };
                let (revision, record) = entry.map_err(|error| in_table("log", error))?;
                upto = revision.value();
                Record::decode(upto, record.value())?;
                log_copy.insert(upto, record.value()).map_err(failed)?;
                if let Some(value) = values.get(upto).map_err(|error| in_table("values", error))? {
                    decode_value(upto, value.value())?;
                    values_copy.insert(upto, value.value()).map_err(failed)?;
                }
            }
        }
        write.commit().map_err(failed)?;
    }
    Ok(upto)
}

/// Makes a copy of the database that is only a little behind.
fn copy_closely(shared: &Shared) -> Result<Copied, Error> {
    let Folder { dir, files, .. } = &shared.folder;
    let path = dir.join(COPY);
    let mut upto = copy_all(&**files, &shared.begin_read()?, &path)?;
    while shared.applied() > upto + CLOSE {
        let copy = open_database(&**files, &path, 4 << 20, &Arc::default())?;
        let before = upto;
        upto = copy_after(&shared.begin_read()?, &copy, upto, || room::check_copy(&**files, dir, 0))?;
        copy.close().map_err(failed)?;
        if upto == before {
            break;
        }
    }
    Ok(Copied { path, upto })
}

impl Copied {
    /// Brings the copy up to date and puts it in the database's place. Nothing else may write to the database meanwhile.
    ///
    /// An error says that the database is not well: it could not be opened again, or which file it is may be lost with the
    /// power. That the copy could not be used is none.
    pub(crate) fn adopt(self, shared: &Shared) -> Result<(), Error> {
        match self.take_over(shared) {
            Ok(()) => shared.troubles.clear(Part::Copy),
            Err(error) => give_up(shared, &error),
        }
        if shared.engine().is_none() {
            return Err(shared.trouble());
        }
        shared.folder.sync()
    }

    fn take_over(self, shared: &Shared) -> Result<(), Error> {
        let unsynced = Arc::default();
        let copy = open_database(&*shared.folder.files, &self.path, shared.options.cache, &unsynced)?;
        let read = shared.begin_read()?;
        copy_after(&read, &copy, self.upto, || Ok(()))?;
        copy_state(&read, &copy)?;
        drop(read);
        shared.replace(copy, unsynced, &self.path)
    }
}

fn give_up(shared: &Shared, error: &Error) {
    tracing::warn!(%error, "room in the database file could not be given back");
    // The next copy replaces it.
    let _ = shared.folder.files.remove(&shared.folder.dir.join(COPY));
}

/// Makes a copy on a thread of its own, whose panic is an error like any other.
fn copy_safely(shared: &Shared) -> Result<Copied, Error> {
    catch_unwind(AssertUnwindSafe(|| copy_closely(shared))).unwrap_or_else(|panic| {
        let why = panic_text(&*panic).unwrap_or("of an unknown kind");
        let error = Error::Unavailable(format!("the thread that copies the database panicked: {why}"));
        shared.troubles.set(Part::Copy, error.clone());
        Err(error)
    })
}

impl Writer {
    /// Starts to copy the database if its file takes much more room than what it holds, and there is room for both.
    pub(crate) fn start_copy_if_wasteful(&mut self) {
        let stored = self.shared.index().stored;
        if !self.checkpoints.is_idle() || room::on_disk(&self.shared) < WASTE * stored + WASTE_BYTES {
            return;
        }
        let Folder { dir, files, .. } = &self.shared.folder;
        if let Err(error) = room::check_copy(&**files, dir, stored) {
            // Told once, until there is room again.
            if !std::mem::replace(&mut self.cramped, true) {
                tracing::warn!(%error, "room in the database file cannot be given back for want of room for a copy");
            }
            return;
        }
        self.cramped = false;
        self.start_copy();
    }

    /// Starts the copy that somebody has asked for, once nothing else is at work on the database.
    pub(crate) fn defragment_if_asked(&mut self) {
        if self.defragmenting.is_empty() || !self.checkpoints.is_idle() {
            return;
        }
        let stored = self.shared.index().stored;
        let Folder { dir, files, .. } = &self.shared.folder;
        match room::check_copy(&**files, dir, stored) {
            Ok(()) => self.start_copy(),
            Err(error) => self.defragmented(&Err(error)),
        }
    }

    /// Tells those who have asked for a copy what has become of it.
    pub(crate) fn defragmented(&mut self, outcome: &Result<(), Error>) {
        for answer in self.defragmenting.drain(..) {
            // Whoever asked may be gone.
            let _ = answer.send(outcome.clone());
        }
    }

    fn start_copy(&mut self) {
        let shared = self.shared.clone();
        let copier = std::thread::Builder::new().name("storage-copy".into()).spawn(move || {
            // A store that has stopped takes no copy.
            let _ = shared.queue.push_now(Request::Adopt(copy_safely(&shared)));
        });
        match copier {
            Ok(_) => self.checkpoints.copy_begins(),
            Err(error) => {
                tracing::warn!(%error, "no thread to give room back with");
                self.defragmented(&Err(Error::Unavailable(error.to_string())));
            }
        }
    }

    /// Goes on in a copy, as soon as the database is not written to.
    pub(crate) fn adopt(&mut self, copied: Result<Copied, Error>) {
        if let Err(error) = &copied {
            give_up(&self.shared, error);
            self.defragmented(&Err(error.clone()));
        }
        self.checkpoints.copy_ended(copied.ok());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{
        super::{
            Embedded, EmbeddedOptions,
            read::{Past, changes},
        },
        *,
    };
    use crate::{Expect, Range, Store};

    /// Puts a copy in the database's place, as the checkpoint's thread does.
    fn adopt(shared: &Shared) {
        copy_closely(shared).expect("a copy").adopt(shared).expect("adopted");
    }

    #[tokio::test]
    async fn a_read_is_begun_again_when_a_copy_takes_the_databases_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(dir.path(), EmbeddedOptions::default()).expect("open");
        store.put("/a", Bytes::from_static(b"1"), Expect::Absent, None).await.expect("written");
        // After a start the database has what the journal had.
        store.close().await;
        drop(store);
        let store = Embedded::open(dir.path(), EmbeddedOptions::default()).expect("open");
        let shared = &store.shared;
        let mut rounds = 0;
        let found = shared.reading(|| {
            let view = shared.view()?;
            rounds += 1;
            if rounds == 1 {
                adopt(shared);
            }
            changes(&view, "/", 0, usize::MAX, |key| shared.key(key))
        });
        assert_eq!((rounds, found.expect("read").events.len()), (2, 1));

        let mut past = Past::new(shared);
        let range = shared.range(&Range { prefix: "/".into(), ..Range::default() }).expect("read");
        let found = shared.index().latest("/a").expect("there");
        for _ in 0..2 {
            let value = past.read(|values| values.key_value(found.clone())).expect("read");
            assert_eq!(value, range.items[0]);
            adopt(shared);
        }
        store.close().await;
    }
}
