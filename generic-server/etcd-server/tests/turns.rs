//! Locks and elections: each is one's at a time, in the order in which they were asked for, here as in etcd.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{future::Future, process::Command, time::Duration};

use etcd_client::{Client, LockOptions, ProclaimOptions, ResignOptions};
use support::Process;
use tokio::time::timeout;

/// Longer than anything takes that is going to happen.
const LONG: Duration = Duration::from_secs(60);

/// Runs this against our server and the real one.
async fn both<F: Future<Output = ()>>(run: impl Fn(String) -> F) {
    let folder = tempfile::tempdir().unwrap();
    for process in [Process::own(&folder.path().join("own")).await, Process::real(&folder.path().join("real")).await] {
        run(process.url()).await;
    }
}

async fn client(url: &str) -> Client {
    Client::connect([url], None).await.unwrap()
}

async fn lease(client: &mut Client) -> i64 {
    client.lease_grant(120, None).await.unwrap().id()
}

/// Waits until so many keys begin like this.
async fn queued(client: &mut Client, prefix: &str, count: i64) {
    let options = etcd_client::GetOptions::new().with_prefix().with_count_only();
    while client.get(prefix, Some(options.clone())).await.unwrap().count() != count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_one_holders_at_a_time_in_the_order_in_which_it_was_asked_for() {
    both(async |url| {
        let mut first = client(&url).await;
        let leases = [lease(&mut first).await, lease(&mut first).await, lease(&mut first).await];
        let with = |lease: i64| Some(LockOptions::new().with_lease(lease));
        let held = first.lock("name", with(leases[0])).await.unwrap();
        let key = held.key().to_vec();
        assert_eq!(String::from_utf8(key.clone()).unwrap(), format!("name/{:x}", leases[0]));
        let again = first.lock("name", with(leases[0])).await.unwrap();
        assert_eq!(again.key(), key, "the holder has it already");
        let mut waiting = Vec::new();
        for (n, lease) in leases[1..].iter().enumerate() {
            let (mut client, options) = (client(&url).await, with(*lease));
            waiting.push(tokio::spawn(async move { client.lock("name", options).await.unwrap().key().to_vec() }));
            queued(&mut first, "name/", n as i64 + 2).await;
        }
        first.lock("other", None).await.unwrap();
        first.unlock(key).await.unwrap();
        let second = timeout(LONG, waiting.remove(0)).await.unwrap().unwrap();
        assert!(!waiting[0].is_finished());
        first.unlock(second).await.unwrap();
        timeout(LONG, waiting.remove(0)).await.unwrap().unwrap();
        let gone = first.lock("third", with(12345)).await.unwrap_err().to_string();
        assert!(gone.contains("requested lease not found"), "{gone}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_to_wait_leaves_the_queue_and_who_loses_the_lease_loses_the_lock() {
    both(async |url| {
        let mut first = client(&url).await;
        let leases = [lease(&mut first).await, lease(&mut first).await, lease(&mut first).await];
        let with = |lease: i64| Some(LockOptions::new().with_lease(lease));
        first.lock("name", with(leases[0])).await.unwrap();
        let lock = |lease: i64| {
            let (url, options) = (url.clone(), with(lease));
            tokio::spawn(async move { client(&url).await.lock("name", options).await.map(drop) })
        };
        let impatient = lock(leases[1]);
        queued(&mut first, "name/", 2).await;
        impatient.abort();
        queued(&mut first, "name/", 1).await;
        let patient = lock(leases[2]);
        queued(&mut first, "name/", 2).await;
        first.lease_revoke(leases[0]).await.unwrap();
        timeout(LONG, patient).await.unwrap().unwrap().unwrap();
    })
    .await;
}

/// As in etcd since 3.5; before, the lock was whoever's has no lease for it any more.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_lease_while_waiting_has_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::own(folder.path()).await;
    let mut first = client(&process.url()).await;
    let (held, late) = (lease(&mut first).await, lease(&mut first).await);
    first.lock("name", Some(LockOptions::new().with_lease(held))).await.unwrap();
    let url = process.url();
    let expired = tokio::spawn(async move {
        client(&url).await.lock("name", Some(LockOptions::new().with_lease(late))).await.map(drop)
    });
    queued(&mut first, "name/", 2).await;
    first.lease_revoke(late).await.unwrap();
    first.lease_revoke(held).await.unwrap();
    let refused = timeout(LONG, expired).await.unwrap().unwrap().unwrap_err().to_string();
    assert!(refused.contains("session is expired"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_one_at_a_time_and_observed() {
    both(async |url| {
        let mut one = client(&url).await;
        assert!(one.leader("e").await.unwrap_err().to_string().contains("election: no leader"));
        let leases = [lease(&mut one).await, lease(&mut one).await];
        let led = one.campaign("e", "one", leases[0]).await.unwrap().take_leader().unwrap();
        let mut observed = one.observe("e").await.unwrap();
        assert_eq!(one.leader("e").await.unwrap().kv().unwrap().value(), b"one");
        let mut next = async || {
            let next = timeout(LONG, observed.message()).await.unwrap().unwrap().unwrap();
            String::from_utf8(next.kv().unwrap().value().to_vec()).unwrap()
        };
        assert_eq!(next().await, "one");
        let as_leader = || Some(ProclaimOptions::new().with_leader(led.clone()));
        one.proclaim("uno", as_leader()).await.unwrap();
        assert_eq!(next().await, "uno");
        let url = url.clone();
        let other = tokio::spawn(async move {
            client(&url).await.campaign("e", "two", leases[1]).await.unwrap().take_leader().unwrap()
        });
        queued(&mut one, "e/", 2).await;
        assert_eq!(one.leader("e").await.unwrap().kv().unwrap().value(), b"uno");
        one.resign(Some(ResignOptions::new().with_leader(led.clone()))).await.unwrap();
        let other = timeout(LONG, other).await.unwrap().unwrap();
        assert_eq!(next().await, "two");
        assert_eq!(other.lease(), leases[1]);
        let refused = one.proclaim("late", as_leader()).await.unwrap_err().to_string();
        assert!(refused.contains("election: not leader"), "{refused}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_stands_in_the_same_queue() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::own(folder.path()).await;
    let mut first = client(&process.url()).await;
    let held = first.lock("name", None).await.unwrap();
    let mut waits = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args([&format!("--endpoints={}", process.url()), "lock", "name", "echo", "mine"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    queued(&mut first, "name/", 2).await;
    assert!(waits.try_wait().unwrap().is_none());
    first.unlock(held.key()).await.unwrap();
    let output = tokio::task::spawn_blocking(move || waits.wait_with_output().unwrap()).await.unwrap();
    assert!(output.status.success() && output.stdout == b"mine\n", "{output:?}");
    queued(&mut first, "name/", 0).await;
}
