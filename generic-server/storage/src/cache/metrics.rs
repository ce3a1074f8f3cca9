//! Plain counters of a cache; the server exports them under upstream's names.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters and gauges of one cache, as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Objects held.
    pub objects: u64,
    /// Bytes of their JSON.
    pub object_bytes: u64,
    /// Bytes of other forms kept beside objects.
    pub form_bytes: u64,
    /// Changes in the window.
    pub window_changes: u64,
    /// Bytes of objects that only the window keeps.
    pub window_bytes: u64,
    /// Changes received from the store.
    pub changes: u64,
    /// Values that could not be decoded.
    pub broken: u64,
    /// Lists from the store (the first included).
    pub lists: u64,
    /// Watches opened on the store.
    pub store_watches: u64,
    /// Watchers now.
    pub watchers: u64,
    /// Watchers that were too slow and fell out of the window.
    pub lagged: u64,
    /// Tasks woken for a change.
    pub wakeups: u64,
    /// Reads at a past revision that had to go to the store.
    pub store_reads: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) changes: Counter,
    pub(super) broken: Counter,
    pub(super) lists: Counter,
    pub(super) store_watches: Counter,
    pub(super) watchers: Counter,
    pub(super) lagged: Counter,
    pub(super) wakeups: Counter,
    pub(super) store_reads: Counter,
}

#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }

    pub(super) fn sub(&self, n: usize) {
        self.0.fetch_sub(n as u64, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
