//! The journal: two files of fixed size that take a batch with one write and one sync.
//!
//! A write is answered once its frame is on the disk here; the database gets it later, with many others. The files are
//! segments that take turns: when one is full, and the database has all that the other holds, writing goes on at the
//! start of the other. Their blocks are written once in advance, so that a sync has no file system's records to write.

use std::{io, path::Path};

use bytes::Bytes;
use redb::StorageBackend;

use super::{
    disk::io_failed,
    files::FileSystem,
    frame::{self, BLOCK, Frame, Head},
    pending::Entry,
};
use crate::{Error, Revision};

/// The files' names.
pub(crate) const SEGMENTS: [&str; 2] = ["store.journal.0", "store.journal.1"];
/// Bytes of each. The longest frame fits easily: see the writer's bounds of a batch.
pub(crate) const SEGMENT: usize = 4 << 20;

/// The journal, open for writing.
pub(crate) struct Journal {
    segments: [Segment; 2],
    /// The one that is written to.
    active: usize,
    /// Its number.
    number: u64,
    /// Where its next frame begins.
    offset: usize,
    /// The store's number.
    store: u64,
    /// A frame, before it is written.
    frame: Vec<u8>,
    /// The newest revision written, and the newest of which it is sure that it is on the disk.
    written: Revision,
    durable: Revision,
    /// Bytes written since it was last asked.
    since: usize,
}

struct Segment {
    file: Box<dyn StorageBackend>,
    /// The newest revision that it holds.
    last: Revision,
}

/// Makes the files anew, with nothing in them.
pub(crate) fn make(dir: &Path, files: &dyn FileSystem) -> Result<(), Error> {
    for name in SEGMENTS {
        let path = dir.join(name);
        let fill = || {
            let file = files.create(&path)?;
            for at in (0..SEGMENT).step_by(1 << 18) {
                file.write(at as u64, &[0; 1 << 18])?;
            }
            file.sync_data()
        };
        fill().map_err(|error| io_failed(&error, &path.display().to_string()))?;
    }
    files.sync_dir(dir).map_err(|error| io_failed(&error, &dir.display().to_string()))
}

/// A journal's files as they are found.
pub(crate) struct Files {
    files: [Box<dyn StorageBackend>; 2],
    contents: [Bytes; 2],
    store: u64,
}

impl Files {
    /// Opens and reads the files. Fails with [`Error::Corrupt`] if one is missing or was cut.
    pub(crate) fn open(dir: &Path, files: &dyn FileSystem, store: u64) -> Result<Files, Error> {
        let read = |name: &str| {
            let path = dir.join(name);
            let tell = |error: io::Error| io_failed(&error, &path.display().to_string());
            let refuse = |what| Error::Corrupt(format!("{} {what}, though the store has a journal", path.display()));
            let file = match files.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(refuse("is missing")),
                opened => opened.map_err(tell)?,
            };
            if file.len().map_err(tell)? != SEGMENT as u64 {
                return Err(refuse("has another size"));
            }
            let mut content = vec![0; SEGMENT];
            file.read(0, &mut content).map_err(tell)?;
            Ok((file, Bytes::from(content)))
        };
        let ((first, one), (second, two)) = (read(SEGMENTS[0])?, read(SEGMENTS[1])?);
        Ok(Files { files: [first, second], contents: [one, two], store })
    }

    /// The number that the frames of this store carry.
    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    /// The files' contents, in the order of their names.
    pub(crate) fn contents(&self) -> &[Bytes; 2] {
        &self.contents
    }

    /// A journal that begins with an empty segment after that of number `segment`. All that the files hold must be in the
    /// database, up to `revision`.
    pub(crate) fn into_journal(self, segment: u64, revision: Revision) -> Journal {
        let [first, second] = self.files.map(|file| Segment { file, last: 0 });
        Journal {
            segments: [first, second],
            active: 0,
            number: segment + 1,
            offset: 0,
            store: self.store,
            frame: Vec::new(),
            written: revision,
            durable: revision,
            since: 0,
        }
    }
}

impl Journal {
    /// Makes the next frame. The entries' revisions follow `first` without a gap.
    pub(crate) fn encode<'a>(&mut self, first: Revision, floor: Revision, entries: impl Iterator<Item = &'a Entry>) {
        let head = Head { store: self.store, segment: self.number, first, durable: self.durable, floor };
        frame::encode(&head, entries, &mut self.frame);
    }

    /// Whether there is room for the frame, when the database has all up to `applied`. May take it to the other segment.
    /// After an error nothing may be written before [`Self::renew`].
    pub(crate) fn make_room(&mut self, applied: Revision) -> Result<bool, Error> {
        if self.offset + self.frame.len() <= SEGMENT {
            return Ok(true);
        }
        let other = 1 - self.active;
        if self.segments[other].last > applied {
            return Ok(false);
        }
        if self.is_dirty() {
            self.sync()?;
        }
        self.begin(other);
        frame::set_segment(&mut self.frame, self.number);
        Ok(true)
    }

    /// Writes the frame, which is on the disk after a sync. After an error nothing may be written before [`Self::renew`].
    pub(crate) fn write(&mut self, last: Revision) -> Result<(), Error> {
        let segment = &mut self.segments[self.active];
        // Even if it fails: it may be there.
        segment.last = last;
        segment.file.write(self.offset as u64, &self.frame).map_err(|error| self.failed(&error))?;
        self.offset += self.frame.len();
        self.since += self.frame.len();
        self.written = last;
        Ok(())
    }

    /// Brings what was written to the disk. After an error nothing may be written before [`Self::renew`].
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.segments[self.active].file.sync_data().map_err(|error| self.failed(&error))?;
        self.durable = self.written;
        Ok(())
    }

    /// Whether something was written that is not yet surely on the disk.
    pub(crate) fn is_dirty(&self) -> bool {
        self.written > self.durable
    }

    /// Bytes written since [`Self::forget_written`].
    pub(crate) fn written_bytes(&self) -> usize {
        self.since
    }

    /// Counts anew.
    pub(crate) fn forget_written(&mut self) {
        self.since = 0;
    }

    /// Goes on after a failure in the other segment, once the database has all up to `revision`, the newest one that was
    /// answered. What a failed write may have left counts no more: the segment begins with a frame that says so.
    pub(crate) fn renew(&mut self, revision: Revision, floor: Revision) -> Result<(), Error> {
        self.segments.iter_mut().for_each(|segment| segment.last = 0);
        self.begin(1 - self.active);
        (self.written, self.durable) = (revision, revision);
        self.encode(revision + 1, floor, std::iter::empty());
        self.write(revision)?;
        self.sync()
    }

    fn begin(&mut self, segment: usize) {
        self.active = segment;
        self.number += 1;
        self.offset = 0;
    }

    fn failed(&self, error: &io::Error) -> Error {
        io_failed(error, SEGMENTS[self.active])
    }
}

/// The frames of a segment from its start on, as far as they are whole and of one number; and where they end.
pub(crate) fn walk(store: u64, content: &Bytes) -> (Vec<Frame>, usize) {
    let (mut frames, mut at) = (Vec::<Frame>::new(), 0);
    while at < content.len() {
        let Some(frame) = frame::decode(store, &content.slice(at..)) else { break };
        if frames.first().is_some_and(|first| first.head.segment != frame.head.segment) {
            break;
        }
        at += frame.size;
        frames.push(frame);
    }
    (frames, at)
}

/// The heads of all whole frames in a segment, whatever their number, and where they are.
pub(crate) fn heads(store: u64, content: &Bytes) -> impl Iterator<Item = (usize, Head)> {
    let blocks = (0..content.len()).step_by(BLOCK);
    blocks.filter_map(move |at| frame::decode_head(store, &content[at..]).map(|head| (at, head)))
}
