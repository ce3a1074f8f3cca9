//! The states of keys in a work queue, without clocks of its own and without waiting: waiting to be worked on, being worked
//! on, or to be added later.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// How long a key that fails again and again waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// After the first failure.
    pub(crate) base: Duration,
    /// At most.
    pub(crate) max: Duration,
}

impl Default for Backoff {
    /// client-go's.
    fn default() -> Self {
        Backoff { base: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

impl Backoff {
    /// The delay after so many failures before this one.
    fn delay(&self, failures: u32) -> Duration {
        self.base.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX)).min(self.max)
    }
}

/// The keys. There is one entry a key, so it is bounded by the number of objects.
pub(super) struct State<K> {
    backoff: Backoff,
    waiting: VecDeque<K>,
    /// Since when keys need work: those in `waiting`, and those to be worked on again.
    dirty: HashMap<K, Instant>,
    /// Since when they are worked on.
    processing: HashMap<K, Instant>,
    later: BinaryHeap<Reverse<(Instant, u64)>>,
    /// By their number in `later`.
    numbered: HashMap<u64, K>,
    /// When keys are to be added, and their number; an earlier time takes the place of a later one.
    due: HashMap<K, (Instant, u64)>,
    next_number: u64,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(backoff: Backoff) -> Self {
        State {
            backoff,
            waiting: VecDeque::new(),
            dirty: HashMap::new(),
            processing: HashMap::new(),
            later: BinaryHeap::new(),
            numbered: HashMap::new(),
            due: HashMap::new(),
            next_number: 0,
            failures: HashMap::new(),
        }
    }

    /// Adds a key; whether it was not waiting yet. One that is being worked on comes again when that is done.
    pub(super) fn add(&mut self, key: K, now: Instant) -> bool {
        if self.dirty.contains_key(&key) {
            return false;
        }
        self.dirty.insert(key.clone(), now);
        if !self.processing.contains_key(&key) {
            self.waiting.push_back(key);
        }
        true
    }

    /// Adds a key at a later time.
    pub(super) fn add_at(&mut self, key: K, at: Instant) {
        if let Some((before, number)) = self.due.get(&key) {
            if *before <= at {
                return;
            }
            self.numbered.remove(number);
        }
        let number = self.next_number;
        self.next_number += 1;
        self.later.push(Reverse((at, number)));
        self.numbered.insert(number, key.clone());
        self.due.insert(key, (at, number));
    }

    /// Adds a key that has failed: later and later.
    pub(super) fn add_failed(&mut self, key: K, now: Instant) {
        let failures = self.failures.entry(key.clone()).or_default();
        let delay = self.backoff.delay(*failures);
        *failures = failures.saturating_add(1);
        self.add_at(key, now + delay);
    }

    /// The next failure of the key is the first one.
    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Adds what is due; how many those are.
    pub(super) fn add_due(&mut self, now: Instant) -> usize {
        let mut added = 0;
        while let Some(Reverse((at, number))) = self.later.peek().copied() {
            let stale = !self.numbered.contains_key(&number);
            if !stale && at > now {
                break;
            }
            self.later.pop();
            if let Some(key) = self.numbered.remove(&number) {
                self.due.remove(&key);
                added += usize::from(self.add(key, now));
            }
        }
        added
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse((at, _))| *at)
    }

    /// The next key, and since when it has waited. It is being worked on until [`State::done`].
    pub(super) fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let key = self.waiting.pop_front()?;
        let since = self.dirty.remove(&key).unwrap_or(now);
        self.processing.insert(key.clone(), now);
        Some((key, now.saturating_duration_since(since)))
    }

    /// A key is no longer worked on; for how long it was.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> Duration {
        let since = self.processing.remove(key).unwrap_or(now);
        if self.dirty.contains_key(key) {
            self.waiting.push_back(key.clone());
        }
        now.saturating_duration_since(since)
    }

    /// How many wait.
    pub(super) fn depth(&self) -> usize {
        self.waiting.len()
    }

    /// For how long keys have been worked on that still are: all together, and the longest.
    pub(super) fn unfinished(&self, now: Instant) -> (Duration, Duration) {
        let times = self.processing.values().map(|since| now.saturating_duration_since(*since));
        times.fold(Default::default(), |(sum, longest), time| (sum + time, longest.max(time)))
    }

    /// Nothing waits, now or later.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.dirty.is_empty() && self.due.is_empty() && self.processing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (State<&'static str>, Instant) {
        (State::new(Backoff::default()), Instant::now())
    }

    #[test]
    fn a_key_waits_once_and_is_worked_on_by_one_alone() {
        let (mut s, now) = state();
        assert!(s.add("a", now) && !s.add("a", now) && s.add("b", now));
        assert_eq!((s.depth(), s.take(now).map(|(key, _)| key)), (2, Some("a")));
        assert!(s.add("a", now), "what changes meanwhile is looked at again");
        assert!(!s.add("a", now));
        assert_eq!(s.take(now).map(|(key, _)| key), Some("b"));
        assert_eq!(s.take(now), None, "a is being worked on");
        s.done(&"a", now);
        assert_eq!(s.take(now).map(|(key, _)| key), Some("a"));
        s.done(&"a", now);
        s.done(&"b", now);
        assert!(s.is_idle());
    }

    #[test]
    fn what_fails_waits_longer_each_time_until_it_is_forgotten() {
        let (mut s, now) = state();
        let mut delays = Vec::new();
        for round in 0..30 {
            s.add_failed("a", now);
            let due = s.next_due().expect("it waits");
            delays.push((due - now).as_millis());
            assert_eq!(s.add_due(due - Duration::from_millis(1)), 0, "{round}");
            assert_eq!(s.add_due(due), 1);
            s.take(due);
            s.done(&"a", due);
        }
        assert_eq!(delays[..4], [5, 10, 20, 40]);
        assert_eq!(delays[17], 655_360);
        assert_eq!(delays[18..], [1_000_000; 12]);
        s.forget(&"a");
        s.add_failed("a", now);
        assert_eq!(s.next_due(), Some(now + Duration::from_millis(5)));
    }

    #[test]
    fn the_earlier_of_two_times_counts() {
        let (mut s, now) = state();
        let at = |seconds| now + Duration::from_secs(seconds);
        s.add_at("a", at(5));
        s.add_at("a", at(9));
        s.add_at("a", at(2));
        assert_eq!(s.next_due(), Some(at(2)));
        assert_eq!(s.add_due(at(2)), 1);
        s.take(at(2));
        s.done(&"a", at(2));
        assert_eq!(s.add_due(at(20)), 0);
        assert!(s.is_idle());
    }

    #[test]
    fn times_are_measured() {
        let (mut s, now) = state();
        let at = |seconds| now + Duration::from_secs(seconds);
        s.add("a", now);
        assert_eq!(s.take(at(3)), Some(("a", Duration::from_secs(3))));
        assert_eq!(s.unfinished(at(5)), (Duration::from_secs(2), Duration::from_secs(2)));
        assert_eq!(s.done(&"a", at(7)), Duration::from_secs(4));
        assert_eq!(s.unfinished(at(9)), Default::default());
    }
}
