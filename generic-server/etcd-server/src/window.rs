//! The newest changes, which watches read as they come. One that is too slow finds them gone and reads the log.

use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, RwLock},
};

use tokio::sync::watch;

use crate::proto::{Event, event::EventType};

/// Bytes of keys and values (old and new) that are kept, and revisions.
const MOST_BYTES: usize = 16 << 20;
const MOST_REVISIONS: usize = 8192;

/// What one revision changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) revision: i64,
    /// Each with what was there before, as far as it is still known.
    pub(crate) events: Vec<Event>,
}

impl Group {
    /// Bytes that it holds, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(event_bytes).sum()
    }
}

/// Bytes that an event holds, roughly.
pub(crate) fn event_bytes(event: &Event) -> usize {
    let both = [&event.kv, &event.prev_kv];
    64 + both.into_iter().flatten().map(|kv| kv.key.len() + kv.value.len() + 48).sum::<usize>()
}

/// Whether an event is a delete.
pub(crate) fn is_delete(event: &Event) -> bool {
    event.r#type == EventType::Delete as i32
}

/// The changes were asked for too late.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// See the module.
#[derive(Debug)]
pub(crate) struct Window {
    recent: RwLock<Recent>,
    /// The newest revision that watches may tell of.
    newest: watch::Sender<i64>,
}

#[derive(Debug)]
struct Recent {
    groups: VecDeque<Arc<Group>>,
    bytes: usize,
    /// All changes after this revision are here.
    after: i64,
}

impl Window {
    /// Nothing yet, at a revision.
    pub(crate) fn new(revision: i64) -> Window {
        let recent = Recent { groups: VecDeque::new(), bytes: 0, after: revision };
        Window { recent: RwLock::new(recent), newest: watch::Sender::new(revision) }
    }

    /// The next revisions' changes.
    pub(crate) fn push(&self, groups: Vec<Group>) {
        let Some(newest) = groups.last().map(|group| group.revision) else { return };
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        for group in groups {
            recent.bytes += group.bytes();
            recent.groups.push_back(Arc::new(group));
        }
        let mut dropped = Vec::new();
        while recent.bytes > MOST_BYTES || recent.groups.len() > MOST_REVISIONS {
            let Some(group) = recent.groups.pop_front() else { break };
            recent.bytes -= group.bytes();
            recent.after = group.revision;
            dropped.push(group);
        }
        drop(recent);
        self.newest.send_replace(newest);
    }

    /// The changes after a revision.
    pub(crate) fn after(&self, revision: i64) -> Result<Vec<Arc<Group>>, Gone> {
        let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
        if revision < recent.after {
            return Err(Gone);
        }
        let from = recent.groups.partition_point(|group| group.revision <= revision);
        Ok(recent.groups.range(from..).cloned().collect())
    }

    /// Follows the newest revision.
    pub(crate) fn newest(&self) -> watch::Receiver<i64> {
        self.newest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::proto::KeyValue;

    fn group(revision: i64, size: usize) -> Group {
        let kv = KeyValue { key: "a".into(), value: Bytes::from(vec![0; size]), ..KeyValue::default() };
        Group { revision, events: vec![Event { kv: Some(kv), ..Event::default() }] }
    }

    #[test]
    fn the_newest_changes_are_kept_within_bounds() {
        let window = Window::new(5);
        let revisions =
            |after| window.after(after).map(|groups| groups.iter().map(|group| group.revision).collect::<Vec<_>>());
        assert_eq!((revisions(5), revisions(4)), (Ok(vec![]), Err(Gone)));
        window.push(vec![group(6, 1), group(7, 1)]);
        assert_eq!((revisions(5), revisions(6), revisions(9)), (Ok(vec![6, 7]), Ok(vec![7]), Ok(vec![])));
        window.push(vec![group(8, MOST_BYTES / 2), group(9, MOST_BYTES / 2)]);
        assert_eq!((revisions(8), revisions(7)), (Ok(vec![9]), Err(Gone)));
        window.push((10..20_000).map(|revision| group(revision, 0)).collect());
        assert_eq!(revisions(19_000).map(|revisions| revisions.len()), Ok(999));
        assert!(window.recent.read().unwrap().groups.len() <= MOST_REVISIONS);
        assert_eq!(*window.newest().borrow(), 19_999);
        window.push(vec![group(20_000, MOST_BYTES + 1)]);
        assert_eq!((revisions(20_000), revisions(19_999)), (Ok(vec![]), Err(Gone)), "it is read from the log");
    }
}
