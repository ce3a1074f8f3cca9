//! The watch cache: every resource's objects as immutable snapshots, and a window of recent changes.
//!
//! ```text
//! Store ──Sink──▶ writer ──▶ latest snapshot (persistent map) ──▶ Cache::read ─▶ get, list at any recent revision
//!                    └─────▶ window of changes ───────────────▶ Cache::watch ─▶ Watcher (a position, no queue)
//! ```
//!
//! There is one writer for each resource, called by the store in revision order. A change is decoded once, goes into the
//! map and the window, and then the new snapshot is published: whoever sees a snapshot finds all its changes in the
//! window. Readers never block the writer beyond a few pointer copies, and the writer never waits for a reader: a watcher
//! that falls out of the window ends.

mod asking;
mod change;
mod follow;
mod forms;
mod index;
mod keeper;
mod metrics;
mod object;
mod reader;
mod snapshot;
mod sync;
mod texts;
mod wait;
mod watcher;
mod window;
mod writer;

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod interleavings;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

pub use change::{Change, EventType, Everything, Filter, WatchEvent};
pub use follow::{Followed, Follower};
pub use forms::FormId;
pub use index::Term;
pub use metrics::{FoundBy, Metrics, Waits};
pub use object::{Broken, CacheEntry, Decode, DecodeError, Decoded, Object};
pub use reader::{Cache, CacheError, ReadAt};
pub use snapshot::Snapshot;
pub use texts::{Fields, Labels};
pub use watcher::{Scope, Start, WatchEnd, WatchOptions, Watcher};
pub use window::WindowLimits;

use std::time::Duration;

/// How a cache behaves; the defaults are for production.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Whether keys are `prefix`, namespace, `/`, name rather than `prefix`, name.
    pub namespaced: bool,
    /// Which of the resource's selectable fields (positions in [`Decoded::fields`]) are indexed, such as spec.nodeName.
    pub indexed: Vec<usize>,
    /// From how many objects on labels are indexed: a walk over fewer is quick, and the index costs some forty bytes for
    /// each label of each object.
    pub labels_from: usize,
    /// How much history is kept for watches.
    pub window: WindowLimits,
    /// Keys in a page of the initial list.
    pub page: usize,
    /// How long a read waits for a revision, as upstream's 3 s.
    pub patience: Duration,
    /// The time between two bookmarks of a watch (each is up to a quarter longer), as upstream's minute.
    pub bookmark_every: Duration,
    /// Bytes that the other forms of all objects may take together.
    pub form_bytes: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            namespaced: true,
            indexed: Vec::new(),
            labels_from: 4096,
            window: WindowLimits::default(),
            page: 5000,
            patience: Duration::from_secs(3),
            bookmark_every: Duration::from_secs(60),
            form_bytes: 16 << 20,
        }
    }
}
