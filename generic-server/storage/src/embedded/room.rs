//! Room on the disk: told before a write fails for want of it, so that the engine rarely sees a full disk.

use std::{fs, os::unix::fs::MetadataExt};

use super::Shared;
use crate::Error;

/// What a commit needs beside its values: pages on the paths to them, and the engine's own records.
const COMMIT: u64 = 1 << 20;
/// How much disk a byte of a value may take while it is written.
const FACTOR: u64 = 3;

/// Refuses with [`Error::NoSpace`] when there is hardly room for `bytes` more of values, beside what the journal holds
/// for the database already.
pub(crate) fn check(shared: &Shared, bytes: u64) -> Result<(), Error> {
    let needed = COMMIT + FACTOR * (bytes + shared.pending().bytes());
    // A file system that cannot tell its free room is taken to have some: the write itself shows.
    let Ok(stat) = rustix::fs::statvfs(&shared.folder.dir) else { return Ok(()) };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
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
    fs::metadata(shared.database_path()).map_or(0, |metadata| metadata.blocks() * 512)
}
