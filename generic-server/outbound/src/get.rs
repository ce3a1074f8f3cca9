//! Documents that are fetched by GET, from servers that may send on to others.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use machinery::meta::go_text::quote;
use tokio::time::Instant;

use super::{HttpsClient, failure, full, redirect, webhook::Call};

/// A document.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The status code.
    pub status: u16,
    /// What the body is said to be.
    pub content_type: String,
    /// How long it may be kept; `None` if nothing was said about that.
    pub max_age: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

impl Fetched {
    /// Code and words of the status, as Go prints them.
    pub fn status_line(&self) -> String {
        let reason =
            StatusCode::from_u16(self.status).ok().and_then(|code| code.canonical_reason()).unwrap_or_default();
        format!("{} {reason}", self.status)
    }
}

impl Fetched {
    /// A failure: its status, and how the document begins.
    pub fn said(&self) -> String {
        let shown = &self.body[..self.body.len().min(MAX_SHOWN)];
        format!("{} {}", self.status_line(), String::from_utf8_lossy(shown))
    }
}

/// A document that could not be had. Shown, it is what Go's HTTP client says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GetError {
    /// Nothing was answered.
    #[error("Get {}: {failure}", quote(.url))]
    Request {
        /// Where it was asked for, perhaps another place than at first.
        url: String,
        /// Why.
        failure: GetFailure,
    },
    /// What was answered could not be read to its end.
    #[error("unable to read response body of {}: {failure}", quote(.url))]
    Body {
        /// Where it was asked for, perhaps another place than at first.
        url: String,
        /// Why.
        failure: GetFailure,
    },
}

/// Why a document could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GetFailure {
    /// The URL is none, or an answer sends on to where nobody can go; what Go says of it.
    #[error("{0}")]
    Place(String),
    /// No secure connection leads there.
    #[error("unsupported protocol scheme {}", quote(.0))]
    Scheme(String),
    /// The connection failed; what Go says of it.
    #[error("{0}")]
    Transport(String),
    /// Time is over.
    #[error("context deadline exceeded")]
    Timeout,
    /// It has more bytes than this.
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
}

/// So much of a failure's document is repeated, in bytes.
const MAX_SHOWN: usize = 1024;

/// Fetches a document, with a bearer token if there is one. The token goes to the host of `url` alone, and nothing goes
/// where no secure connection leads.
///
/// # Errors
/// It could not be had.
pub async fn get(client: &HttpsClient, url: &str, token: Option<&str>, call: Call) -> Result<Fetched, GetError> {
    let deadline = Instant::now() + call.timeout;
    let first: Option<String> = authority(url);
    let mut url = url.to_owned();
    for requests in 1.. {
        let token = token.filter(|_| authority(&url) == first);
        let response = send(client, &url, token, deadline).await?;
        let next = redirect::next(&response, &url, &Method::GET, requests);
        match next.map_err(|(url, why)| failed(&url, GetFailure::Place(why)))? {
            None => return read(response, &url, call.limit, deadline).await,
            Some(next) => url = next.url,
        }
    }
    Err(failed(&url, GetFailure::Place("it is sent on without an end".to_owned())))
}

fn authority(url: &str) -> Option<String> {
    url.parse::<Uri>().ok().and_then(|uri| uri.authority().map(|a| a.as_str().to_ascii_lowercase()))
}

fn failed(url: &str, failure: GetFailure) -> GetError {
    GetError::Request { url: url.to_owned(), failure }
}

async fn send(
    client: &HttpsClient,
    url: &str,
    token: Option<&str>,
    deadline: Instant,
) -> Result<Response<Incoming>, GetError> {
    let uri: Uri = url.parse().map_err(|e: http::uri::InvalidUri| failed(url, GetFailure::Place(e.to_string())))?;
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        return Err(failed(url, GetFailure::Scheme(scheme.to_owned())));
    }
    let host = uri.host().unwrap_or_default().to_owned();
    let dialled = format!("{host}:{}", uri.port_u16().unwrap_or(443));
    let mut request = Request::get(uri).header(header::USER_AGENT, "Go-http-client/1.1");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(full(Bytes::new())).map_err(|e| failed(url, GetFailure::Place(e.to_string())))?;
    match tokio::time::timeout_at(deadline, client.request(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => Err(failed(url, GetFailure::Transport(failure::transport(&error, &host, &dialled)))),
        Err(_) => Err(failed(url, GetFailure::Timeout)),
    }
}

async fn read(response: Response<Incoming>, url: &str, limit: usize, deadline: Instant) -> Result<Fetched, GetError> {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (status, content_type) = (response.status().as_u16(), text(header::CONTENT_TYPE).to_owned());
    let max_age = max_age(text(header::CACHE_CONTROL), text(header::AGE));
    let unread = |failure| Err(GetError::Body { url: url.to_owned(), failure });
    match tokio::time::timeout_at(deadline, Limited::new(response.into_body(), limit).collect()).await {
        Ok(Ok(body)) => Ok(Fetched { status, content_type, max_age, body: body.to_bytes() }),
        Ok(Err(error)) if error.is::<LengthLimitError>() => unread(GetFailure::TooLarge(limit)),
        Ok(Err(error)) => unread(GetFailure::Transport(failure::root_cause(&*error))),
        Err(_) => unread(GetFailure::Timeout),
    }
}

/// How long a document may be kept (RFC 9111).
fn max_age(cache_control: &str, age: &str) -> Option<Duration> {
    let directives = || cache_control.split(',').map(|d| d.trim().to_ascii_lowercase());
    if directives().any(|d| d == "no-store" || d.starts_with("no-cache")) {
        return None;
    }
    let seconds: u64 = directives().find_map(|d| d.strip_prefix("max-age=")?.trim_matches('"').parse().ok())?;
    let age = age.trim().parse().unwrap_or(0);
    // Nobody's keys are good for longer than a day without a look.
    Some(Duration::from_secs(seconds.saturating_sub(age).min(24 * 3600)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_says_how_long_it_may_be_kept() {
        let check = |control: &str, age: &str, expect: Option<u64>| {
            assert_eq!(max_age(control, age), expect.map(Duration::from_secs), "{control}");
        };
        check("public, max-age=3600", "", Some(3600));
        check("Max-Age=60", "10", Some(50));
        check("max-age=60", "100", Some(0));
        check("no-store, max-age=60", "", None);
        check("private", "", None);
        check("max-age=99999999999", "", Some(86_400));
        check("", "", None);
    }
}
