//! Disks that fail on demand, under real files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use redb::StorageBackend;
use storage::embedded::{FileSystem, LocalFiles};

/// The smallest part that a disk writes whole; and what the system writes at once if a part of it has changed.
const SECTOR: usize = 512;
const PAGE: u64 = 4096;

/// A system call on a file: what it is and the file's name.
pub(crate) type Call = (String, String);

/// One call that is to fail: the `nth` of its kind, and so many after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) call: Call,
    pub(crate) nth: u32,
    pub(crate) how: How,
    pub(crate) times: u32,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It did nothing (a write: half of it) and says so.
    Undone,
    /// It did all, and says that it failed.
    Done,
    /// It panics.
    Panics,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { call: (kind, name), nth, how, times } = self;
        write!(f, "{kind}:{name}:{nth}:{how:?}:{times}")
    }
}

impl FromStr for Fault {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Fault, &'static str> {
        let parts: Vec<&str> = text.split(':').collect();
        let &[kind, name, nth, how, times] = parts.as_slice() else { return Err("five parts") };
        let how = match how {
            "Undone" => How::Undone,
            "Done" => How::Done,
            "Panics" => How::Panics,
            _ => return Err("how it fails"),
        };
        let (nth, times) = (nth.parse().map_err(|_| "a number")?, times.parse().map_err(|_| "a number")?);
        Ok(Fault { call: (kind.into(), name.into()), nth, how, times })
    }
}

/// What the disk is to do, and what it has done.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Changes until the next failure; `None`: none is planned.
    pub(crate) fail_in: Option<u32>,
    /// How many changes after that one fail as well.
    pub(crate) more: u32,
    /// How it fails.
    pub(crate) error: Option<i32>,
    /// The failure is the end of the power.
    pub(crate) die: bool,
    /// Until this is reset everything fails (as when the power is gone).
    pub(crate) dead: bool,
    /// Calls that fail besides.
    pub(crate) faults: Vec<Fault>,
    /// How often each call was made.
    pub(crate) calls: BTreeMap<Call, u32>,
    /// What every file takes on the disk, if it is to be something else than it is; and what is free there.
    pub(crate) used: Option<u64>,
    pub(crate) free: Option<u64>,
    /// What the sectors held that were written since the last sync.
    pub(crate) unsynced: Vec<Sector>,
    /// Names that were changed since the last sync of their folder, in that order.
    pub(crate) names: Vec<Name>,
}

/// A sector that may be lost: of which file, where it is, and what it held.
#[derive(Debug)]
pub(crate) struct Sector {
    file: Arc<File>,
    inode: u64,
    offset: u64,
    before: Vec<u8>,
    /// A sync of it failed. The system takes it for written then, so a later sync does not bring it to the disk.
    forgotten: bool,
}

/// A name that may be lost, and the file that it stood for before.
#[derive(Debug)]
pub(crate) struct Name {
    path: PathBuf,
    /// Where the file went.
    to: Option<PathBuf>,
    before: Option<PathBuf>,
}

/// Files that follow a plan.
#[derive(Debug)]
pub(crate) struct FaultyFiles {
    plan: Arc<Mutex<Plan>>,
    /// Files that have lost their names and may get them back.
    attic: tempfile::TempDir,
    kept: AtomicU64,
}

#[derive(Debug)]
struct Faulty {
    name: String,
    disk: Box<dyn StorageBackend>,
    /// The same file, to undo what is lost.
    file: Arc<File>,
    inode: u64,
    plan: Arc<Mutex<Plan>>,
}

/// Files that follow `plan`, on the disk of the folder `beside`.
pub(crate) fn faulty_beside(plan: &Arc<Mutex<Plan>>, beside: &Path) -> Arc<FaultyFiles> {
    let attic = tempfile::Builder::new().prefix("attic").tempdir_in(beside).unwrap();
    Arc::new(FaultyFiles { plan: plan.clone(), attic, kept: AtomicU64::new(0) })
}

/// Takes the power away: of what was written since the last sync, `kept` says which sectors stay; of the names that were
/// changed in an unsynced folder, the first ones do.
pub(crate) fn power_loss(plan: &Mutex<Plan>, mut kept: impl FnMut() -> bool) {
    let mut plan = plan.lock().unwrap();
    for Sector { file, offset, before, .. } in std::mem::take(&mut plan.unsynced).into_iter().rev() {
        if !kept() {
            let len = file.metadata().unwrap().len().saturating_sub(offset).min(before.len() as u64) as usize;
            file.write_all_at(&before[..len], offset).unwrap();
        }
    }
    for Name { path, to, before } in std::mem::take(&mut plan.names).into_iter().rev() {
        if kept() {
            break;
        }
        if let Some(to) = to {
            fs::rename(&path, to).unwrap();
        } else {
            let _ = fs::remove_file(&path);
        }
        if let Some(before) = before {
            fs::rename(before, path).unwrap();
        }
    }
    plan.dead = true;
}

fn lock(plan: &Mutex<Plan>) -> MutexGuard<'_, Plan> {
    // A planned panic is not one of the plan.
    plan.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Plan {
    /// How often a call was made.
    pub(crate) fn count(&self, kind: &str, name: &str) -> u32 {
        self.calls.get(&(kind.into(), name.into())).copied().unwrap_or(0)
    }

    /// Counts a call; whether its time to fail has come, and how.
    fn step(&mut self, kind: &str, name: &str, changes: bool) -> Option<How> {
        if self.dead {
            return Some(How::Undone);
        }
        let call = (kind.to_owned(), name.to_owned());
        let fault = {
            let count = self.calls.entry(call.clone()).or_default();
            *count += 1;
            let nth = *count - 1;
            let due = |fault: &&Fault| fault.call == call && (fault.nth..fault.nth + fault.times).contains(&nth);
            self.faults.iter().find(due).map(|fault| fault.how)
        };
        if fault.is_some() || !changes {
            return fault;
        }
        match self.fail_in {
            Some(0) => {
                self.fail_in = self.more.checked_sub(1).map(|_| 0);
                self.more = self.more.saturating_sub(1);
                self.dead = self.die;
                Some(How::Undone)
            }
            Some(left) => {
                self.fail_in = Some(left - 1);
                None
            }
            None => None,
        }
    }

    fn error(&self) -> io::Error {
        if self.dead {
            return io::Error::other("no power");
        }
        self.error.map_or_else(|| io::Error::other("planned"), io::Error::from_raw_os_error)
    }
}

/// Does a call as the plan says. `half`: what a torn one does.
fn call<T>(
    plan: &Mutex<Plan>,
    (kind, name, changes): (&str, &str, bool),
    half: impl FnOnce() -> io::Result<()>,
    whole: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let (how, error, dead) = {
        let mut plan = lock(plan);
        let how = plan.step(kind, name, changes);
        (how, plan.error(), plan.dead)
    };
    match how {
        None => whole(),
        Some(How::Done) => {
            whole()?;
            Err(error)
        }
        Some(How::Undone) => {
            if !dead {
                half()?;
            }
            Err(error)
        }
        Some(How::Panics) => panic!("planned: {kind} of {name}"),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn nothing() -> io::Result<()> {
    Ok(())
}

impl FaultyFiles {
    fn handle(&self, path: &Path, disk: Box<dyn StorageBackend>) -> io::Result<Box<dyn StorageBackend>> {
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(path)?);
        let inode = file.metadata()?.ino();
        Ok(Box::new(Faulty { name: name_of(path), disk, file, inode, plan: self.plan.clone() }))
    }

    /// Keeps the file that has a name at present.
    fn keep(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let kept = self.attic.path().join(self.kept.fetch_add(1, Ordering::Relaxed).to_string());
        match fs::hard_link(path, &kept) {
            Ok(()) => Ok(Some(kept)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn call<T>(&self, kind: &str, path: &Path, changes: bool, whole: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        call(&self.plan, (kind, &name_of(path), changes), nothing, whole)
    }
}

impl FileSystem for FaultyFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        self.call("open", path, false, || self.handle(path, LocalFiles.open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        self.call("create", path, true, || {
            let before = self.keep(path)?;
            // Another file, so that the one before can come back as it was.
            LocalFiles.remove(path)?;
            let made = self.handle(path, LocalFiles.create(path)?)?;
            lock(&self.plan).names.push(Name { path: path.into(), to: None, before });
            Ok(made)
        })
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.call("len", path, false, || LocalFiles.len(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", to, true, || {
            let before = self.keep(to)?;
            LocalFiles.rename(from, to)?;
            lock(&self.plan).names.push(Name { path: to.into(), to: Some(from.into()), before });
            Ok(())
        })
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<bool> {
        self.call("share", to, true, || {
            let before = self.keep(to)?;
            let shared = LocalFiles.share(from, to)?;
            if shared {
                lock(&self.plan).names.push(Name { path: to.into(), to: None, before });
            }
            Ok(shared)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", path, true, || {
            let before = self.keep(path)?;
            LocalFiles.remove(path)?;
            if before.is_some() {
                lock(&self.plan).names.push(Name { path: path.into(), to: None, before });
            }
            Ok(())
        })
    }

    fn make_dir(&self, dir: &Path) -> io::Result<bool> {
        self.call("make_dir", dir, true, || LocalFiles.make_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call("sync_dir", dir, true, || {
            let mut plan = lock(&self.plan);
            plan.names.retain(|name| name.path.parent() != Some(dir));
            Ok(())
        })
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        let used = self.call("used", path, false, || Ok(lock(&self.plan).used))?;
        used.map_or_else(|| LocalFiles.used(path), Ok)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let free = self.call("free", dir, false, || Ok(lock(&self.plan).free))?;
        free.map_or_else(|| LocalFiles.free(dir), Ok)
    }
}

impl Faulty {
    fn write_part(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let size = self.disk.len()?;
        let mut plan = lock(&self.plan);
        for at in (0..data.len()).step_by(SECTOR) {
            let from = offset + at as u64;
            let mut before = vec![0; SECTOR.min(data.len() - at)];
            let there = size.saturating_sub(from).min(before.len() as u64) as usize;
            self.disk.read(from, &mut before[..there])?;
            let (file, inode) = (self.file.clone(), self.inode);
            plan.unsynced.push(Sector { file, inode, offset: from, before, forgotten: false });
        }
        let pages = offset / PAGE..=(offset + data.len() as u64) / PAGE;
        for sector in plan.unsynced.iter_mut().filter(|sector| sector.inode == self.inode && sector.forgotten) {
            sector.forgotten = !pages.contains(&(sector.offset / PAGE));
        }
        drop(plan);
        self.disk.write(offset, data)
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        call(&self.plan, ("read", &self.name, false), nothing, || self.disk.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        call(&self.plan, ("set_len", &self.name, true), nothing, || self.disk.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mine = |sector: &Sector| sector.inode == self.inode;
        let fail = || {
            lock(&self.plan).unsynced.iter_mut().filter(|sector| mine(sector)).for_each(|s| s.forgotten = true);
            Ok(())
        };
        call(&self.plan, ("sync_data", &self.name, true), fail, || {
            lock(&self.plan).unsynced.retain(|sector| !mine(sector) || sector.forgotten);
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        // A torn write: the first part has reached the disk.
        let half = || self.write_part(offset, &data[..data.len() / 2 / SECTOR * SECTOR]);
        call(&self.plan, ("write", &self.name, true), half, || self.write_part(offset, data))
    }
}
