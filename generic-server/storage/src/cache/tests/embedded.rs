//! Over the embedded store: several threads write, and each finds what it wrote at once.

use super::*;
use crate::embedded;

const WRITERS: usize = 8;
const WRITES: usize = 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_writer_finds_its_acknowledged_write_and_every_watcher_all_of_them_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = embedded::Embedded::open(folder.path(), embedded::EmbeddedOptions::default()).unwrap();
    let cache = cache_with(store.clone(), options()).await;
    let watching = tokio::spawn({
        let cache = cache.clone();
        async move {
            let mut watcher = cache.watch(Start::Now, all()).await.unwrap();
            let mut revisions = Vec::new();
            while revisions.len() < WRITERS * WRITES {
                revisions.push(watcher.next().await.unwrap().unwrap().revision());
            }
            revisions
        }
    });
    while cache.metrics().watchers == 0 {
        tokio::task::yield_now().await;
    }
    let writers = (0..WRITERS).map(|w| {
        let (store, cache) = (store.clone(), cache.clone());
        tokio::spawn(async move {
            for i in 0..WRITES {
                let name = format!("n{w}/x");
                let revision = put(&*store, &name, &format!("l f {i}")).await;
                let snapshot = cache.read(ReadAt::Latest).await.unwrap();
                assert!(snapshot.revision() >= revision);
                let entry = snapshot.get(&format!("{PREFIX}{name}")).unwrap();
                assert_eq!((text(entry.object().unwrap()), entry.revision()), (i.to_string(), revision));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let revisions = watching.await.unwrap();
    assert!(revisions.is_sorted_by(|a, b| a < b));
    store.close().await;
    while cache.ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
    drop(store);

    // Another process finds the same.
    let before = show(&cache.latest());
    let store = embedded::Embedded::open(folder.path(), embedded::EmbeddedOptions::default()).unwrap();
    let cache = cache_with(store.clone(), options()).await;
    assert_eq!(show(&cache.read(ReadAt::Latest).await.unwrap()), before);
    store.close().await;
}
