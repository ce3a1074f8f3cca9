//! Real processes on one data folder: killed under load again and again, and a second one beside the first.
//!
//! With `SOAK` in the environment (`make soak`) the writer is killed 200 times, not 20.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use storage::{
    Error, Event, Expect, Range, Revision, Store,
    conformance::Recorder,
    embedded::{Embedded, EmbeddedOptions},
};

/// Tells the child which folder to write to.
const FOLDER: &str = "STORAGE_CRASH_FOLDER";
const CALLERS: usize = 16;
/// How many answers must have been given before the kill, however slow the disk is.
const FIRST: usize = 5;

/// The process that is killed: writes without end, and says on standard output what has been answered.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // Kills find the database being written as often as the journal.
        let options = EmbeddedOptions { checkpoint_after: Duration::from_millis(20), ..EmbeddedOptions::default() };
        let store = Embedded::open(Path::new(&folder), options).unwrap();
        say("open");
        let callers: Vec<_> = (0..CALLERS).map(|caller| tokio::spawn(load(store.clone(), caller))).collect();
        for caller in callers {
            caller.await.unwrap();
        }
    });
}

/// Creates, updates and deletes a few keys of its own, over and over.
async fn load(store: Arc<Embedded>, caller: usize) {
    let mut held: HashMap<String, Revision> = HashMap::new();
    for key in store.range(Range { prefix: format!("/{caller}/"), ..Range::default() }).await.unwrap().items {
        held.insert(key.key.to_string(), key.mod_revision);
    }
    for n in 0_usize.. {
        let key = format!("/{caller}/{}", n * 7 % 10);
        let value = format!("{}-{n}-{}", std::process::id(), "x".repeat(n * 131 % 3000));
        let answered = match held.get(&key) {
            Some(revision) if n % 3 == 0 => {
                let revision = store.delete(&key, *revision).await.unwrap();
                held.remove(&key);
                format!("{revision} {key} -")
            }
            held_at => {
                let expect = held_at.map_or(Expect::Absent, |revision| Expect::Revision(*revision));
                let revision = store.put(&key, Bytes::from(value.clone()), expect, None).await.unwrap();
                held.insert(key.clone(), revision);
                format!("{revision} {key} {value}")
            }
        };
        say(&answered);
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "#{line}").unwrap();
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets it write for a while after its first answers, kills it, and returns the lines it said.
fn run_and_kill(folder: &Path, after: Duration) -> Vec<String> {
    let mut child = start(folder);
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let (mut said, mut line) = (Vec::new(), String::new());
        while lines.read_line(&mut line).unwrap_or(0) > 0 {
            // A last line may be cut.
            if let Some((_, text)) = line.strip_suffix('\n').and_then(|line| line.split_once('#')) {
                if text != "open" {
                    said.push(text.to_owned());
                }
                if said.len() == FIRST {
                    // Nobody listens any more if it took too long, which fails by itself.
                    let _ = tell.send(());
                }
            }
            line.clear();
        }
        said
    });
    told.recv_timeout(Duration::from_secs(120)).expect("the store opens after a crash, and answers");
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn text(event: &Event) -> String {
    let value = event.value.as_ref().map_or("-".into(), |value| String::from_utf8_lossy(value).into_owned());
    format!("{} {value}", event.key)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_writer_loses_no_answered_write_and_reuses_no_revision() {
    let kills = if std::env::var_os("SOAK").is_some() { 200 } else { 20 };
    let folder = tempfile::tempdir().unwrap();
    // What the store held after the round before, and at which revision: all that must stay.
    let (mut held, mut base, mut total) = (BTreeMap::<String, Bytes>::new(), 1, 0);
    for round in 0..kills {
        let path = folder.path().to_owned();
        let after = Duration::from_millis(30 + round * 37 % 170);
        let said = tokio::task::spawn_blocking(move || run_and_kill(&path, after)).await.unwrap();
        let mut answered: BTreeMap<Revision, String> = BTreeMap::new();
        for line in said {
            let (revision, what) = line.split_once(' ').unwrap();
            let before = answered.insert(revision.parse().unwrap(), what.to_owned());
            assert_eq!(before, None, "round {round}: revision {revision} is answered once");
        }
        let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let recorder = Recorder::new();
        let watch = store.watch("/", base, recorder.clone()).await.unwrap();
        let events = recorder.seen().events;
        let found: BTreeMap<Revision, String> = events.iter().map(|event| (event.revision, text(event))).collect();
        for (revision, what) in &answered {
            assert_eq!(found.get(revision), Some(what), "round {round}: revision {revision}");
        }
        let next = base + 1 + found.len() as Revision;
        assert!(found.keys().copied().eq(base + 1..next), "round {round}: no revision is skipped or used again");
        for event in &events {
            match &event.value {
                Some(value) => drop(held.insert(event.key.to_string(), value.clone())),
                None => drop(held.remove(&*event.key)),
            }
        }
        let items = store.range(Range { prefix: "/".into(), ..Range::default() }).await.unwrap().items;
        let items: BTreeMap<String, Bytes> = items.into_iter().map(|item| (item.key.to_string(), item.value)).collect();
        assert!(items == held, "round {round}: the store holds what its history says");
        (base, total) = (next - 1, total + found.len());
        if round % 5 == 4 {
            store.compact(base).await.unwrap();
        }
        drop(watch);
        store.close().await;
    }
    assert!(total >= kills as usize * FIRST, "it was under load: {total}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path());
    let mut line = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    while !line.contains("#open") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it opens");
    }
    match Embedded::open(folder.path(), EmbeddedOptions::default()) {
        Err(Error::Locked(message)) => assert!(message.contains(&*folder.path().to_string_lossy()), "{message}"),
        other => panic!("{:?}", other.map(drop)),
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
    assert!(matches!(Embedded::open(folder.path(), EmbeddedOptions::default()), Err(Error::Locked(_))));
    store.close().await;
    Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap().close().await;
}
