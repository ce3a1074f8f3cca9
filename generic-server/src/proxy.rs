//! Handing a request on: bodies stream both ways, upgrades pass through.

pub mod upgrade;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};

use crate::{
    body::Body,
    request::Request,
    response::{NO_CACHE, Response},
    serve::Peer,
};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use outbound::{HttpsClient, transport};
use streaming::throttle::{Rate, join};
use upgrade::{Answer, switch};

/// Headers that are about one connection, not about the request (RFC 9110, 7.6.1). Credentials for a proxy are among them.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// What a backend may not say about this server to browsers: who may call it from elsewhere.
const CORS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Why a request could not be handed on.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum ForwardError {
    /// The other server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// It answers in a protocol that the client has not asked for.
    #[error("{0}")]
    Protocol(String),
    /// It has agreed to another protocol, and the connection broke.
    #[error("{0}")]
    Broken(String),
}

/// The headers of a request as another server may see them: without credentials and what is about this connection, with
/// for whom and how the request came in.
pub fn headers_of(request: &Request) -> HeaderMap {
    let mut headers = request.headers.clone();
    let protocol = headers.get(header::UPGRADE).filter(|_| wants_upgrade(&request.headers)).cloned();
    let takes_trailers = tokens(&headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    strip(&mut headers);
    if takes_trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if let Some(protocol) = protocol {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, protocol);
    }
    headers.remove(header::AUTHORIZATION);
    headers.remove(header::HOST);
    forwarded(&mut headers, request);
    headers
}

/// Sends the request to `target` with these headers (see [`headers_of`]), and answers what comes back.
///
/// # Errors
/// The other server cannot be reached, or switches the protocol where the client has not asked for it, or the other way
/// round.
pub async fn forward(
    client: &HttpsClient,
    request: &mut Request,
    target: Uri,
    headers: HeaderMap,
) -> Result<Response, ForwardError> {
    forward_at(client, request, target, headers, None).await
}

/// The same; where the protocol is switched, bytes go both ways at this rate.
///
/// # Errors
/// As [`forward`].
pub async fn forward_at(
    client: &HttpsClient,
    request: &mut Request,
    target: Uri,
    headers: HeaderMap,
    rate: Option<Rate>,
) -> Result<Response, ForwardError> {
    let upgrade = headers.contains_key(header::UPGRADE);
    let body = request.body.take().map_or_else(Body::empty, Body::wrap);
    let mut response = send(client, request.method.clone(), target, headers, body).await?;
    check_protocol(upgrade, response.status(), response.headers())?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let headers = std::mem::take(response.headers_mut());
        let backend = Answer::of(response);
        let joined = switch(request, headers, move |client| async move {
            if let Ok(backend) = backend.connection().await {
                join(client, backend, rate).await;
            }
        });
        return joined.map_err(|status| ForwardError::Protocol(status.message));
    }
    strip(response.headers_mut());
    shield(response.headers_mut());
    Ok(response.map(Body::wrap))
}

/// Sends a request to another server.
async fn send(
    client: &HttpsClient,
    method: Method,
    target: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<http::Response<Incoming>, ForwardError> {
    let (host, address) = (target.host().unwrap_or_default().to_owned(), dialled(&target));
    let mut outgoing = http::Request::new(body.boxed_unsync());
    *outgoing.method_mut() = method;
    *outgoing.uri_mut() = target;
    *outgoing.version_mut() = Version::HTTP_11;
    *outgoing.headers_mut() = headers;
    let unreachable = |error| ForwardError::Unreachable(transport(&error, &host, &address));
    client.request(outgoing).await.map_err(unreachable)
}

/// Host and port, as errors show them.
fn dialled(target: &Uri) -> String {
    let port = target.port_u16().unwrap_or(if target.scheme_str() == Some("http") { 80 } else { 443 });
    format!("{}:{port}", target.host().unwrap_or_default())
}

/// A backend switches the protocol if it is asked to, and only then; a refusal is an answer too.
fn check_protocol(upgrade: bool, status: StatusCode, headers: &HeaderMap) -> Result<(), ForwardError> {
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    if upgrade && !switches && status.as_u16() < 400 {
        return Err(ForwardError::Protocol(format!("invalid upgrade response: status code {}", status.as_u16())));
    }
    if switches && !upgrade {
        let protocol = headers.get(header::UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let why = format!("backend tried to switch protocol {protocol:?} when \"\" was requested");
        return Err(ForwardError::Protocol(why));
    }
    Ok(())
}

/// Takes what is this server's to say out of a backend's answer. What every answer of this server says to caches comes
/// before what the backend says, as upstream has it.
fn shield(headers: &mut HeaderMap) {
    for name in &CORS {
        headers.remove(name);
    }
    let said: Vec<HeaderValue> = headers.get_all(header::CACHE_CONTROL).iter().cloned().collect();
    if !said.is_empty() {
        headers.insert(header::CACHE_CONTROL, NO_CACHE);
        for value in said {
            headers.append(header::CACHE_CONTROL, value);
        }
    }
}

/// The items of a header that is a list, over all its lines.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(',')).map(str::trim)
}

/// Whether a client asks for another protocol on its connection.
pub fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
        && tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// Removes what is about the connection, and what the connection header names.
pub fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers.remove(header::UPGRADE);
}

/// Says for whom and how the request came in.
fn forwarded(headers: &mut HeaderMap, request: &Request) {
    if let Some(peer) = request.extensions.get::<Peer>() {
        let client = peer.remote.ip().to_canonical().to_string();
        let before = headers.get_all("x-forwarded-for").iter().filter_map(|v| v.to_str().ok());
        let chain = before.chain([client.as_str()]).collect::<Vec<_>>().join(", ");
        if let Ok(value) = HeaderValue::from_str(&chain) {
            headers.insert("x-forwarded-for", value);
        }
    }
    if let Ok(value) = HeaderValue::from_str(request.info.path.as_str()) {
        headers.insert("x-forwarded-uri", value);
    }
    let host = request.headers.get(header::HOST).cloned();
    if let Some(host) = host.or_else(|| request.uri.authority().and_then(|a| HeaderValue::from_str(a.as_str()).ok())) {
        headers.insert("x-forwarded-host", host);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_is_about_the_connection_stays_behind() {
        let mut headers = headers(&[
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("proxy-authorization", "Basic c2VjcmV0"),
            ("proxy-authenticate", "Basic"),
            ("accept", "*/*"),
        ]);
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn a_backend_speaks_for_itself_alone() {
        let mut answer = headers(&[
            ("access-control-allow-origin", "*"),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "X"),
            ("cache-control", "public, max-age=86400"),
            ("etag", "1"),
        ]);
        shield(&mut answer);
        let left: Vec<_> = answer.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text"))).collect();
        let expect =
            [("cache-control", "no-cache, private"), ("cache-control", "public, max-age=86400"), ("etag", "1")];
        assert_eq!(left, expect);
        let mut silent = headers(&[("etag", "1")]);
        shield(&mut silent);
        assert!(!silent.contains_key(header::CACHE_CONTROL), "the pipeline says it");
    }

    #[test]
    fn the_protocol_is_switched_where_the_client_has_asked_for_it() {
        let check = |upgrade, code: u16, protocol: &'static str, expect: Result<(), &str>| {
            let status = StatusCode::from_u16(code).expect("a code");
            let found = check_protocol(upgrade, status, &headers(&[("upgrade", protocol)]));
            assert_eq!(found.map_err(|e| e.to_string()), expect.map_err(str::to_owned), "{upgrade} {code}");
        };
        check(true, 101, "SPDY/3.1", Ok(()));
        check(true, 404, "", Ok(()));
        check(true, 200, "", Err("invalid upgrade response: status code 200"));
        check(true, 302, "", Err("invalid upgrade response: status code 302"));
        check(false, 200, "", Ok(()));
        check(false, 101, "websocket", Err("backend tried to switch protocol \"websocket\" when \"\" was requested"));
    }
}
