//! Servers that a kubeconfig names: a document is sent, another one comes back, and what fails for the moment is tried again.

use std::{
    path::Path,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header, uri::Scheme};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use machinery::meta::go_text::quote;
use tokio::time::Instant;

use super::{
    HttpsClient, OutboundBody, Trust,
    client::{full, remote_client},
    failure,
    kubeconfig::{Credentials, Kubeconfig},
    webhook::Call,
};

/// A server that documents are posted to, at exactly the URL of its kubeconfig.
pub struct Remote {
    /// With the timeout, as upstream's client asks and its errors show it.
    url: String,
    uri: Uri,
    host: String,
    dialled: String,
    client: HttpsClient,
    credentials: Credentials,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RemoteError {
    /// What upstream's client says.
    pub text: String,
    /// The status code of an answer that is no success.
    pub status: Option<u16>,
    /// Whether it may be better in a moment.
    pub is_transient: bool,
    /// After how long, if the server has said so.
    pub retry_after: Option<Duration>,
}

/// How often, and after which pauses, something is tried.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The first pause; each one is half as long again as the one before, and up to a fifth more.
    pub initial: Duration,
    /// How often it is tried in all.
    pub attempts: u32,
}

/// What upstream's webhooks of authentication and authorization do.
pub const DEFAULT_BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), attempts: 5 };

impl Remote {
    /// The server of a kubeconfig file. `timeout` is what it is told of how long it may take.
    ///
    /// # Errors
    /// What is wrong with the file, or with those that it names.
    pub fn of_file(path: &Path, timeout: Duration) -> Result<Self, String> {
        let config = Kubeconfig::read(path)?;
        Self::new(&config, timeout).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// The server of a kubeconfig.
    ///
    /// # Errors
    /// Certificates or a URL that cannot be used.
    pub fn new(config: &Kubeconfig, timeout: Duration) -> Result<Self, String> {
        let trust = match (config.insecure, config.authority.is_empty()) {
            (true, _) => Trust::Anybody,
            (false, true) => Trust::System,
            (false, false) => Trust::Bundle(&config.authority),
        };
        let client = remote_client(trust, config.server_name.clone(), Some(&config.identity))?;
        let separator = if config.server.contains('?') { '&' } else { '?' };
        let url = format!("{}{separator}timeout={}s", config.server, timeout.as_secs());
        let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| e.to_string())?;
        let host = uri.host().unwrap_or_default().to_owned();
        let port = uri.port_u16().unwrap_or(if uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 });
        let dialled = format!("{host}:{port}");
        Ok(Remote { url, uri, host, dialled, client, credentials: config.credentials.clone() })
    }

    /// Sends a document, again and again as long as it fails for the moment, and gives the answer's body.
    ///
    /// # Errors
    /// What went wrong the last time.
    pub async fn post_with_retries(&self, document: Bytes, call: Call, backoff: Backoff) -> Result<Bytes, RemoteError> {
        let mut pause = backoff.initial;
        for attempt in 1.. {
            let error = match self.post(document.clone(), call).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.is_transient || attempt >= backoff.attempts {
                return Err(error);
            }
            let wait = pause.mul_f64(1.0 + 0.2 * fraction());
            tokio::time::sleep(error.retry_after.map_or(wait, |after| after.clamp(wait, call.timeout))).await;
            pause = pause.mul_f64(1.5);
        }
        Err(RemoteError::new("it was never tried"))
    }

    /// Sends a document, once.
    ///
    /// # Errors
    /// What went wrong.
    pub async fn post(&self, document: Bytes, call: Call) -> Result<Bytes, RemoteError> {
        let deadline = Instant::now() + call.timeout;
        let failed = |why: String| RemoteError::new(format!("Post {}: {why}", quote(&self.url)));
        let request = self.request(document).await.map_err(failed)?;
        let response = match tokio::time::timeout_at(deadline, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let why = failure::transport(&error, &self.host, &self.dialled);
                let is_transient = why.contains("connection reset");
                return Err(RemoteError { is_transient, ..failed(why) });
            }
            Err(_) => return Err(failed("context deadline exceeded".to_owned())),
        };
        let status = response.status().as_u16();
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = text(header::CONTENT_TYPE).to_owned();
        let retry_after = text(header::RETRY_AFTER).trim().parse().ok().map(Duration::from_secs);
        let unread = |why: &str| {
            RemoteError::new(format!(
                "unexpected error when reading response body. Please retry. Original error: {why}"
            ))
        };
        let body = Limited::new(response.into_body(), call.limit).collect();
        let body = match tokio::time::timeout_at(deadline, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(RemoteError::new(format!("the response is larger than {} bytes", call.limit)));
            }
            Ok(Err(error)) => return Err(unread(&failure::root_cause(&*error))),
            Err(_) => return Err(unread("context deadline exceeded")),
        };
        match status {
            200..=206 if body.is_empty() => {
                let named = if content_type.is_empty() { "application/json" } else { &content_type };
                Err(RemoteError::new(format!("0-length response with status code: {status} and content type: {named}")))
            }
            200..=206 => Ok(body),
            status => Err(RemoteError {
                status: Some(status),
                is_transient: matches!(status, 429 | 500 | 504) || retry_after.is_some(),
                retry_after,
                ..RemoteError::new(failure::status(status, &content_type, &body))
            }),
        }
    }

    async fn request(&self, document: Bytes) -> Result<Request<OutboundBody>, String> {
        let mut request = Request::post(self.uri.clone())
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "kube-apiserver")
            .body(full(document))
            .map_err(|e| e.to_string())?;
        let authorization = match &self.credentials {
            Credentials::None => return Ok(request),
            Credentials::Token(token) => format!("Bearer {token}"),
            Credentials::TokenFile(path) => {
                let token = tokio::fs::read_to_string(path).await;
                format!("Bearer {}", token.map_err(|e| format!("failed to read token file: {e}"))?.trim())
            }
            Credentials::Basic(name, password) => format!("Basic {}", BASE64.encode(format!("{name}:{password}"))),
        };
        let mut value =
            HeaderValue::from_str(&authorization).map_err(|_| "the credentials are no header".to_owned())?;
        value.set_sensitive(true);
        request.headers_mut().insert(header::AUTHORIZATION, value);
        Ok(request)
    }
}

impl RemoteError {
    fn new(text: impl Into<String>) -> Self {
        RemoteError { text: text.into(), status: None, is_transient: false, retry_after: None }
    }
}

/// Something between 0 and 1, so that not all who wait go on at once.
fn fraction() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
    f64::from(now % 1_000_003) / 1_000_003.0
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    use http::Response;
    use http_body_util::Full;
    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::net::TcpListener;

    use super::*;

    /// A server that gives these answers, one after the other, and the requests that it got: path, credentials, body.
    async fn server(answers: Vec<(u16, &'static str)>) -> (String, Arc<Mutex<Vec<(String, String, String)>>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}/ask", listener.local_addr().expect("bound"));
        let (answers, asked) = (Arc::new(Mutex::new(answers.into_iter())), Arc::new(Mutex::new(Vec::new())));
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (answers, seen) = (answers.clone(), seen.clone());
                let service = service_fn(move |request: Request<Incoming>| {
                    let (answers, seen) = (answers.clone(), seen.clone());
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.expect("a body").to_bytes();
                        let credentials = parts.headers.get(header::AUTHORIZATION);
                        let credentials = credentials.map_or("", |value| value.to_str().expect("text")).to_owned();
                        let (status, text) = answers.lock().expect("healthy").next().unwrap_or((404, ""));
                        let body = String::from_utf8_lossy(&body).into_owned();
                        seen.lock().expect("healthy").push((parts.uri.to_string(), credentials, body));
                        let response = Response::builder().status(status).header("content-type", "text/plain");
                        Ok::<_, Infallible>(response.body(Full::new(Bytes::from(text))).expect("a response"))
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), service));
            }
        });
        (url, asked)
    }

    const CALL: Call = Call { timeout: Duration::from_secs(30), limit: 8 };
    const QUICK: Backoff = Backoff { initial: Duration::from_millis(1), attempts: 3 };

    async fn ask(answers: Vec<(u16, &'static str)>, credentials: Credentials) -> (Result<Bytes, String>, Vec<String>) {
        let (url, asked) = server(answers).await;
        let config = Kubeconfig { server: url, credentials, ..Kubeconfig::default() };
        let remote = Remote::new(&config, Duration::from_secs(30)).expect("a client");
        let answer = remote.post_with_retries(Bytes::from("{}"), CALL, QUICK).await;
        let asked =
            asked.lock().expect("healthy").iter().map(|(url, who, body)| format!("{url} {who} {body}")).collect();
        (answer.map_err(|error| error.text), asked)
    }

    #[tokio::test]
    async fn what_fails_for_the_moment_is_tried_again() {
        let (answer, asked) = ask(vec![(500, "oops"), (429, ""), (200, "yes")], Credentials::None).await;
        assert_eq!((answer, asked.len()), (Ok(Bytes::from("yes")), 3));
        assert_eq!(asked[0], "/ask?timeout=30s  {}");
        let (answer, asked) = ask(vec![(500, "oops"); 5], Credentials::None).await;
        let why = "an error on the server (\"oops\") has prevented the request from succeeding";
        assert_eq!((answer, asked.len()), (Err(why.to_owned()), 3));
        let (answer, asked) = ask(vec![(403, "no"), (200, "yes")], Credentials::None).await;
        assert_eq!((answer, asked.len()), (Err("no".to_owned()), 1));
        let (answer, asked) = ask(vec![(200, "far too much")], Credentials::None).await;
        assert_eq!((answer, asked.len()), (Err("the response is larger than 8 bytes".to_owned()), 1));
    }

    #[tokio::test]
    async fn the_server_is_told_who_asks() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("token");
        std::fs::write(&file, "from-a-file\n").expect("written");
        for (credentials, expect) in [
            (Credentials::Token("secret".into()), "Bearer secret"),
            (Credentials::TokenFile(file), "Bearer from-a-file"),
            (Credentials::Basic("a".into(), "b".into()), "Basic YTpi"),
        ] {
            let (_, asked) = ask(vec![(200, "yes")], credentials).await;
            assert_eq!(asked, [format!("/ask?timeout=30s {expect} {{}}")]);
        }
    }

    #[tokio::test]
    async fn who_is_not_there_is_told_at_once() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let config = Kubeconfig { server: format!("http://{address}/x"), ..Kubeconfig::default() };
        let remote = Remote::new(&config, Duration::from_secs(30)).expect("a client");
        let error = remote.post_with_retries(Bytes::new(), CALL, QUICK).await.expect_err("nobody there");
        let expect =
            format!("Post \"http://{address}/x?timeout=30s\": dial tcp {address}: connect: connection refused");
        assert_eq!((error.text, error.is_transient), (expect, false));
    }
}
