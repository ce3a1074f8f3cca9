//! The embedded store's speed: durable creates by one and by 32 callers, beside what the disk needs for a sync; and reads.
//!
//! `cargo bench -p storage --bench embedded`; the folder is made under `TMPDIR`, which should be on the disk in question.
#![allow(missing_docs, reason = "criterion's macros make public items")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on ends")]

use std::{
    hint::black_box,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use storage::{
    Expect, Range, Store,
    embedded::{Embedded, EmbeddedOptions},
};
use tokio::runtime::Runtime;

/// A configmap's size in the load generator.
const VALUE: usize = 1400;

struct Load {
    store: Arc<Embedded>,
    runtime: Runtime,
    next: Arc<AtomicU64>,
    _folder: tempfile::TempDir,
}

impl Load {
    fn new() -> Load {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Load { store, runtime, next: Arc::default(), _folder: folder }
    }

    /// Creates `count` keys with so many callers, and returns how long that took.
    fn create(&self, callers: u64, count: u64) -> Duration {
        let start = Instant::now();
        self.runtime.block_on(async {
            let end = self.next.load(Ordering::Relaxed) + count;
            let callers: Vec<_> = (0..callers)
                .map(|_| {
                    let (store, next) = (self.store.clone(), self.next.clone());
                    tokio::spawn(async move {
                        loop {
                            let n = next.fetch_add(1, Ordering::Relaxed);
                            if n >= end {
                                return;
                            }
                            let key =
                                format!("/registry/configmaps/default/{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                            store.put(&key, Bytes::from(vec![b'x'; VALUE]), Expect::Absent, None).await.unwrap();
                        }
                    })
                })
                .collect();
            for caller in callers {
                caller.await.unwrap();
            }
        });
        start.elapsed()
    }
}

fn creates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("create");
    group.throughput(Throughput::Elements(1)).measurement_time(Duration::from_secs(8));
    for callers in [1, 8, 32] {
        let load = Load::new();
        let mut cpu = Duration::ZERO;
        group.bench_function(format!("{callers} in flight"), |bencher| {
            bencher.iter_custom(|count| {
                let before = cpu_time();
                let taken = load.create(callers, count);
                cpu += cpu_time() - before;
                taken
            });
        });
        println!("{callers} in flight: {:?} of CPU a create", cpu / load.next.load(Ordering::Relaxed) as u32);
    }
    group.finish();
}

/// What a durable write costs at least: four KiB in a file that has them already, and a sync.
fn syncs(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let file =
        std::fs::File::options().read(true).write(true).create_new(true).open(folder.path().join("file")).unwrap();
    file.write_all_at(&[0; 64 * 4096], 0).unwrap();
    file.sync_all().unwrap();
    let mut at = 0;
    criterion.bench_function("write and sync 4 KiB", |bencher| {
        bencher.iter(|| {
            at = (at + 4096) % (64 * 4096);
            file.write_all_at(&[1; 4096], at).unwrap();
            file.sync_data().unwrap();
        });
    });
}

fn reads(criterion: &mut Criterion) {
    let load = Load::new();
    load.create(32, 10_000);
    let prefix = || Range { prefix: "/registry/configmaps/".into(), ..Range::default() };
    let mut group = criterion.benchmark_group("read");
    group.bench_function("range of 10,000", |bencher| {
        bencher.iter(|| black_box(load.runtime.block_on(load.store.range(prefix())).unwrap()));
    });
    let key = load.runtime.block_on(load.store.range(Range { limit: 1, ..prefix() })).unwrap().items.remove(0).key;
    group.bench_function("get", |bencher| {
        bencher.iter(|| black_box(load.runtime.block_on(load.store.get(&key)).unwrap()));
    });
    group.bench_function("open with 10,000 keys", |bencher| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::remove_dir(folder.path()).unwrap();
        let file = folder.path().with_extension("snapshot");
        load.runtime.block_on(load.store.snapshot(file.clone())).unwrap();
        storage::embedded::start_from(&file, folder.path()).unwrap();
        bencher.iter_batched(
            || (),
            |()| {
                let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
                load.runtime.block_on(store.close());
            },
            BatchSize::PerIteration,
        );
        std::fs::remove_file(file).unwrap();
    });
    group.finish();
}

/// This process's CPU time so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

criterion_group!(benches, syncs, creates, reads);
criterion_main!(benches);
