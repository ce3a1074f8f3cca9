//! Connections that change their protocol: those of clients, and those to other servers.

use http::{HeaderMap, Method, StatusCode, Uri};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use machinery::meta::status::Status;

use super::{ForwardError, send};
use crate::{
    body::Body,
    recorded::{OfTunnel, Tunnel},
    request::Request,
    response::Response,
};
use outbound::HttpsClient;

/// A connection that speaks another protocol by now.
pub type Switched = TokioIo<Upgraded>;

/// What another server says to a request for another protocol.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; nothing where the protocol is switched.
    pub body: Body,
    upgrade: OnUpgrade,
}

impl Answer {
    pub(super) fn of(mut response: http::Response<hyper::body::Incoming>) -> Self {
        let upgrade = hyper::upgrade::on(&mut response);
        let (parts, body) = response.into_parts();
        let switches = parts.status == StatusCode::SWITCHING_PROTOCOLS;
        let body = if switches { Body::empty() } else { Body::wrap(body) };
        Answer { status: parts.status, headers: parts.headers, body, upgrade }
    }

    /// The connection, if the protocol is switched.
    ///
    /// # Errors
    /// It is not, or the connection broke.
    pub async fn connection(self) -> Result<Switched, ForwardError> {
        self.upgrade.await.map(TokioIo::new).map_err(|error| ForwardError::Broken(error.to_string()))
    }
}

/// Asks another server for another protocol, which the headers name.
///
/// # Errors
/// It cannot be reached.
pub async fn ask(
    client: &HttpsClient,
    method: Method,
    target: Uri,
    headers: HeaderMap,
) -> Result<Answer, ForwardError> {
    send(client, method, target, headers, Body::empty()).await.map(Answer::of)
}

/// Switches the protocol of a client's connection, with these headers, and does this work on it.
///
/// # Errors
/// The client's connection cannot be used for anything else.
pub fn switch<W, F>(request: &mut Request, headers: HeaderMap, work: W) -> Result<Response, Status>
where
    W: FnOnce(Switched) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let client = request.extensions.remove::<OnUpgrade>();
    let client = client.ok_or_else(|| Status::bad_request("Upgrade request required"))?;
    let tunnel = Tunnel::default();
    let held = tunnel.clone();
    tokio::spawn(async move {
        let _held = held;
        // A client may be gone before it has got its answer.
        if let Ok(client) = client.await {
            work(TokioIo::new(client)).await;
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = headers;
    response.extensions_mut().insert(OfTunnel(tunnel));
    Ok(response)
}
