//! The embedded store on disks that fail: torn and failed writes, lost power, damage, and no room.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod faulty;
mod scratch;

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use faulty::{Plan, faulty_beside, power_loss};
use proptest::prelude::*;
use storage::{
    Error, Expect, Range, Revision, Store,
    conformance::create,
    embedded::{Embedded, EmbeddedOptions},
};
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

async fn all(store: &Embedded) -> Result<BTreeMap<String, Bytes>, Error> {
    let found = store.range(Range { prefix: "/".into(), ..Range::default() }).await?;
    Ok(found.items.into_iter().map(|item| (item.key.to_string(), item.value)).collect())
}

/// Writes a key as it should be by the model, then notes what the store says about it.
async fn write(store: &Embedded, model: &mut BTreeMap<String, (Revision, Bytes)>, key: u8, size: usize) -> bool {
    let key = format!("/k/{key}");
    let value = Bytes::from(vec![size as u8; size]);
    let expect = model.get(&key).map_or(Expect::Absent, |(revision, _)| Expect::Revision(*revision));
    let result = match (expect, size % 5) {
        (Expect::Revision(expected), 0) => store.delete(&key, expected).await.map(|revision| (revision, None)),
        _ => store.put(&key, value.clone(), expect, None).await.map(|revision| (revision, Some(value))),
    };
    match result {
        Ok((_, None)) => drop(model.remove(&key)),
        Ok((revision, Some(value))) => drop(model.insert(key, (revision, value))),
        Err(error) => {
            assert!(!matches!(error, Error::Conflict { .. }), "the model knows the revision: {error}");
            return false;
        }
    }
    true
}

/// After a write of unknown outcome: waits until the store answers and takes writes, and notes which it was.
async fn learn(store: &Embedded, model: &mut BTreeMap<String, (Revision, Bytes)>, key: u8, size: usize) {
    let key = format!("/k/{key}");
    for _ in 0..3000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let refused = store.delete("/not/there", 1).await;
        let Ok((found, _)) = store.get(&key).await else { continue };
        if !matches!(refused, Err(Error::Conflict { .. })) {
            continue;
        }
        let found = found.map(|found| (found.mod_revision, found.value));
        let before = model.get(&key).cloned();
        if found != before {
            let done = found
                .as_ref()
                .map_or(before.is_some() && size.is_multiple_of(5), |(_, value)| *value == vec![size as u8; size]);
            assert!(done, "the key is as before, or as the write wanted it");
        }
        match found {
            Some(found) => drop(model.insert(key, found)),
            None => drop(model.remove(&key)),
        }
        return;
    }
    panic!("the store does not recover")
}

fn values(model: &BTreeMap<String, (Revision, Bytes)>) -> BTreeMap<String, Bytes> {
    model.iter().map(|(key, (_, value))| (key.clone(), value.clone())).collect()
}

/// Which keys have values of which length and first byte.
fn brief(values: &BTreeMap<String, Bytes>) -> Vec<(&str, usize, Option<u8>)> {
    values.iter().map(|(key, value)| (key.as_str(), value.len(), value.first().copied())).collect()
}

async fn check(store: &Embedded, model: &BTreeMap<String, (Revision, Bytes)>) {
    let mut found = all(store).await;
    // A read can be what fails next. It is told, and the store recovers by itself.
    for _ in 0..3000 {
        if !matches!(found, Err(Error::Unavailable(_))) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        found = all(store).await;
    }
    let (found, expect) = (found.unwrap(), values(model));
    assert!(found == expect, "found {:?}, not {:?}", brief(&found), brief(&expect));
}

/// How many random cases: more with `SOAK` in the environment (`make soak`).
fn cases() -> u32 {
    if std::env::var_os("SOAK").is_some() { 480 } else { 24 }
}

/// The database gets what was written at once, in the midst of other writes, or when it must.
fn checkpoints() -> impl Strategy<Value = Duration> {
    prop::sample::select(vec![0, 2, 5000]).prop_map(Duration::from_millis)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn failed_and_torn_writes_lose_nothing_that_was_answered(
        faults in prop::collection::vec((1u32..60, 0u32..8, prop::sample::select(vec![5, 28])), 1..4),
        writes in prop::collection::vec((0u8..12, 1usize..9000), 5..25),
        // With large values the journal's segments change often.
        larger in prop::sample::select(vec![1, 1, 1, 80]),
        checkpoint_after in checkpoints(),
    ) {
        runtime().block_on(async {
            let folder = scratch::folder();
            let plan = Arc::<Mutex<Plan>>::default();
            let options = EmbeddedOptions { files: faulty_beside(&plan, folder.path()), checkpoint_after, ..EmbeddedOptions::default() };
            let store = Embedded::open(folder.path(), options.clone()).unwrap();
            let mut model = BTreeMap::new();
            for (fail_in, more, error) in faults {
                *plan.lock().unwrap() = Plan { fail_in: Some(fail_in), more, error: Some(error), ..Plan::default() };
                for (key, size) in &writes {
                    let size = size * larger;
                    if !write(&store, &mut model, *key, size).await {
                        // It says so, and recovers by itself.
                        learn(&store, &mut model, *key, size).await;
                        check(&store, &model).await;
                    }
                }
            }
            *plan.lock().unwrap() = Plan::default();
            check(&store, &model).await;
            store.close().await;
            let store = Embedded::open(folder.path(), options).unwrap();
            check(&store, &model).await;
            store.close().await;
        });
    }

    #[test]
    fn lost_power_loses_nothing_that_was_answered(
        writes in prop::collection::vec((0u8..20, 1usize..20_000), 1..40),
        kept in prop::collection::vec(any::<bool>(), 64),
        larger in prop::sample::select(vec![1, 1, 1, 40]),
        fail_in in 0u32..200,
        checkpoint_after in checkpoints(),
    ) {
        runtime().block_on(async {
            let folder = scratch::folder();
            let plan = Arc::<Mutex<Plan>>::default();
            let options = EmbeddedOptions { files: faulty_beside(&plan, folder.path()), checkpoint_after, ..EmbeddedOptions::default() };
            let store = Embedded::open(folder.path(), options.clone()).unwrap();
            let mut model = BTreeMap::new();
            *plan.lock().unwrap() = Plan { fail_in: Some(fail_in), die: true, ..Plan::default() };
            let mut unanswered = None;
            for (key, size) in writes {
                if !write(&store, &mut model, key, size * larger).await {
                    unanswered = Some(format!("/k/{key}"));
                    break;
                }
            }
            let mut kept = kept.into_iter().cycle();
            power_loss(&plan, || kept.next().unwrap());
            store.close().await;
            *plan.lock().unwrap() = Plan::default();
            let store = Embedded::open(folder.path(), options).unwrap();
            let (mut found, mut expect) = (all(&store).await.unwrap(), values(&model));
            if let Some(key) = unanswered {
                // Either of its states is right.
                found.remove(&key);
                expect.remove(&key);
            }
            assert!(found == expect, "found {:?}, not {:?}", brief(&found), brief(&expect));
            store.close().await;
        });
    }
}

/// A folder with so many keys, closed well.
async fn filled(dir: &Path, keys: usize) -> BTreeMap<String, Bytes> {
    let store = Embedded::open(dir, EmbeddedOptions::default()).unwrap();
    for n in 0..keys {
        create(&*store, &format!("/k/{n:04}"), &"v".repeat(n * 7 % 1500)).await;
    }
    let found = all(&store).await.unwrap();
    store.close().await;
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_anywhere_is_refused_or_harmless_but_never_silent() {
    let folder = scratch::folder();
    let good = folder.path().join("good");
    let expect = filled(&good, 300).await;
    let database = fs::read(good.join("store.redb")).unwrap();
    let mut named = 0;
    for page in 0..database.len() / 4096 {
        for at in [8, 700, 3000] {
            let bad = tempfile::tempdir_in(folder.path()).unwrap();
            for file in ["FORMAT", "store.journal.0", "store.journal.1"] {
                fs::copy(good.join(file), bad.path().join(file)).unwrap();
            }
            fs::write(bad.path().join("store.redb"), &database).unwrap();
            let file = OpenOptions::new().write(true).open(bad.path().join("store.redb")).unwrap();
            let garbage: Vec<u8> = database[page * 4096 + at..][..64].iter().map(|byte| byte ^ 0x55).collect();
            file.write_all_at(&garbage, (page * 4096 + at) as u64).unwrap();
            let error = match Embedded::open(bad.path(), EmbeddedOptions::default()) {
                Ok(store) => match all(&store).await {
                    Ok(found) => {
                        assert_eq!(found, expect, "page {page}, byte {at}");
                        store.close().await;
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            assert!(matches!(error, Error::Corrupt(_)), "page {page}, byte {at}: {error:?}");
            named += usize::from(error.to_string().contains("table ") || error.to_string().contains("store.redb"));
        }
    }
    assert!(named > 50, "damage names its place: {named}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_database_of_a_killed_process_is_refused_in_words() {
    let folder = scratch::folder();
    let (running, bad) = (folder.path().join("running"), folder.path().join("bad"));
    let store = Embedded::open(&running, EmbeddedOptions::default()).unwrap();
    for n in 0..100 {
        create(&*store, &format!("/k/{n:04}"), &"v".repeat(n * 37 % 1500)).await;
    }
    // Checkpoints, and then more in the journal.
    store.snapshot(folder.path().join("snapshot")).await.unwrap();
    while fs::metadata(running.join("store.redb")).unwrap().len() < 200_000 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left: Vec<_> = FILES.iter().map(|file| (file, fs::read(running.join(file)).unwrap())).collect();
    let expect = all(&store).await.unwrap();
    store.close().await;
    let pages = left[1].1.len() / 4096;
    let (mut refused, mut harmless) = (0, 0);
    for page in 0..pages {
        let at = page * 4096;
        let tear = |kind: usize, bytes: &mut Vec<u8>| match kind {
            0 => bytes.truncate(at),
            1 => bytes.truncate(at + 1000),
            2 => bytes[at..at + 4096].fill(0),
            _ => bytes[at..at + 4096].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 31 % 251) as u8),
        };
        for kind in 0..4 {
            let _ = fs::remove_dir_all(&bad);
            fs::create_dir(&bad).unwrap();
            for (file, bytes) in &left {
                let mut bytes = bytes.clone();
                if **file == "store.redb" {
                    tear(kind, &mut bytes);
                }
                fs::write(bad.join(file), bytes).unwrap();
            }
            let opened = Embedded::open(&bad, EmbeddedOptions::default());
            let found = match &opened {
                Ok(store) => all(store).await,
                Err(error) => Err(error.clone()),
            };
            match found {
                Ok(found) => {
                    assert!(found == expect, "page {page}, tear {kind}");
                    harmless += 1;
                }
                Err(Error::Corrupt(message)) => {
                    let named = ["store.redb", "table ", "store.journal."].iter().any(|name| message.contains(name));
                    assert!(named, "page {page}, tear {kind}: {message}");
                    refused += 1;
                }
                Err(error) => panic!("page {page}, tear {kind}: {error}"),
            }
            if let Ok(store) = opened {
                store.close().await;
            }
        }
    }
    assert!(refused > pages, "{refused} refused, {harmless} harmless, of {pages} pages");
}

/// A folder as a crash leaves it: the files of a store that is open, with so many keys in its journal alone.
async fn crashed(dir: &Path, keys: usize) {
    let running = dir.join("running");
    // All stays in the journal, however long it takes.
    let options = EmbeddedOptions { checkpoint_after: Duration::from_secs(3600), ..EmbeddedOptions::default() };
    let store = Embedded::open(&running, options).unwrap();
    for n in 0..keys {
        create(&*store, &format!("/k/{n:04}"), &"v".repeat(10 + n * 997 % 9000)).await;
    }
    let left = dir.join("left");
    fs::create_dir(&left).unwrap();
    for file in FILES {
        fs::copy(running.join(file), left.join(file)).unwrap();
    }
    store.close().await;
}

/// All files of a store.
const FILES: [&str; 4] = ["FORMAT", "store.redb", "store.journal.0", "store.journal.1"];

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_the_journal_is_refused_and_named_unless_it_is_the_last_write() {
    let folder = scratch::folder();
    crashed(folder.path(), 40).await;
    let (left, bad) = (folder.path().join("left"), folder.path().join("bad"));
    let journal = fs::read(left.join("store.journal.0")).unwrap();
    // Its first frames end where nothing but zeros follows.
    let end = journal.chunks(4096).position(|block| block.iter().all(|byte| *byte == 0)).unwrap();
    assert!(end > 40, "frames of one block and of several: {end}");
    let (mut harmless, mut refused) = (0, 0);
    for block in 0..end + 3 {
        for at in [0, 5, 20, 40, 90, 2000, 4000] {
            let _ = fs::remove_dir_all(&bad);
            fs::create_dir(&bad).unwrap();
            for file in FILES {
                fs::copy(left.join(file), bad.join(file)).unwrap();
            }
            let file = OpenOptions::new().write(true).open(bad.join("store.journal.0")).unwrap();
            let place = block * 4096 + at;
            file.write_all_at(&[journal[place] ^ 0x55], place as u64).unwrap();
            match Embedded::open(&bad, EmbeddedOptions::default()) {
                Ok(store) => {
                    // What fills a block up, or the last frame, which may have been written when the power went.
                    let found = all(&store).await.unwrap().len();
                    assert!(found == 40 || (found == 39 && block + 4 > end), "block {block}, byte {at}: {found}");
                    harmless += 1;
                    store.close().await;
                }
                Err(Error::Corrupt(message)) => {
                    assert!(message.contains("store.journal.0: the frame at byte "), "{message}");
                    refused += 1;
                }
                Err(error) => panic!("block {block}, byte {at}: {error}"),
            }
        }
    }
    assert!(refused > 100 && harmless > 20, "{refused} refused, {harmless} harmless");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_cut_journal_is_refused() {
    let folder = scratch::folder();
    crashed(folder.path(), 5).await;
    let left = folder.path().join("left");
    for name in ["store.journal.0", "store.journal.1"] {
        let good = fs::read(left.join(name)).unwrap();
        let refused = |bytes: Option<&[u8]>| {
            fs::remove_file(left.join(name)).unwrap_or(());
            if let Some(bytes) = bytes {
                fs::write(left.join(name), bytes).unwrap();
            }
            match Embedded::open(&left, EmbeddedOptions::default()) {
                Err(Error::Corrupt(message)) => assert!(message.contains(name), "{message}"),
                other => panic!("{:?}", other.map(drop)),
            }
        };
        refused(None);
        refused(Some(b""));
        refused(Some(&good[..good.len() / 2]));
        fs::write(left.join(name), good).unwrap();
    }
    // A database from before, beside a journal that goes on elsewhere.
    let store = Embedded::open(&left, EmbeddedOptions::default()).unwrap();
    assert_eq!(all(&store).await.unwrap().len(), 5);
    store.close().await;
    let before = fs::read(left.join("store.redb")).unwrap();
    let store = Embedded::open(&left, EmbeddedOptions::default()).unwrap();
    for n in 0..3 {
        create(&*store, &format!("/later/{n}"), "v").await;
        store.snapshot(folder.path().join("snapshot")).await.unwrap();
    }
    store.close().await;
    let store = Embedded::open(&left, EmbeddedOptions::default()).unwrap();
    for n in 3..6 {
        create(&*store, &format!("/later/{n}"), "v").await;
    }
    store.close().await;
    fs::write(left.join("store.redb"), before).unwrap();
    match Embedded::open(&left, EmbeddedOptions::default()) {
        Err(Error::Corrupt(message)) => assert!(message.contains("store.journal."), "{message}"),
        other => panic!("{:?}", other.map(drop)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_first_format_gets_a_journal() {
    let folder = scratch::folder();
    let expect = filled(folder.path(), 50).await;
    let revision = {
        let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        let revision = store.revision().await.unwrap();
        store.close().await;
        revision
    };
    // As the first version left it.
    let format = folder.path().join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    fs::write(&format, text.replace('2', "1")).unwrap();
    for name in ["store.journal.0", "store.journal.1"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let database = redb::Database::open(folder.path().join("store.redb")).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut state = write.open_table(redb::TableDefinition::<&str, u64>::new("state")).unwrap();
        state.insert("format", 1).unwrap();
        state.remove("applied").unwrap();
        state.remove("journal").unwrap();
    }
    write.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
        assert_eq!((all(&store).await.unwrap(), store.revision().await.unwrap()), (expect.clone(), revision));
        store.close().await;
    }
    assert_eq!(fs::read_to_string(&format).unwrap(), text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_cut_file_is_not_an_empty_store() {
    let folder = scratch::folder();
    filled(folder.path(), 50).await;
    let path = folder.path().join("store.redb");
    let database = fs::read(&path).unwrap();
    let refused = |bytes: Option<&[u8]>| {
        let _ = fs::remove_file(&path);
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).unwrap();
        }
        match Embedded::open(folder.path(), EmbeddedOptions::default()) {
            Err(Error::Corrupt(message)) => assert!(message.contains("store.redb"), "{message}"),
            other => panic!("{:?}", other.map(drop)),
        }
    };
    refused(None);
    refused(Some(b""));
    refused(Some(&database[..database.len() / 2]));
    refused(Some(&vec![0; database.len()]));
    refused(Some(b"something else altogether"));
    fs::write(&path, &database).unwrap();
    let store = Embedded::open(folder.path(), EmbeddedOptions::default()).unwrap();
    assert_eq!(all(&store).await.unwrap().len(), 50);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_formats_are_refused() {
    let folder = scratch::folder();
    filled(folder.path(), 5).await;
    let format = folder.path().join("FORMAT");
    let text = fs::read_to_string(&format).unwrap();
    fs::write(&format, text.replace('3', "4")).unwrap();
    let open = || Embedded::open(folder.path(), EmbeddedOptions::default()).map(drop);
    assert!(matches!(open(), Err(Error::NewerFormat { found: 4, supported: 3 })));
    fs::write(&format, "gibberish").unwrap();
    assert!(matches!(open(), Err(Error::Corrupt(_))));
    fs::write(&format, text).unwrap();
    let database = redb::Database::open(folder.path().join("store.redb")).unwrap();
    let write = database.begin_write().unwrap();
    let state: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("state");
    write.open_table(state).unwrap().insert("format", 7).unwrap();
    write.commit().unwrap();
    drop(database);
    assert!(matches!(open(), Err(Error::NewerFormat { found: 7, supported: 3 })));
}

/// A small file system of its own, gone at the end.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(size: &str) -> Option<Mount> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can mount a small file system");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let data = std::ffi::CString::new(format!("size={size}")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", flags, data.as_c_str()).unwrap();
        Some(Mount(folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_and_goes_on_when_there_is_room() {
    let Some(mount) = Mount::new("24m") else { return };
    let filler = mount.0.path().join("filler");
    fs::write(&filler, vec![1; 4 << 20]).unwrap();
    let store = Embedded::open(&mount.0.path().join("data"), EmbeddedOptions::default()).unwrap();
    let value = Bytes::from(vec![b'x'; 100_000]);
    let mut written = Vec::new();
    let error = loop {
        match store.put(&format!("/k/{}", written.len()), value.clone(), Expect::Absent, None).await {
            Ok(revision) => written.push(revision),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::NoSpace(_)), "{error}");
    assert!(written.len() > 20, "{}", written.len());
    assert!(matches!(store.health().await, Err(Error::NoSpace(_))));
    assert_eq!(all(&store).await.unwrap().len(), written.len(), "reads go on");
    // Deletes need hardly any room, and what they free can be used once history is compacted.
    for (n, revision) in written.iter().enumerate().take(written.len() / 2) {
        store.delete(&format!("/k/{n}"), *revision).await.unwrap();
    }
    fs::remove_file(&filler).unwrap();
    store.put("/k/again", value, Expect::Absent, None).await.unwrap();
    assert!(store.health().await.is_ok());
    store.close().await;
    let store = Embedded::open(&mount.0.path().join("data"), EmbeddedOptions::default()).unwrap();
    assert_eq!(all(&store).await.unwrap().len(), written.len() - written.len() / 2 + 1);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_unforeseen_costs_no_answered_write() {
    // The file system has room by its own account, but the disk under the file has not.
    let folder = scratch::folder();
    let plan = Arc::<Mutex<Plan>>::default();
    let options = EmbeddedOptions { files: faulty_beside(&plan, folder.path()), ..EmbeddedOptions::default() };
    let store = Embedded::open(folder.path(), options).unwrap();
    let one = create(&*store, "/a", "1").await;
    *plan.lock().unwrap() = Plan { fail_in: Some(0), error: Some(28), ..Plan::default() };
    let refused = store.put("/b", Bytes::from_static(b"1"), Expect::Absent, None).await;
    assert!(matches!(refused, Err(Error::NoSpace(_))), "{refused:?}");
    assert_eq!(store.get("/a").await.unwrap().0.unwrap().mod_revision, one);
    // It goes on by itself after a short while.
    let mut tries = 0;
    let revision = loop {
        match store.put("/b", Bytes::from_static(b"1"), Expect::Absent, None).await {
            Ok(revision) => break revision,
            Err(Error::NoSpace(_)) if tries < 1000 => tries += 1,
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(revision, one + 1);
    store.close().await;
}
