//! Losing the feed and getting it back.

use super::*;
use crate::{Error, cache::tests::remote::Remote};

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_watch_is_continued_where_it_was_and_watchers_notice_nothing() {
    let remote = Remote::new();
    let cache = cache_with(remote.clone(), options()).await;
    let mut watcher = cache.watch(Start::Now, all()).await.unwrap();
    let first = put(&*remote, "a/x", "l f 1").await;
    remote.hold();
    let second = put(&*remote, "a/x", "l f 2").await;
    remote.cut(Error::Unavailable("gone".into()));
    assert!(!cache.is_live());
    assert_eq!(show(&cache.read(ReadAt::Any).await.unwrap()), "a/x=1", "what there was is served meanwhile");
    until(|| cache.is_live()).await;
    let third = put(&*remote, "a/x", "l f 3").await;
    let told = [format!("A a/x=1@{first}"), format!("M a/x=2@{second}"), format!("M a/x=3@{third}")];
    assert_eq!(drain(&mut watcher), told);
    assert_eq!((cache.metrics().lists, cache.metrics().store_watches), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn after_a_compaction_the_cache_lists_anew_and_ends_its_watchers() {
    let remote = Remote::new();
    let cache = cache_with(remote.clone(), options()).await;
    let before = put(&*remote, "a/x", "l f 1").await;
    put(&*remote, "a/y", "l f 1").await;
    let mut watcher = cache.watch(Start::After(before), all()).await.unwrap();
    remote.hold();
    delete(&*remote, "a/x").await;
    let last = put(&*remote, "a/z", "l f 2").await;
    remote.compact(last).await.unwrap();
    remote.cut(Error::Unavailable("gone".into()));
    until(|| cache.is_live()).await;
    assert_eq!(show(&cache.read(ReadAt::Latest).await.unwrap()), "a/y=1 a/z=2");
    assert_eq!(drain(&mut watcher), ["Relisted", "end"]);
    let expired = cache.watch(Start::After(before), all()).await.err().unwrap().to_string();
    assert_eq!(expired, format!("too old resource version: {before} ({last})"));
    let mut watcher = cache.watch(Start::After(last), all()).await.unwrap();
    let next = put(&*remote, "a/y", "l f 3").await;
    assert_eq!(drain(&mut watcher), [format!("M a/y=3@{next}")]);
    assert_eq!(cache.metrics().lists, 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_tried_again() {
    let remote = Remote::new();
    remote.refuse_ranges(true);
    let cache = Cache::start(remote.clone(), PREFIX.into(), Arc::new(Words), options());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!((5..20).contains(&cache.metrics().lists), "with growing pauses: {}", cache.metrics().lists);
    remote.refuse_ranges(false);
    cache.ready().await.unwrap();
}

#[tokio::test]
async fn a_closed_store_stops_the_cache() {
    let (store, cache) = memory_and_cache().await;
    let mut watcher = cache.watch(Start::Now, all()).await.unwrap();
    store.close().await;
    assert!(matches!(watcher.next().await, Some(Err(WatchEnd::Stopped))));
    assert!(watcher.next().await.is_none());
    assert!(matches!(cache.read(ReadAt::Any).await, Err(CacheError::Stopped)));
}

#[tokio::test]
async fn events_that_the_list_had_already_are_not_told_twice() {
    let (store, cache) = memory_and_cache().await;
    let revision = put(&*store, "a/x", "l f 1").await;
    let mut watcher = cache.watch(Start::After(revision), all()).await.unwrap();
    let repeated = crate::Event {
        revision,
        key: "/r/things/a/x".into(),
        value: Some("l f 1".into()),
        previous: None,
        create_revision: revision,
    };
    crate::Sink::apply(&*cache.shared.feed(), &[repeated]);
    assert!(drain(&mut watcher).is_empty());
    assert_eq!(show(&cache.latest()), "a/x=1");
}

/// `reset` and what the snapshot shows, or the event.
fn learn(followed: Option<Followed>) -> String {
    match followed {
        None => "stopped".into(),
        Some(Followed::Reset(snapshot)) => format!("reset {}", show(&snapshot)),
        Some(Followed::Event(event)) => show_event(&event),
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_starts_over_when_events_were_missed() {
    let remote = Remote::new();
    let cache = cache_with(remote.clone(), options()).await;
    put(&*remote, "a/x", "l f 1").await;
    let mut follower = cache.follow(Scope::All, Arc::new(Everything));
    assert_eq!(learn(follower.next().await), "reset a/x=1");
    let changed = put(&*remote, "a/x", "l f 2").await;
    assert_eq!(learn(follower.next().await), format!("M a/x=2@{changed}"));
    remote.hold();
    delete(&*remote, "a/x").await;
    let last = put(&*remote, "a/y", "l f 3").await;
    remote.compact(last).await.unwrap();
    remote.cut(Error::Unavailable("gone".into()));
    assert_eq!(learn(follower.next().await), "reset a/y=3");
    let changed = put(&*remote, "a/y", "l f 4").await;
    assert_eq!(learn(follower.next().await), format!("M a/y=4@{changed}"));
    cache.stop();
    assert_eq!(learn(follower.next().await), "stopped");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_leaves_the_window_though_no_new_changes_come() {
    let store = Memory::new();
    let window = WindowLimits { min_changes: 2, max_age: Duration::from_millis(50), ..WindowLimits::default() };
    let cache = cache_with(store.clone(), CacheOptions { window, ..options() }).await;
    let scope = Scope::Namespace("a".into());
    let mut watcher = cache.watch(Start::Now, WatchOptions { scope, ..all() }).await.unwrap();
    let mut last = 0;
    for n in 0..10 {
        last = put(&*store, "a/x", &format!("l f {n}")).await;
    }
    until(|| cache.metrics().window_changes == 2).await;
    assert_eq!(show(&cache.read(ReadAt::Any).await.unwrap()), "a/x=9");
    // A watcher that has not read what is gone has fallen behind; one from what is left goes on.
    assert_eq!(drain(&mut watcher), ["Lagged", "end"]);
    let mut watcher = cache.watch(Start::After(last - 2), all()).await.unwrap();
    assert_eq!(drain(&mut watcher), [format!("M a/x=8@{}", last - 1), format!("M a/x=9@{last}")]);
    assert!(cache.watch(Start::After(last - 3), all()).await.is_err());
}
