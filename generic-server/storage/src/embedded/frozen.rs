//! The database file as it was at one moment, while it is written to: what is about to be overwritten is kept first.
//!
//! Nothing is copied but blocks that are overwritten before they were read. They go into a file that has no name any more,
//! so a reader that takes its time costs room on the disk and no memory. What a reader does can never fail a write: if a
//! block cannot be kept, the reader is told.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use redb::StorageBackend;

use super::files::FileSystem;
use crate::Error;

/// What is kept at once; the engine's pages are such blocks or several.
const BLOCK: u64 = 4096;

/// See the module.
pub(crate) struct Frozen {
    file: Box<dyn StorageBackend>,
    len: u64,
    files: Arc<dyn FileSystem>,
    /// Where the file of blocks that are kept is made.
    spill: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// All before this byte was read.
    read: u64,
    /// Where each block is that was kept, by its number, as a number of a block in the file of them.
    kept: BTreeMap<u64, u64>,
    blocks: u64,
    room: Option<Box<dyn StorageBackend>>,
    failed: Option<String>,
}

impl Frozen {
    /// A file as it is now. Nobody may write to it until the writers know of this ([`super::disk::Unsynced::freeze`]).
    pub(crate) fn new(file: Box<dyn StorageBackend>, files: Arc<dyn FileSystem>, spill: PathBuf) -> io::Result<Frozen> {
        let len = file.len()?;
        Ok(Frozen { file, len, files, spill, state: Mutex::default() })
    }

    /// The file's length then, in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what is in this part of the file, which is going to be overwritten or cut off.
    pub(crate) fn keep(&self, range: Range<u64>) {
        let mut state = self.state();
        if state.failed.is_some() {
            return;
        }
        let first = range.start.max(state.read) / BLOCK;
        for block in first..range.end.min(self.len).div_ceil(BLOCK) {
            if (block + 1) * BLOCK <= state.read || state.kept.contains_key(&block) {
                continue;
            }
            if let Err(error) = self.keep_block(&mut state, block) {
                tracing::warn!(%error, "a snapshot ends, for what is overwritten cannot be kept for it");
                *state = State { failed: Some(error.to_string()), ..State::default() };
                return;
            }
        }
    }

    fn keep_block(&self, state: &mut State, block: u64) -> io::Result<()> {
        let start = block * BLOCK;
        let mut content = vec![0; BLOCK.min(self.len - start) as usize];
        self.file.read(start, &mut content)?;
        let room = match &state.room {
            Some(room) => room,
            None => {
                let room = self.files.create(&self.spill)?;
                // An open file stays when its name is gone.
                self.files.remove(&self.spill)?;
                state.room.insert(room)
            }
        };
        room.write(state.blocks * BLOCK, &content)?;
        state.kept.insert(block, state.blocks);
        state.blocks += 1;
        Ok(())
    }

    /// The next bytes, at most so many (a multiple of 4096); none at the end.
    pub(crate) fn read(&self, most: usize) -> Result<Vec<u8>, Error> {
        let mut state = self.state();
        if let Some(why) = &state.failed {
            return Err(Error::Unavailable(format!("what was overwritten could not be kept: {why}")));
        }
        let (start, end) = (state.read, self.len.min(state.read + most as u64));
        let mut content = vec![0; (end - start) as usize];
        let told = |error: io::Error| super::disk::io_failed(&error, "the database as it was");
        // What was cut off meanwhile was kept.
        let there = self.file.len().map_err(told)?.clamp(start, end) - start;
        self.file.read(start, &mut content[..there as usize]).map_err(told)?;
        if let Some(room) = &state.room {
            for (block, slot) in state.kept.range(start / BLOCK..end.div_ceil(BLOCK)) {
                let at = (block * BLOCK - start) as usize;
                let until = content.len().min(at + BLOCK as usize);
                room.read(slot * BLOCK, &mut content[at..until]).map_err(told)?;
            }
        }
        state.read = end;
        state.kept = state.kept.split_off(&(end / BLOCK));
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::files::LocalFiles, *};

    fn frozen(blocks: u64) -> (tempfile::TempDir, Box<dyn StorageBackend>, Frozen) {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        let file = LocalFiles.create(&path).expect("made");
        for block in 0..blocks {
            file.write(block * BLOCK, &[block as u8 + 1; BLOCK as usize]).expect("written");
        }
        let handle = LocalFiles.open(&path).expect("open");
        let frozen = Frozen::new(handle, Arc::new(LocalFiles), dir.path().join("kept")).expect("frozen");
        (dir, file, frozen)
    }

    fn write(frozen: &Frozen, file: &dyn StorageBackend, range: Range<u64>) {
        frozen.keep(range.clone());
        file.write(range.start, &vec![0xff; (range.end - range.start) as usize]).expect("written");
    }

    #[test]
    fn what_is_overwritten_or_cut_off_is_read_as_it_was() {
        let (dir, file, frozen) = frozen(8);
        write(&frozen, &*file, 10..20);
        write(&frozen, &*file, 2 * BLOCK - 1..4 * BLOCK + 1);
        write(&frozen, &*file, 9 * BLOCK..11 * BLOCK);
        let mut found = frozen.read(2 * BLOCK as usize).expect("read");
        write(&frozen, &*file, 0..8 * BLOCK);
        frozen.keep(5 * BLOCK..u64::MAX);
        file.set_len(5 * BLOCK).expect("cut");
        loop {
            let next = frozen.read(3 * BLOCK as usize).expect("read");
            if next.is_empty() {
                break;
            }
            found.extend(next);
        }
        let expect: Vec<u8> = (1..=8).flat_map(|n| [n; BLOCK as usize]).collect();
        assert!(found == expect);
        let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["file"], "what is kept has no name");
    }

    #[test]
    fn a_reader_is_told_that_something_could_not_be_kept_and_the_writer_is_not() {
        let (dir, file, mut frozen) = frozen(2);
        frozen.spill = dir.path().join("no folder/kept");
        write(&frozen, &*file, 0..1);
        assert!(matches!(frozen.read(BLOCK as usize), Err(Error::Unavailable(_))));
    }
}
