//! Snapshots as clients have saved them, brought back.

use std::path::Path;

use anyhow::Context as _;
use storage::embedded::{holds_store, start_from, verify};

/// Makes a snapshot the content of a data folder that holds no store yet; does nothing if it holds one.
///
/// # Errors
/// The file cannot be read, is damaged or cut short, was made by a newer version, or is no snapshot of this store.
pub fn start_from_saved(snapshot: &Path, dir: &Path) -> anyhow::Result<()> {
    if holds_store(dir) {
        return Ok(());
    }
    verify(snapshot)?;
    start_from(snapshot, dir).context("it cannot be restored")?;
    Ok(())
}
