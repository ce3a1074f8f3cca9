//! Room on the disk: told before a write fails for want of it, so that the engine rarely sees a full disk.

use std::path::Path;

use super::{Shared, files::FileSystem};
use crate::Error;

/// What a commit needs beside its values: pages on the paths to them, and the engine's own records.
const COMMIT: u64 = 1 << 20;
/// What a copy leaves for writes.
const RESERVE: u64 = 8 << 20;
/// How much disk a byte of a value may take while it is written.
const FACTOR: u64 = 3;

/// Refuses with [`Error::NoSpace`] when there is hardly room for `bytes` more of values, beside what the journal holds
/// for the database already.
pub(crate) fn check(shared: &Shared, bytes: u64) -> Result<(), Error> {
    let needed = COMMIT + FACTOR * (bytes + shared.pending().bytes());
    // A file system that cannot tell its free room is taken to have some: the write itself shows.
    let Ok(free) = shared.folder.files.free(&shared.folder.dir) else { return Ok(()) };
    if free >= needed {
        return Ok(());
    }
    let inside = on_disk(shared).saturating_sub(shared.index().stored.saturating_mul(3) / 2);
    if free.saturating_add(inside) >= needed {
        return Ok(());
    }
    Err(Error::NoSpace(format!("{} has {free} bytes left, a write needs {needed}", shared.folder.dir.display())))
}

/// Bytes that the database file takes on the disk.
pub(crate) fn on_disk(shared: &Shared) -> u64 {
    shared.folder.files.used(&shared.database_path()).unwrap_or(0)
}

/// Refuses with [`Error::NoSpace`] when a new file of this size would leave hardly any room for writes.
pub(crate) fn check_file(files: &dyn FileSystem, dir: &Path, size: u64) -> Result<(), Error> {
    check_left(files, dir, RESERVE + size)
}

/// Refuses with [`Error::NoSpace`] when so many more bytes of records and values in a new file would leave hardly any room
/// for writes.
pub(crate) fn check_copy(files: &dyn FileSystem, dir: &Path, bytes: u64) -> Result<(), Error> {
    // Pages are not full, and the engine grows a file in large steps.
    check_left(files, dir, RESERVE + bytes.saturating_mul(2))
}

fn check_left(files: &dyn FileSystem, dir: &Path, needed: u64) -> Result<(), Error> {
    match files.free(dir) {
        Ok(free) if free < needed => {
            Err(Error::NoSpace(format!("{} has {free} bytes left, a copy needs {needed}", dir.display())))
        }
        _ => Ok(()),
    }
}
