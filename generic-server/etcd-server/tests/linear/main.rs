//! Concurrent clients and a server that is killed again and again: nothing that was answered is lost, and what was answered
//! is linearizable.
//!
//! With `SOAK` in the environment (`make soak`) it is killed 100 times, not 6.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod check;
#[path = "../support/mod.rs"]
mod support;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use check::{Did, History, Operation, Written, check};
use etcd_client::{Client, Compare, CompareOp, Error, Txn, TxnOp, WatchOptions};
use support::Process;

const CLIENTS: usize = 8;
const REGISTERS: usize = 3;
/// How many answers must have been given before each kill.
const BETWEEN: usize = 60;

#[derive(Default)]
struct Record {
    clock: AtomicU64,
    answers: AtomicUsize,
    operations: Mutex<Vec<Operation>>,
    attempted: Mutex<Vec<String>>,
    done: AtomicBool,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A client that does one thing after the other until it is told to end. What fails may have been done or not.
async fn client(record: Arc<Record>, url: String, number: usize) {
    let mut client = Client::connect([url], None).await.unwrap();
    let mut known: HashMap<String, i64> = HashMap::new();
    for n in 0_usize.. {
        if record.done.load(Ordering::SeqCst) {
            return;
        }
        let register = format!("r{}", (n * 7 + number) % REGISTERS);
        let value = format!("{number}-{n}");
        let asked = record.clock.fetch_add(1, Ordering::SeqCst);
        let answered = act(&mut client, &record, n % 5, &register, &value, known.get(&register).copied()).await;
        let at = record.clock.fetch_add(1, Ordering::SeqCst);
        match answered {
            Ok((did, revision)) => {
                match &did {
                    Did::Read(found) => drop(known.insert(register.clone(), found.as_ref().map_or(0, |(_, at)| *at))),
                    Did::Put(_) | Did::Swap { done: true, .. } => drop(known.insert(register.clone(), revision)),
                    _ => {}
                }
                record.operations.lock().unwrap().push(Operation { register, did, asked, answered: at, revision });
                record.answers.fetch_add(1, Ordering::SeqCst);
            }
            // It is down; it will be back.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn act(
    client: &mut Client,
    record: &Record,
    what: usize,
    register: &str,
    value: &str,
    known: Option<i64>,
) -> Result<(Did, i64), Error> {
    let attempt = || record.attempted.lock().unwrap().push(value.to_owned());
    match what {
        0 => {
            attempt();
            let answer = client.put(register, value, None).await?;
            Ok((Did::Put(value.into()), answer.header().unwrap().revision()))
        }
        1 | 2 => {
            let expected = known.unwrap_or(0);
            attempt();
            let txn = Txn::new()
                .when([Compare::mod_revision(register, CompareOp::Equal, expected)])
                .and_then([TxnOp::put(register, value, None)]);
            let answer = client.txn(txn).await?;
            let did = Did::Swap { expected, value: value.into(), done: answer.succeeded() };
            Ok((did, answer.header().unwrap().revision()))
        }
        3 => {
            let answer = client.get(register, None).await?;
            let found = answer.kvs().first().map(|kv| (text(kv.value()), kv.mod_revision()));
            Ok((Did::Read(found), answer.header().unwrap().revision()))
        }
        _ => {
            let answer = client.delete(register, None).await?;
            Ok((Did::Delete(answer.deleted() > 0), answer.header().unwrap().revision()))
        }
    }
}

/// All that was ever written, as a watch from the beginning is told.
async fn history(url: String) -> History {
    let mut client = Client::connect([url], None).await.unwrap();
    let last = client.put("end", "end", None).await.unwrap().header().unwrap().revision();
    let options = WatchOptions::new().with_all_keys().with_start_revision(1);
    let mut stream = client.watch("\0", Some(options)).await.unwrap();
    let mut history = History::new();
    while let Some(message) = stream.message().await.unwrap() {
        assert!(!message.canceled(), "{message:?}");
        for event in message.events() {
            let kv = event.kv().unwrap();
            let is_put = event.event_type() == etcd_client::EventType::Put;
            let written = Written { register: text(kv.key()), value: is_put.then(|| text(kv.value())) };
            assert_eq!(history.insert(kv.mod_revision(), written), None, "a revision is told once");
        }
        if history.contains_key(&last) {
            return history;
        }
    }
    panic!("the watch has ended")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_that_is_killed_has_answered_is_linearizable() {
    let kills = if std::env::var_os("SOAK").is_some() { 100 } else { 6 };
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::own(folder.path()).await;
    let record = Arc::new(Record::default());
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(client(record.clone(), server.url(), number))).collect();
    for round in 1..=kills {
        while record.answers.load(Ordering::SeqCst) < round * BETWEEN {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        server.restart().await;
    }
    while record.answers.load(Ordering::SeqCst) < (kills + 1) * BETWEEN {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    record.done.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    let history = history(server.url()).await;
    let mut attempted = record.attempted.lock().unwrap().clone();
    attempted.push("end".into());
    let operations = record.operations.lock().unwrap().clone();
    check(&history, &operations, &attempted).unwrap();
    assert!(operations.len() >= (kills + 1) * BETWEEN);
}
