//! WebSockets of clients, for kubelets that speak SPDY: commands are translated, forwarded ports go through a tunnel, logs
//! are sent as messages.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use generic_server::{
    Body,
    proxy::{
        ForwardError, headers_of,
        upgrade::{Answer, Switched, ask, switch},
    },
    request::Request,
    response::{self, Response},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use machinery::{
    Value, json,
    meta::{go_text::quote, go_url::GoUrl, status::Status},
};
use outbound::HttpsClient;
use streaming::{
    reader::{self, Pieces},
    remote_command::{self, CommandOptions, KUBELET_PROTOCOLS, Kubelet, translate},
    spdy,
    throttle::Rate,
    tunnel,
    websocket::{Handshake, Refusal, asked_protocols},
};

use super::metrics::StreamMetrics;

const PROTOCOL_VERSION: &str = "x-stream-protocol-version";

/// How much of a kubelet's refusal is read, in bytes, and how long it may take.
const REFUSAL_LIMIT: usize = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a command for a client that speaks WebSocket, on a kubelet that speaks SPDY.
pub(super) fn command(
    request: &mut Request,
    client: &HttpsClient,
    target: Uri,
    options: CommandOptions,
    metrics: &StreamMetrics,
) -> Result<Response, Status> {
    let handshake = match Handshake::read(&request.method, &request.headers) {
        Ok(handshake) => handshake,
        Err(refusal) => {
            metrics.translated(StatusCode::BAD_REQUEST.as_u16());
            return Ok(refused(&refusal));
        }
    };
    let (client, metrics) = (client.clone(), metrics.clone());
    let headers = handshake.answer(Some(remote_command::PROTOCOL));
    switch(request, headers, move |io| async move {
        metrics.translated(translate(io, options, dial(client, target)).await);
    })
}

/// What upstream's library answers to a handshake that is none, on a connection that it closes.
fn refused(refusal: &Refusal) -> Response {
    let mut response = Response::new(Body::full(refusal.text));
    *response.status_mut() = refusal.status;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    if refusal.text.contains("Version") {
        response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    response
}

/// Why there is no connection on which a kubelet runs a command. Shown, it is what upstream's clients are told.
#[derive(Debug, thiserror::Error)]
enum DialError {
    /// It could not be asked, or the connection broke.
    #[error("error sending request: Post {}: {fault}", quote(.url))]
    Request {
        /// Where it was asked.
        url: String,
        fault: DialFault,
    },
    /// It does not change the protocol, and says this.
    #[error("unable to upgrade connection: {0}")]
    Refused(String),
}

#[derive(Debug, thiserror::Error)]
enum DialFault {
    #[error(transparent)]
    Forward(#[from] ForwardError),
    #[error("redirect not allowed")]
    Redirect,
}

/// A connection on which a kubelet runs a command.
async fn dial(client: HttpsClient, target: Uri) -> Result<Kubelet<Switched>, DialError> {
    let url = target.to_string();
    let mut headers = spdy_headers();
    for protocol in KUBELET_PROTOCOLS {
        headers.append(PROTOCOL_VERSION, HeaderValue::from_static(protocol));
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    let failed = |fault| DialError::Request { url: url.clone(), fault };
    let answer = ask(&client, Method::POST, target, headers).await.map_err(|error| failed(error.into()))?;
    if let Some(url) = redirect(&url, &answer) {
        return Err(DialError::Request { url, fault: DialFault::Redirect });
    }
    if !speaks_spdy(&answer) {
        return Err(DialError::Refused(refusal_of(answer).await));
    }
    let protocol = header_of(&answer.headers, PROTOCOL_VERSION).trim().to_owned();
    let io = answer.connection().await.map_err(|error| failed(error.into()))?;
    Ok(Kubelet { io, protocol })
}

fn spdy_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
    headers
}

fn header_of(headers: &HeaderMap, name: impl header::AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether an answer switches to SPDY.
fn speaks_spdy(answer: &Answer) -> bool {
    let says = |name, word: &str| header_of(&answer.headers, name).to_ascii_lowercase().contains(word);
    answer.status == StatusCode::SWITCHING_PROTOCOLS
        && says(header::CONNECTION, "upgrade")
        && says(header::UPGRADE, "spdy/3.1")
}

/// Where an answer sends on to, if it does.
fn redirect(url: &str, answer: &Answer) -> Option<String> {
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let place = Some(header_of(&answer.headers, header::LOCATION)).filter(|place| !place.is_empty())?;
    let (base, reference) = (GoUrl::parse(url).ok()?, GoUrl::parse(place).ok()?);
    Some(base.join(&reference))
}

/// What a kubelet says instead of switching the protocol.
async fn refusal_of(answer: Answer) -> String {
    let body = Limited::new(answer.body, REFUSAL_LIMIT).collect();
    match tokio::time::timeout(REFUSAL_TIMEOUT, body).await {
        Ok(Ok(body)) => message_of(&body.to_bytes()),
        _ => "unable to read error from server response".to_owned(),
    }
}

/// The message of a Status, the error of a document that is like one, or the text itself.
fn message_of(body: &[u8]) -> String {
    let document = json::decode(body).unwrap_or(Value::Null);
    let member = |name: &str| document.str_at(&[name]).map(str::trim).filter(|text| !text.is_empty());
    let text = String::from_utf8_lossy(body);
    let text = member("message").or_else(|| member("error")).unwrap_or_else(|| text.trim()).to_owned();
    if text.is_empty() { "empty server response".to_owned() } else { text }
}

/// Forwards ports for a client that carries SPDY through a WebSocket.
pub(super) async fn ports(
    request: &mut Request,
    client: &HttpsClient,
    target: Uri,
    rate: Option<Rate>,
    metrics: &StreamMetrics,
) -> Result<Response, ForwardError> {
    let headers = tunnel_headers(request);
    let mut answer = ask(client, Method::POST, target, headers).await?;
    if answer.status != StatusCode::SWITCHING_PROTOCOLS {
        let code = answer.status.as_u16();
        if code < 400 {
            return Err(ForwardError::Protocol(format!("invalid upgrade response: status code {code}")));
        }
        metrics.tunnelled(code);
        let mut response = Response::new(answer.body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = std::mem::take(&mut answer.headers);
        generic_server::proxy::strip(response.headers_mut());
        return Ok(response);
    }
    if !speaks_spdy(&answer) {
        metrics.tunnelled(StatusCode::INTERNAL_SERVER_ERROR.as_u16());
        let text = "unable to upgrade: missing upgrade headers in response\n";
        return Ok(response::text(StatusCode::INTERNAL_SERVER_ERROR, text));
    }
    let Ok(handshake) = tunnel_handshake(request) else {
        metrics.tunnelled(StatusCode::INTERNAL_SERVER_ERROR.as_u16());
        return Ok(refused_tunnel(request));
    };
    let chosen = header_of(&answer.headers, PROTOCOL_VERSION).trim();
    let chosen = Some(format!("{}{chosen}", tunnel::PREFIX)).filter(|_| !chosen.is_empty());
    let chosen = chosen.filter(|chosen| asked_protocols(&request.headers).any(|asked| asked == chosen));
    let headers = handshake.answer(chosen.as_deref());
    metrics.tunnelled(StatusCode::SWITCHING_PROTOCOLS.as_u16());
    let carried = switch(request, headers, move |client| async move {
        if let Ok(backend) = answer.connection().await {
            tunnel::carry(client, backend, rate).await;
        }
    });
    carried.map_err(|status| ForwardError::Protocol(status.message))
}

/// The headers of the request for SPDY that stands for one for a WebSocket.
fn tunnel_headers(request: &Request) -> HeaderMap {
    let mut headers = headers_of(request);
    for name in [header::SEC_WEBSOCKET_PROTOCOL, header::SEC_WEBSOCKET_KEY, header::SEC_WEBSOCKET_VERSION] {
        headers.remove(name);
    }
    headers.extend(spdy_headers());
    headers.remove(PROTOCOL_VERSION);
    let protocols = asked_protocols(&request.headers).filter_map(tunnel::carried);
    for protocol in protocols.filter_map(|protocol| HeaderValue::from_str(protocol).ok()) {
        headers.append(PROTOCOL_VERSION, protocol);
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    headers
}

/// The handshake of a tunnel, whose key is 16 bytes in Base64.
fn tunnel_handshake(request: &Request) -> Result<Handshake, Refusal> {
    let key = header_of(&request.headers, header::SEC_WEBSOCKET_KEY);
    if STANDARD.decode(key).map_or(0, |key| key.len()) != 16 {
        return Err(Refusal { status: StatusCode::BAD_REQUEST, text: "" });
    }
    Handshake::read(&request.method, &request.headers)
}

fn refused_tunnel(request: &Request) -> Response {
    let status = if request.method == Method::GET { StatusCode::BAD_REQUEST } else { StatusCode::METHOD_NOT_ALLOWED };
    let mut response = response::text(status, format!("{}\n", status.canonical_reason().unwrap_or_default()));
    response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

/// Sends a body to a client as messages of a WebSocket.
pub(super) fn messages(request: &mut Request, body: Body) -> Result<Response, Status> {
    let handshake = match Handshake::read(&request.method, &request.headers) {
        Ok(handshake) => handshake,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    let Some((protocol, encoding)) = reader::choose(asked_protocols(&request.headers)) else {
        return Ok(refused(&Refusal { status: StatusCode::FORBIDDEN, text: "" }));
    };
    switch(request, handshake.answer(protocol), move |client| reader::send(client, encoding, Frames(body)))
}

/// The bytes of a body.
struct Frames(Body);

impl Pieces for Frames {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // What breaks ends: there is no other way to say so.
            if let Ok(data) = self.0.frame().await?.ok()?.into_data() {
                return Some(data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_why() {
        let check = |body: &str, expect: &str| assert_eq!(message_of(body.as_bytes()), expect, "{body}");
        check("", "empty server response");
        check("  ", "empty server response");
        check(" no \n", "no");
        check(r#"{"message":" container not found ","error":"x"}"#, "container not found");
        check(r#"{"message":"","error":"x"}"#, "x");
        check(r#"{"x":1}"#, r#"{"x":1}"#);
        check("[1]", "[1]");
    }
}
