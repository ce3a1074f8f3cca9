//! The open watches of a store that feeds its sinks itself: who wants which prefix.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{Error, Event, Revision, Sink, Watch};

/// Whether a watch is still wanted; shared by the [`Watch`] that its owner holds and the entry here.
#[derive(Clone, Debug)]
pub(crate) struct Alive(Arc<AtomicBool>);

impl Alive {
    /// A new token, and the [`Watch`] whose drop ends it.
    pub(crate) fn new() -> (Alive, Watch) {
        let alive = Alive(Arc::new(AtomicBool::new(true)));
        let cancel = alive.clone();
        (alive, Watch::new(move || cancel.end()))
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// One open watch.
pub(crate) struct Watcher {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) alive: Alive,
    /// Changes up to this revision are not for it: it asked for later ones, or has had them.
    pub(crate) after: Revision,
}

impl Watcher {
    /// Feeds events to the sink. A sink that panics is ended, and harms nobody else.
    pub(crate) fn feed(&self, events: &[Event]) {
        let events = &events[events.partition_point(|event| event.revision <= self.after)..];
        if !events.is_empty() {
            self.call(|sink| sink.apply(events));
        }
    }

    /// Feeds the events up to a revision.
    pub(crate) fn feed_until(&self, events: &[Event], revision: Revision) {
        self.feed(&events[..events.partition_point(|event| event.revision <= revision)]);
    }

    /// Tells the sink that it has had all up to `revision`.
    pub(crate) fn progress(&self, revision: Revision) {
        self.call(|sink| sink.progress(revision.max(self.after)));
    }

    /// Tells the sink that there is nothing more.
    pub(crate) fn close(&self, error: Error) {
        self.call(|sink| sink.closed(error));
    }

    fn call(&self, act: impl FnOnce(&dyn Sink)) {
        if self.alive.get() && catch_unwind(AssertUnwindSafe(|| act(&*self.sink))).is_err() {
            tracing::error!("a watch's sink panicked; the watch is ended");
            self.alive.end();
            let ended = Error::Unavailable("the watch's sink panicked".into());
            // The sink is told, so that its owner can start anew; if that panics too, there is nobody left to tell.
            let _ = catch_unwind(AssertUnwindSafe(|| self.sink.closed(ended)));
        }
    }
}

/// All open watches by prefix. Owned by the one place that feeds sinks, so it needs no lock of its own.
#[derive(Default)]
pub(crate) struct Watchers {
    by_prefix: BTreeMap<String, Vec<Watcher>>,
    /// How many were added since dead ones were looked for.
    added: usize,
}

impl Watchers {
    pub(crate) fn add(&mut self, prefix: String, watcher: Watcher) {
        // There may be thousands of them, one a resource: each new one pays for a few.
        self.added += 1;
        if self.added > self.by_prefix.len() / 4 {
            self.sweep();
            self.added = 0;
        }
        self.by_prefix.entry(prefix).or_default().push(watcher);
    }

    /// Feeds events (of rising revisions) to every watch that wants some of them.
    pub(crate) fn feed(&mut self, events: &[Event]) {
        let mut wanted: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, event) in events.iter().enumerate() {
            self.prefixes_of(&event.key, |prefix| wanted.entry(prefix).or_default().push(at));
        }
        let mut dead = false;
        for (prefix, indexes) in wanted {
            let picked: Vec<Event>;
            let events = if indexes.len() == events.len() {
                events
            } else {
                picked = indexes.into_iter().map(|at| events[at].clone()).collect();
                &picked
            };
            for watcher in self.by_prefix.get(prefix).into_iter().flatten() {
                watcher.feed(events);
                dead |= !watcher.alive.get();
            }
        }
        if dead {
            self.sweep();
        }
    }

    /// Tells every watch that it has had all changes up to `revision`.
    pub(crate) fn progress(&mut self, revision: Revision) {
        for watcher in self.by_prefix.values().flatten() {
            watcher.progress(revision);
        }
    }

    /// Ends every watch.
    pub(crate) fn close(&mut self, error: &Error) {
        for watcher in std::mem::take(&mut self.by_prefix).into_values().flatten() {
            watcher.close(error.clone());
        }
    }

    /// Calls `found` with each watched prefix of `key`.
    fn prefixes_of<'a>(&'a self, key: &str, mut found: impl FnMut(&'a str)) {
        // The greatest watched prefix that is not above the key either is a prefix of it, or shows how much of the key
        // the next candidate can have at most: the part that both share.
        let mut bound = key;
        let mut inclusive = true;
        loop {
            use std::ops::Bound::{Excluded, Included, Unbounded};
            let upper = if inclusive { Included(bound) } else { Excluded(bound) };
            let Some((prefix, _)) = self.by_prefix.range::<str, _>((Unbounded, upper)).next_back() else { return };
            if key.starts_with(prefix.as_str()) {
                found(prefix);
                (bound, inclusive) = (&key[..prefix.len()], false);
            } else {
                let shared = key.bytes().zip(prefix.bytes()).take_while(|(a, b)| a == b).count();
                bound = &key[..(0..=shared).rev().find(|at| key.is_char_boundary(*at)).unwrap_or(0)];
                inclusive = true;
            }
        }
    }

    fn sweep(&mut self) {
        self.by_prefix.retain(|_, watchers| {
            watchers.retain(|watcher| watcher.alive.get());
            !watchers.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Keys(Mutex<Vec<String>>);

    impl Sink for Keys {
        fn apply(&self, events: &[Event]) {
            if events.iter().any(|event| &*event.key == "/boom") {
                panic!("a sink's own fault");
            }
            self.0.lock().expect("no panic holds it").extend(events.iter().map(|event| event.key.to_string()));
        }
        fn progress(&self, revision: Revision) {
            self.0.lock().expect("no panic holds it").push(format!("progress {revision}"));
        }
        fn closed(&self, error: Error) {
            self.0.lock().expect("no panic holds it").push(error.to_string());
        }
    }

    fn event(revision: Revision, key: &str) -> Event {
        Event { revision, key: key.into(), value: None, previous: None, create_revision: revision }
    }

    fn open(watchers: &mut Watchers, prefix: &str, after: Revision) -> (Arc<Keys>, Watch) {
        let (alive, watch) = Alive::new();
        let sink = Arc::new(Keys::default());
        watchers.add(prefix.into(), Watcher { sink: sink.clone(), alive, after });
        (sink, watch)
    }

    #[test]
    fn every_watched_prefix_of_a_key_is_found() {
        let check = |prefixes: &[&str], key: &str, expect: &[&str]| {
            let mut watchers = Watchers::default();
            for prefix in prefixes {
                watchers.by_prefix.entry((*prefix).into()).or_default();
            }
            let mut found = Vec::new();
            watchers.prefixes_of(key, |prefix| found.push(prefix.to_string()));
            assert_eq!(found, expect, "{prefixes:?} {key}");
        };
        check(&["", "/a", "/a/b", "/a/c", "/b"], "/a/b/x", &["/a/b", "/a", ""]);
        check(&["/a/b", "/a/bb", "/a/b/y"], "/a/b/x", &["/a/b"]);
        check(&["/pods/", "/podtemplates/"], "/pods", &[]);
        check(&["é", "è"], "éa", &["é"]);
        check(&["/a/zz"], "/b", &[]);
    }

    #[test]
    fn a_watch_gets_its_prefix_after_its_revision_and_ends_when_dropped() {
        let mut watchers = Watchers::default();
        let (all, _keep) = open(&mut watchers, "/", 0);
        let (some, _keep) = open(&mut watchers, "/a/", 5);
        let (gone, watch) = open(&mut watchers, "/a/", 0);
        drop(watch);
        watchers.feed(&[event(5, "/a/1"), event(6, "/b/1"), event(7, "/a/2")]);
        watchers.progress(7);
        assert_eq!(*all.0.lock().unwrap(), ["/a/1", "/b/1", "/a/2", "progress 7"]);
        assert_eq!(*some.0.lock().unwrap(), ["/a/2", "progress 7"]);
        assert!(gone.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_sink_that_panics_is_ended_alone() {
        let mut watchers = Watchers::default();
        let (all, _keep) = open(&mut watchers, "/", 0);
        let (other, _keep) = open(&mut watchers, "/a", 0);
        watchers.feed(&[event(1, "/boom"), event(2, "/a")]);
        watchers.feed(&[event(3, "/a")]);
        assert_eq!(*all.0.lock().unwrap(), ["the store is unavailable: the watch's sink panicked"]);
        assert_eq!(*other.0.lock().unwrap(), ["/a", "/a"]);
    }
}
