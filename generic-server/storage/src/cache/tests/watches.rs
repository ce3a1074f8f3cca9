//! What watchers are told.

use super::*;

fn labelled(label: &'static str) -> WatchOptions {
    let filter = move |object: &Object| object.labels().get("l") == Some(label);
    WatchOptions { filter: Arc::new(filter), ..all() }
}

fn scoped(scope: Scope) -> WatchOptions {
    WatchOptions { scope, ..all() }
}

#[tokio::test]
async fn history_is_replayed_and_a_delete_shows_the_last_state_at_its_own_revision() {
    let (store, cache) = memory_and_cache().await;
    let r1 = put(&*store, "a/x", "l f 1").await;
    let r2 = put(&*store, "a/x", "l f 2").await;
    let r3 = delete(&*store, "a/x").await;
    let r4 = put(&*store, "a/x", "l f 3").await;
    let check = async |after, expect: &[String]| {
        let mut watcher = cache.watch(Start::After(after), all()).await.unwrap();
        assert_eq!(drain(&mut watcher), expect);
    };
    let told = [format!("A a/x=1@{r1}"), format!("M a/x=2@{r2}"), format!("D a/x=2@{r3}"), format!("A a/x=3@{r4}")];
    check(r1 - 1, &told).await;
    check(r2, &told[2..]).await;
    check(r4, &[]).await;
}

#[tokio::test]
async fn entering_a_selection_is_added_and_leaving_it_is_deleted_with_the_old_state() {
    let (store, cache) = memory_and_cache().await;
    let mut watcher = cache.watch(Start::Now, labelled("red")).await.unwrap();
    put(&*store, "a/x", "blue f 1").await;
    let r2 = put(&*store, "a/x", "red f 2").await;
    let r3 = put(&*store, "a/x", "red f 3").await;
    let r4 = put(&*store, "a/x", "blue f 4").await;
    put(&*store, "a/x", "blue f 5").await;
    delete(&*store, "a/x").await;
    let told = [format!("A a/x=2@{r2}"), format!("M a/x=3@{r3}"), format!("D a/x=3@{r4}")];
    assert_eq!(drain(&mut watcher), told);
}

#[tokio::test]
async fn a_scope_hears_its_part_alone_and_is_not_woken_by_the_rest() {
    let (store, cache) = memory_and_cache().await;
    let namespace = Scope::Namespace("a".into());
    let object = Scope::Object { namespace: Some("a".into()), name: "x".into() };
    let field = Scope::Field { field: 0, value: "f1".into() };
    let mut watchers = Vec::new();
    for scope in [namespace, object, field] {
        watchers.push(cache.watch(Start::Now, scoped(scope)).await.unwrap());
    }
    // Once polled they wait.
    assert!(watchers.iter_mut().all(|w| drain(w).is_empty()));
    put(&*store, "b/x", "l f2 0").await;
    assert_eq!(cache.metrics().wakeups, 0);
    let r1 = put(&*store, "a/x", "l f1 1").await;
    assert_eq!(cache.metrics().wakeups, 3);
    let r2 = put(&*store, "a/y", "l f2 2").await;
    let r3 = put(&*store, "b/y", "l f1 3").await;
    let r4 = put(&*store, "a/x", "l f2 4").await;
    let r5 = put(&*store, "a/xy", "l f2 5").await;
    let told: Vec<_> = watchers.iter_mut().map(drain).collect();
    let line = |kind, what, revision| format!("{kind} {what}@{revision}");
    let in_a = vec![line("A", "a/x=1", r1), line("A", "a/y=2", r2), line("M", "a/x=4", r4), line("A", "a/xy=5", r5)];
    assert_eq!(told[0], in_a);
    assert_eq!(told[1], [line("A", "a/x=1", r1), line("M", "a/x=4", r4)]);
    assert_eq!(told[2], [line("A", "a/x=1", r1), line("A", "b/y=3", r3), line("D", "a/x=1", r4)]);
}

#[tokio::test]
async fn a_scope_that_joins_late_finds_its_history() {
    let (store, cache) = memory_and_cache().await;
    let r1 = put(&*store, "a/x", "l f1 1").await;
    let r2 = put(&*store, "b/x", "l f1 2").await;
    let r3 = put(&*store, "a/x", "l f2 3").await;
    let check = async |scope, expect: &[String]| {
        let mut watcher = cache.watch(Start::After(r1 - 1), scoped(scope)).await.unwrap();
        assert_eq!(drain(&mut watcher), expect);
    };
    let (added, moved, gone) = (format!("A a/x=1@{r1}"), format!("M a/x=3@{r3}"), format!("D a/x=1@{r3}"));
    check(Scope::Namespace("a".into()), &[added.clone(), moved.clone()]).await;
    check(Scope::Namespace("b".into()), &[format!("A b/x=2@{r2}")]).await;
    check(Scope::Object { namespace: Some("a".into()), name: "x".into() }, &[added.clone(), moved]).await;
    check(Scope::Field { field: 0, value: "f1".into() }, &[added, format!("A b/x=2@{r2}"), gone]).await;
    check(Scope::Field { field: 0, value: "f2".into() }, &[format!("A a/x=3@{r3}")]).await;
}

#[tokio::test]
async fn the_initial_state_comes_in_key_order_then_its_end_then_changes() {
    let (store, cache) = memory_and_cache().await;
    let mut versions = Vec::new();
    for i in 0..200 {
        versions.push(
            put(&*store, &format!("a/{i:03}"), &format!("{} f{} {i}", if i % 2 == 0 { "red" } else { "blue" }, i % 5))
                .await,
        );
    }
    put(&*store, "b/x", "red f1 x").await;
    put(&*store, "a/broken", "!").await;
    let now = cache.revision();
    let check = async |scope, picks: &dyn Fn(usize) -> bool| {
        let options = WatchOptions { scope, bookmarks: true, initial_events_end: true, ..labelled("red") };
        let mut watcher = cache.watch(Start::Initial(ReadAt::Latest), options).await.unwrap();
        let added = (0..200).filter(|i| i % 2 == 0 && picks(*i)).map(|i| format!("A a/{i:03}={i}@{}", versions[i]));
        let told: Vec<_> = drain(&mut watcher).into_iter().filter(|line| !line.contains("b/x")).collect();
        assert_eq!(told, added.chain([format!("B {now} end")]).collect::<Vec<_>>());
    };
    check(Scope::All, &|_| true).await;
    check(Scope::Namespace("a".into()), &|_| true).await;
    check(Scope::Field { field: 0, value: "f1".into() }, &|i| i % 5 == 1).await;
    check(Scope::Object { namespace: Some("a".into()), name: "042".into() }, &|i| i == 42).await;
    check(Scope::Object { namespace: Some("a".into()), name: "none".into() }, &|_| false).await;
}

#[tokio::test]
async fn changes_while_the_initial_state_is_told_follow_it() {
    let (store, cache) = memory_and_cache().await;
    for i in 0..100 {
        put(&*store, &format!("a/{i:03}"), "l f 0").await;
    }
    let mut watcher = cache.watch(Start::Initial(ReadAt::Any), all()).await.unwrap();
    assert_eq!(show_event(&watcher.next().await.unwrap().unwrap())[..7], *"A a/000");
    let modified = put(&*store, "a/099", "l f 1").await;
    let gone = delete(&*store, "a/000").await;
    let told = drain(&mut watcher);
    assert_eq!(told.len(), 101);
    assert!(told[98].starts_with("A a/099=0@"));
    assert_eq!(told[99..], [format!("M a/099=1@{modified}"), format!("D a/000=0@{gone}")]);
}

#[tokio::test]
async fn a_start_before_the_window_is_expired_and_tells_the_oldest() {
    let store = Memory::new();
    let mut options = options();
    (options.window.min_changes, options.window.max_changes) = (3, 3);
    let cache = cache_with(store.clone(), options).await;
    let mut revisions = Vec::new();
    for i in 0..5 {
        revisions.push(put(&*store, "a/x", &format!("l f {i}")).await);
    }
    let error = cache.watch(Start::After(revisions[0]), all()).await.err().unwrap().to_string();
    assert_eq!(error, format!("too old resource version: {} ({})", revisions[0], revisions[1]));
    let mut watcher = cache.watch(Start::After(revisions[1]), all()).await.unwrap();
    assert_eq!(drain(&mut watcher).len(), 3);
}

#[tokio::test]
async fn a_slow_watcher_ends_and_the_others_go_on() {
    let store = Memory::new();
    let mut options = options();
    (options.window.min_changes, options.window.max_changes) = (10, 10);
    let cache = cache_with(store.clone(), options).await;
    let elsewhere = Scope::Namespace("quiet".into());
    let mut slow = cache.watch(Start::Now, all()).await.unwrap();
    let mut quick = cache.watch(Start::Now, all()).await.unwrap();
    let mut quiet = cache.watch(Start::Now, scoped(elsewhere)).await.unwrap();
    let mut told = 0;
    for i in 0..50 {
        put(&*store, "a/x", &format!("l f {i}")).await;
        told += drain(&mut quick).len();
    }
    assert_eq!(told, 50);
    assert_eq!(drain(&mut slow), ["Lagged", "end"]);
    assert!(drain(&mut quiet).is_empty());
    let last = put(&*store, "quiet/x", "l f q").await;
    assert_eq!(drain(&mut quiet), [format!("A quiet/x=q@{last}")]);
    assert_eq!((cache.metrics().lagged, cache.metrics().watchers, cache.metrics().window_changes), (1, 3, 10));
}

#[tokio::test]
async fn a_start_still_to_come_is_silent_until_then() {
    let (store, cache) = memory_and_cache().await;
    let now = put(&*store, "a/x", "l f 1").await;
    let mut watcher = cache.watch(Start::After(now + 2), all()).await.unwrap();
    put(&*store, "a/x", "l f 2").await;
    put(&*store, "a/x", "l f 3").await;
    assert!(drain(&mut watcher).is_empty());
    let next = put(&*store, "a/x", "l f 4").await;
    assert_eq!(drain(&mut watcher), [format!("M a/x=4@{next}")]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_shortly_before_the_end_and_never_ahead_of_events() {
    let (store, cache) = memory_and_cache().await;
    let options = WatchOptions { bookmarks: true, timeout: Some(Duration::from_secs(150)), ..all() };
    let mut watcher = cache.watch(Start::Now, options).await.unwrap();
    let begun = tokio::time::Instant::now();
    let mut bookmarks = Vec::new();
    let changed = put(&*store, "a/x", "l f 1").await;
    let elsewhere = store.put("/r/others/y", "v".into(), Expect::Absent, None).await.unwrap();
    assert_eq!(show_event(&watcher.next().await.unwrap().unwrap()), format!("A a/x=1@{changed}"));
    while let Some(event) = watcher.next().await {
        assert_eq!(show_event(&event.unwrap()), format!("B {elsewhere}"));
        bookmarks.push(begun.elapsed().as_secs());
    }
    assert!(matches!(bookmarks[..], [60..=75, 120..=150, 148]), "{bookmarks:?}");
    assert_eq!(begun.elapsed().as_secs(), 150);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_gets_none_and_ends_in_time() {
    let (_store, cache) = memory_and_cache().await;
    let options = WatchOptions { timeout: Some(Duration::from_secs(150)), initial_events_end: true, ..all() };
    let mut watcher = cache.watch(Start::Initial(ReadAt::Latest), options).await.unwrap();
    assert!(watcher.next().await.is_none());
}

#[tokio::test]
async fn broken_values_look_deleted_to_watchers_until_they_are_mended() {
    let (store, cache) = memory_and_cache().await;
    let mut watcher = cache.watch(Start::Now, all()).await.unwrap();
    let r1 = put(&*store, "a/x", "l f 1").await;
    let r2 = put(&*store, "a/x", "!").await;
    let r3 = put(&*store, "a/x", "l f 2").await;
    assert_eq!(drain(&mut watcher), [format!("A a/x=1@{r1}"), format!("D a/x=1@{r2}"), format!("A a/x=2@{r3}")]);
}

#[tokio::test]
async fn a_frame_is_encoded_once_for_all_watchers() {
    let (store, cache) = memory_and_cache().await;
    let mut watchers = Vec::new();
    for _ in 0..3 {
        watchers.push(cache.watch(Start::Now, all()).await.unwrap());
    }
    let revision = put(&*store, "a/x", "l f 1").await;
    let mut frames = Vec::new();
    for watcher in &mut watchers {
        let event = watcher.next().await.unwrap().unwrap();
        frames.push(event.json_frame(|_, _| panic!("no bookmark")));
        let odd = event.frame(FormId(7), |kind, _| match frames.len() {
            1 => Ok(Bytes::from(kind.as_str())),
            _ => Err("again"),
        });
        assert_eq!(odd, Some(Ok(Bytes::from("ADDED"))));
    }
    let expect =
        format!(r#"{{"type":"ADDED","object":{{"metadata":{{"resourceVersion":"{revision}"}},"text":"1"}}}}"#) + "\n";
    assert_eq!(frames[0], expect);
    assert!(frames.iter().all(|f| f.as_ptr() == frames[0].as_ptr()));
}

#[tokio::test]
async fn dropped_watchers_leave_nothing_behind() {
    let (store, cache) = memory_and_cache().await;
    let mut watchers = Vec::new();
    for i in 0..10 {
        let scope = Scope::Field { field: 0, value: format!("f{i}").into() };
        watchers.push(cache.watch(Start::Now, scoped(scope)).await.unwrap());
        watchers.push(cache.watch(Start::Now, scoped(Scope::Namespace("a".into()))).await.unwrap());
    }
    watchers.iter_mut().for_each(|w| assert!(drain(w).is_empty()));
    drop(watchers);
    put(&*store, "a/x", "l f3 1").await;
    assert_eq!((cache.metrics().watchers, cache.metrics().wakeups), (0, 0));
    assert_eq!(cache.shared.window.logs(), 1);
}

#[tokio::test]
async fn many_watchers_are_woken_apart_from_the_write() {
    let (store, cache) = memory_and_cache().await;
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let mut watcher = cache.watch(Start::Now, all()).await.unwrap();
        tasks.push(tokio::spawn(async move { show_event(&watcher.next().await.unwrap().unwrap()) }));
    }
    tokio::task::yield_now().await;
    let revision = put(&*store, "a/x", "l f 1").await;
    assert_eq!(cache.metrics().wakeups, 0);
    for task in tasks {
        assert_eq!(task.await.unwrap(), format!("A a/x=1@{revision}"));
    }
    assert_eq!(cache.metrics().wakeups, 50);
}

#[tokio::test]
async fn stopping_ends_watchers_however_many() {
    let (_store, cache) = memory_and_cache().await;
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let mut watcher = cache.watch(Start::Now, all()).await.unwrap();
        tasks.push(tokio::spawn(async move { watcher.next().await.unwrap().unwrap_err() }));
    }
    tokio::task::yield_now().await;
    cache.stop();
    for task in tasks {
        assert_eq!(task.await.unwrap(), WatchEnd::Stopped);
    }
}

#[tokio::test]
async fn frames_are_shared_while_they_are_hot_and_not_kept_beyond() {
    let (store, cache) = memory_and_cache().await;
    let mut watchers = Vec::new();
    for _ in 0..2 {
        watchers.push(cache.watch(Start::Now, all()).await.unwrap());
    }
    let big = "x".repeat(1_000_000);
    for i in 0..8 {
        put(&*store, &format!("a/{i}"), &format!("l f {big}")).await;
    }
    let mut shared = Vec::new();
    for _ in 0..8 {
        let mut frames = Vec::new();
        for watcher in &mut watchers {
            frames.push(watcher.next().await.unwrap().unwrap().json_frame(|_, _| panic!("no bookmark")));
        }
        assert_eq!(frames[0], frames[1]);
        shared.push(frames[0].as_ptr() == frames[1].as_ptr());
    }
    assert_eq!(shared, [false, false, false, false, true, true, true, true], "4 MiB are hot");
}
