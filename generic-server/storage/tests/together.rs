//! Several keys written as one, and reads by revision.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scratch;

use std::sync::Arc;

use bytes::Bytes;
use storage::{
    Error, Range, Revision, Store,
    conformance::{Recorder, create},
    embedded::{Embedded, EmbeddedOptions},
};

fn write(key: &str, value: Option<&str>) -> (Arc<str>, Option<Bytes>) {
    (key.into(), value.map(|value| Bytes::copy_from_slice(value.as_bytes())))
}

async fn all(store: &Embedded) -> Vec<(String, Bytes, Revision, Revision)> {
    let found = store.range(Range { prefix: "/".into(), ..Range::default() }).await.unwrap().items;
    let told = |item: storage::KeyValue| (item.key.to_string(), item.value, item.create_revision, item.mod_revision);
    found.into_iter().map(told).collect()
}

fn item(key: &str, value: &'static str, create: Revision, last: Revision) -> (String, Bytes, Revision, Revision) {
    (key.into(), Bytes::from_static(value.as_bytes()), create, last)
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_belong_together_follow_each_other_and_each_sees_those_before() {
    let folder = scratch::folder();
    let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
    create(&*store, "/a", "1").await; // 2
    let recorder = Recorder::new();
    let _watch = store.watch("/", 2, recorder.clone()).await.unwrap();
    let writes = vec![
        write("/a", Some("2")),
        write("/b", Some("1")),
        write("/b", None),
        write("/gone", None),
        write("/b", Some("2")),
    ];
    assert_eq!(store.write_all(writes).await.unwrap(), 3);
    assert_eq!(all(&store).await, [item("/a", "2", 2, 3), item("/b", "2", 7, 7)]);
    let event = |revision, key: &str, value: Option<&str>, previous| {
        (revision, key.to_owned(), value.map(str::to_owned), previous)
    };
    let expect = [
        event(3, "/a", Some("2"), Some(2)),
        event(4, "/b", Some("1"), None),
        event(5, "/b", None, Some(4)),
        event(6, "/gone", None, None),
        event(7, "/b", Some("2"), None),
    ];
    assert_eq!(recorder.events(5).await, expect);
    assert_eq!(store.write_all(Vec::new()).await.unwrap(), 8, "nothing is nothing");
    assert_eq!(create(&*store, "/c", "1").await, 8);
    let values = store.values(&[2, 3, 5, 8, 9]).unwrap();
    let text = |value: &Option<Bytes>| value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
    let expect = [Some("1".to_owned()), Some("2".to_owned()), None, Some("1".to_owned()), None];
    assert_eq!(values.iter().map(text).collect::<Vec<_>>(), expect);
    let part = store.log_after(3, 3).await.unwrap();
    assert_eq!((part.events.len(), part.last), (3, Some(6)));
    assert_eq!(store.log_after(8, 3).await.unwrap().last, None);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_frame_holds_is_written_as_one_too() {
    let folder = scratch::folder();
    let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
    create(&*store, "/first", "1").await; // 2
    let value = "x".repeat(10_000);
    let writes = (0..1000).map(|n| write(&format!("/k/{n:04}"), Some(&value))).collect();
    assert_eq!(store.write_all(writes).await.unwrap(), 3);
    assert_eq!(create(&*store, "/last", "1").await, 1003);
    assert_eq!(store.count("/k/").await.unwrap(), 1000);
    let deletes = (0..1000).map(|n| write(&format!("/k/{n:04}"), None)).collect();
    assert_eq!(store.write_all(deletes).await.unwrap(), 1004);
    store.close().await;
    drop(store);
    let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
    assert_eq!(all(&store).await, [item("/first", "1", 2, 2), item("/last", "1", 1003, 1003)]);
    assert_eq!(store.revision().await.unwrap(), 2003);
    store.close().await;
    assert!(matches!(store.write_all(vec![write("/a", None)]).await, Err(Error::Closed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_asked_for_gives_room_back_while_the_store_serves() {
    let folder = scratch::folder();
    let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let value = "x".repeat(100_000);
    for round in 0..3 {
        let writes = (0..100).map(|n| write(&format!("/k/{n}"), Some(&format!("{round}{value}")))).collect();
        store.write_all(writes).await.unwrap();
    }
    let last = store.revision().await.unwrap();
    store.compact(last).await.unwrap();
    // What compaction drops goes in checkpoints, and the copy has what is left then.
    while store.values(&[2]).unwrap() != [None] {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let before = store.size().await.unwrap();
    let (one, two) = tokio::join!(store.defragment(), store.defragment());
    one.unwrap();
    two.unwrap();
    let after = store.size().await.unwrap();
    assert!(after < before, "{before} bytes, then {after}");
    assert_eq!(store.count("/k/").await.unwrap(), 100);
    assert_eq!(create(&*store, "/new", "1").await, last + 1);
    store.close().await;
}
