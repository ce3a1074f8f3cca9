//! Folders for tests that are not about the disk.

use tempfile::TempDir;

/// What a folder in memory must leave room for: several stores of a test, with the journals that they write in advance.
const ROOM: u64 = 2 << 30;

/// A folder in memory where there is much room for it: how long others' syncs take does not matter there.
pub(crate) fn folder() -> TempDir {
    let memory = "/dev/shm";
    let room = rustix::fs::statvfs(memory).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    let made = if room > ROOM { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).expect("a folder")
}
