//! Disks that fail on demand, under a real file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use redb::StorageBackend;
use storage::embedded::{Disk, OpenBackend};

/// The smallest part that a disk writes whole.
const SECTOR: usize = 512;

/// What the disk is to do, and what it has done.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Operations until the next failure; `None`: none is planned.
    pub(crate) fail_in: Option<u32>,
    /// How many operations after that one fail as well.
    pub(crate) more: u32,
    /// How it fails.
    pub(crate) error: Option<i32>,
    /// The failure is the end of the power.
    pub(crate) die: bool,
    /// Until this is reset everything fails (as when the power is gone).
    pub(crate) dead: bool,
    /// What the sectors held that were written since the last sync: of which file, where, and what.
    pub(crate) unsynced: Vec<(PathBuf, u64, Vec<u8>)>,
}

/// A disk that follows a plan.
#[derive(Debug)]
struct Faulty {
    path: PathBuf,
    disk: Disk,
    plan: Arc<Mutex<Plan>>,
}

/// Opens disks that follow `plan`.
pub(crate) fn faulty(plan: &Arc<Mutex<Plan>>) -> Arc<OpenBackend> {
    let plan = plan.clone();
    Arc::new(move |path: &Path| Ok(Box::new(Faulty { path: path.into(), disk: Disk::open(path)?, plan: plan.clone() })))
}

/// Takes the power away: of what was written since the last sync, `kept` says which sectors stay.
pub(crate) fn power_loss(plan: &Mutex<Plan>, mut kept: impl FnMut() -> bool) {
    let mut plan = plan.lock().unwrap();
    let unsynced = std::mem::take(&mut plan.unsynced);
    for (path, offset, before) in unsynced.into_iter().rev() {
        // A file that has another name by now was synced before.
        if !kept() && path.exists() {
            let disk = Disk::open(&path).unwrap();
            let len = (disk.len().unwrap().saturating_sub(offset)).min(before.len() as u64) as usize;
            disk.write(offset, &before[..len]).unwrap();
        }
    }
    plan.dead = true;
}

impl Faulty {
    /// Counts an operation; fails if its time has come.
    fn step(&self) -> io::Result<()> {
        let mut plan = self.plan.lock().unwrap();
        if plan.dead {
            return Err(io::Error::other("no power"));
        }
        match plan.fail_in {
            Some(0) => {
                plan.fail_in = plan.more.checked_sub(1).map(|_| 0);
                plan.more = plan.more.saturating_sub(1);
                plan.dead = plan.die;
                Err(plan.error.map_or_else(|| io::Error::other("planned"), io::Error::from_raw_os_error))
            }
            Some(left) => {
                plan.fail_in = Some(left - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn remember(&self, offset: u64, len: usize) -> io::Result<()> {
        let size = self.disk.len()?;
        let mut plan = self.plan.lock().unwrap();
        for at in (0..len).step_by(SECTOR) {
            let from = offset + at as u64;
            let mut before = vec![0; SECTOR.min(len - at)];
            let there = size.saturating_sub(from).min(before.len() as u64) as usize;
            self.disk.read(from, &mut before[..there])?;
            plan.unsynced.push((self.path.clone(), from, before));
        }
        Ok(())
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.plan.lock().unwrap().dead {
            return Err(io::Error::other("no power"));
        }
        self.disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step()?;
        self.disk.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.step()?;
        self.plan.lock().unwrap().unsynced.retain(|(path, ..)| *path != self.path);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Err(error) = self.step() {
            if !self.plan.lock().unwrap().dead {
                // A torn write: the first part has reached the disk.
                let part = data.len() / 2 / SECTOR * SECTOR;
                self.remember(offset, part)?;
                self.disk.write(offset, &data[..part])?;
            }
            return Err(error);
        }
        self.remember(offset, data.len())?;
        self.disk.write(offset, data)
    }
}
