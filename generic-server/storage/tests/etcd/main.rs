//! The etcd backend on real etcd servers: the suite, and servers that are killed, stalled, cut off and compacted.
//!
//! Needs the `etcd` binary on PATH (Debian: etcd-server), or where `ETCD` says.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../scratch/mod.rs"]
mod scratch;
mod server;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use server::{Proxy, Server, certificates, cluster};
use storage::{
    Error, Expect, Range, Revision, Store, Watch,
    conformance::{self, Recorder, create},
    etcd::{Etcd, EtcdOptions},
};

fn options(servers: &[String]) -> EtcdOptions {
    let servers = servers.to_vec();
    EtcdOptions {
        servers,
        timeout: Duration::from_secs(60),
        compaction_interval: Duration::ZERO,
        ..EtcdOptions::default()
    }
}

async fn connect(url: &str) -> Arc<Etcd> {
    Etcd::connect(options(&[url.to_owned()])).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_passes_the_suite() {
    let server = Server::start().await;
    conformance::run(async || {
        let mut raw = etcd_client::Client::connect([server.url()], None).await.unwrap();
        let all = etcd_client::DeleteOptions::new().with_all_keys();
        raw.delete(Vec::new(), Some(all)).await.unwrap();
        connect(&server.url()).await as Arc<dyn Store>
    })
    .await;
}

/// Creates keys until one succeeds, as a client that tries again does.
async fn create_in_the_end(store: &Etcd, key: &str) -> Revision {
    let value = Bytes::from_static(b"x");
    for _ in 0..200 {
        match store.put(key, value.clone(), Expect::Absent, None).await {
            Ok(revision) => return revision,
            // It was written, though the answer was lost.
            Err(Error::Conflict { current: Some(current) }) => return current.mod_revision,
            Err(Error::Unavailable(_) | Error::Timeout(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{key} could not be created")
}

async fn watch(store: &Etcd, after: Revision) -> (Arc<Recorder>, Watch) {
    let recorder = Recorder::new();
    let watch = store.watch("/a/", after, recorder.clone()).await.unwrap();
    (recorder, watch)
}

async fn keys(recorder: &Recorder, count: usize) -> Vec<String> {
    recorder.events(count).await.into_iter().map(|event| event.1).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_resume_after_etcd_was_killed() {
    let mut server = Server::start().await;
    let store = connect(&server.url()).await;
    let (recorder, _watch) = watch(&store, store.revision().await.unwrap()).await;
    let mut expect = Vec::new();
    for round in 0..3 {
        for n in 0..5 {
            let key = format!("/a/{round}{n}");
            create_in_the_end(&store, &key).await;
            expect.push(key);
        }
        server.kill().await;
        assert!(matches!(store.health().await, Err(Error::Unavailable(_) | Error::Timeout(_))), "it is down");
        server.restart().await;
    }
    create_in_the_end(&store, "/a/last").await;
    expect.push("/a/last".into());
    assert_eq!(keys(&recorder, expect.len()).await, expect, "nothing is missed and nothing comes twice");
    assert!(store.health().await.is_ok());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_stalled_etcd_time_out_and_work_again_after() {
    let server = Server::start().await;
    let stalled = EtcdOptions {
        timeout: Duration::from_millis(500),
        health_timeout: Duration::from_millis(300),
        ..options(&[server.url()])
    };
    // The hasty client speaks only while etcd is stalled: a slow disk may take longer than it waits.
    let (store, patient) = (Etcd::connect(stalled).await.unwrap(), connect(&server.url()).await);
    let (recorder, _watch) = watch(&store, patient.revision().await.unwrap()).await;
    create(&*patient, "/a/1", "").await;
    server.stall(true);
    let get = store.get("/a/1").await;
    assert!(matches!(get, Err(Error::Timeout(_))), "{get:?}");
    assert!(matches!(store.health().await, Err(Error::Timeout(_))));
    server.stall(false);
    create_in_the_end(&store, "/a/2").await;
    assert_eq!(keys(&recorder, 2).await, ["/a/1", "/a/2"]);
    store.close().await;
    patient.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_was_cut_off_until_its_history_was_compacted_ends() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.port).await;
    let (behind, direct) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let (recorder, _watch) = watch(&behind, behind.revision().await.unwrap()).await;
    create(&*direct, "/a/1", "").await;
    recorder.events(1).await;
    proxy.cut(true);
    create(&*direct, "/a/2", "").await;
    let last = create(&*direct, "/a/3", "").await;
    direct.compact(last).await.unwrap();
    proxy.cut(false);
    let seen = recorder.wait(|seen| seen.closed.is_some()).await;
    assert!(matches!(seen.closed, Some(Error::Compacted { oldest }) if oldest == last), "{seen:?}");
    assert_eq!(seen.events.len(), 1);
    // And one that was cut off briefly goes on.
    let (recorder, _watch) = watch(&behind, last).await;
    proxy.cut(true);
    create(&*direct, "/a/4", "").await;
    proxy.cut(false);
    assert_eq!(keys(&recorder, 1).await, ["/a/4"]);
    behind.close().await;
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_members_may_die() {
    let mut servers = cluster(3).await;
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let store = Etcd::connect(options(&urls)).await.unwrap();
    create_in_the_end(&store, "/a/start").await;
    let start = store.revision().await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..6 {
        watches.push(watch(&store, start).await);
    }
    let mut expect = Vec::new();
    for (round, server) in servers.iter_mut().enumerate() {
        server.kill().await;
        for n in 0..5 {
            let key = format!("/a/{round}{n}");
            create_in_the_end(&store, &key).await;
            expect.push(key);
        }
        server.restart().await;
    }
    for (recorder, _watch) in &watches {
        assert_eq!(keys(recorder, expect.len()).await, expect);
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_servers_one_compacts() {
    let server = Server::start().await;
    let interval = Duration::from_millis(400);
    let each = EtcdOptions { compaction_interval: interval, ..options(&[server.url()]) };
    let began = Instant::now();
    let stores = [Etcd::connect(each.clone()).await.unwrap(), Etcd::connect(each).await.unwrap()];
    let start = create(&*stores[0], "/a/1", "").await;
    let mut rounds = 0;
    while stores[0].compacted_revision().await.unwrap() <= start {
        create(&*stores[0], &format!("/b/{rounds}"), "").await;
        rounds += 1;
        assert!(rounds < 200, "it is compacted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut raw = etcd_client::Client::connect([server.url()], None).await.unwrap();
    let key = raw.get("compact_rev_key", None).await.unwrap().take_kvs().pop().unwrap();
    let (ticks, took) = (key.version(), began.elapsed());
    let alone = took.as_millis() / interval.as_millis();
    assert!(ticks as u128 <= alone + 2, "two servers tick as one: {ticks} ticks in {took:?}");
    let oldest = stores[1].compacted_revision().await.unwrap();
    assert_eq!(key.value_str().unwrap().parse::<Revision>().unwrap().max(oldest), oldest);
    for store in stores {
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_ranges_are_read_in_parts_at_one_revision() {
    let server = Server::start().await;
    let store = connect(&server.url()).await;
    let mut raw = etcd_client::Client::connect([server.url()], None).await.unwrap();
    for part in 0..50 {
        let puts: Vec<_> =
            (0..100).map(|n| etcd_client::TxnOp::put(format!("/a/{:05}", part * 100 + n), "v", None)).collect();
        raw.txn(etcd_client::Txn::new().and_then(puts)).await.unwrap();
    }
    let all = store.range(Range { prefix: "/a/".into(), ..Range::default() }).await.unwrap();
    assert_eq!((all.items.len(), all.remaining), (5000, 0));
    assert!(all.items.is_sorted_by_key(|item| item.key.clone()));
    let some = store.range(Range { prefix: "/a/".into(), limit: 4500, ..Range::default() }).await.unwrap();
    assert_eq!((some.items.len(), some.remaining), (4500, 500));
    // Many changes of one revision come in one call; the recorder checks that.
    let (recorder, _watch) = watch(&store, 0).await;
    recorder.events(5000).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_is_reached_with_tls_and_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = certificates(folder.path());
    let server = Server::start_with_tls(&certificates).await;
    let tls = EtcdOptions {
        ca: Some(certificates.ca.clone()),
        identity: Some((certificates.certificate.clone(), certificates.key.clone())),
        ..options(&[server.url()])
    };
    let store = Etcd::connect(tls.clone()).await.unwrap();
    let (recorder, _watch) = watch(&store, store.revision().await.unwrap()).await;
    create(&*store, "/a/1", "").await;
    assert_eq!(keys(&recorder, 1).await, ["/a/1"]);
    store.close().await;
    let brief = Duration::from_millis(500);
    let nobody = Etcd::connect(EtcdOptions { identity: None, timeout: brief, ..tls.clone() }).await.unwrap();
    assert!(nobody.get("/a/1").await.is_err(), "a client without a certificate is refused");
    let missing = EtcdOptions { ca: Some(folder.path().join("missing")), ..tls };
    assert!(matches!(Etcd::connect(missing).await, Err(Error::Unavailable(message)) if message.contains("missing")));
}
