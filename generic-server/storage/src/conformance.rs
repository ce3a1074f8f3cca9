//! One suite for every backend: what a [`Store`] must do. A backend's tests call [`run`] with a maker of empty stores.
//!
//! Checks fail by panicking, with what was expected.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, time::timeout};

use crate::{Error, Event, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, limits};

/// How long anything may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A sink that keeps what it is fed.
#[derive(Default)]
pub struct Recorder {
    seen: Mutex<Seen>,
    changed: Notify,
}

/// What a [`Recorder`] was fed.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// All events so far.
    pub events: Vec<Event>,
    /// The newest progress.
    pub progress: Revision,
    /// Why the watch ended.
    pub closed: Option<Error>,
}

impl Recorder {
    /// A new recorder.
    pub fn new() -> Arc<Recorder> {
        Arc::default()
    }

    /// What it has been fed so far.
    pub fn seen(&self) -> Seen {
        self.seen.lock().expect("recording does not panic").clone()
    }

    /// Waits until what it was fed is as wanted, and returns that.
    pub async fn wait(&self, wanted: impl Fn(&Seen) -> bool) -> Seen {
        let waited = timeout(TIMEOUT, async {
            loop {
                let changed = self.changed.notified();
                let seen = self.seen();
                if wanted(&seen) {
                    return seen;
                }
                changed.await;
            }
        });
        waited.await.unwrap_or_else(|_| panic!("not within {TIMEOUT:?}; seen: {:?}", self.seen()))
    }

    /// Waits for so many events, and returns them briefly: revision, key, value (or nothing), previous revision.
    pub async fn events(&self, count: usize) -> Vec<(Revision, String, Option<String>, Option<Revision>)> {
        let seen = self.wait(|seen| seen.events.len() >= count).await;
        seen.events.iter().map(brief).collect()
    }

    fn record(&self, act: impl FnOnce(&mut Seen)) {
        act(&mut self.seen.lock().expect("recording does not panic"));
        self.changed.notify_one();
    }
}

impl Sink for Recorder {
    fn apply(&self, events: &[Event]) {
        self.record(|seen| {
            let last = seen.events.last().map_or(0, |event| event.revision);
            assert!(
                events.first().is_some_and(|first| first.revision > last),
                "a revision comes in one call, in order"
            );
            assert!(events.is_sorted_by_key(|event| event.revision), "events come in order");
            seen.events.extend_from_slice(events);
        });
    }

    fn progress(&self, revision: Revision) {
        self.record(|seen| {
            let last = seen.events.last().map_or(0, |event| event.revision);
            assert!(revision >= last, "progress {revision} after an event of {last}");
            seen.progress = revision;
        });
    }

    fn closed(&self, error: Error) {
        self.record(|seen| {
            assert!(seen.closed.is_none(), "a watch ends once");
            seen.closed = Some(error);
        });
    }
}

fn brief(event: &Event) -> (Revision, String, Option<String>, Option<Revision>) {
    let value = event.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
    (event.revision, event.key.to_string(), value, event.previous.as_ref().map(|previous| previous.mod_revision))
}

/// Runs the whole suite; `make` gives a store with no keys in it each time (its revision may be any).
pub async fn run<F: Future<Output = Arc<dyn Store>>>(make: impl Fn() -> F) {
    semantics(&make).await;
    limits_are_kept(&*make().await).await;
}

/// Runs the suite but for the limits on sizes, which a store that adds something to values cannot keep exactly.
pub async fn semantics<F: Future<Output = Arc<dyn Store>>>(make: impl Fn() -> F) {
    create_update_delete(&*make().await).await;
    writes_expect(&*make().await).await;
    series(&*make().await).await;
    ranges(&*make().await).await;
    ranges_of_the_past(&*make().await).await;
    watches(&*make().await).await;
    watches_from_the_past(&*make().await).await;
    watch_hands_over_without_a_gap(make().await).await;
    concurrent_writers(make().await).await;
    compaction(&*make().await).await;
    keys_expire(&*make().await).await;
    progress(&*make().await).await;
    closes(&*make().await).await;
}

/// Creates a key.
pub async fn create(store: &dyn Store, key: &str, value: &str) -> Revision {
    store.put(key, Bytes::copy_from_slice(value.as_bytes()), Expect::Absent, None).await.expect("the key is new")
}

async fn update(store: &dyn Store, key: &str, value: &str, expected: Revision) -> Revision {
    let value = Bytes::copy_from_slice(value.as_bytes());
    store.put(key, value, Expect::Revision(expected), None).await.expect("the revision is current")
}

async fn delete(store: &dyn Store, key: &str, expected: Revision) -> Revision {
    store.delete(key, expected).await.expect("the revision is current")
}

fn key_value(key: &str, value: &str, create_revision: Revision, mod_revision: Revision) -> KeyValue {
    KeyValue { key: key.into(), value: Bytes::copy_from_slice(value.as_bytes()), create_revision, mod_revision }
}

fn prefix(prefix: &str) -> Range {
    Range { prefix: prefix.into(), ..Range::default() }
}

fn keys(result: &RangeResult) -> Vec<&str> {
    result.items.iter().map(|item| &*item.key).collect()
}

async fn create_update_delete(store: &dyn Store) {
    let before = store.revision().await.expect("it answers");
    assert_eq!(store.get("/a/x").await.expect("it answers"), (None, before));
    let one = create(store, "/a/x", "1").await;
    assert_eq!(one, before + 1, "one revision a transaction");
    let two = update(store, "/a/x", "2", one).await;
    assert_eq!(store.get("/a/x").await.expect("it answers"), (Some(key_value("/a/x", "2", one, two)), two));
    let three = delete(store, "/a/x", two).await;
    assert_eq!(store.get("/a/x").await.expect("it answers"), (None, three));
    let four = create(store, "/a/x", "").await;
    assert_eq!(four, before + 4);
    assert_eq!(store.get("/a/x").await.expect("it answers").0, Some(key_value("/a/x", "", four, four)));
    assert_eq!(store.revision().await.expect("it answers"), four);
    assert!(store.health().await.is_ok());
}

async fn writes_expect(store: &dyn Store) {
    let conflict = |result: Result<Revision, Error>| match result {
        Err(Error::Conflict { current }) => current.map(|current| *current),
        other => panic!("a conflict was expected, not {other:?}"),
    };
    let value = Bytes::from_static(b"new");
    let one = create(store, "/a/x", "1").await;
    let two = update(store, "/a/x", "2", one).await;
    let there = Some(key_value("/a/x", "2", one, two));
    assert_eq!(conflict(store.put("/a/x", value.clone(), Expect::Absent, None).await), there);
    assert_eq!(conflict(store.put("/a/x", value.clone(), Expect::Revision(one), None).await), there);
    assert_eq!(conflict(store.delete("/a/x", one).await), there);
    assert_eq!(conflict(store.put("/a/y", value.clone(), Expect::Revision(two), None).await), None);
    assert_eq!(conflict(store.delete("/a/y", two).await), None);
    assert_eq!(store.revision().await.expect("it answers"), two, "a conflict makes no revision");
    let three = delete(store, "/a/x", two).await;
    assert_eq!(conflict(store.put("/a/x", value, Expect::Revision(three), None).await), None);
}

async fn series(store: &dyn Store) {
    let start = store.revision().await.expect("it answers");
    let recorder = Recorder::new();
    let _watch = store.watch("/a/", start, recorder.clone()).await.expect("a watch opens");
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let then = vec![bytes("2"), bytes("3")];
    let revisions = store.put_series("/a/x", bytes("1"), then.clone(), Expect::Absent).await.expect("the key is new");
    assert_eq!(revisions, [start + 1, start + 2, start + 3]);
    let seen = recorder.events(3).await;
    let event = |i: u64, value: &str, previous| (start + i, "/a/x".to_owned(), Some(value.to_owned()), previous);
    assert_eq!(seen, [event(1, "1", None), event(2, "2", Some(start + 1)), event(3, "3", Some(start + 2))]);
    let again = store.put_series("/a/x", bytes("4"), then, Expect::Absent).await;
    assert!(matches!(again, Err(Error::Conflict { current: Some(current) }) if current.value == "3"));
    let last = update(store, "/a/x", "4", start + 3).await;
    assert_eq!(store.get("/a/x").await.expect("it answers").0, Some(key_value("/a/x", "4", start + 1, last)));
}

async fn ranges(store: &dyn Store) {
    for key in ["/a/1", "/a/2", "/a/3", "/ab/1", "/b/1", "/a0"] {
        create(store, key, key).await;
    }
    let gone = create(store, "/a/0", "").await;
    let revision = delete(store, "/a/0", gone).await;
    let check = async |range: Range, expect: &[&str], remaining: usize| {
        let found = store.range(range.clone()).await.expect("the range can be read");
        assert_eq!(
            (keys(&found), found.remaining, found.revision),
            (expect.to_vec(), remaining, revision),
            "{range:?}"
        );
        assert!(found.items.iter().all(|item| item.value == item.key.as_bytes() && item.mod_revision > 0));
    };
    check(prefix("/a/"), &["/a/1", "/a/2", "/a/3"], 0).await;
    check(prefix("/"), &["/a/1", "/a/2", "/a/3", "/a0", "/ab/1", "/b/1"], 0).await;
    check(prefix("/a/1"), &["/a/1"], 0).await;
    check(prefix("/c"), &[], 0).await;
    check(Range { limit: 2, ..prefix("/a/") }, &["/a/1", "/a/2"], 1).await;
    check(Range { limit: 3, ..prefix("/a/") }, &["/a/1", "/a/2", "/a/3"], 0).await;
    check(Range { start: Some("/a/2".into()), ..prefix("/a/") }, &["/a/2", "/a/3"], 0).await;
    check(Range { start: Some("/a/2\0".into()), limit: 1, ..prefix("/a/") }, &["/a/3"], 0).await;
    check(Range { start: Some("/".into()), ..prefix("/ab") }, &["/ab/1"], 0).await;
    check(Range { start: Some("/z".into()), ..prefix("/a/") }, &[], 0).await;
    for (prefix, expect) in [("/a/", 3), ("/", 6), ("/c", 0), ("/a", 5)] {
        assert_eq!(store.count(prefix).await.expect("it answers"), expect, "{prefix}");
    }
    assert!(store.size().await.is_ok());
}

async fn ranges_of_the_past(store: &dyn Store) {
    let one = create(store, "/a/x", "1").await;
    let two = create(store, "/a/y", "1").await;
    let three = update(store, "/a/x", "2", one).await;
    let four = delete(store, "/a/y", two).await;
    let five = create(store, "/a/y", "3").await;
    let check = async |at: Revision, expect: &[KeyValue]| {
        let found = store.range(Range { at: Some(at), ..prefix("/a/") }).await.expect("the revision can be read");
        assert_eq!((&*found.items, found.revision), (expect, five), "at {at}");
    };
    check(one, &[key_value("/a/x", "1", one, one)]).await;
    check(two, &[key_value("/a/x", "1", one, one), key_value("/a/y", "1", two, two)]).await;
    check(three, &[key_value("/a/x", "2", one, three), key_value("/a/y", "1", two, two)]).await;
    check(four, &[key_value("/a/x", "2", one, three)]).await;
    check(five, &[key_value("/a/x", "2", one, three), key_value("/a/y", "3", five, five)]).await;
    match store.range(Range { at: Some(five + 10), ..prefix("/a/") }).await {
        Err(Error::FutureRevision { asked, current }) => assert_eq!((asked, current), (five + 10, five)),
        other => panic!("a revision in the future: {other:?}"),
    }
}

async fn watches(store: &dyn Store) {
    let start = store.revision().await.expect("it answers");
    let (some, all) = (Recorder::new(), Recorder::new());
    let watch = store.watch("/a/", start, some.clone()).await.expect("a watch opens");
    let _all = store.watch("/", start, all.clone()).await.expect("a watch opens");
    let one = create(store, "/a/x", "1").await;
    let other = create(store, "/b/x", "1").await;
    let two = update(store, "/a/x", "2", one).await;
    let three = delete(store, "/a/x", two).await;
    let expect = [
        (one, "/a/x".to_owned(), Some("1".to_owned()), None),
        (two, "/a/x".to_owned(), Some("2".to_owned()), Some(one)),
        (three, "/a/x".to_owned(), None, Some(two)),
    ];
    assert_eq!(some.events(3).await, expect);
    assert_eq!(all.events(4).await[1], (other, "/b/x".to_owned(), Some("1".to_owned()), None));
    let seen = some.seen();
    assert_eq!(seen.events[2].previous, Some(key_value("/a/x", "2", one, two)), "the previous value is carried");
    assert_eq!(seen.events[1].create_revision, one);
    drop(watch);
    create(store, "/a/z", "1").await;
    all.events(5).await;
    assert_eq!(some.seen().events.len(), 3, "a watch that was dropped sees no more");
}

async fn watches_from_the_past(store: &dyn Store) {
    let start = store.revision().await.expect("it answers");
    let mut last = create(store, "/a/x", "0").await;
    for value in 1..1500 {
        create(store, &format!("/b/{value:04}"), "").await;
        last = update(store, "/a/x", &value.to_string(), last).await;
    }
    let check = async |prefix: &str, after: Revision, count: usize| {
        let recorder = Recorder::new();
        let _watch = store.watch(prefix, after, recorder.clone()).await.expect("a watch opens");
        let events = recorder.events(count).await;
        assert_eq!(events.len(), count, "{prefix} after {after}");
        assert!(events.iter().all(|event| event.0 > after && event.1.starts_with(prefix)));
    };
    check("/a/", start, 1500).await;
    check("/", start, 2999).await;
    check("/b/", start, 1499).await;
    check("/a/", last - 2, 1).await;
    check("/a/", last, 0).await;
}

async fn watch_hands_over_without_a_gap(store: Arc<dyn Store>) {
    let start = store.revision().await.expect("it answers");
    let writers = (0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..150 {
                create(&*store, &format!("/a/{writer}/{n}"), "x").await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut watches = Vec::new();
    for _ in 0..10 {
        let recorder = Recorder::new();
        let watch = store.watch("/a/", start, recorder.clone()).await.expect("a watch opens");
        watches.push((recorder, watch));
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.expect("every create succeeds");
    }
    let mut first: Option<Vec<_>> = None;
    for (recorder, _watch) in watches {
        let events = recorder.events(1200).await;
        assert_eq!(events.len(), 1200, "nothing twice");
        assert_eq!(first.get_or_insert_with(|| events.clone()), &events, "every watch sees the same");
    }
}

async fn concurrent_writers(store: Arc<dyn Store>) {
    let created = create(&*store, "/a/counter", "0").await;
    let writers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut revisions = Vec::new();
            while revisions.len() < 10 {
                let (found, _) = store.get("/a/counter").await.expect("it answers");
                let found = found.expect("it exists");
                let count: u32 = String::from_utf8_lossy(&found.value).parse().expect("a number");
                let value = Bytes::from((count + 1).to_string());
                match store.put("/a/counter", value, Expect::Revision(found.mod_revision), None).await {
                    Ok(revision) => revisions.push(revision),
                    Err(Error::Conflict { current: Some(current) }) => {
                        assert!(current.mod_revision > found.mod_revision, "a conflict shows a later write");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            revisions
        })
    });
    let mut revisions = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        revisions.extend(writer.await.expect("the writer ends"));
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (created + 1..=created + 80).collect::<Vec<_>>(), "every revision once");
    let (found, _) = store.get("/a/counter").await.expect("it answers");
    assert_eq!(found.expect("it exists").value, "80", "no update is lost");
}

async fn compaction(store: &dyn Store) {
    let one = create(store, "/a/x", "1").await;
    let two = update(store, "/a/x", "2", one).await;
    let three = create(store, "/a/y", "1").await;
    let four = delete(store, "/a/y", three).await;
    let five = update(store, "/a/x", "3", two).await;
    store.compact(four).await.expect("the past can be compacted");
    store.compact(two).await.expect("compacting to an older revision changes nothing");
    assert_eq!(store.compacted_revision().await.expect("it answers"), four);
    let found = store.range(Range { at: Some(four), ..prefix("/a/") }).await.expect("the oldest revision can be read");
    assert_eq!(found.items, [key_value("/a/x", "2", one, two)]);
    match store.range(Range { at: Some(three), ..prefix("/a/") }).await {
        Err(Error::Compacted { oldest }) => assert_eq!(oldest, four),
        other => panic!("the revision is compacted: {other:?}"),
    }
    let recorder = Recorder::new();
    match store.watch("/a/", two, recorder.clone()).await {
        Err(Error::Compacted { oldest }) => assert_eq!(oldest, four),
        Err(error) => panic!("{error}"),
        Ok(_watch) => {
            let seen = recorder.wait(|seen| seen.closed.is_some()).await;
            assert!(matches!(seen.closed, Some(Error::Compacted { oldest }) if oldest == four), "{seen:?}");
        }
    }
    let recorder = Recorder::new();
    let _watch = store.watch("/a/", four, recorder.clone()).await.expect("the history since then is there");
    assert_eq!(recorder.events(1).await, [(five, "/a/x".into(), Some("3".into()), Some(two))]);
    assert!(matches!(store.compact(five + 100).await, Err(Error::FutureRevision { .. })));
    assert_eq!(create(store, "/a/y", "2").await, five + 1, "compaction makes no revision");
}

async fn keys_expire(store: &dyn Store) {
    let start = store.revision().await.expect("it answers");
    let recorder = Recorder::new();
    let _watch = store.watch("/a/", start, recorder.clone()).await.expect("a watch opens");
    let ttl = Some(Duration::from_secs(2));
    let put =
        async |key: &str, expect, ttl| store.put(key, Bytes::from_static(b"v"), expect, ttl).await.expect("written");
    // Where a write takes longer than the key lives, it is made again.
    let kept = loop {
        let brief = put("/a/kept", Expect::Absent, ttl).await;
        match store.put("/a/kept", Bytes::from_static(b"v"), Expect::Revision(brief), None).await {
            Ok(kept) => break kept,
            Err(Error::Conflict { current: None }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let gone = put("/a/gone", Expect::Absent, ttl).await;
    let is_expiry = |event: &Event| &*event.key == "/a/gone" && event.value.is_none();
    let seen = recorder.wait(|seen| seen.events.iter().any(is_expiry)).await;
    let expired = seen.events.iter().find(|event| is_expiry(event)).expect("waited for");
    assert_eq!(expired.previous.as_ref().map(|previous| previous.mod_revision), Some(gone));
    assert!(expired.revision > gone);
    assert_eq!(store.get("/a/gone").await.expect("it answers").0, None);
    assert_eq!(store.get("/a/kept").await.expect("it answers").0.map(|kept| kept.mod_revision), Some(kept));
}

async fn limits_are_kept(store: &dyn Store) {
    let put = async |key: &str, size: usize| store.put(key, vec![b'x'; size].into(), Expect::Absent, None).await;
    assert!(put("/a/big", limits::MAX_VALUE).await.is_ok());
    match put("/a/bigger", limits::MAX_VALUE + 1).await {
        Err(Error::TooLarge { size, limit }) => assert_eq!((size, limit), (limits::MAX_VALUE + 1, limits::MAX_VALUE)),
        other => panic!("too large: {other:?}"),
    }
    assert!(put(&format!("/{}", "k".repeat(limits::MAX_KEY - 1)), 1).await.is_ok());
    for key in ["", "/a\0b", &"k".repeat(limits::MAX_KEY + 1)] {
        assert!(matches!(put(key, 1).await, Err(Error::InvalidKey(_))), "{key:.10}");
        assert!(matches!(store.delete(key, 1).await, Err(Error::InvalidKey(_))), "{key:.10}");
    }
    assert_eq!(
        store.get("/a/big").await.expect("it answers").0.map(|found| found.value.len()),
        Some(limits::MAX_VALUE)
    );
}

async fn progress(store: &dyn Store) {
    let start = store.revision().await.expect("it answers");
    let recorder = Recorder::new();
    let _watch = store.watch("/a/", start, recorder.clone()).await.expect("a watch opens");
    let last = create(store, "/b/x", "1").await;
    timeout(TIMEOUT, async {
        while recorder.seen().progress < last {
            store.request_progress("/a/").await.expect("progress can be asked for");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("a watch learns how far it is");
    if store.delivered_revision().is_some() {
        let last = create(store, "/a/x", "1").await;
        assert!(store.delivered_revision() >= Some(last));
        assert_eq!(recorder.seen().events.len(), 1, "what is acknowledged has been delivered");
    }
}

async fn closes(store: &dyn Store) {
    let start = create(store, "/a/x", "1").await;
    let recorder = Recorder::new();
    let _watch = store.watch("/a/", start, recorder.clone()).await.expect("a watch opens");
    store.close().await;
    recorder.wait(|seen| matches!(seen.closed, Some(Error::Closed))).await;
    let value = Bytes::from_static(b"late");
    assert!(matches!(store.put("/a/y", value, Expect::Absent, None).await, Err(Error::Closed)));
    assert!(matches!(store.get("/a/x").await, Err(Error::Closed)));
    assert!(store.watch("/a/", start, recorder).await.is_err());
    store.close().await;
}
