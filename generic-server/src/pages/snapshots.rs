//! `/debug/storage/snapshot`: the embedded store's content as a file, and back again, while the server serves.
//!
//! GET answers with a snapshot, which is made as it is sent; PUT brings the store to the content of one. That is everything
//! that the server knows, secrets included (encrypted as they are stored), and no reader of paths or of all resources is
//! meant to have it: beside the permission on the path it takes a verb of its own, `snapshot` or `restore`, on the virtual
//! resource `embeddedstores` of the group `internal.apiserver.k8s.io`.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use machinery::{codec::json, meta::Status, object, request::resource_info};
use storage::{
    Error,
    embedded::{Embedded, Snapshot, restore_into},
};
use tempfile::TempDir;
use tokio::{
    fs::File,
    io::AsyncWriteExt,
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc},
    task::spawn_blocking,
    time::timeout,
};

use crate::{
    body::{Body, BodyError},
    endpoint::Endpoint,
    request::Request,
    response::{self, Response},
};
use auth::authorize_info;

/// How temporary folders in the data folder are called.
const PREFIX: &str = "snapshot-";
/// So many snapshots may be on their way at once.
const READERS: usize = 4;
/// A client that takes nothing for so long has its snapshot cut: what is overwritten meanwhile is kept for it.
const STALLED: Duration = Duration::from_secs(60);

/// The endpoint. One snapshot is restored at a time.
pub struct Snapshots {
    store: Arc<Embedded>,
    /// Where files are kept meanwhile: the disk that the store is on.
    dir: PathBuf,
    turn: Semaphore,
    readers: Arc<Semaphore>,
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
        let (turn, readers) = (Semaphore::new(1), Arc::new(Semaphore::new(READERS)));
        Snapshots { store, dir: dir.to_owned(), turn, readers }
    }

    fn take_turn(&self) -> Result<SemaphorePermit<'_>, Status> {
        let busy = |_| Status::too_many_requests("another snapshot is being restored", 10);
        self.turn.try_acquire().map_err(busy)
    }

    fn folder(&self) -> Result<TempDir, Status> {
        tempfile::Builder::new().prefix(PREFIX).tempdir_in(&self.dir).map_err(Status::internal_error)
    }

    async fn make(&self) -> Result<Response, Status> {
        let busy = |_| Status::too_many_requests("other snapshots are being made", 10);
        let permit = self.readers.clone().try_acquire_owned().map_err(busy)?;
        let snapshot = self.store.read_snapshot().await.map_err(status_of)?;
        let (revision, length) = (snapshot.revision(), snapshot.size());
        tracing::info!(revision, length, "a snapshot is sent");
        let (pieces, taken) = mpsc::channel(1);
        tokio::spawn(send(snapshot, pieces, permit));
        let body = Body::large(stream::unfold(taken, next), Some(length), length);
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

/// Reads a snapshot, piece by piece as they are taken.
async fn send(mut snapshot: Snapshot, pieces: mpsc::Sender<Result<Bytes, BodyError>>, _permit: OwnedSemaphorePermit) {
    loop {
        let read = spawn_blocking(move || {
            let piece = snapshot.next_piece();
            (piece, snapshot)
        });
        let piece = match read.await {
            Ok((piece, rest)) => {
                snapshot = rest;
                piece.map_err(BodyError::from).transpose()
            }
            Err(error) => {
                let _ = pieces.send(Err(error.into())).await;
                return;
            }
        };
        let Some(piece) = piece else { return };
        let failed = piece.as_ref().err().map(ToString::to_string);
        // Whoever asked may be gone, and a body that lacks pieces ends with an error.
        let sent = timeout(STALLED, pieces.send(piece)).await.is_ok_and(|sent| sent.is_ok());
        if let Some(error) = failed {
            return tracing::warn!(error, "a snapshot was cut short");
        }
        if !sent {
            return tracing::info!("a snapshot was cut short: the client did not take it");
        }
    }
}

async fn next<T>(mut taken: mpsc::Receiver<T>) -> Option<(T, mpsc::Receiver<T>)> {
    taken.recv().await.map(|piece| (piece, taken))
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

/// What a failure of the store means for who asks for a snapshot or a fork.
pub(super) fn status_of(error: Error) -> Status {
    match error {
        Error::NewerSnapshot { .. } | Error::NewerFormat { .. } => Status::bad_request(error.to_string()),
        Error::Corrupt(why) => Status::bad_request(format!("this is no snapshot of a store, or a damaged one: {why}")),
        error => Status::service_unavailable(error.to_string()),
    }
}
