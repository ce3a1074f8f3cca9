//! The suite on the backends that need nothing else.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod scratch;

use std::sync::Arc;

use storage::{
    Memory, Store, conformance,
    embedded::{Embedded, EmbeddedOptions, UnsyncedFiles},
};

#[tokio::test(flavor = "multi_thread")]
async fn memory_passes_the_suite() {
    conformance::run(async || Memory::new() as Arc<dyn Store>).await;
}

async fn embedded(options: EmbeddedOptions) {
    let folder = scratch::folder();
    let count = std::sync::atomic::AtomicUsize::new(0);
    conformance::run(async || {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Embedded::open(&folder.path().join(count.to_string()), options.clone()).unwrap() as Arc<dyn Store>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_passes_the_suite() {
    embedded(EmbeddedOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_passes_the_suite_when_relaxed() {
    embedded(EmbeddedOptions { relaxed: true, ..EmbeddedOptions::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_passes_the_suite_when_nothing_is_synced() {
    embedded(EmbeddedOptions { relaxed: true, files: Arc::new(UnsyncedFiles), ..EmbeddedOptions::default() }).await;
}
