//! What can go wrong in a store.

use crate::{KeyValue, Revision};

/// A store's error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The key is not as the write expected it; what is there, if anything.
    #[error("the key is not at the expected revision")]
    Conflict {
        /// The key as it is now; `None` if it does not exist.
        current: Option<Box<KeyValue>>,
    },
    /// The revision asked for has been compacted.
    #[error("the revision has been compacted; the oldest readable one is {oldest}")]
    Compacted {
        /// The oldest readable revision.
        oldest: Revision,
    },
    /// The revision asked for lies in the future.
    #[error("revision {asked} is greater than the current one, {current}")]
    FutureRevision {
        /// What was asked for.
        asked: Revision,
        /// The current revision.
        current: Revision,
    },
    /// The key is empty, too long, or holds a NUL byte.
    #[error("invalid key: {0}")]
    InvalidKey(String),
    /// The value is larger than the store takes.
    #[error("the value of {size} bytes is larger than the {limit} that the store takes")]
    TooLarge {
        /// The value's size in bytes.
        size: usize,
        /// The largest size in bytes.
        limit: usize,
    },
    /// There is no room on the disk: writes fail, reads go on.
    #[error("the store is out of space: {0}")]
    NoSpace(String),
    /// The store does not answer, or answered an error that may pass.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store took too long.
    #[error("the store timed out: {0}")]
    Timeout(String),
    /// The store's files are damaged.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The data folder is in use by another process.
    #[error("the data folder is in use by another process: {0}")]
    Locked(String),
    /// The data folder was written by a newer version.
    #[error("the data folder has format {found}, this version reads up to {supported}")]
    NewerFormat {
        /// The format found.
        found: u32,
        /// The newest format this version reads.
        supported: u32,
    },
    /// A snapshot was made by a newer version.
    #[error("the snapshot is of a newer version: it has format {found}, this version reads up to {supported}")]
    NewerSnapshot {
        /// The format found.
        found: u32,
        /// The newest format this version reads.
        supported: u32,
    },
    /// The store does not know when things were written.
    #[error("the store does not keep the times of its revisions")]
    NoTimes,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}
