//! The embedded store while each of its system calls fails, one at a time and in pairs: what was answered stays, whether the
//! process is killed afterwards or the power goes, and the store recovers by itself.
//!
//! With `SOAK` in the environment (`make soak`) every call of the workload fails once, not a sample.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faulty;
mod scratch;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use faulty::{Call, Fault, How, Plan, faulty_beside, power_loss};
use storage::{
    Error, Expect, Range, Store,
    conformance::create,
    embedded::{Embedded, EmbeddedOptions, restore_into},
};

/// Tells the child where it works, and which calls fail.
const FOLDER: &str = "STORAGE_CALLS_FOLDER";
const FAULTS: &str = "STORAGE_CALLS_FAULTS";
/// The files of a store.
const FILES: [&str; 4] = ["FORMAT", "store.redb", "store.journal.0", "store.journal.1"];
/// How often a call fails that does not recover.
const ALWAYS: u32 = 1_000_000;

/// Where a workload is, and what it says of it.
struct Work<'a> {
    folder: &'a Path,
    plan: Arc<Mutex<Plan>>,
    say: &'a (dyn Fn(String) + Sync),
}

impl Work<'_> {
    fn dead(&self) -> bool {
        self.plan.lock().unwrap().dead
    }

    fn calls(&self, kind: &str, name: &str) -> u32 {
        self.plan.lock().unwrap().count(kind, name)
    }

    /// How often a database was synced, by whatever name it was opened.
    fn checkpoints(&self) -> u32 {
        self.calls("sync_data", "store.redb") + self.calls("sync_data", "store.redb.new")
    }

    /// Opens the store as an operator would who tries again.
    async fn open(&self) -> Option<Arc<Embedded>> {
        let options = EmbeddedOptions {
            files: faulty_beside(&self.plan, self.folder),
            checkpoint_after: Duration::from_millis(2),
            copy_check: Duration::from_millis(5),
            compaction_interval: Duration::ZERO,
            ..EmbeddedOptions::default()
        };
        for _ in 0..20 {
            if let Ok(store) = Embedded::open(&self.folder.join("data"), options.clone()) {
                return Some(store);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        None
    }

    /// Creates a key, and tells if that was answered.
    async fn put(&self, store: &Embedded, key: &str) -> bool {
        for _ in 0..60 {
            if self.dead() {
                return false;
            }
            match store.put(key, Bytes::from(value(key)), Expect::Absent, None).await {
                // What failed before may have been done.
                Ok(_) | Err(Error::Conflict { current: Some(_) }) => {
                    (self.say)(format!("put {key}"));
                    return true;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        false
    }

    /// Uses everything that the store can do to its files.
    async fn run(&self) -> Option<Arc<Embedded>> {
        let store = self.open().await?;
        for n in 0..4 {
            self.put(&store, &format!("/a/{n}")).await;
        }
        let _ = store.compact(store.delivered_revision()?).await;
        self.plan.lock().unwrap().used = Some(1 << 40);
        let before = self.calls("rename", "store.redb");
        // Where calls fail the copy may never be made; where none does it is waited for, however slow the machine.
        let tries = if self.plan.lock().unwrap().faults.is_empty() { 10_000 } else { 60 };
        for n in 0..tries {
            if n < 30 {
                self.put(&store, &format!("/b/{n}")).await;
            }
            if self.dead() || self.calls("rename", "store.redb") > before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        self.plan.lock().unwrap().used = None;
        for n in 0..4 {
            self.put(&store, &format!("/c/{n}")).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.restore(&store).await;
        for n in 0..3 {
            self.put(&store, &format!("/e/{n}")).await;
        }
        Some(store)
    }

    async fn restore(&self, store: &Embedded) {
        let file = self.folder.join("snapshot");
        let fails = !self.plan.lock().unwrap().faults.is_empty();
        match store.snapshot(file.clone()).await {
            Err(_) if fails || self.dead() => return,
            made => drop(made.unwrap()),
        }
        for n in 0..3 {
            self.put(store, &format!("/d/{n}")).await;
        }
        (self.say)("restoring".into());
        if restore_into(store, file).await.is_ok() {
            (self.say)("restored".into());
        }
    }

    /// Once no call fails any more: it is well again, and its database takes what the journal holds.
    async fn recovers(&self, store: &Embedded) {
        let mut tries = 0;
        while let Err(error) = store.health().await {
            tries += 1;
            assert!(tries < 3000, "it does not recover: {error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let before = self.checkpoints();
        assert!(self.put(store, "/z").await, "it takes writes");
        let mut tries = 0;
        while self.checkpoints() == before {
            tries += 1;
            assert!(tries < 3000, "its database takes nothing");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn value(key: &str) -> String {
    format!("value of {key}, {}", "x".repeat(700))
}

/// A folder with a store of a few keys, to be copied.
fn template() -> tempfile::TempDir {
    let folder = scratch::folder();
    runtime().block_on(async {
        let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        for n in 0..5 {
            let key = format!("/t/{n}");
            create(&*store, &key, &value(&key)).await;
        }
        store.close().await;
    });
    folder
}

fn copied(template: &Path) -> tempfile::TempDir {
    let folder = scratch::folder();
    fs::create_dir(folder.path().join("data")).unwrap();
    for file in FILES {
        fs::copy(template.join(file), folder.path().join("data").join(file)).unwrap();
    }
    folder
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Compares what is in a folder with what was said.
async fn check(folder: &Path, said: &[String], what: &str) {
    let mut store = Embedded::open(&folder.join("data"), EmbeddedOptions::default());
    // Other tests of this process start others, which hold all locks of this one until they are what they shall be.
    while matches!(store, Err(Error::Locked(_))) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        store = Embedded::open(&folder.join("data"), EmbeddedOptions::default());
    }
    let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
    let items = store.range(Range { prefix: "/".into(), ..Range::default() }).await.unwrap().items;
    for item in &items {
        assert_eq!(item.value, value(&item.key), "{what}: {}", item.key);
    }
    let found: BTreeSet<&str> = items.iter().map(|item| &*item.key).collect();
    let (tried, restored) = (said.iter().any(|line| line == "restoring"), said.iter().any(|line| line == "restored"));
    let undone = found.iter().filter(|key| key.starts_with("/d/")).count();
    for key in said.iter().filter_map(|line| line.strip_prefix("put ")).chain(["/t/0", "/t/4"]) {
        let gone = key.starts_with("/d/") && tried && undone == 0;
        assert!(found.contains(key) || gone, "{what}: {key} was answered, and there are {found:?}");
    }
    assert!(!restored || undone == 0, "{what}: restored to what it was, and there are {found:?}");
    store.close().await;
}

/// Which calls the workload makes, and how many of each.
fn calls(template: &Path) -> BTreeMap<Call, u32> {
    let folder = copied(template);
    let plan = Arc::<Mutex<Plan>>::default();
    runtime().block_on(async {
        let work = Work { folder: folder.path(), plan: plan.clone(), say: &|_| {} };
        let store = work.run().await.unwrap();
        work.recovers(&store).await;
        store.close().await;
    });
    let calls = plan.lock().unwrap().calls.clone();
    for (kind, name) in [
        ("create", "store.redb.new"),
        ("rename", "store.redb"),
        ("rename", "snapshot"),
        ("remove", "store.redb.new"),
        ("sync_dir", "data"),
        ("set_len", "store.redb.new"),
        ("write", "store.redb"),
        ("sync_data", "store.redb"),
        ("write", "store.journal.0"),
        ("sync_data", "store.journal.0"),
        ("open", "store.redb"),
        ("read", "store.redb"),
        ("len", "store.redb"),
        ("read", "FORMAT"),
    ] {
        assert!(calls.contains_key(&(kind.into(), name.into())), "{kind} of {name} is in the workload: {calls:?}");
    }
    calls
}

/// Every call, failing in each way; of a call that is made often a few, from its first to its last.
fn singles(calls: &BTreeMap<Call, u32>, each: u32) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (call, count) in calls {
        let most = if std::env::var_os("SOAK").is_some() { *count } else { each.min(*count) };
        for step in 0..most {
            // The last ones, too: what the workload does in the end.
            let nth = (u64::from(step) * u64::from(*count - 1) / u64::from((most - 1).max(1))) as u32;
            for how in [How::Undone, How::Done] {
                faults.push(Fault { call: call.clone(), nth, how, times: 1 });
            }
        }
    }
    faults
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Pairs of calls that fail: `count` of all that there are.
fn pairs(singles: &[Fault], count: usize, dice: &mut Dice) -> Vec<Vec<Fault>> {
    let count = if std::env::var_os("SOAK").is_some() { count * 20 } else { count };
    let mut pick = || singles[dice.roll(singles.len())].clone();
    (0..count).map(|_| vec![pick(), pick()]).collect()
}

fn told(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Does something for each case on a few threads.
fn each<T: Sync>(cases: &[T], act: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    act(case);
                }
            });
        }
    });
}

/// The process that is killed.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let faults: Vec<Fault> = std::env::var(FAULTS).unwrap().split(',').map(|fault| fault.parse().unwrap()).collect();
    let passes = faults.iter().all(|fault| fault.times < ALWAYS);
    let plan = Arc::new(Mutex::new(Plan { faults, ..Plan::default() }));
    let say = |line: String| writeln!(std::io::stdout().lock(), "#{line}").unwrap();
    runtime().block_on(async {
        let work = Work { folder: Path::new(&folder), plan, say: &say };
        if let Some(store) = work.run().await
            && passes
        {
            work.recovers(&store).await;
        }
        say("done".into());
        std::future::pending::<()>().await;
    });
}

/// Runs the workload in a process that is killed in the end; returns what it said.
fn run_and_kill(folder: &Path, faults: &[Fault]) -> Vec<String> {
    let log: PathBuf = folder.join("stderr");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(FAULTS, told(faults))
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        if let Some((_, line)) = line.unwrap().split_once('#') {
            said.push(line.to_owned());
            if line == "done" {
                break;
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert!(said.last().is_some_and(|line| line == "done"), "{}: {log}", told(faults));
    said
}

#[test]
fn a_killed_process_whose_calls_failed_has_lost_nothing_that_was_answered() {
    let template = template();
    let calls = calls(template.path());
    let faults = singles(&calls, 3);
    let mut cases: Vec<Vec<Fault>> = faults.iter().map(|fault| vec![fault.clone()]).collect();
    cases.extend(pairs(&faults, 60, &mut Dice(7)));
    // Calls that never succeed again.
    for call in calls.keys().filter(|(kind, _)| matches!(&**kind, "rename" | "sync_dir" | "create" | "sync_data")) {
        for how in [How::Undone, How::Done] {
            cases.push(vec![Fault { call: call.clone(), nth: calls[call] / 2, how, times: ALWAYS }]);
        }
    }
    each(&cases, |faults| {
        let folder = copied(template.path());
        let said = run_and_kill(folder.path(), faults);
        runtime().block_on(check(folder.path(), &said, &told(faults)));
    });
}

#[test]
fn lost_power_after_calls_that_failed_loses_nothing_that_was_answered() {
    let template = template();
    let calls = calls(template.path());
    let faults = singles(&calls, 3);
    let mut cases: Vec<Vec<Fault>> = faults.iter().map(|fault| vec![fault.clone()]).collect();
    cases.extend(pairs(&faults, 60, &mut Dice(11)));
    let cases: Vec<_> = cases.into_iter().enumerate().collect();
    each(&cases, |(n, faults)| {
        let folder = copied(template.path());
        let mut dice = Dice(*n as u64);
        // At the end, or in the midst.
        let fail_in = dice.roll(2).eq(&1).then(|| dice.roll(400) as u32);
        let plan = Plan { faults: faults.clone(), fail_in, die: true, ..Plan::default() };
        let (plan, said) = (Arc::new(Mutex::new(plan)), Mutex::new(Vec::new()));
        runtime().block_on(async {
            let say = |line| said.lock().unwrap().push(line);
            let work = Work { folder: folder.path(), plan: plan.clone(), say: &say };
            let store = work.run().await;
            power_loss(&plan, || dice.roll(2) == 1);
            if let Some(store) = store {
                store.close().await;
            }
            let what = format!("{}, then no power after {fail_in:?} calls (case {n})", told(faults));
            let said = said.lock().unwrap().clone();
            check(folder.path(), &said, &what).await;
        });
    });
}

/// Runs the workload while calls panic, then checks as after a kill.
fn panicking(fault: Fault) -> (Result<(), Error>, Option<Error>) {
    let template = template();
    let folder = copied(template.path());
    let passes = fault.times < ALWAYS;
    let plan = Arc::new(Mutex::new(Plan { faults: vec![fault.clone()], ..Plan::default() }));
    let said = Mutex::new(Vec::new());
    runtime().block_on(async {
        let say = |line| said.lock().unwrap().push(line);
        let work = Work { folder: folder.path(), plan: plan.clone(), say: &say };
        let store = work.run().await.unwrap();
        let health = store.health().await;
        let failed = if passes {
            work.recovers(&store).await;
            None
        } else {
            Some(tokio::time::timeout(Duration::from_secs(60), store.failed()).await.expect("it ends"))
        };
        store.close().await;
        drop(store);
        let said = said.lock().unwrap().clone();
        check(folder.path(), &said, &fault.to_string()).await;
        (health, failed)
    })
}

fn panics(kind: &str, name: &str, nth: u32, times: u32) -> Fault {
    Fault { call: (kind.into(), name.into()), nth, how: How::Panics, times }
}

#[test]
fn a_panic_of_a_thread_of_the_store_is_healed() {
    // In the checkpoint's thread (the last sync of the folder is the copy's), the copy's, and the engine's own.
    for fault in [
        panics("sync_dir", "data", 1, 2),
        panics("rename", "store.redb", 0, 1),
        panics("create", "store.redb.new", 0, 1),
        panics("sync_data", "store.redb", 3, 1),
    ] {
        let (_, failed) = panicking(fault);
        assert!(failed.is_none());
    }
}

#[test]
fn a_store_that_cannot_be_healed_of_panics_shows_it_and_ends() {
    let (health, failed) = panicking(panics("sync_dir", "data", 1, ALWAYS));
    assert!(matches!(health, Err(Error::Unavailable(_))), "{health:?}");
    let failed = failed.unwrap().to_string();
    assert!(failed.contains("panics again and again"), "{failed}");
}
