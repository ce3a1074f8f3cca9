//! The watch cache: fan-out to many watchers, lists, gets, start.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use storage::{
    Expect, Memory, Revision, Store,
    cache::{
        Cache, CacheOptions, Decode, DecodeError, Decoded, Everything, Filter, Object, ReadAt, Scope, Start, Term,
        WatchOptions,
    },
};
use tokio::{runtime::Runtime, sync::Notify};

const PREFIX: &str = "/registry/pods/";
const POD_BYTES: usize = 3000;

/// Splices the version into the stored bytes, which start with the node's name in eight letters.
struct Pods;

impl Decode for Pods {
    fn decode(&self, _: &str, value: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
        let head = br#"{"metadata":{"resourceVersion":""#;
        let digits = revision.to_string();
        let mut bytes = Vec::with_capacity(value.len() + digits.len());
        bytes.extend_from_slice(head);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&value[head.len()..]);
        let node = std::str::from_utf8(&value[value.len() - 8..]).map_err(|e| DecodeError(e.to_string()))?;
        let app = format!("a{}", node[4..].parse::<usize>().map_or(0, |node| node % 500));
        Ok(Decoded {
            version_at: head.len()..head.len() + digits.len(),
            bytes: bytes.into(),
            labels: [("app", app.as_str()), ("pod-template-hash", "6d4cf56db6")].into_iter().collect(),
            fields: [node].into_iter().collect(),
        })
    }
}

fn pod(node: usize) -> Bytes {
    let mut value = vec![b'x'; POD_BYTES - 8];
    value.extend_from_slice(format!("node{node:04}").as_bytes());
    value.into()
}

fn key(i: usize) -> String {
    format!("{PREFIX}ns-{}/pod-{i:06}", i % 20)
}

async fn filled(pods: usize) -> (Arc<Memory>, Arc<Cache>) {
    let store = Memory::new();
    for i in 0..pods {
        store.put(&key(i), pod(i % 500), Expect::Absent, None).await.expect("the write succeeds");
    }
    let cache = start(&store).await;
    (store, cache)
}

async fn start(store: &Arc<Memory>) -> Arc<Cache> {
    let options = CacheOptions { indexed: vec![0], ..CacheOptions::default() };
    let cache = Cache::start(store.clone(), PREFIX.into(), Arc::new(Pods), options);
    cache.ready().await.expect("the store answers");
    while !cache.is_live() {
        tokio::task::yield_now().await;
    }
    cache
}

/// What `watchers` tasks have received.
struct Audience {
    received: Arc<AtomicU64>,
    bell: Arc<Notify>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Audience {
    async fn of(cache: &Arc<Cache>, watchers: usize, scope: impl Fn(usize) -> Scope, filter: Arc<dyn Filter>) -> Self {
        let (received, bell) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let mut tasks = Vec::new();
        for i in 0..watchers {
            let options = WatchOptions {
                scope: scope(i),
                filter: filter.clone(),
                bookmarks: true,
                initial_events_end: false,
                timeout: Some(Duration::from_secs(3600)),
            };
            let mut watcher = cache.watch(Start::Now, options).await.expect("the cache is live");
            let (received, bell) = (received.clone(), bell.clone());
            tasks.push(tokio::spawn(async move {
                while let Some(Ok(event)) = watcher.next().await {
                    let frame = event.json_frame(|_, _| Bytes::new());
                    received.fetch_add(u64::from(!frame.is_empty()), Ordering::Relaxed);
                    bell.notify_one();
                }
            }));
        }
        Audience { received, bell, tasks }
    }

    async fn until(&self, count: u64) {
        while self.received.load(Ordering::Relaxed) < count {
            self.bell.notified().await;
        }
    }
}

/// Writes new pods, `in_flight` before the audience has to have all of them; the time for `changes`.
async fn fan_out(
    store: &Memory,
    audience: &Audience,
    changes: u64,
    in_flight: u64,
    hears: u64,
    next: &AtomicU64,
) -> Duration {
    let mut expected = audience.received.load(Ordering::Relaxed);
    let begun = Instant::now();
    for n in 0..changes {
        let i = next.fetch_add(1, Ordering::Relaxed) as usize;
        store.put(&key(1_000_000 + i), pod(i % 500), Expect::Absent, None).await.expect("the write succeeds");
        expected += hears;
        if n % in_flight == in_flight - 1 {
            audience.until(expected).await;
        }
    }
    audience.until(expected).await;
    begun.elapsed()
}

fn watches(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let next = AtomicU64::new(0);
    let mut group = c.benchmark_group("watch");
    group.sample_size(10);
    let cases: [(&str, u64, u64, u64); 4] = [
        ("1 watcher", 1, 1, 1),
        ("1000 watchers", 1000, 1, 1000),
        ("1000 watchers, 32 in flight", 1000, 32, 1000),
        ("1000 watchers, 1 concerned", 1000, 1, 0),
    ];
    for (name, watchers, in_flight, hears) in cases {
        let (store, cache) = runtime.block_on(filled(2000));
        let scope = |i: usize| match hears {
            // Each of another node that no pod is on, save the first.
            0 if i > 0 => Scope::Field { field: 0, value: format!("none{i:04}").into() },
            _ => Scope::All,
        };
        let hears = hears.max(1);
        let audience = runtime.block_on(Audience::of(&cache, watchers as usize, scope, Arc::new(Everything)));
        group.throughput(Throughput::Elements(hears));
        group.bench_function(name, |b| {
            b.iter_custom(|changes| runtime.block_on(fan_out(&store, &audience, changes, in_flight, hears, &next)));
        });
        audience.tasks.iter().for_each(|task| task.abort());
        cache.stop();
    }
}

fn reads(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (_store, cache) = runtime.block_on(filled(2000));
    let mut group = c.benchmark_group("read");
    group.bench_function("get", |b| {
        let key = key(777);
        b.iter(|| {
            let snapshot = runtime.block_on(cache.read(ReadAt::Latest)).expect("the cache is live");
            snapshot.get(&key).and_then(|e| e.object()).map(|o| o.bytes().clone())
        });
    });
    group.throughput(Throughput::Elements(2000));
    group.bench_function("list 2000", |b| {
        let filter = |object: &Object| object.labels().get("app").is_some();
        b.iter(|| {
            let snapshot = runtime.block_on(cache.read(ReadAt::Latest)).expect("the cache is live");
            let objects = snapshot.range(PREFIX, None).filter_map(|e| e.object()).filter(|o| filter(o));
            objects.map(|o| o.bytes().clone()).collect::<Vec<_>>()
        });
    });
    group.throughput(Throughput::Elements(4));
    group.bench_function("list by node", |b| {
        b.iter(|| {
            let snapshot = runtime.block_on(cache.read(ReadAt::Latest)).expect("the cache is live");
            let objects = snapshot.by_terms(&[Term::Field(0, "node0042".into())], "", None).into_iter().flatten();
            objects.map(|o| o.bytes().clone()).collect::<Vec<_>>()
        });
    });
}

/// 300 of 150,000 objects by a label, with the index and without.
fn by_label(c: &mut Criterion) {
    const PODS: usize = 150_000;
    let runtime = Runtime::new().expect("a runtime");
    let (_store, cache) = runtime.block_on(filled(PODS));
    let mut group = c.benchmark_group("300 of 150000 by label");
    let snapshot = runtime.block_on(cache.read(ReadAt::Latest)).expect("the cache is live");
    group.bench_function("index", |b| {
        let term = [Term::Label("app".into(), "a42".into())];
        b.iter(|| snapshot.by_terms(&term, PREFIX, None).map(|found| found.len()));
    });
    group.bench_function("walk", |b| {
        let filter = |object: &&Arc<Object>| object.labels().get("app") == Some("a42");
        b.iter(|| snapshot.range(PREFIX, None).filter_map(|e| e.object()).filter(filter).count());
    });
    cache.stop();
}

/// Updates spread over many pods: the store's own work (in memory) is measured beside it.
fn writes(c: &mut Criterion) {
    const PODS: usize = 100_000;
    let runtime = Runtime::new().expect("a runtime");
    let mut group = c.benchmark_group("update among 100000 pods");
    for cached in [false, true] {
        let (store, cache) = runtime.block_on(filled(PODS));
        if !cached {
            cache.stop();
        }
        let mut at = 0;
        group.bench_function(if cached { "with the cache" } else { "without" }, |b| {
            b.iter(|| {
                at = (at + 7919) % PODS;
                runtime.block_on(async {
                    let current = store.get(&key(at)).await.expect("the store answers").0;
                    let revision = current.expect("the pod is there").mod_revision;
                    store.put(&key(at), pod(at % 500), Expect::Revision(revision), None).await
                })
            });
        });
        cache.stop();
    }
}

fn starts(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (store, cache) = runtime.block_on(filled(50_000));
    cache.stop();
    let mut group = c.benchmark_group("start");
    group.sample_size(10).throughput(Throughput::Elements(50_000));
    group.bench_function("50000 pods", |b| {
        b.iter(|| runtime.block_on(start(&store)).stop());
    });
}

criterion_group!(benches, watches, reads, by_label, writes, starts);
criterion_main!(benches);
