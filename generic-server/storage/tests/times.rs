//! Which state the store had at a time, for how long it is kept, and what differs between two states.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scratch;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use storage::{
    Error, Expect, Range, Revision, Store,
    embedded::{Difference, Embedded, EmbeddedOptions},
};

const HOUR: Duration = Duration::from_secs(3600);

fn open(folder: &Path, wall_clock: SystemTime, options: EmbeddedOptions) -> Arc<Embedded> {
    Embedded::open(&folder.join("data"), EmbeddedOptions { wall_clock: Some(wall_clock), ..options }).unwrap()
}

async fn put(store: &Embedded, key: &str, value: &'static str) -> Revision {
    let expect = store.get(key).await.unwrap().0.map_or(Expect::Absent, |found| Expect::Revision(found.mod_revision));
    store.put(key, Bytes::from_static(value.as_bytes()), expect, None).await.unwrap()
}

async fn keys(store: &Embedded, at: Revision) -> Vec<String> {
    let found = store.range(Range { prefix: "/".into(), at: Some(at), ..Range::default() }).await.unwrap();
    found.items.into_iter().map(|item| format!("{}={}", item.key, String::from_utf8_lossy(&item.value))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_at_a_time_is_that_of_the_last_write_by_then() {
    let folder = scratch::folder();
    let start = SystemTime::now();
    let mut written = Vec::new();
    for (hours, value) in [(0, "1"), (1, "2"), (3, "3")] {
        let store = open(folder.path(), start + HOUR * hours, EmbeddedOptions::default());
        written.push(put(&store, "/a", value).await);
        store.close().await;
    }
    let store = open(folder.path(), start + HOUR * 4, EmbeddedOptions::default());
    let last = put(&store, "/b", "4").await;
    let at = async |minutes: u32| store.revision_at(start + HOUR / 60 * minutes).await;
    for (minutes, expect) in [(30, written[0]), (90, written[1]), (170, written[1]), (190, written[2]), (250, last)] {
        assert_eq!(at(minutes).await.unwrap(), expect, "after {minutes} minutes");
    }
    assert_eq!(keys(&store, at(90).await.unwrap()).await, ["/a=2"]);
    let before = store.revision_at(start - HOUR).await;
    assert!(matches!(before, Err(Error::Compacted { .. })), "nothing is known of it: {before:?}");
    store.compact(written[1]).await.unwrap();
    assert!(matches!(at(30).await, Err(Error::Compacted { .. })));
    assert_eq!(at(90).await.unwrap(), written[1]);
    store.compact(last).await.unwrap();
    assert!(matches!(at(190).await, Err(Error::Compacted { .. })));
    assert_eq!(at(250).await.unwrap(), last);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_kept_for_as_long_as_it_is_to_be() {
    let folder = scratch::folder();
    let start = SystemTime::now();
    let options = || EmbeddedOptions {
        history: HOUR,
        compaction_interval: Duration::from_millis(1),
        ..EmbeddedOptions::default()
    };
    let compacted = async |store: &Embedded, to: Revision| {
        loop {
            match store.compacted_revision().await.unwrap() {
                found if found == to => break,
                found => assert!(found < to, "more was forgotten than may be"),
            }
            tokio::task::yield_now().await;
        }
    };
    let store = open(folder.path(), start, options());
    let first = put(&store, "/a", "1").await;
    let second = put(&store, "/a", "2").await;
    store.close().await;
    // What was last before the hour began is the oldest state that can be asked for.
    let store = open(folder.path(), start + HOUR * 2, options());
    let third = put(&store, "/a", "3").await;
    put(&store, "/a", "4").await;
    compacted(&store, second).await;
    let gone = store.range(Range { prefix: "/".into(), at: Some(first), ..Range::default() }).await;
    assert!(matches!(gone, Err(Error::Compacted { .. })));
    assert_eq!(keys(&store, store.revision_at(start + HOUR).await.unwrap()).await, ["/a=2"]);
    assert_eq!(keys(&store, third).await, ["/a=3"]);
    store.close().await;
    let store = open(folder.path(), start + HOUR * 4, options());
    compacted(&store, third + 1).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_differs_is_told_once_a_key_and_not_what_has_come_and_gone() {
    let folder = scratch::folder();
    let store = open(folder.path(), SystemTime::now(), EmbeddedOptions::default());
    let first = [put(&store, "/a", "1").await, put(&store, "/b", "1").await, put(&store, "/c", "1").await];
    let from = store.revision().await.unwrap();
    put(&store, "/b", "2").await;
    let changed = put(&store, "/b", "3").await;
    let come = put(&store, "/gone", "1").await;
    store.delete("/gone", come).await.unwrap();
    let deleted = store.delete("/a", first[0]).await.unwrap();
    let mut created = Vec::new();
    for n in 0..1200 {
        created.push(put(&store, &format!("/new/{n:04}"), "1").await);
    }
    let to = store.revision().await.unwrap();
    put(&store, "/c", "later").await;
    let (mut found, mut next) = (Vec::<Difference>::new(), Some(from + 1));
    while let Some(at) = next {
        let part = store.differences("/".into(), (from, to), at).await.unwrap();
        found.extend(part.keys);
        next = part.next;
    }
    let told: Vec<_> = found.iter().map(|d| (d.revision, &*d.key, d.before, d.after)).take(3).collect();
    let expect = [
        (changed, "/b", Some(first[1]), Some(changed)),
        (deleted, "/a", Some(first[0]), None),
        (created[0], "/new/0000", None, Some(created[0])),
    ];
    assert_eq!(told, expect);
    assert_eq!(found.len(), 1202);
    assert!(found.iter().all(|difference| difference.written.is_some()));
    let part = store.differences("/b".into(), (from, to), from + 1).await.unwrap();
    assert_eq!(part.keys.len(), 1);
    let none = store.differences("/".into(), (to, to), to + 1).await.unwrap();
    assert!(none.keys.is_empty() && none.next.is_none());
    store.compact(to).await.unwrap();
    let gone = store.differences("/".into(), (from, to), from + 1).await;
    assert!(matches!(gone, Err(Error::Compacted { .. })));
    let to_come = store.differences("/".into(), (to, to + 100), to + 1).await;
    assert!(matches!(to_come, Err(Error::FutureRevision { .. })));
    store.close().await;
}
