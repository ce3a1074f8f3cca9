//! Snapshots of the embedded store, and stores brought back to them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faulty;
mod scratch;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use faulty::{Fault, How, Plan, faulty_beside};
use storage::{
    Error, Expect, Range, Store,
    conformance::{Recorder, create},
    embedded::{Embedded, EmbeddedOptions, Restored, Snapshot, restore_into, start_from, verify},
};

const HOUR: Duration = Duration::from_secs(3600);

async fn all(store: &Embedded) -> Result<BTreeMap<String, Bytes>, Error> {
    let found = store.range(Range { prefix: "/".into(), ..Range::default() }).await?;
    Ok(found.items.into_iter().map(|item| (item.key.to_string(), item.value)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_made_while_serving_and_restored_elsewhere() {
    let folder = scratch::folder();
    let store = Embedded::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
    for n in 0..1500 {
        create(&*store, &format!("/k/{n}"), &n.to_string()).await;
    }
    let (file, writer) = (folder.path().join("snapshot"), store.clone());
    let writer = tokio::spawn(async move {
        for n in 0..200 {
            create(&*writer, &format!("/during/{n}"), "x").await;
        }
    });
    let revision = store.snapshot(file.clone()).await.unwrap();
    writer.await.unwrap();
    let at = Range { prefix: "/".into(), at: Some(revision), ..Range::default() };
    let expect = store.range(at).await.unwrap().items;
    let restored = folder.path().join("restored");
    assert!(start_from(&file, &restored).unwrap());
    assert!(!start_from(&file, &restored).unwrap(), "a store that is there is not overwritten");
    assert!(start_from(&file, &folder.path().join("data")).is_err(), "a folder in use");
    let restored = Embedded::open(&restored, EmbeddedOptions::default()).unwrap();
    let found = restored.range(Range { prefix: "/".into(), ..Range::default() }).await.unwrap();
    assert_eq!((found.items, found.revision), (expect, revision));
    create(&*restored, "/new", "1").await;
    restored.close().await;
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
    let refused = start_from(&file, &folder.path().join("bad"));
    assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_begins_as_a_snapshot_which_stays_as_it_is() {
    let folder = scratch::folder();
    let store = Embedded::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
    for n in 0..100 {
        create(&*store, &format!("/k/{n}"), &n.to_string()).await;
    }
    let file = folder.path().join("snapshot");
    let revision = store.snapshot(file.clone()).await.unwrap();
    let (expect, bytes) = (all(&store).await.unwrap(), fs::read(&file).unwrap());
    store.close().await;
    // Several begin as the same one, and none sees what another writes.
    for name in ["one", "two"] {
        let dir = folder.path().join(name);
        assert!(start_from(&file, &dir).unwrap());
        let store = Embedded::open(&dir, EmbeddedOptions::default()).unwrap();
        assert_eq!((all(&store).await.unwrap(), store.revision().await.unwrap()), (expect.clone(), revision));
        create(&*store, "/new", name).await;
        store.close().await;
        assert!(!start_from(&file, &dir).unwrap(), "what holds a store stays as it is");
        assert_eq!(all(&Embedded::open(&dir, EmbeddedOptions::default()).unwrap()).await.unwrap().len(), 101);
    }
    assert!(fs::read(&file).unwrap() == bytes, "the snapshot is not written to");
    let bad = folder.path().join("bad");
    fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    let refused = start_from(&bad, &folder.path().join("three"));
    assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
    assert!(start_from(&file, &folder.path().join("three")).unwrap(), "nothing was left there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_brought_back_into_a_store_that_serves() {
    let folder = scratch::folder();
    let store = Embedded::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
    for n in 0..1200 {
        create(&*store, &format!("/k/{n:04}"), &n.to_string()).await;
    }
    let before = all(&store).await.unwrap();
    let file = folder.path().join("snapshot");
    let taken = store.snapshot(file.clone()).await.unwrap();
    for n in 0..700 {
        create(&*store, &format!("/later/{n:04}"), "x").await;
    }
    for n in 0..10 {
        let key = format!("/k/{n:04}");
        let current = store.get(&key).await.unwrap().0.unwrap().mod_revision;
        if n < 4 {
            store.delete(&key, current).await.unwrap();
        } else {
            store.put(&key, Bytes::from_static(b"changed"), Expect::Revision(current), None).await.unwrap();
        }
    }
    let now = store.revision().await.unwrap();
    let recorder = Recorder::new();
    let _watch = store.watch("/", now, recorder.clone()).await.unwrap();
    let restored = restore_into(&store, file.clone()).await.unwrap();
    assert_eq!(restored, Restored { written: 10, deleted: 700 });
    assert_eq!(all(&store).await.unwrap(), before);
    assert_eq!(recorder.seen().events.len(), 710, "watches see it");
    assert!(store.revision().await.unwrap() == now + 710 && now > taken);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    assert!(restore_into(&store, file).await.is_err());
    assert_eq!(all(&store).await.unwrap(), before, "a damaged snapshot changes nothing");
    store.close().await;
}

/// Reads a snapshot to its end.
fn rest(snapshot: &mut Snapshot, bytes: &mut Vec<u8>) {
    while let Some(piece) = snapshot.next_piece().unwrap() {
        bytes.extend_from_slice(&piece);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_what_was_when_it_was_asked_for_whatever_is_written_while_it_is_read() {
    let folder = scratch::folder();
    let store = Embedded::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
    let value = |round: usize, n: usize| Bytes::from(format!("{round}/{n} ").repeat(100));
    let mut revisions = Vec::new();
    for n in 0..1500 {
        revisions.push(store.put(&format!("/k/{n:04}"), value(0, n), Expect::Absent, None).await.unwrap());
    }
    let mut snapshot = store.read_snapshot().await.unwrap();
    let expect = all(&store).await.unwrap();
    let mut bytes = snapshot.next_piece().unwrap().unwrap().to_vec();
    // Everything is written over, several times, and what was is compacted: pages are used again.
    for round in 1..5 {
        for (n, revision) in revisions.iter_mut().enumerate() {
            let expect = Expect::Revision(*revision);
            *revision = store.put(&format!("/k/{n:04}"), value(round, n), expect, None).await.unwrap();
        }
        store.compact(store.revision().await.unwrap()).await.unwrap();
        // Each brings all that there is into the database.
        drop(store.read_snapshot().await.unwrap());
        drop(store.read_snapshot().await.unwrap());
    }
    rest(&mut snapshot, &mut bytes);
    assert_eq!(bytes.len() as u64, snapshot.size());
    let file = folder.path().join("snapshot");
    fs::write(&file, &bytes).unwrap();
    verify(&file).unwrap();
    let began = folder.path().join("began");
    assert!(start_from(&file, &began).unwrap());
    let began = Embedded::open(&began, EmbeddedOptions::default()).unwrap();
    assert!(all(&began).await.unwrap() == expect);
    assert_eq!(began.revision().await.unwrap(), snapshot.revision());
    began.close().await;
    let left: Vec<_> = fs::read_dir(folder.path().join("data")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name == "store.kept"), "{left:?}");
    store.close().await;
    // The engine finds every page of it in order.
    bytes.truncate(bytes.len() - 544);
    fs::write(&file, &bytes).unwrap();
    assert!(redb::Database::open(&file).unwrap().check_integrity().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_was_cut_or_altered_or_is_newer_is_refused_and_leaves_nothing() {
    let folder = scratch::folder();
    let store = Embedded::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
    for n in 0..50 {
        create(&*store, &format!("/k/{n}"), &n.to_string()).await;
    }
    let file = folder.path().join("snapshot");
    store.snapshot(file.clone()).await.unwrap();
    let (before, whole) = (all(&store).await.unwrap(), fs::read(&file).unwrap());
    let end = whole.len() - 544;
    let dir = folder.path().join("begun");
    for len in [0, 1, 511, 4096, end - 4096, end, end + 1, end + 512, whole.len() - 1] {
        fs::write(&file, &whole[..len]).unwrap();
        let refused = start_from(&file, &dir);
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{len}: {refused:?}");
        let refused = restore_into(&store, file.clone()).await;
        assert!(matches!(refused, Err(Error::Corrupt(_))), "{len}: {refused:?}");
    }
    let cut_inside = [&whole[..8192], &whole[12288..]].concat();
    fs::write(&file, cut_inside).unwrap();
    let refused = start_from(&file, &dir).unwrap_err().to_string();
    assert!(refused.contains("it should have"), "{refused}");
    let mut altered = whole.clone();
    altered[end / 2] ^= 1;
    fs::write(&file, &altered).unwrap();
    let refused = restore_into(&store, file.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("its checksum is another"), "{refused}");
    let mut newer = whole.clone();
    let form = whole[end..].iter().position(|byte| *byte == b'\n').unwrap() + end - 1;
    newer[form] = b'9';
    fs::write(&file, &newer).unwrap();
    for refused in [start_from(&file, &dir).map(drop), restore_into(&store, file.clone()).await.map(drop)] {
        assert!(matches!(refused, Err(Error::NewerSnapshot { found: 9, supported: 1 })), "{refused:?}");
    }
    assert_eq!(all(&store).await.unwrap(), before);
    fs::write(&file, &whole).unwrap();
    assert!(start_from(&file, &dir).unwrap(), "nothing was left there");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_a_snapshot_that_stays_as_it_is_while_the_store_goes_on() {
    let folder = scratch::folder();
    let store = Embedded::open(&folder.path().join("data"), EmbeddedOptions::default()).unwrap();
    for n in 0..200 {
        create(&*store, &format!("/k/{n}"), &n.to_string()).await;
    }
    let (file, expect) = (folder.path().join("fork"), all(&store).await.unwrap());
    let fork = store.fork(file.clone()).await.unwrap();
    assert_eq!((fork.revision, fork.size), (store.revision().await.unwrap(), fs::metadata(&file).unwrap().len()));
    for n in 0..200 {
        create(&*store, &format!("/later/{n}"), &n.to_string()).await;
    }
    store.snapshot(folder.path().join("snapshot")).await.unwrap();
    verify(&file).unwrap();
    for name in ["one", "two"] {
        let options = EmbeddedOptions { from_snapshot: Some(file.clone()), ..EmbeddedOptions::default() };
        let begun = Embedded::open(&folder.path().join(name), options.clone()).unwrap();
        assert_eq!(all(&begun).await.unwrap(), expect);
        create(&*begun, "/own", name).await;
        begun.close().await;
        drop(begun);
        let again = Embedded::open(&folder.path().join(name), options).unwrap();
        assert_eq!(all(&again).await.unwrap().len(), 201, "a store that is there goes on");
        again.close().await;
    }
    let refused = store.fork(folder.path().join("no folder/fork")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    create(&*store, "/last", "x").await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_kept_for_a_snapshot_ends_it_and_no_write() {
    let folder = scratch::folder();
    let plan = Arc::<Mutex<Plan>>::default();
    let options = EmbeddedOptions { files: faulty_beside(&plan, folder.path()), ..EmbeddedOptions::default() };
    let store = Embedded::open(&folder.path().join("data"), options).unwrap();
    create(&*store, "/a", "1").await;
    let mut snapshot = store.read_snapshot().await.unwrap();
    let call = ("create".into(), "store.kept".into());
    plan.lock().unwrap().faults.push(Fault { call, nth: 0, how: How::Undone, times: 1 });
    create(&*store, "/b", "1").await;
    drop(store.read_snapshot().await.unwrap());
    assert!(matches!(snapshot.next_piece(), Err(Error::Unavailable(_))));
    create(&*store, "/c", "1").await;
    store.health().await.unwrap();
    let (mut snapshot, mut bytes) = (store.read_snapshot().await.unwrap(), Vec::new());
    rest(&mut snapshot, &mut bytes);
    store.close().await;
}

/// Keys that live for an hour, a day and for ever, in a snapshot; then they are gone.
async fn lifetimes(folder: &Path, start: SystemTime) -> PathBuf {
    let options = EmbeddedOptions { wall_clock: Some(start), ..EmbeddedOptions::default() };
    let store = Embedded::open(&folder.join("data"), options).unwrap();
    let mut written = Vec::new();
    for (key, ttl) in [("/hour", Some(HOUR)), ("/day", Some(24 * HOUR)), ("/ever", None)] {
        written.push((key, store.put(key, Bytes::from_static(b"v"), Expect::Absent, ttl).await.unwrap()));
    }
    let file = folder.join("snapshot");
    store.snapshot(file.clone()).await.unwrap();
    for (key, revision) in written {
        store.delete(key, revision).await.unwrap();
    }
    store.close().await;
    file
}

async fn open_at(folder: &Path, wall_clock: SystemTime) -> Arc<Embedded> {
    let options = EmbeddedOptions { wall_clock: Some(wall_clock), ..EmbeddedOptions::default() };
    Embedded::open(&folder.join("data"), options).unwrap()
}

async fn keys(store: &Embedded) -> Vec<String> {
    all(store).await.unwrap().into_keys().collect()
}

/// Waits until these keys are left.
async fn left(store: &Embedded, expect: &[&str]) {
    while keys(store).await != expect {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_come_back_with_what_is_left_of_their_ttl() {
    let folder = scratch::folder();
    let start = SystemTime::now();
    let file = lifetimes(folder.path(), start).await;
    // Half an hour later all are brought back.
    let store = open_at(folder.path(), start + HOUR / 2).await;
    assert_eq!(restore_into(&store, file.clone()).await.unwrap(), Restored { written: 3, deleted: 0 });
    assert_eq!(keys(&store).await, ["/day", "/ever", "/hour"]);
    assert_eq!(restore_into(&store, file).await.unwrap(), Restored::default(), "nothing differs");
    store.close().await;
    // An hour after they were written the first one expires; a day after, the second.
    for (now, expect) in [(start + HOUR, vec!["/day", "/ever"]), (start + 24 * HOUR, vec!["/ever"])] {
        let store = open_at(folder.path(), now + Duration::from_secs(1)).await;
        left(&store, &expect).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_have_expired_since_do_not_come_back() {
    let folder = scratch::folder();
    let start = SystemTime::now();
    let file = lifetimes(folder.path(), start).await;
    let store = open_at(folder.path(), start + 2 * HOUR).await;
    // Another key of that name is not in the snapshot any more, so it goes; and a TTL is part of what comes back.
    create(&*store, "/hour", "another").await;
    create(&*store, "/day", "v").await;
    assert_eq!(restore_into(&store, file).await.unwrap(), Restored { written: 2, deleted: 1 });
    assert_eq!(keys(&store).await, ["/day", "/ever"]);
    store.close().await;
    let store = open_at(folder.path(), start + 25 * HOUR).await;
    left(&store, &["/ever"]).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_or_a_snapshot_for_which_there_is_no_room_changes_nothing() {
    let folder = scratch::folder();
    let plan = Arc::<Mutex<Plan>>::default();
    let options = EmbeddedOptions { files: faulty_beside(&plan, folder.path()), ..EmbeddedOptions::default() };
    let store = Embedded::open(&folder.path().join("data"), options).unwrap();
    create(&*store, "/a", "1").await;
    let file = folder.path().join("snapshot");
    store.snapshot(file.clone()).await.unwrap();
    create(&*store, "/b", "1").await;
    let a = store.get("/a").await.unwrap().0.unwrap().mod_revision;
    store.put("/a", Bytes::from_static(b"2"), Expect::Revision(a), None).await.unwrap();
    let (before, revision) = (all(&store).await.unwrap(), store.revision().await.unwrap());
    plan.lock().unwrap().free = Some(4096);
    let refused = restore_into(&store, file.clone()).await;
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    let refused = store.snapshot(folder.path().join("another")).await;
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    assert_eq!(plan.lock().unwrap().count("create", "another.partial"), 0, "it is not even begun");
    assert_eq!((all(&store).await.unwrap(), store.revision().await.unwrap()), (before, revision));
    plan.lock().unwrap().free = None;
    assert_eq!(restore_into(&store, file).await.unwrap(), Restored { written: 1, deleted: 1 });
    store.close().await;
}
