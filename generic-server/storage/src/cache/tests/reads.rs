//! Reads at all kinds of revisions.

use super::*;
use crate::cache::tests::remote::Remote;

#[tokio::test]
async fn a_consistent_read_has_every_acknowledged_write() {
    let (store, cache) = memory_and_cache().await;
    for i in 0..20 {
        let revision = put(&*store, "a/x", &format!("l f {i}")).await;
        let snapshot = cache.read(ReadAt::Latest).await.unwrap();
        assert_eq!((show(&snapshot), snapshot.revision()), (format!("a/x={i}"), revision));
    }
}

#[tokio::test(start_paused = true)]
async fn reads_and_how_long_they_wait_are_counted() {
    let (store, cache) = memory_and_cache().await;
    let revision = put(&*store, "a/x", "l f 1").await;
    cache.read(ReadAt::Latest).await.unwrap();
    cache.read(ReadAt::NotOlderThan(revision)).await.unwrap();
    cache.read(ReadAt::Any).await.unwrap();
    cache.get("/r/things/a/x", ReadAt::Latest).await.unwrap();
    assert!(cache.read(ReadAt::NotOlderThan(revision + 1)).await.is_err());
    let metrics = cache.metrics();
    assert_eq!(metrics.latest_reads, [[0, 0], [1, 0]], "a get is no list");
    assert_eq!((metrics.waits.counts[0], metrics.waits.counts.iter().sum::<u64>()), (2, 3));
    assert!(metrics.waits.sum >= std::time::Duration::from_secs(3), "as long as a read is patient");
    cache.note_list(FoundBy::Field, 3, 2);
    let metrics = cache.metrics();
    assert_eq!((metrics.searches, metrics.listed), ([(0, 0), (1, 3), (0, 0)], 2));
    let mut watcher = cache.watch(Start::Initial(ReadAt::Any), all()).await.unwrap();
    assert_eq!(drain(&mut watcher), [format!("A a/x=1@{revision}")]);
    assert_eq!(cache.metrics().initial_events, 1);
}

#[tokio::test]
async fn writes_elsewhere_move_the_revision_of_reads() {
    let (store, cache) = memory_and_cache().await;
    put(&*store, "a/x", "l f 1").await;
    let elsewhere = store.put("/r/others/y", "v".into(), Expect::Absent, None).await.unwrap();
    let check = async |at| cache.read(at).await.unwrap().revision();
    assert_eq!(check(ReadAt::Latest).await, elsewhere);
    assert_eq!(check(ReadAt::Any).await, elsewhere);
    assert_eq!(check(ReadAt::NotOlderThan(elsewhere)).await, elsewhere);
    assert_eq!(check(ReadAt::Exact(elsewhere)).await, elsewhere);
}

#[tokio::test]
async fn the_first_list_is_paged_and_complete() {
    let store = Memory::new();
    for i in 0..10 {
        put(&*store, &format!("ns/{i}"), &format!("l f {i}")).await;
    }
    put(&*store, "ns/5", "!").await;
    let cache = cache_with(store.clone(), options()).await;
    let snapshot = cache.read(ReadAt::Any).await.unwrap();
    assert_eq!(show(&snapshot), "ns/0=0 ns/1=1 ns/2=2 ns/3=3 ns/4=4 ns/5! ns/6=6 ns/7=7 ns/8=8 ns/9=9");
    let Some(CacheEntry::Object(object)) = snapshot.get("/r/things/ns/7") else { panic!() };
    assert_eq!((object.name(), object.namespace(), object.create_revision()), ("7", Some("ns"), object.revision()));
    assert_eq!((object.labels().get("l"), object.field(0)), (Some("l"), "f"));
}

#[tokio::test]
async fn a_value_that_cannot_be_decoded_is_an_entry_that_says_so() {
    let (store, cache) = memory_and_cache().await;
    put(&*store, "a/x", "l f 1").await;
    put(&*store, "a/x", "!").await;
    let snapshot = cache.read(ReadAt::Latest).await.unwrap();
    let Some(CacheEntry::Broken(broken)) = snapshot.get("/r/things/a/x") else { panic!() };
    assert_eq!(broken.error.to_string(), "not three words: \"!\"");
    put(&*store, "a/x", "l f 2").await;
    assert_eq!(show(&cache.latest()), "a/x=2");
    assert_eq!(cache.metrics().broken, 1);
}

#[tokio::test]
async fn when_an_entry_goes_that_could_not_be_read_watchers_must_list_anew() {
    let (store, cache) = memory_and_cache().await;
    let start = put(&*store, "a/x", "!").await;
    let mut watcher = cache.watch(Start::After(start), all()).await.unwrap();
    put(&*store, "a/y", "l f 1").await;
    assert_eq!(drain(&mut watcher), ["A a/y=1@3"]);
    let gone = delete(&*store, "a/x").await;
    assert!(matches!(watcher.next().await, Some(Err(WatchEnd::Relisted))), "whoever knew it hears of no deletion");
    let from_before = cache.watch(Start::After(start), all()).await;
    assert!(matches!(from_before.err(), Some(CacheError::Expired { .. })));
    let mut watcher = cache.watch(Start::After(gone), all()).await.unwrap();
    put(&*store, "a/z", "l f 2").await;
    assert_eq!(drain(&mut watcher), ["A a/z=2@5"]);
    assert_eq!(show(&cache.latest()), "a/y=1 a/z=2");
}

#[tokio::test]
async fn a_decoder_that_panics_breaks_only_its_object() {
    struct Panics;
    impl Decode for Panics {
        fn decode(&self, key: &str, value: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
            assert!(!key.ends_with("bad"));
            Words.decode(key, value, revision)
        }
    }
    let store = Memory::new();
    put(&*store, "a/bad", "l f 1").await;
    let cache = Cache::start(store.clone(), PREFIX.into(), Arc::new(Panics), options());
    cache.ready().await.unwrap();
    put(&*store, "a/good", "l f 2").await;
    let snapshot = cache.read(ReadAt::Latest).await.unwrap();
    assert_eq!(show(&snapshot), "a/bad! a/good=2");
}

#[tokio::test]
async fn every_recent_revision_can_be_read_exactly() {
    let (store, cache) = memory_and_cache().await;
    let mut states = Vec::new();
    for i in 0..30 {
        let name = format!("a/{}", i % 4);
        let present = store.get(&format!("{PREFIX}{name}")).await.unwrap().0.is_some();
        let revision = match i % 5 == 4 && present {
            true => delete(&*store, &name).await,
            false => put(&*store, &name, &format!("l f {i}")).await,
        };
        states.push((revision, show(&cache.read(ReadAt::Latest).await.unwrap())));
    }
    for (revision, state) in states.iter().chain(states.iter().rev()) {
        let snapshot = cache.read(ReadAt::Exact(*revision)).await.unwrap();
        assert_eq!((snapshot.revision(), &show(&snapshot)), (*revision, state));
    }
    assert_eq!(cache.metrics().store_reads, 0);
}

#[tokio::test]
async fn what_is_older_than_the_window_comes_from_the_store_until_it_is_compacted() {
    let store = Memory::new();
    let mut options = options();
    (options.window.min_changes, options.window.max_changes) = (2, 2);
    let cache = cache_with(store.clone(), options).await;
    let mut revisions = Vec::new();
    for i in 0..6 {
        revisions.push(put(&*store, "a/x", &format!("l f {i}")).await);
    }
    let exact = async |i: usize| cache.read(ReadAt::Exact(revisions[i])).await;
    assert_eq!(show(&exact(4).await.unwrap()), "a/x=4");
    assert_eq!(cache.metrics().store_reads, 0);
    assert_eq!(show(&exact(1).await.unwrap()), "a/x=1");
    assert_eq!(show(&exact(1).await.unwrap()), "a/x=1");
    assert_eq!(cache.metrics().store_reads, 1, "kept for the next page");
    store.compact(revisions[3]).await.unwrap();
    assert_eq!(show(&exact(1).await.unwrap()), "a/x=1");
    let error = exact(0).await.unwrap_err();
    assert!(matches!(error, CacheError::Expired { asked, oldest } if (asked, oldest) == (revisions[0], revisions[3])));
}

#[tokio::test(start_paused = true)]
async fn a_revision_still_to_come_is_waited_for_then_refused() {
    let (store, cache) = memory_and_cache().await;
    let revision = put(&*store, "a/x", "l f 1").await;
    for at in [ReadAt::NotOlderThan(revision + 5), ReadAt::Exact(revision + 5)] {
        let error = cache.read(at).await.unwrap_err().to_string();
        assert_eq!(error, format!("Too large resource version: {}, current: {revision}", revision + 5));
    }
    let waiting = tokio::spawn({
        let cache = cache.clone();
        async move { cache.read(ReadAt::NotOlderThan(revision + 1)).await }
    });
    tokio::task::yield_now().await;
    put(&*store, "a/x", "l f 2").await;
    assert_eq!(show(&waiting.await.unwrap().unwrap()), "a/x=2");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_tell_what_it_delivered_is_asked_and_waited_for() {
    let remote = Remote::new();
    let cache = cache_with(remote.clone(), options()).await;
    put(&*remote, "a/x", "l f 1").await;
    let snapshot = cache.read(ReadAt::Latest).await.unwrap();
    assert_eq!(show(&snapshot), "a/x=1");

    // A write elsewhere is known by a progress notification alone.
    let elsewhere = remote.put("/r/others/y", "v".into(), Expect::Absent, None).await.unwrap();
    assert!(cache.latest().revision() < elsewhere);
    assert_eq!(cache.read(ReadAt::Latest).await.unwrap().revision(), elsewhere);

    // Events that do not arrive in time: the store itself is read, one key of it at once.
    remote.hold();
    let held = put(&*remote, "a/x", "l f 2").await;
    let key = format!("{PREFIX}a/x");
    let revisions = async |at| cache.get(&key, at).await.unwrap().map(|entry| entry.revision());
    let asked = tokio::time::Instant::now();
    assert_eq!(revisions(ReadAt::Latest).await, Some(held));
    assert!(asked.elapsed() < options().patience, "on a clock that only moves where all wait");
    assert_eq!(revisions(ReadAt::Any).await, Some(snapshot.revision()));
    assert_eq!(cache.get(&format!("{PREFIX}a/y"), ReadAt::Latest).await.unwrap().map(|entry| entry.revision()), None);
    let (known, is_latest) = cache.peek(&key);
    assert_eq!((known.map(|entry| entry.revision()), is_latest), (Some(snapshot.revision()), false));
    let late = cache.read(ReadAt::Latest).await.unwrap();
    assert_eq!((show(&late), late.revision()), ("a/x=2".to_owned(), held));
    let error = cache.read(ReadAt::NotOlderThan(held)).await.unwrap_err();
    assert!(matches!(error, CacheError::TooLarge { asked, current } if (asked, current) == (held, elsewhere)));
    assert_eq!(show(&cache.read(ReadAt::Any).await.unwrap()), "a/x=1");
    remote.release();
    assert_eq!(show(&cache.read(ReadAt::Latest).await.unwrap()), "a/x=2");
}

#[tokio::test(start_paused = true)]
async fn before_the_first_list_reads_wait_and_then_ask_to_retry() {
    let remote = Remote::new();
    remote.refuse_ranges(true);
    let cache = Cache::start(remote.clone(), PREFIX.into(), Arc::new(Words), options());
    for at in [ReadAt::Any, ReadAt::Latest, ReadAt::NotOlderThan(1), ReadAt::Exact(1)] {
        assert!(matches!(cache.read(at).await, Err(CacheError::NotReady)));
    }
    let waiting = tokio::spawn({
        let cache = cache.clone();
        async move { cache.ready().await }
    });
    remote.refuse_ranges(false);
    waiting.await.unwrap().unwrap();
    assert_eq!(show(&cache.read(ReadAt::Latest).await.unwrap()), "");
}

#[tokio::test(start_paused = true)]
async fn while_the_cache_is_not_ready_the_store_answers_all_but_watches() {
    let remote = Remote::new();
    remote.refuse_watches(true);
    let revision = put(&*remote, "a/x", "l f 1").await;
    let cache = Cache::start(remote.clone(), PREFIX.into(), Arc::new(Words), options());
    let key = format!("{PREFIX}a/x");
    let asked = tokio::time::Instant::now();
    for at in [ReadAt::Any, ReadAt::Latest, ReadAt::NotOlderThan(revision)] {
        let found = cache.get(&key, at).await.unwrap();
        assert_eq!(found.map(|entry| entry.revision()), Some(revision), "{at:?}");
    }
    assert!(asked.elapsed() < options().patience, "on a clock that only moves where all wait");
    for at in [ReadAt::Any, ReadAt::Latest, ReadAt::NotOlderThan(revision), ReadAt::Exact(revision)] {
        assert_eq!(show(&cache.read(at).await.unwrap()), "a/x=1", "{at:?}");
    }
    let later = ReadAt::NotOlderThan(revision + 1);
    assert!(matches!(cache.read(later).await, Err(CacheError::TooLarge { .. })));
    assert!(matches!(cache.get(&key, later).await, Err(CacheError::TooLarge { .. })));
    assert!(matches!(cache.watch(Start::After(revision), all()).await, Err(CacheError::NotReady)));
    remote.refuse_watches(false);
    cache.ready().await.unwrap();
    assert!(cache.watch(Start::After(revision), all()).await.is_ok());
}

#[tokio::test]
async fn a_stopped_cache_refuses() {
    let (_store, cache) = memory_and_cache().await;
    cache.stop();
    assert!(matches!(cache.read(ReadAt::Any).await, Err(CacheError::Stopped)));
    assert!(matches!(cache.ready().await, Err(CacheError::Stopped)));
    assert!(matches!(cache.watch(Start::After(1), all()).await, Err(CacheError::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn reads_that_wait_share_their_questions_to_the_store() {
    let remote = Remote::new();
    let cache = cache_with(remote.clone(), options()).await;
    let mut reads = Vec::new();
    for i in 0..100 {
        let revision = remote.put(&format!("/r/others/{i}"), "v".into(), Expect::Absent, None).await.unwrap();
        let cache = cache.clone();
        reads.push(tokio::spawn(async move {
            assert!(cache.read(ReadAt::Latest).await.unwrap().revision() >= revision);
        }));
    }
    for read in reads {
        read.await.unwrap();
    }
    let asked = remote.questions.each_ref().map(|n| n.load(std::sync::atomic::Ordering::SeqCst));
    assert!(asked[0] <= 3 && asked[1] <= 10, "{asked:?}");
}

#[tokio::test]
async fn many_changes_are_undone_as_few_are() {
    let (store, cache) = memory_and_cache().await;
    let first = put(&*store, "a/x", "l f 0").await;
    for i in 1..3000 {
        put(&*store, &format!("a/{}", i % 7), &format!("l f {i}")).await;
    }
    assert_eq!(show(&cache.read(ReadAt::Exact(first)).await.unwrap()), "a/x=0");
    assert_eq!(cache.metrics().store_reads, 0);
}
