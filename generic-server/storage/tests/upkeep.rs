//! What the embedded store does beside reads and writes: expiry, compaction, room given back, quick starts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faulty;
mod scratch;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;
use faulty::{Plan, faulty_beside};
use storage::{
    Expect, Range, Store,
    conformance::{Recorder, create},
    embedded::{Embedded, EmbeddedOptions},
};

const HOUR: Duration = Duration::from_secs(3600);
/// All files of a store.
const FILES: [&str; 4] = ["FORMAT", "store.redb", "store.journal.0", "store.journal.1"];

async fn exists(store: &Embedded, key: &str) -> bool {
    store.get(key).await.unwrap().0.is_some()
}

/// A store on the same folder, opened while the wall clock shows this.
fn open_at(folder: &tempfile::TempDir, wall_clock: SystemTime) -> Arc<Embedded> {
    Embedded::open(folder.path(), EmbeddedOptions { wall_clock: Some(wall_clock), ..EmbeddedOptions::default() })
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_expire_across_restarts_and_clocks_that_jump() {
    let folder = scratch::folder();
    let now = SystemTime::now();
    let value = Bytes::from_static(b"v");
    let store = open_at(&folder, now);
    store.put("/hour", value.clone(), Expect::Absent, Some(HOUR)).await.unwrap();
    store.put("/day", value.clone(), Expect::Absent, Some(24 * HOUR)).await.unwrap();
    store.close().await;
    // Half an hour later.
    let store = open_at(&folder, now + HOUR / 2);
    assert!(exists(&store, "/hour").await);
    store.close().await;
    // The clock was set back by a year: time neither stands still for the key nor gives it a year more.
    let store = open_at(&folder, now - 365 * 24 * HOUR);
    assert!(exists(&store, "/hour").await);
    let brief = store.put("/brief", value, Expect::Absent, Some(Duration::from_millis(200))).await.unwrap();
    let recorder = Recorder::new();
    let _watch = store.watch("/", brief, recorder.clone()).await.unwrap();
    let seen = recorder.wait(|seen| !seen.events.is_empty()).await;
    assert_eq!(
        (&*seen.events[0].key, &seen.events[0].value),
        ("/brief", &None),
        "deadlines follow the store's own clock"
    );
    store.close().await;
    // Two hours after the start, by the clock: the hour is over, the day is not.
    let store = open_at(&folder, now + 2 * HOUR);
    let recorder = Recorder::new();
    let _watch = store.watch("/", 0, recorder.clone()).await.unwrap();
    recorder.wait(|seen| seen.events.iter().any(|event| &*event.key == "/hour" && event.value.is_none())).await;
    assert!(!exists(&store, "/hour").await && exists(&store, "/day").await);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_compacted_in_the_background_and_its_room_used_again() {
    let folder = scratch::folder();
    let options = EmbeddedOptions { compaction_interval: Duration::from_millis(100), ..EmbeddedOptions::default() };
    let store = Embedded::open(folder.path(), options).unwrap();
    let value = || Bytes::from(vec![b'x'; 100_000]);
    let mut revisions = Vec::new();
    for n in 0..10 {
        revisions.push(store.put(&format!("/k/{n}"), value(), Expect::Absent, None).await.unwrap());
    }
    let mut slowest = Duration::ZERO;
    let (begun, mut rounds, mut written) = (Instant::now(), 0, 1_000_000);
    let mut size = u64::MAX;
    // However slow the disk: until history was dropped several times, and what was dropped made room.
    while store.compacted_revision().await.unwrap() < 400 || size > written / 2 {
        for (n, revision) in revisions.iter_mut().enumerate() {
            let start = Instant::now();
            *revision = store.put(&format!("/k/{n}"), value(), Expect::Revision(*revision), None).await.unwrap();
            slowest = slowest.max(start.elapsed());
        }
        rounds += 1;
        written += 10 * 100_000;
        size = store.size().await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(120), "{size} bytes after {written} were written");
    }
    assert!(rounds >= 39, "what is compacted was written: {rounds}");
    let (oldest, now) = (store.compacted_revision().await.unwrap(), store.revision().await.unwrap());
    assert!(oldest > 11 && oldest < now, "{oldest} of {now}");
    assert!(store.range(Range { prefix: "/".into(), at: Some(2), ..Range::default() }).await.is_err());
    assert!(slowest < Duration::from_secs(30), "no write waits for a compaction: {slowest:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_room_is_given_back_while_serving() {
    let folder = scratch::folder();
    let options = EmbeddedOptions { copy_check: Duration::from_millis(100), ..EmbeddedOptions::default() };
    let store = Embedded::open(folder.path(), options.clone()).unwrap();
    let mut revisions = Vec::new();
    for n in 0..60 {
        let value = Bytes::from(vec![n; 1 << 20]);
        revisions.push(store.put(&format!("/big/{n}"), value, Expect::Absent, None).await.unwrap());
    }
    create(&*store, "/small", "stays").await;
    let before = store.size().await.unwrap();
    assert!(before > 60 << 20);
    for (n, revision) in revisions.into_iter().enumerate() {
        store.delete(&format!("/big/{n}"), revision).await.unwrap();
    }
    let start = store.revision().await.unwrap();
    let recorder = Recorder::new();
    let _watch = store.watch("/n/", start, recorder.clone()).await.unwrap();
    store.compact(start).await.unwrap();
    let (mut made, begun) = (0, Instant::now());
    while store.size().await.unwrap() > 10 << 20 {
        create(&*store, &format!("/n/{made:05}"), "while it is copied").await;
        made += 1;
        assert!(begun.elapsed() < Duration::from_secs(240), "{} bytes", store.size().await.unwrap());
    }
    create(&*store, "/n/last", "").await;
    assert_eq!(recorder.seen().events.len(), made + 1, "watches go on");
    assert_eq!(store.count("/").await.unwrap(), made + 2);
    let last = store.revision().await.unwrap();
    store.close().await;
    let store = Embedded::open(folder.path(), options).unwrap();
    assert_eq!((store.count("/").await.unwrap(), store.revision().await.unwrap()), (made + 2, last));
    assert!(exists(&store, "/small").await);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_copy_is_begun_for_which_there_is_no_room() {
    let folder = scratch::folder();
    // Room for writes alone: no copy of the empty store is under way when the value comes.
    let plan = Arc::new(Mutex::new(Plan { used: Some(1 << 40), free: Some(7 << 20), ..Plan::default() }));
    let options = EmbeddedOptions {
        files: faulty_beside(&plan, folder.path()),
        copy_check: Duration::from_millis(1),
        ..EmbeddedOptions::default()
    };
    let store = Embedded::open(&folder.path().join("data"), options).unwrap();
    store.put("/big", Bytes::from(vec![b'x'; 1 << 20]), Expect::Absent, None).await.unwrap();
    // Room for a copy of the empty store, not of this one.
    plan.lock().unwrap().free = Some(9 << 20);
    let count = |kind, name| plan.lock().unwrap().count(kind, name);
    let made = count("create", "store.redb.new");
    let looked = count("free", "data");
    while count("free", "data") < looked + 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(count("create", "store.redb.new"), made, "it looks, and leaves it");
    plan.lock().unwrap().free = None;
    while count("rename", "store.redb") < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(exists(&store, "/big").await);
    store.close().await;
}

/// Copies a store's files between two checkpoints.
async fn copy_at_one_moment(from: &Path, to: &Path) {
    let changed = || FILES.map(|file| std::fs::metadata(from.join(file)).unwrap().modified().unwrap());
    for _ in 0..100 {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir(to).unwrap();
        let before = changed();
        for file in FILES {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        if changed() == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    panic!("the store never rests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_ten_thousand_keys_opens_quickly_even_after_a_crash() {
    let folder = scratch::folder();
    let data = folder.path().join("data");
    let options = EmbeddedOptions { relaxed: true, ..EmbeddedOptions::default() };
    let store = Embedded::open(&data, options).unwrap();
    let value = Bytes::from(vec![b'x'; 1400]);
    for n in 0..10_000 {
        store.put(&format!("/registry/configmaps/default/{n:05}"), value.clone(), Expect::Absent, None).await.unwrap();
    }
    // What a crash leaves: the files as they are at one moment, not closed.
    let crashed = folder.path().join("crashed");
    copy_at_one_moment(&data, &crashed).await;
    store.close().await;
    let begun = Instant::now();
    let store = Embedded::open(&crashed, EmbeddedOptions::default()).unwrap();
    let taken = begun.elapsed();
    assert_eq!(store.count("/registry/").await.unwrap(), 10_000);
    // Unoptimised, beside other tests, and perhaps on a slow machine; the benchmark shows the real figure.
    assert!(taken < Duration::from_secs(20), "{taken:?}");
    store.close().await;
}
