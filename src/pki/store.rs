//! Files with secrets: a folder for the owner alone, files that are replaced whole or not at all.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// What is wrong with a file of the PKI.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct PkiError {
    path: PathBuf,
    message: String,
}

impl PkiError {
    pub(super) fn new(path: &Path, message: impl ToString) -> Self {
        Self { path: path.to_path_buf(), message: message.to_string() }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        Self::new(path, crate::plain_io_error(error))
    }
}

/// A folder that only its owner can look into.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, made with mode 0700 where it does not exist.
    pub(super) fn open(path: &Path) -> Result<Self, PkiError> {
        let open = || {
            make_dirs(path)?;
            // What an earlier start has put there is used from now on, so it must not be lost with the power either.
            sync_dir(path)
        };
        open().map_err(|error| PkiError::io(path, &error))?;
        Ok(Self(path.to_path_buf()))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The file's text; `None` when there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, PkiError> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PkiError::io(&path, &error)),
        }
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), PkiError> {
        write(&self.path(name), text.as_bytes())
    }
}

/// Makes a folder and those above it, as far as they are not there, so that they survive a loss of power.
fn make_dirs(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    make_dirs(parent(path))?;
    match fs::DirBuilder::new().mode(0o700).create(path) {
        // Somebody else may have made it meanwhile; what is there and no folder says so itself.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::read_dir(path)?;
            sync_dir(parent(path))
        }
        Err(error) => Err(error),
        Ok(()) => sync_dir(parent(path)),
    }
}

/// Makes the names in a folder durable.
fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the file with mode 0600: all of it or, after a crash, what was there before. Afterwards it stays, whatever
/// happens: what is signed with a key outlives the process that made it.
fn write(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    let temporary = path.with_extension("new");
    let attempt = || {
        // What a crash may have left must not keep its mode.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_dir(parent(path))
    };
    attempt().map_err(|error| PkiError::io(path, &error))
}

/// Writes the file unless it holds just this.
pub(super) fn write_if_changed(path: &Path, content: &[u8]) -> Result<(), PkiError> {
    if fs::read(path).is_ok_and(|old| old == content) { Ok(()) } else { write(path, content) }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, PkiError> {
    fs::read(path).map_err(|error| PkiError::io(path, &error))
}
