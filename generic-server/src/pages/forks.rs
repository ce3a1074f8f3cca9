//! `/debug/storage/fork`: the embedded store as it is now, as a file beside it from which other servers start.
//!
//! POST makes one and answers with its path, for `--from-snapshot`. Where the file system can share blocks it takes no room,
//! and the time of one commit; elsewhere it is copied. The path is on the server's machine: whoever tests an operator
//! starts its servers there. Clients do not choose the path, so nobody who may call this writes to other places.
//! DELETE on `/debug/storage/fork/NAME` removes one; what is not removed stays.
//!
//! It is as much as a snapshot is, so it takes a verb of its own, `fork`, as that does (see [`super::Snapshots`]).

use std::{
    fs::DirBuilder,
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
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

/// The endpoint.
pub struct Forks {
    store: Arc<Embedded>,
    dir: PathBuf,
}

impl Forks {
    /// Of a store in this data folder.
    pub fn new(store: Arc<Embedded>, dir: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Forks { store, dir: dir.join(FOLDER) }
    }

    async fn make(&self) -> Result<Response, Status> {
        let dir = self.dir.clone();
        let name = move || {
            match DirBuilder::new().mode(0o700).create(&dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
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
