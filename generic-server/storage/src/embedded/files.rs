//! The file system under a store: every system call that changes its folder is one method here, so that tests can let each
//! of them fail.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use redb::StorageBackend;

use super::disk::io_failed;
use crate::Error;

/// What a store does to its files.
///
/// A name that [`Self::create`], [`Self::rename`], [`Self::remove`] or [`Self::make_dir`] has changed survives a power loss
/// once [`Self::sync_dir`] has succeeded on its folder, and not before.
pub trait FileSystem: Send + Sync + 'static {
    /// Opens a file that is there.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>>;

    /// Makes an empty file, for its owner alone. Nothing stays of one that had the name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>>;

    /// A file's size in bytes; `None` if there is no such file.
    fn len(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Gives a file another name, from one that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a new file of another's content, for its owner alone, that shares its blocks until one of them is written to;
    /// `false`, and no file, where the file system cannot do that.
    fn share(&self, from: &Path, to: &Path) -> io::Result<bool>;

    /// Removes a file. One that is not there is removed already.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a folder, for its owner alone, unless it is there; whether it did.
    fn make_dir(&self, dir: &Path) -> io::Result<bool>;

    /// Makes a folder's names durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Bytes that a file takes on the disk.
    fn used(&self, path: &Path) -> io::Result<u64>;

    /// Bytes that are free on a folder's disk.
    fn free(&self, dir: &Path) -> io::Result<u64>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalFiles;

impl FileSystem for LocalFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(LocalFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Box::new(LocalFile(file)))
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<bool> {
        let (shown, mut options) = (File::open(from)?, OpenOptions::new());
        let made = options.write(true).create(true).truncate(true).mode(0o600).open(to)?;
        // Why it cannot share them does not matter: the content is copied then.
        if rustix::fs::ioctl_ficlone(&made, &shown).is_ok() {
            return Ok(true);
        }
        self.remove(to)?;
        Ok(false)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn make_dir(&self, dir: &Path) -> io::Result<bool> {
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.blocks() * 512)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// A plain file. The folder's lock keeps other processes out, so it needs none of its own.
#[derive(Debug)]
struct LocalFile(File);

impl StorageBackend for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// The operating system's files, of which nothing is ever brought to the disk by us: a process that is killed loses nothing, and a
/// machine that loses power may lose everything. For stores that live as long as a test.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsyncedFiles;

impl FileSystem for UnsyncedFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(UnsyncedFile(LocalFiles.open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(UnsyncedFile(LocalFiles.create(path)?)))
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        LocalFiles.len(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        LocalFiles.rename(from, to)
    }

    fn share(&self, from: &Path, to: &Path) -> io::Result<bool> {
        LocalFiles.share(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalFiles.remove(path)
    }

    fn make_dir(&self, dir: &Path) -> io::Result<bool> {
        LocalFiles.make_dir(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn used(&self, path: &Path) -> io::Result<u64> {
        LocalFiles.used(path)
    }

    fn free(&self, dir: &Path) -> io::Result<u64> {
        LocalFiles.free(dir)
    }
}

#[derive(Debug)]
struct UnsyncedFile(Box<dyn StorageBackend>);

impl StorageBackend for UnsyncedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// The folder that a path is in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens a file that is none of the folder's, to read it.
pub(crate) fn open_to_read(path: &Path) -> io::Result<Box<dyn StorageBackend>> {
    Ok(Box::new(LocalFile(File::open(path)?)))
}

/// Makes a folder and those above it, as far as they are not there, so that they survive a power loss.
pub(crate) fn make_dirs(files: &dyn FileSystem, dir: &Path) -> Result<(), Error> {
    let tell = |error: io::Error| io_failed(&error, &dir.display().to_string());
    let made = match files.make_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.parent().is_some() => {
            make_dirs(files, parent(dir))?;
            files.make_dir(dir).map_err(tell)?
        }
        made => made.map_err(tell)?,
    };
    match files.sync_dir(parent(dir)) {
        // It may be an earlier start that made it and could not make it durable, so this is tried at every start. But a
        // folder above that is not for this user to read was not made by it.
        Err(error) if made || error.kind() != io::ErrorKind::PermissionDenied => Err(tell(error)),
        _ => Ok(()),
    }
}

/// Replaces a small file: after a crash it has the old content or the new one.
pub(crate) fn replace(files: &dyn FileSystem, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = Path::new(&new);
    let file = files.create(new)?;
    file.write(0, content)?;
    file.sync_data()?;
    files.rename(new, path)?;
    files.sync_dir(parent(path))
}

/// A small file's content; `None` if there is no such file.
pub(crate) fn read(files: &dyn FileSystem, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(len) = files.len(path)? else { return Ok(None) };
    let mut content = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    files.open(path)?.read(0, &mut content)?;
    Ok(Some(content))
}
