//! Plain counters of a cache; the server exports them under upstream's names.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Counters and gauges of one cache, as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Objects held.
    pub objects: u64,
    /// Bytes of their JSON.
    pub object_bytes: u64,
    /// Bytes of other forms kept beside objects.
    pub form_bytes: u64,
    /// Up to which revision the cache is complete.
    pub revision: u64,
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
    /// Objects that lists from the store have brought.
    pub store_objects: u64,
    /// Times that the store has told how far it is.
    pub bookmarks: u64,
    /// Objects that watches began with.
    pub initial_events: u64,
    /// Reads of the latest state: those that failed and those that did not, and of each first those that the cache has
    /// answered, then those for which the store was asked.
    pub latest_reads: [[u64; 2]; 2],
    /// Lists of clients by [`FoundBy`], and the objects that were looked at for them.
    pub searches: [(u64, u64); 3],
    /// The objects that these lists were answered with.
    pub listed: u64,
    /// How long reads have waited for the cache to be fresh enough.
    pub waits: Waits,
}

/// How the objects of a list were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// All were looked at.
    Walk,
    /// By an index of a selectable field.
    Field,
    /// By an index of a label.
    Label,
}

/// Times of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many there were up to each of [`Waits::BOUNDS`] (and above the one before), and above all.
    pub counts: [u64; 14],
    /// All together.
    pub sum: Duration,
}

impl Waits {
    /// Seconds.
    pub const BOUNDS: [f64; 13] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];
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
    pub(super) store_objects: Counter,
    pub(super) bookmarks: Counter,
    pub(super) initial_events: Counter,
    pub(super) latest_reads: [[Counter; 2]; 2],
    searches: [(Counter, Counter); 3],
    listed: Counter,
    waits: [Counter; 14],
    waited: Counter,
}

impl Counters {
    /// A list of a client was answered.
    pub(super) fn found(&self, by: FoundBy, looked_at: usize, answered: usize) {
        let (lists, objects) = &self.searches[by as usize];
        lists.add(1);
        objects.add(looked_at);
        self.listed.add(answered);
    }

    /// A read found the cache as it is fresh enough, if that matters to it.
    pub(super) fn was_fresh(&self, it_matters: bool) {
        self.waits[0].add(usize::from(it_matters));
    }

    /// A read has waited.
    pub(super) fn waited(&self, time: Duration) {
        let place = Waits::BOUNDS.iter().position(|bound| time.as_secs_f64() <= *bound);
        self.waits[place.unwrap_or(Waits::BOUNDS.len())].add(1);
        self.waited.add(usize::try_from(time.as_nanos()).unwrap_or(usize::MAX));
    }

    /// All of them; what is no counter is zero.
    pub(super) fn read(&self) -> Metrics {
        Metrics {
            changes: self.changes.get(),
            broken: self.broken.get(),
            lists: self.lists.get(),
            store_watches: self.store_watches.get(),
            watchers: self.watchers.get(),
            lagged: self.lagged.get(),
            wakeups: self.wakeups.get(),
            store_reads: self.store_reads.get(),
            store_objects: self.store_objects.get(),
            bookmarks: self.bookmarks.get(),
            initial_events: self.initial_events.get(),
            latest_reads: self.latest_reads.each_ref().map(|reads| reads.each_ref().map(Counter::get)),
            searches: self.searches.each_ref().map(|(lists, objects)| (lists.get(), objects.get())),
            listed: self.listed.get(),
            waits: Waits {
                counts: self.waits.each_ref().map(Counter::get),
                sum: Duration::from_nanos(self.waited.get()),
            },
            ..Metrics::default()
        }
    }
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
