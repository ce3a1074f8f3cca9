//! `/debug/storage/snapshot`: the embedded store's content as a file, and back again, while the server serves.
//!
//! GET answers with a snapshot, PUT brings the store to the content of one. That is everything that the server knows, secrets
//! included (encrypted as they are stored), and no reader of paths or of all resources is meant to have it: beside the
//! permission on the path it takes a verb of its own, `snapshot` or `restore`, on the virtual resource `embeddedstores` of
//! the group `internal.apiserver.k8s.io`.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use machinery::{codec::json, meta::Status, object, request::resource_info};
use storage::{
    Error,
    embedded::{Embedded, restore_into},
};
use tempfile::TempDir;
use tokio::{
    fs::File,
    io::AsyncWriteExt,
    sync::{Semaphore, SemaphorePermit},
};

use super::file::file_chunks;
use crate::{
    body::Body,
    endpoint::Endpoint,
    request::Request,
    response::{self, Response},
};
use auth::authorize_info;

/// How temporary folders in the data folder are called.
const PREFIX: &str = "snapshot-";

/// The endpoint. One snapshot is made or restored at a time.
pub struct Snapshots {
    store: Arc<Embedded>,
    /// Where files are kept meanwhile: the disk that the store is on.
    dir: PathBuf,
    turn: Semaphore,
}

impl Snapshots {
    /// Of a store in this data folder. What a crash has left of earlier ones is removed.
    pub fn new(store: Arc<Embedded>, dir: &Path) -> Self {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                // What cannot be removed harms nobody.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        Snapshots { store, dir: dir.to_owned(), turn: Semaphore::new(1) }
    }

    fn take_turn(&self) -> Result<SemaphorePermit<'_>, Status> {
        let busy = |_| Status::too_many_requests("another snapshot is being made or restored", 10);
        self.turn.try_acquire().map_err(busy)
    }

    fn folder(&self) -> Result<TempDir, Status> {
        tempfile::Builder::new().prefix(PREFIX).tempdir_in(&self.dir).map_err(Status::internal_error)
    }

    async fn make(&self) -> Result<Response, Status> {
        let _turn = self.take_turn()?;
        let folder = self.folder()?;
        let path = folder.path().join("store");
        let revision = self.store.snapshot(path.clone()).await.map_err(status_of)?;
        let file = File::open(&path).await.map_err(Status::internal_error)?;
        let length = file.metadata().await.map_err(Status::internal_error)?.len();
        tracing::info!(revision, length, "a snapshot was made");
        // An open file stays readable when its name is gone.
        drop(folder);
        let body = Body::large(file_chunks(file, length), Some(length), length);
        Ok(response::bytes(StatusCode::OK, "application/octet-stream", body))
    }

    async fn restore(&self, mut request: Request) -> Result<Response, Status> {
        let _turn = self.take_turn()?;
        let folder = self.folder()?;
        let path = folder.path().join("store");
        receive(&mut request, &path).await?;
        let restored = restore_into(&self.store, path).await.map_err(status_of)?;
        tracing::warn!(?restored, "the store was brought to the content of a snapshot");
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let answer = object! { "written" => count(restored.written), "deleted" => count(restored.deleted) };
        let text = [json::encode(&answer), b"\n".to_vec()].concat();
        Ok(response::bytes(StatusCode::OK, "application/json", Body::full(text)))
    }
}

#[async_trait]
impl Endpoint for Snapshots {
    async fn serve(&self, request: Request) -> Result<Response, Status> {
        let verb = match request.method {
            Method::GET => "snapshot",
            Method::PUT => "restore",
            _ => return Err(Status::method_not_allowed()),
        };
        let wanted = resource_info(verb, "internal.apiserver.k8s.io", "v1", "embeddedstores");
        authorize_info(&*request.authorizer, &wanted, &request.user).await?;
        if request.method == Method::GET { self.make().await } else { self.restore(request).await }
    }
}
/// Writes the request's body into a file.
async fn receive(request: &mut Request, path: &Path) -> Result<(), Status> {
    let mut body = request.body.take().ok_or_else(|| Status::bad_request("the request has no body"))?;
    let written = async {
        let mut file = File::create(path).await?;
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
                file.write_all(&data).await?;
            }
        }
        file.flush().await
    };
    written.await.map_err(|error: io::Error| Status::internal_error(format!("cannot keep the snapshot: {error}")))
}

fn status_of(error: Error) -> Status {
    match error {
        Error::Corrupt(why) => Status::bad_request(format!("this is no snapshot of a store, or a damaged one: {why}")),
        error => Status::service_unavailable(error.to_string()),
    }
}
