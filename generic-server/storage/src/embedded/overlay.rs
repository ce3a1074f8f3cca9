//! A database file that is not written to, under an engine that writes: what it writes stays in memory.
//!
//! So a snapshot, which is the file of a database that was open, can be opened as it is. The engine writes little: that the
//! file is in use, and when it is closed that it is not.

use std::{
    collections::BTreeMap,
    fmt, io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redb::StorageBackend;

const BLOCK: u64 = 4096;

/// See the module.
pub(crate) struct Overlay {
    file: Box<dyn StorageBackend>,
    /// So much of the file is the database.
    below: u64,
    state: Mutex<State>,
}

struct State {
    len: u64,
    /// Blocks that were written, by their number.
    written: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// Over the first bytes of a file, a multiple of 4096.
    pub(crate) fn new(file: Box<dyn StorageBackend>, below: u64) -> Overlay {
        Overlay { file, below, state: Mutex::new(State { len: below, written: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self, block: u64) -> io::Result<Vec<u8>> {
        let mut content = vec![0; BLOCK as usize];
        if (block + 1) * BLOCK <= self.below {
            self.file.read(block * BLOCK, &mut content)?;
        }
        Ok(content)
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").field("below", &self.below).finish_non_exhaustive()
    }
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (state, end) = (self.state(), offset + out.len() as u64);
        if end > state.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let below = self.below.clamp(offset, end) - offset;
        self.file.read(offset, &mut out[..below as usize])?;
        out[below as usize..].fill(0);
        for (block, content) in state.written.range(offset / BLOCK..end.div_ceil(BLOCK)) {
            let (from, to) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let inside = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&content[inside]);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state().len = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (mut state, end) = (self.state(), offset + data.len() as u64);
        for block in offset / BLOCK..end.div_ceil(BLOCK) {
            let mut content = match state.written.remove(&block) {
                Some(content) => content,
                None => self.block(block)?,
            };
            let (from, to) = (offset.max(block * BLOCK), end.min((block + 1) * BLOCK));
            let inside = (from - block * BLOCK) as usize..(to - block * BLOCK) as usize;
            content[inside].copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            state.written.insert(block, content);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::files::{FileSystem as _, LocalFiles},
        *,
    };

    #[test]
    fn what_is_written_is_read_and_the_file_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        let file = LocalFiles.create(&path).expect("made");
        file.write(0, &[1; 3 * BLOCK as usize]).expect("written");
        let overlay = Overlay::new(file, 2 * BLOCK);
        let read = |offset: u64, len: usize| {
            let mut out = vec![9; len];
            overlay.read(offset, &mut out).map(|()| out)
        };
        overlay.write(BLOCK - 2, &[2; 4]).expect("written");
        assert_eq!(read(BLOCK - 3, 6).expect("read"), [1, 2, 2, 2, 2, 1]);
        assert!(read(2 * BLOCK - 1, 2).is_err(), "what follows is not seen");
        overlay.set_len(4 * BLOCK).expect("longer");
        overlay.write(3 * BLOCK, &[3]).expect("written");
        assert_eq!(read(2 * BLOCK - 1, 2).expect("read"), [1, 0]);
        assert_eq!(read(3 * BLOCK, 2).expect("read"), [3, 0]);
        assert!(std::fs::read(&path).expect("read") == vec![1; 3 * BLOCK as usize]);
    }
}
