//! The manifests of a directory, which are followed like one file.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{Content, Stamp, hash};

/// Which files hold manifests, by what follows the last dot of their names.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The manifests of a directory: those of its files, by name, that are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory(Vec<(PathBuf, Vec<u8>)>);

impl Directory {
    /// The files with their contents.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.0.iter().map(|(path, content)| (path.as_path(), content.as_slice()))
    }

    /// The paths of all manifests, sorted.
    fn paths(path: &Path) -> io::Result<Vec<PathBuf>> {
        let is_manifest = |path: &PathBuf| {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                paths.push(entry.path());
            }
        }
        paths.retain(is_manifest);
        paths.sort();
        Ok(paths)
    }
}

impl Content for Directory {
    fn read(path: &Path) -> io::Result<Self> {
        let said = |what: &str, path: &Path, error: &io::Error| {
            let (quoted, path) = (path.display().to_string(), path.display());
            io::Error::new(error.kind(), format!("failed to read {what} {quoted:?}: open {path}: {}", plain(error)))
        };
        let mut files = Vec::new();
        for file in Directory::paths(path).map_err(|error| said("manifest directory", path, &error))? {
            let content = std::fs::read(&file).map_err(|error| said("file", &file, &error))?;
            if !content.is_empty() {
                files.push((file, content));
            }
        }
        Ok(Directory(files))
    }

    fn stamp(path: &Path) -> Stamp {
        let paths = Directory::paths(path).unwrap_or_default();
        Stamp::of(paths.into_iter().map(|path| std::fs::metadata(path).ok()))
    }

    fn hash(&self) -> String {
        let all = self.0.iter().flat_map(|(_, content)| [content.as_slice(), &[0]]);
        hash(&all.collect::<Vec<_>>().concat())
    }
}

/// An error in the system's words.
fn plain(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_by_name_and_whatever_changes_shows() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
        for (name, text) in [("b.yaml", "b"), ("a.JSON", "a"), ("c.yml", ""), ("d.txt", "d"), ("e", "e")] {
            write(name, text);
        }
        std::fs::create_dir(dir.path().join("f.yaml")).expect("made");
        let read = || Directory::read(dir.path()).expect("it can be read");
        let first = read();
        let names: Vec<_> = first.files().map(|(path, text)| (path.file_name().expect("a name"), text)).collect();
        assert_eq!(names, [("a.JSON".as_ref(), &b"a"[..]), ("b.yaml".as_ref(), b"b")]);
        assert_eq!(first.hash(), hash(b"a\0b\0"));
        let stamp = Directory::stamp(dir.path());
        write("c.yml", "c");
        assert!(Directory::stamp(dir.path()) != stamp && read() != first);
        assert_eq!(Directory::default().hash(), "");
    }

    #[test]
    fn what_cannot_be_read_is_told_by_name() {
        let error = Directory::read(Path::new("/nowhere/x")).expect_err("there is none").to_string();
        assert_eq!(
            error,
            "failed to read manifest directory \"/nowhere/x\": open /nowhere/x: no such file or directory"
        );
    }
}
