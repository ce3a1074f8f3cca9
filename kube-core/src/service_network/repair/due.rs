//! What is to be looked at, and when. A thing is in it once, at the earliest time that was asked for.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
};

use tokio::time::Instant;

/// Keys by the time at which they are due.
pub(super) struct Due<K> {
    times: HashMap<K, Instant>,
    order: BTreeSet<(Instant, K)>,
}

impl<K: Clone + Eq + Hash + Ord> Due<K> {
    pub(super) fn new() -> Self {
        Due { times: HashMap::new(), order: BTreeSet::new() }
    }

    /// Asks for a look at `key` at this time, or before if that was asked for.
    pub(super) fn add(&mut self, key: K, at: Instant) {
        if let Some(before) = self.times.get(&key) {
            if *before <= at {
                return;
            }
            self.order.remove(&(*before, key.clone()));
        }
        self.times.insert(key.clone(), at);
        self.order.insert((at, key));
    }

    /// The next key that is due by now.
    pub(super) fn pop(&mut self, now: Instant) -> Option<K> {
        if self.order.first().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.times.remove(&key);
        Some(key)
    }

    /// Waits until something is due; forever if there is nothing.
    pub(super) async fn wait(&self) {
        match self.order.first() {
            Some((at, _)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_key_is_due_once_at_the_earliest_time() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut due = Due::new();
        due.add("late", at(60));
        due.add("a", at(2));
        due.add("a", at(1));
        due.add("a", at(3));
        assert_eq!(due.pop(at(0)), None);
        assert_eq!((due.pop(at(2)), due.pop(at(10))), (Some("a"), None));
        due.add("late", at(5));
        assert_eq!((due.pop(at(10)), due.pop(at(100))), (Some("late"), None));
    }
}
