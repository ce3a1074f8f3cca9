//! The concurrent core under shuttle: writer, watchers and readers in all kinds of interleavings.
//!
//! `cargo test -p storage --features shuttle interleavings`

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use shuttle::{future::block_on, thread};

use super::{
    CacheOptions, Decode, DecodeError, Decoded,
    snapshot::{Snapshot, Tree},
    window::{Found, Scope, Seat},
    writer::{Feed, Shared},
};
use crate::{Event, Revision, Sink};

struct Plain;

impl Decode for Plain {
    fn decode(&self, _: &str, value: &Bytes, _: Revision) -> Result<Decoded, DecodeError> {
        Ok(Decoded { bytes: value.clone(), ..Decoded::default() })
    }
}

fn shared(max_changes: usize) -> Arc<Shared> {
    let mut options = CacheOptions::default();
    (options.window.min_changes, options.window.max_changes) = (1, max_changes);
    let shared = Arc::new(Shared::new("/r/".into(), Arc::new(Plain), options));
    shared.replace(Snapshot::new(10, Arc::new(Tree::new(&[], usize::MAX))));
    shared
}

fn write(feed: &Feed, revision: Revision, key: &str) {
    let value = Some(Bytes::from(revision.to_string()));
    feed.apply(&[Event { revision, key: key.into(), value, previous: None, create_revision: revision }]);
}

/// How a follower ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Told,
    Behind,
    Ended,
}

/// Reads, waiting as a watcher does, until `last` was told or there is nothing more to come.
fn follow(shared: &Shared, mut seat: Seat, last: Revision) -> (Vec<Revision>, End) {
    let mut told = Vec::new();
    let end = loop {
        let mut batch = VecDeque::new();
        let next = |cx: &mut Context<'_>| match seat.read(2, &mut batch) {
            Found::Read(0) => match seat.read_or_wait(2, &mut batch, cx) {
                Found::Read(0) => Poll::Pending,
                found => Poll::Ready(found),
            },
            found => Poll::Ready(found),
        };
        match block_on(poll_fn(next)) {
            Found::Read(_) => told.extend(batch.iter().map(|change| change.revision)),
            Found::Behind => break End::Behind,
            Found::Ended => break End::Ended,
        }
        if told.last() == Some(&last) {
            break End::Told;
        }
    };
    shared.window.leave(&seat);
    (told, end)
}

/// A follower from the snapshot that is the latest when its thread runs; it must hear just what comes after.
fn follower(shared: &Arc<Shared>, scope: Scope, in_scope: &'static [Revision]) -> thread::JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || {
        let from = shared.revision();
        let expect: Vec<_> = in_scope.iter().copied().filter(|revision| *revision > from).collect();
        let Some(last) = expect.last() else { return };
        let seat = shared.window.join(scope, from).expect("the window is large enough");
        assert_eq!(follow(&shared, seat, *last), (expect, End::Told));
    })
}

/// The task that wakes the many.
fn waking(shared: &Arc<Shared>) -> shuttle::future::JoinHandle<()> {
    let shared = shared.clone();
    shuttle::future::spawn(async move {
        loop {
            shared.wake_many().await;
        }
    })
}

/// At random, and with few but long preemptions, which is how wakeups get lost.
fn explore(test: fn()) {
    shuttle::check_random(test, 1000);
    shuttle::check_pct(test, 2000, 3);
}

fn parent(of: &str) -> Scope {
    Scope::Parent(of.into())
}

fn key(key: &str) -> Scope {
    Scope::Key(key.into())
}

#[test]
fn no_watcher_misses_or_repeats_a_change_or_sleeps_on() {
    explore(|| {
        let shared = shared(100);
        let feed = shared.feed();
        let waking = waking(&shared);
        let followers = [
            follower(&shared, Scope::All, &[11, 12, 13, 14]),
            follower(&shared, Scope::All, &[11, 12, 13, 14]),
            follower(&shared, parent("/r/a/"), &[11, 13]),
            follower(&shared, key("/r/b/x"), &[12, 14]),
            follower(&shared, key("/r/b/x"), &[12, 14]),
        ];
        for (revision, key) in [(11, "/r/a/x"), (12, "/r/b/x"), (13, "/r/a/y"), (14, "/r/b/x")] {
            write(&feed, revision, key);
        }
        followers.into_iter().for_each(|f| f.join().expect("no follower fails"));
        waking.abort();
    });
}

#[test]
fn who_sees_a_snapshot_finds_its_changes_in_the_window() {
    explore(|| {
        let shared = shared(100);
        let feed = shared.feed();
        let reader = thread::spawn({
            let shared = shared.clone();
            move || {
                for _ in 0..3 {
                    let seen = shared.latest().revision();
                    let changes = shared.window.backwards(10, seen).expect("nothing was dropped");
                    let expect: Vec<_> = (11..=seen).rev().collect();
                    assert_eq!(changes.iter().map(|c| c.revision).collect::<Vec<_>>(), expect);
                    thread::yield_now();
                }
            }
        });
        (11..15).for_each(|revision| write(&feed, revision, "/r/a/x"));
        reader.join().expect("the reader finds all");
    });
}

#[test]
fn a_watcher_hears_all_in_a_row_until_it_falls_behind() {
    explore(|| {
        let shared = shared(2);
        let feed = shared.feed();
        let waking = waking(&shared);
        let seats = [Scope::All, key("/r/a/x")].map(|scope| shared.window.join(scope, 10).expect("not too old"));
        let followers = seats.map(|seat| {
            let shared = shared.clone();
            thread::spawn(move || follow(&shared, seat, 16))
        });
        (11..17).for_each(|revision| write(&feed, revision, "/r/a/x"));
        for follower in followers {
            let (told, end) = follower.join().expect("no follower fails");
            assert_eq!(told, (11..).take(told.len()).collect::<Vec<_>>());
            assert_eq!(end, if told.len() == 6 { End::Told } else { End::Behind });
        }
        waking.abort();
    });
}

#[test]
fn a_new_list_ends_every_watcher() {
    explore(|| {
        let shared = shared(100);
        let feed = shared.feed();
        let waking = waking(&shared);
        let followers = [Scope::All, parent("/r/a/"), key("/r/b/x")].map(|scope| {
            let shared = shared.clone();
            thread::spawn(move || match shared.window.join(scope, 10) {
                Ok(seat) => follow(&shared, seat, Revision::MAX).1,
                Err(floor) => {
                    assert_eq!(floor, 20);
                    End::Ended
                }
            })
        });
        write(&feed, 11, "/r/a/x");
        shared.replace(Snapshot::new(20, Arc::new(Tree::new(&[], usize::MAX))));
        // A feed that was replaced is no longer listened to.
        write(&feed, 21, "/r/a/x");
        for follower in followers {
            assert_eq!(follower.join().expect("no follower fails"), End::Ended);
        }
        assert_eq!(shared.revision(), 20);
        waking.abort();
    });
}
