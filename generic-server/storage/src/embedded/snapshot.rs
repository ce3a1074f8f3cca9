//! Snapshots: the database file as it is at one moment, and what says that it is whole.
//!
//! A snapshot is the pages of the database, then a block that tells what they are, then the SHA-256 of all that. It is made
//! as it is read, from the file that the store goes on with ([`super::frozen`]): there is no second copy, and whoever reads
//! it needs no more memory than a piece takes. One that was cut has no such end, whatever carried it. Since it is the file
//! itself, a store can begin as one that shares its blocks; history and lifetimes are in it.
//!
//! The size is what etcd's clients expect of a file with a checksum: 32 bytes more than a multiple of 512.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use bytes::Bytes;
use redb::{Database, StorageBackend};
use tokio::sync::oneshot;

use super::{
    Embedded, EmbeddedOptions, Shared, blocking,
    disk::{failed, io_failed, open_database, sound},
    files::{self, FileSystem, parent},
    folder::{COPY, DATABASE, Folder, Opened, load},
    format::VERSION,
    frozen::Frozen,
    journal::Files,
    overlay::Overlay,
    room,
    writer::Request,
};
use crate::{Error, Revision};

/// Bytes of a piece.
const PIECE: usize = 256 << 10;
/// What the block after the pages begins with; then comes the number of its form and a line feed.
const MAGIC: &[u8] = b"kube-apiserver snapshot, form ";
/// The form that this version writes, and the newest that it reads.
const FORM: u32 = 1;
const BLOCK: usize = 512;
/// Where the numbers are in it.
const NUMBERS: usize = 64;
const END: u64 = (BLOCK + SHA256_OUTPUT_LEN) as u64;
/// In the place of the checksum, when the pages are shared with the store and were not read.
const UNSUMMED: [u8; SHA256_OUTPUT_LEN] = [0; SHA256_OUTPUT_LEN];

/// What the end of a snapshot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Bytes of the database before it.
    pub(crate) pages: u64,
    /// The newest revision.
    pub(crate) revision: Revision,
}

impl End {
    fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let head = [MAGIC, FORM.to_string().as_bytes(), b"\n"].concat();
        block[..head.len()].copy_from_slice(&head);
        let numbers = [self.pages, self.revision, u64::from(VERSION)];
        for (number, place) in numbers.iter().zip(block[NUMBERS..].chunks_exact_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32fast::hash(&block[..BLOCK - 4]);
        block[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
        block
    }

    fn decode(block: &[u8], len: u64) -> Result<End, Error> {
        let cut = || Error::Corrupt("it was cut short, or is no snapshot of a store: its end is missing".into());
        let form = block.strip_prefix(MAGIC).ok_or_else(cut)?;
        let digits = form.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let form = std::str::from_utf8(&form[..digits]).ok().and_then(|form| form.parse::<u32>().ok());
        let newer = |found, supported| Error::NewerSnapshot { found, supported };
        match form.ok_or_else(cut)? {
            FORM => {}
            found => return Err(newer(found, FORM)),
        }
        let (body, sum) = block.split_at(BLOCK - 4);
        if crc32fast::hash(body).to_le_bytes() != sum {
            return Err(Error::Corrupt("its end is damaged".into()));
        }
        let number = |at: usize| {
            let bytes = block[NUMBERS + 8 * at..NUMBERS + 8 * (at + 1)].try_into();
            bytes.map(u64::from_le_bytes).map_err(|_| cut())
        };
        let (pages, revision, format) = (number(0)?, number(1)?, number(2)?);
        if format > u64::from(VERSION) {
            return Err(newer(u32::try_from(format).unwrap_or(u32::MAX), VERSION));
        }
        match pages.checked_add(END) == Some(len) {
            true => Ok(End { pages, revision }),
            false => Err(Error::Corrupt(format!("it should have {pages} bytes and its end, and has {len}"))),
        }
    }

    /// Reads the end of a snapshot, and whether the sum of all before it is told.
    fn read(file: &dyn StorageBackend, path: &Path) -> Result<(End, [u8; SHA256_OUTPUT_LEN]), Error> {
        let tell = |error: io::Error| io_failed(&error, &path.display().to_string());
        let len = file.len().map_err(tell)?;
        let mut bytes = [0; END as usize];
        let there = len.min(END);
        file.read(len - there, &mut bytes[..there as usize]).map_err(tell)?;
        let (block, sum) = bytes.split_at(BLOCK);
        let mut told = UNSUMMED;
        told.copy_from_slice(sum);
        Ok((End::decode(block, len)?, told))
    }
}

/// A snapshot, as it is being read.
pub struct Snapshot {
    frozen: Arc<Frozen>,
    end: End,
    /// `None`: all was read.
    sum: Option<Context>,
}

impl Snapshot {
    /// The newest revision in it.
    pub fn revision(&self) -> Revision {
        self.end.revision
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.end.pages + END
    }

    /// The next piece, of up to 256 KiB; `None` when all was read. Reads the disk, on the caller's thread. After an error
    /// what was read is worth nothing, and has no end that would say otherwise.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(mut sum) = self.sum.take() else { return Ok(None) };
        let piece = self.frozen.read(PIECE)?;
        if piece.is_empty() {
            let block = self.end.encode();
            sum.update(&block);
            return Ok(Some([&block, sum.finish().as_ref()].concat().into()));
        }
        sum.update(&piece);
        self.sum = Some(sum);
        Ok(Some(piece.into()))
    }

    fn write(mut self, files: &dyn FileSystem, path: &Path) -> Result<(), Error> {
        let tell = |error: io::Error| io_failed(&error, &path.display().to_string());
        let (file, mut at) = (files.create(path).map_err(tell)?, 0);
        while let Some(piece) = self.next_piece()? {
            file.write(at, &piece).map_err(tell)?;
            at += piece.len() as u64;
        }
        file.sync_data().map_err(tell)
    }
}

/// Who waits for the database to be frozen, or shared with a file of this name.
pub(crate) struct Freeze {
    pub(crate) share: Option<PathBuf>,
    pub(crate) answer: oneshot::Sender<Result<Frost, Error>>,
}

/// The database as it was then.
pub(crate) struct Frost {
    frozen: Arc<Frozen>,
    revision: Revision,
    shared: bool,
}

impl Freeze {
    /// Does it, on the thread that writes the database, when it has just committed.
    pub(crate) fn act(self, shared: &Shared, revision: Revision) {
        let frost = shared.freeze(revision, self.share.as_deref());
        // Whoever asked may be gone.
        let _ = self.answer.send(frost);
    }

    /// Tells that it could not be done.
    pub(crate) fn refuse(self, error: Error) {
        let _ = self.answer.send(Err(error));
    }
}

impl Shared {
    fn freeze(&self, revision: Revision, share: Option<&Path>) -> Result<Frost, Error> {
        let (files, path) = (&self.folder.files, self.database_path());
        let tell = |error: io::Error| io_failed(&error, &path.display().to_string());
        let frozen = Frozen::new(files.open(&path).map_err(tell)?, files.clone(), self.folder.dir.join(KEPT));
        let frozen = Arc::new(frozen.map_err(tell)?);
        let shared = share.map_or(Ok(false), |to| files.share(&path, to)).map_err(tell)?;
        if !shared {
            self.folder.unsynced_database().freeze(&frozen);
        }
        Ok(Frost { frozen, revision, shared })
    }
}

/// Where blocks are kept that are overwritten while a snapshot is read; the file has this name for a moment only.
pub(crate) const KEPT: &str = "store.kept";

/// A fork of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The newest revision in it.
    pub revision: Revision,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it shares its blocks with the store, so that it took no room.
    pub shared: bool,
}

impl Embedded {
    async fn frost(&self, share: Option<PathBuf>) -> Result<Frost, Error> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Request::Freeze(Freeze { share, answer })).await?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// The store as it is now, to be read while it serves. All that was answered is in it.
    pub async fn read_snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.frost(None).await?.snapshot())
    }

    /// Writes the store as it is now into a new file, a snapshot, while it serves. Returns the snapshot's revision.
    pub async fn snapshot(&self, file: PathBuf) -> Result<Revision, Error> {
        self.check_room(&file)?;
        let snapshot = self.read_snapshot().await?;
        let (files, revision) = (self.shared.folder.files.clone(), snapshot.revision());
        let write = move || {
            let tell = |error: io::Error| io_failed(&error, &file.display().to_string());
            let partial = partial(&file);
            let written = snapshot.write(&*files, &partial).and_then(|()| {
                files.rename(&partial, &file).map_err(tell)?;
                files.sync_dir(parent(&file)).map_err(tell)
            });
            if written.is_err() {
                // It is worthless, whether it can be removed or not.
                let _ = files.remove(&partial);
            }
            written.map(|()| revision)
        };
        blocking(write).await
    }

    /// Makes a new file a snapshot of the store as it is now, one that shares its blocks where the file system can do that:
    /// then it takes no time and no room. Elsewhere it is copied. It is there until a loss of power.
    pub async fn fork(&self, file: PathBuf) -> Result<Fork, Error> {
        self.check_room(&file)?;
        let partial = partial(&file);
        let frost = self.frost(Some(partial.clone())).await?;
        let files = self.shared.folder.files.clone();
        let finish = move || {
            let fork = Fork { revision: frost.revision, size: frost.frozen.len() + END, shared: frost.shared };
            let tell = |error: io::Error| io_failed(&error, &file.display().to_string());
            let written = match frost.shared {
                true => {
                    let end = [&frost.end().encode()[..], &UNSUMMED].concat();
                    files.open(&partial).and_then(|made| made.write(frost.frozen.len(), &end)).map_err(tell)
                }
                false => frost.snapshot().write(&*files, &partial),
            };
            let written = written.and_then(|()| files.rename(&partial, &file).map_err(tell));
            if written.is_err() {
                let _ = files.remove(&partial);
            }
            written.map(|()| fork)
        };
        blocking(finish).await
    }

    fn check_room(&self, file: &Path) -> Result<(), Error> {
        let shared = &self.shared;
        shared.open()?;
        room::check_file(&*shared.folder.files, parent(file), room::on_disk(shared))
    }
}

impl Frost {
    fn end(&self) -> End {
        End { pages: self.frozen.len(), revision: self.revision }
    }

    fn snapshot(self) -> Snapshot {
        Snapshot { end: self.end(), frozen: self.frozen, sum: Some(Context::new(&SHA256)) }
    }
}

fn partial(file: &Path) -> PathBuf {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    partial.into()
}

/// Makes a snapshot the content of a data folder, unless that holds a store already; whether it did. See
/// [`EmbeddedOptions::from_snapshot`].
pub fn start_from(snapshot: &Path, dir: &Path) -> Result<bool, Error> {
    let folder = Folder::take(dir, EmbeddedOptions::default().files)?;
    if folder.is_used()? {
        return Ok(false);
    }
    folder.open_as(snapshot, 0)?.database.close().map_err(failed)?;
    Ok(true)
}

/// Whether a folder holds a store.
pub fn holds_store(dir: &Path) -> bool {
    dir.join(DATABASE).exists()
}

/// Whether a file is a whole snapshot: reads all of it, if its checksum is known.
///
/// Fails with [`Error::Corrupt`] or [`Error::NewerSnapshot`].
pub fn verify(snapshot: &Path) -> Result<(), Error> {
    let tell = |error: io::Error| io_failed(&error, &snapshot.display().to_string());
    let file = files::open_to_read(snapshot).map_err(tell)?;
    let (end, told) = End::read(&*file, snapshot)?;
    if told == UNSUMMED {
        return Ok(());
    }
    let mut sum = Context::new(&SHA256);
    io::copy(
        &mut io::Read::take(File::open(snapshot).map_err(tell)?, end.pages + BLOCK as u64),
        &mut Summing(&mut sum),
    )
    .map_err(tell)?;
    match sum.finish().as_ref() == told {
        true => Ok(()),
        false => Err(Error::Corrupt("it is damaged: its checksum is another".into())),
    }
}

struct Summing<'a>(&'a mut Context);

impl io::Write for Summing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a snapshot, without writing to it.
pub(crate) fn open_snapshot(path: &Path) -> Result<Database, Error> {
    let name = path.display().to_string();
    let file = files::open_to_read(path).map_err(|error| io_failed(&error, &name))?;
    let (end, _) = End::read(&*file, path)?;
    let overlay = Overlay::new(file, end.pages);
    sound(&name, || redb::Builder::new().set_cache_size(1 << 20).create_with_backend(overlay).map_err(failed))
}

impl Folder {
    /// Makes a snapshot the store of this folder, which must not be in use, and opens it. The folder is not in use after an
    /// error either.
    pub(crate) fn open_as(&self, snapshot: &Path, cache: usize) -> Result<Opened, Error> {
        let copy = self.dir.join(COPY);
        self.begin_as(snapshot, &copy, cache).inspect_err(|_| {
            // The next start makes it anew.
            let _ = self.files.remove(&copy);
        })
    }

    fn begin_as(&self, snapshot: &Path, copy: &Path, cache: usize) -> Result<Opened, Error> {
        let tell = |error: io::Error| io_failed(&error, &snapshot.display().to_string());
        let from = files::open_to_read(snapshot).map_err(tell)?;
        let (end, _) = End::read(&*from, snapshot)?;
        let files = &*self.files;
        let told = |error: io::Error| io_failed(&error, &copy.display().to_string());
        match files.share(snapshot, copy).map_err(told)? {
            true => files.open(copy).and_then(|copy| copy.set_len(end.pages)).map_err(told)?,
            false => {
                room::check_file(files, &self.dir, end.pages)?;
                copy_pages(&*from, end.pages, &*files.create(copy).map_err(told)?).map_err(told)?;
            }
        }
        // What a commit brings to the disk includes all that was copied.
        let database = open_database(files, copy, cache, &self.unsynced_database())?;
        let loaded = load(&database)?;
        let number = self.add_journal(&database, loaded.index.revision)?;
        self.put_in_place(copy)?;
        self.sync()?;
        let journal = Files::open(&self.dir, files, number)?;
        self.write_format()?;
        Ok(Opened { database, loaded, journal })
    }
}

fn copy_pages(from: &dyn StorageBackend, len: u64, to: &dyn StorageBackend) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    for at in (0..len).step_by(PIECE) {
        let piece = &mut piece[..PIECE.min((len - at) as usize)];
        from.read(at, piece)?;
        to.write(at, piece)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_snapshot_tells_what_is_missing_and_what_is_newer() {
        let end = End { pages: 8192, revision: 77 };
        let block = end.encode();
        assert_eq!(End::decode(&block, 8192 + END).expect("whole"), end);
        let refused = |block: &[u8], len: u64| End::decode(block, len).expect_err("refused").to_string();
        assert!(refused(&block, 4096 + END).contains("should have 8192 bytes"));
        assert!(refused(&[0; BLOCK], 8192 + END).contains("cut short"));
        let mut damaged = block;
        damaged[NUMBERS] ^= 1;
        assert!(refused(&damaged, 8192 + END).contains("damaged"));
        let mut newer = block;
        newer[MAGIC.len()] = b'7';
        assert_eq!(
            refused(&newer, 8192 + END),
            "the snapshot is of a newer version: it has format 7, this version reads up to 1"
        );
        let mut newer = block;
        newer[NUMBERS + 16..NUMBERS + 24].copy_from_slice(&9_u64.to_le_bytes());
        let sum = crc32fast::hash(&newer[..BLOCK - 4]);
        newer[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
        assert!(refused(&newer, 8192 + END).contains("newer version: it has format 9"));
    }
}
