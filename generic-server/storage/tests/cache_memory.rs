//! What the watch cache weighs, counted at the allocator.

use std::{
    alloc::System,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use storage::{
    Expect, Memory, Revision, Store,
    cache::{
        Cache, CacheOptions, Decode, DecodeError, Decoded, Everything, ReadAt, Scope, Start, WatchOptions, WindowLimits,
    },
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time counts.
static COUNTING: Mutex<()> = Mutex::new(());

const POD_BYTES: usize = 3000;
const PREFIX: &str = "/registry/pods/";

/// Runs to the end, runtime and all, before another test may count.
fn alone(test: impl Future<Output = ()>) {
    let _counting = COUNTING.lock().unwrap_or_else(|e| e.into_inner());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(test);
}

/// Bytes allocated now.
fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Makes a pod of a few stored bytes, so that the store weighs nothing.
struct Pods;

impl Decode for Pods {
    fn decode(&self, key: &str, value: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
        let name = key.rsplit('/').next().unwrap_or_default();
        let node = std::str::from_utf8(value).map_err(|e| DecodeError(e.to_string()))?;
        let head = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":""#;
        let digits = revision.to_string();
        let mut bytes = format!(r#"{head}{digits}"}},"spec":{{"nodeName":"{node}"}},"padding":""#).into_bytes();
        bytes.resize(POD_BYTES - 2, b'x');
        bytes.extend_from_slice(b"\"}");
        bytes.shrink_to_fit();
        let labels = [
            ("app.kubernetes.io/name", "a-web-application"),
            ("app.kubernetes.io/instance", "a-web-application-production"),
            ("app.kubernetes.io/component", "frontend"),
            ("pod-template-hash", "6d4cf56db6"),
            ("statefulset.kubernetes.io/pod-name", name),
        ];
        // metadata.name, metadata.namespace, spec.*, status.* as upstream's pods have them.
        let fields =
            [name, "namespace-1", node, "Always", "default-scheduler", "default", "false", "Running", "10.0.0.1", ""];
        Ok(Decoded {
            version_at: head.len()..head.len() + digits.len(),
            bytes: bytes.into(),
            labels: labels.into_iter().collect(),
            fields: fields.into_iter().collect(),
        })
    }
}

fn key(i: usize) -> String {
    format!("{PREFIX}namespace-{}/a-web-application-production-6d4cf56db6-{i:06}", i % 50)
}

async fn write(store: &Memory, i: usize, node: usize, expect: Expect) -> Revision {
    store.put(&key(i), format!("node-{node:04}").into(), expect, None).await.expect("the write succeeds")
}

async fn store_of(pods: usize) -> Arc<Memory> {
    let store = Memory::new();
    for i in 0..pods {
        write(&store, i, i % 500, Expect::Absent).await;
    }
    store
}

async fn cache_of(store: Arc<Memory>, window: WindowLimits) -> Arc<Cache> {
    let options = CacheOptions { indexed: vec![2], window, ..CacheOptions::default() };
    let cache = Cache::start(store, PREFIX.into(), Arc::new(Pods), options);
    cache.ready().await.expect("the store answers");
    while !cache.is_live() {
        tokio::task::yield_now().await;
    }
    cache
}

#[test]
fn the_cache_takes_at_most_one_and_a_half_times_its_objects() {
    alone(weigh_the_cache());
}

async fn weigh_the_cache() {
    let pods = 3000;
    let serialised = pods * POD_BYTES;
    let store = store_of(pods).await;
    let before = in_use();
    // The window may keep as small a part here as 32 MiB are of 100,000 pods.
    let cache = cache_of(store.clone(), WindowLimits { max_bytes: serialised / 10, ..WindowLimits::default() }).await;
    // The store made the keys, which the cache shares.
    let keys: usize = (0..pods).map(|i| key(i).len() + 16).sum();
    let factor = |used: usize| (used + keys) as f64 / serialised as f64;
    let at_rest = factor(in_use() - before);
    println!("at rest {at_rest:.3}");
    assert!(at_rest <= 1.35, "at rest {at_rest:.3} times the serialised size");

    // Under writes; the store forgets its history, the window keeps some.
    let snapshot = cache.read(ReadAt::Latest).await.expect("the cache is live");
    for i in 0..pods {
        let revision = snapshot.get(&key(i)).expect("it was written").revision();
        write(&store, i, i % 499, Expect::Revision(revision)).await;
    }
    drop(snapshot);
    store.compact(cache.revision()).await.expect("it is a revision of the store");
    let under_writes = factor(in_use() - before);
    println!("under writes {under_writes:.3}");
    assert!(under_writes <= 1.5, "under writes {under_writes:.3} times the serialised size");
    assert!(cache.metrics().window_bytes as usize <= serialised / 10);
}

#[test]
fn an_idle_watch_takes_a_few_kilobytes() {
    alone(weigh_idle_watches());
}

async fn weigh_idle_watches() {
    let store = store_of(100).await;
    let cache = cache_of(store.clone(), WindowLimits::default()).await;
    let (count, scopes) = (2000, [Scope::All, Scope::Namespace("namespace-1".into())]);
    let before = in_use();
    let mut tasks = Vec::new();
    for i in 0..count {
        let scope = match scopes.get(i % 3) {
            Some(scope) => scope.clone(),
            None => Scope::Field { field: 2, value: format!("node-{i}").into() },
        };
        let options = WatchOptions {
            scope,
            filter: Arc::new(Everything),
            bookmarks: true,
            initial_events_end: true,
            timeout: Some(std::time::Duration::from_secs(1800)),
        };
        let mut watcher = cache.watch(Start::Initial(ReadAt::Latest), options).await.expect("the cache is live");
        tasks.push(tokio::spawn(async move { while watcher.next().await.is_some() {} }));
    }
    for _ in 0..300 {
        tokio::task::yield_now().await;
    }
    let each = (in_use() - before) / count;
    println!("{each} bytes each");
    assert_eq!(cache.metrics().watchers as usize, count);
    assert!(each <= 4 << 10, "{each} bytes for an idle watch");
    tasks.iter().for_each(|task| task.abort());
}

#[test]
fn an_empty_cache_takes_a_few_kilobytes() {
    alone(weigh_empty_caches());
}

async fn weigh_empty_caches() {
    let store = Memory::new();
    let count = 500;
    let before = in_use();
    let mut caches = Vec::new();
    for i in 0..count {
        let options = CacheOptions { indexed: vec![2], ..CacheOptions::default() };
        caches.push(Cache::start(store.clone(), format!("/registry/group-{i}/things/"), Arc::new(Pods), options));
    }
    for cache in &caches {
        cache.ready().await.expect("the store answers");
    }
    let each = (in_use() - before) / count;
    println!("{each} bytes for an empty cache");
    assert!(each <= 8 << 10, "{each} bytes for an empty cache");
}
