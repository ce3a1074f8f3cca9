//! `--debug-socket-path`: profiles and the verbosity of logs, over a Unix socket, for whoever may open it: nobody is asked who
//! they are, and the server's limits do not count.

use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use auth::{Mode, User};
use http::StatusCode;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use machinery::meta::status::Status;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::{Profiles, SetVerbosity, Verbosity};
use crate::{
    Body,
    endpoint::Endpoint,
    request::{Request, RequestBody, RequestParts},
    response::{self, Response, page_not_found},
};

/// So many connections are served at once: it is for people.
const CONNECTIONS: usize = 16;
/// How long a client may take for the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// How long a request may take: as long as the longest profile, and a bit.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(360);

/// The socket, open.
pub struct DebugSocket {
    path: PathBuf,
    listener: UnixListener,
    verbosity: Arc<Verbosity>,
}

impl DebugSocket {
    /// Opens the socket. What is at its path is replaced.
    ///
    /// # Errors
    /// The path cannot be had.
    pub fn bind(path: &Path, set_verbosity: SetVerbosity) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        Ok(DebugSocket { path: path.to_owned(), listener, verbosity: Arc::new(Verbosity(set_verbosity)) })
    }

    /// Serves until it is to end; then the socket is gone.
    pub async fn serve(self, ended: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Some(Ok(place)) = ended.run_until_cancelled(places.clone().acquire_owned()).await else { break };
            let Some(accepted) = ended.run_until_cancelled(self.listener.accept()).await else { break };
            match accepted {
                Ok((stream, _)) => {
                    let (verbosity, ended) = (self.verbosity.clone(), ended.clone());
                    tokio::spawn(async move {
                        ended.run_until_cancelled(connection(stream, verbosity)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the debug socket takes no connection");
                    tokio::time::sleep(Duration::from_secs(1)).await; // no files are left, it may be
                }
            }
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn connection(stream: UnixStream, verbosity: Arc<Verbosity>) {
    let service = service_fn(move |request| {
        let verbosity = verbosity.clone();
        async move { Ok::<_, Infallible>(answer(request, &verbosity).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection to the debug socket ended");
    }
}

async fn answer(request: http::Request<Incoming>, verbosity: &Verbosity) -> http::Response<Body> {
    let (parts, body) = request.into_parts();
    let (body, _) = RequestBody::new(body);
    let request = Request::from(RequestParts {
        user: Arc::new(User::default()),
        deadline: Some(Instant::now() + REQUEST_TIMEOUT),
        body: Some(body),
        extensions: parts.extensions,
        ..RequestParts::new(parts.method, parts.uri, parts.headers, Arc::new(Mode::AlwaysAllow))
    });
    let answered = tokio::time::timeout(REQUEST_TIMEOUT, route(request, verbosity)).await;
    match answered {
        Ok(Ok(response)) => response,
        Ok(Err(status)) => response::text(
            StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            format!("{}\n", status.message),
        ),
        Err(_) => response::text(StatusCode::GATEWAY_TIMEOUT, "this took too long\n"),
    }
}

async fn route(request: Request, verbosity: &Verbosity) -> Result<Response, Status> {
    match request.info.path.as_str() {
        "/debug/pprof" => Profiles.serve(request).await,
        path if path.starts_with("/debug/pprof/") => Profiles.serve(request).await,
        "/debug/flags" => verbosity.serve(request).await,
        path if path.starts_with("/debug/flags/") => verbosity.serve(request).await,
        _ => Ok(page_not_found()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::pages::debug::VerbosityError;

    /// The first line of the answer, and its body.
    async fn ask(path: &Path, request: &str) -> (String, String) {
        let mut stream = UnixStream::connect(path).await.expect("somebody listens");
        stream
            .write_all(format!("{request}Host: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("it is answered");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        (head.lines().next().expect("a line").to_owned(), body.to_owned())
    }

    #[tokio::test]
    async fn whoever_may_open_the_socket_sees_profiles_and_nothing_else() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("debug.sock");
        std::fs::write(&path, "an old one").expect("it is written");
        let socket =
            DebugSocket::bind(
                &path,
                |text| if text == "4" { Ok(()) } else { Err(VerbosityError::Syntax(text.to_owned())) },
            );
        let ended = CancellationToken::new();
        let serving = tokio::spawn(socket.expect("it opens").serve(ended.clone()));
        let (status, body) = ask(&path, "GET /debug/pprof/cmdline HTTP/1.1\r\n").await;
        assert_eq!((status.as_str(), body.is_empty()), ("HTTP/1.1 200 OK", false));
        let (status, _) = ask(&path, "GET /debug/pprof HTTP/1.1\r\n").await;
        assert_eq!(status, "HTTP/1.1 301 Moved Permanently");
        let (status, _) = ask(&path, "GET /api/v1/secrets HTTP/1.1\r\n").await;
        assert_eq!(status, "HTTP/1.1 404 Not Found");
        let (status, _) = ask(&path, "GET /debug/flags HTTP/1.1\r\n").await;
        assert_eq!(status, "HTTP/1.1 200 OK");
        ended.cancel();
        serving.await.expect("it ends");
        assert!(!path.exists(), "the socket is gone");
    }
}
