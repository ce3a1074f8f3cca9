//! The suite of stores, on the backend for etcd, with our server in etcd's place.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use storage::{
    Store, conformance,
    etcd::{Etcd, EtcdOptions},
};
use support::{Own, config};
use tokio::sync::Mutex;

#[tokio::test(flavor = "multi_thread")]
async fn the_etcd_backend_passes_the_suite_on_our_server() {
    let folder = tempfile::tempdir().unwrap();
    let (count, servers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    conformance::run(async || {
        let dir = folder.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
        let server = Own::start(config(&dir)).await;
        let options = EtcdOptions {
            servers: vec![server.url()],
            compaction_interval: Duration::ZERO,
            lease_reuse: Duration::ZERO,
            timeout: Duration::from_secs(120),
            health_timeout: Duration::from_secs(120),
            ..EtcdOptions::default()
        };
        servers.lock().await.push(server);
        Etcd::connect(options).await.unwrap() as Arc<dyn Store>
    })
    .await;
    for server in servers.into_inner() {
        server.stop().await;
    }
}
