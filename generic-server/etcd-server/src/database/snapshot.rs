//! Snapshots as clients have saved them, brought back.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context as _, ensure};
use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use storage::embedded::{holds_store, start_from};

/// A snapshot as a client saves it is a database and then its SHA-256; a database's size is a multiple of this.
const BLOCK: u64 = 512;

/// Makes a snapshot the content of a data folder that holds no store yet; does nothing if it holds one.
///
/// # Errors
/// The file cannot be read, is damaged, or is no snapshot of this store.
pub fn start_from_saved(snapshot: &Path, dir: &Path) -> anyhow::Result<()> {
    if holds_store(dir) {
        return Ok(());
    }
    let mut file = File::open(snapshot)?;
    let size = file.metadata()?.len();
    let sum_size = SHA256_OUTPUT_LEN as u64;
    if size % BLOCK != sum_size {
        // A file of the store itself.
        start_from(snapshot, dir)?;
        return Ok(());
    }
    let mut database = tempfile::Builder::new().prefix("snapshot-").tempfile()?;
    let mut sum = Summed { sum: Context::new(&SHA256), inner: &mut file };
    io::copy(&mut (&mut sum).take(size - sum_size), database.as_file_mut())?;
    let (found, mut told) = (sum.sum.finish(), [0; SHA256_OUTPUT_LEN]);
    file.read_exact(&mut told)?;
    ensure!(found.as_ref() == told, "it is damaged: its checksum is another");
    start_from(database.path(), dir).context("it cannot be restored")?;
    Ok(())
}

/// Sums what is read.
struct Summed<'a> {
    sum: Context,
    inner: &'a mut File,
}

impl Read for Summed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.sum.update(&into[..read]);
        Ok(read)
    }
}
