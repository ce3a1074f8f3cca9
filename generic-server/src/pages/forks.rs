//! `/debug/storage/fork`: the embedded store as it is now, as a file beside it from which other servers start.
//!
//! POST makes one and answers with its path, for `--from-snapshot`. Where the file system can share blocks it takes no room,
//! and the time of one commit; elsewhere it is copied. The path is on the server's machine: whoever tests an operator
//! starts its servers there. Clients do not choose the path, so nobody who may call this writes to other places.
//! DELETE on `/debug/storage/fork/NAME` removes one. What nobody removes is there for a day, or until 256 newer ones were made: old
//! ones go when another is made, and when the server starts.
//!
//! It is as much as a snapshot is, so it takes a verb of its own, `fork`, as that does (see [`super::Snapshots`]).

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use http::{Method, StatusCode};
use machinery::{codec::json, meta::Status, object, request::resource_info};
use storage::embedded::Embedded;
use tokio::task::spawn_blocking;

use super::snapshots::status_of;
use crate::{
    body::Body,
    endpoint::Endpoint,
    request::Request,
    response::{self, Response},
};
use auth::authorize_info;

const PATH: &str = "/debug/storage/fork";
/// How the files are called, and their folder in the data folder.
const PREFIX: &str = "fork-";
const FOLDER: &str = "forks";

/// A fork that nobody removes is there for so long,
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// or until so many newer ones were made.
const NEWER: usize = 256;

/// The endpoint.
pub struct Forks {
    store: Arc<Embedded>,
    dir: PathBuf,
}

impl Forks {
    /// Of a store in this data folder. Forks that have had their time are removed.
    pub fn new(store: Arc<Embedded>, dir: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let dir = dir.join(FOLDER);
        remove_old(&dir, SystemTime::now());
        Forks { store, dir }
    }

    async fn make(&self) -> Result<Response, Status> {
        let dir = self.dir.clone();
        let name = move || {
            match DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            remove_old(&dir, SystemTime::now());
            Ok(tempfile::Builder::new().prefix(PREFIX).rand_bytes(12).tempfile_in(&dir)?.into_temp_path())
        };
        // The name is this one's alone, and free again if it is not used.
        let name = spawn_blocking(name).await.map_err(Status::internal_error)?.map_err(Status::internal_error)?;
        let fork = self.store.fork(name.to_path_buf()).await.map_err(status_of)?;
        let path = name.keep().map_err(Status::internal_error)?;
        let answer = object! {
            "name" => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            "path" => path.to_string_lossy().into_owned(),
            "resourceVersion" => fork.revision.to_string(),
            "bytes" => i64::try_from(fork.size).unwrap_or(i64::MAX),
            "sharesBlocks" => fork.shared,
        };
        let text = [json::encode(&answer), b"\n".to_vec()].concat();
        Ok(response::bytes(StatusCode::CREATED, "application/json", Body::full(text)))
    }

    async fn remove(&self, name: &str) -> Result<Response, Status> {
        let known = |byte: u8| byte.is_ascii_alphanumeric();
        if !name.strip_prefix(PREFIX).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(known)) {
            return Err(Status::path_not_found());
        }
        match tokio::fs::remove_file(self.dir.join(name)).await {
            Ok(()) => Ok(response::text(StatusCode::OK, "removed\n")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Status::path_not_found()),
            Err(error) => Err(Status::internal_error(error)),
        }
    }
}

/// Removes the forks that have had their time, and what a crash has left of others. What cannot be removed harms nobody.
fn remove_old(dir: &Path, now: SystemTime) {
    let made = |entry: std::fs::DirEntry| {
        let is_fork = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let made = entry.metadata().ok().filter(std::fs::Metadata::is_file)?.modified().ok()?;
        is_fork.then(|| (made, entry.path()))
    };
    let mut forks: Vec<(SystemTime, PathBuf)> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().filter_map(made).collect();
    forks.sort_unstable_by(|a, b| b.cmp(a));
    for (newer, (made, path)) in forks.into_iter().enumerate() {
        if newer >= NEWER || now.duration_since(made).is_ok_and(|age| age >= LIFE) {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[async_trait]
impl Endpoint for Forks {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let wanted = resource_info("fork", "internal.apiserver.k8s.io", "v1", "embeddedstores");
        authorize_info(&*request.authorizer, &wanted, &request.user).await?;
        let name = request.info.path.strip_prefix(PATH).and_then(|rest| rest.strip_prefix('/'));
        match (&request.method, name) {
            (&Method::POST, None) => self.make().await,
            (&Method::DELETE, Some(name)) => self.remove(name).await,
            _ => Err(Status::method_not_allowed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_that_nobody_removes_go_after_a_day_or_when_there_are_many_newer_ones() {
        let dir = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let file = |name: &str, age: u64| {
            let file = std::fs::File::create(dir.path().join(name)).expect("made");
            file.set_modified(now - Duration::from_secs(age)).expect("its time is set");
        };
        let left = || {
            let entries = std::fs::read_dir(dir.path()).expect("it is there").flatten();
            let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        };
        file("fork-old", 24 * 60 * 60);
        file("fork-young", 24 * 60 * 60 - 1);
        file("fork-cut.partial", 25 * 60 * 60);
        file("another", 48 * 60 * 60);
        std::fs::create_dir(dir.path().join("fork-folder")).expect("made");
        remove_old(dir.path(), now);
        assert_eq!(left(), ["another", "fork-folder", "fork-young"]);
        (0..NEWER).for_each(|i| file(&format!("fork-{i:03}"), 60));
        remove_old(dir.path(), now);
        assert_eq!(left().len(), NEWER + 2, "all but the oldest one");
        assert!(!left().contains(&"fork-young".to_owned()));
        remove_old(&dir.path().join("none"), now);
    }
}
