//! Handing a request on: bodies stream both ways, upgrades pass through.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header};

use super::{HttpsClient, root_cause};
use crate::{body::Body, pipeline::respond::Response, request::Request, serve::Peer};

/// Headers that are about one connection, not about the request (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// The headers of a request as another server may see them: without credentials and what is about this connection, with
/// for whom and how the request came in.
pub fn headers_of(request: &Request) -> HeaderMap {
    let mut headers = request.headers.clone();
    let protocol = headers.get(header::UPGRADE).filter(|_| wants_upgrade(&request.headers)).cloned();
    strip(&mut headers);
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
/// Why the other server cannot be reached.
pub async fn forward(
    client: &HttpsClient,
    request: &mut Request,
    target: Uri,
    headers: HeaderMap,
) -> Result<Response, String> {
    let upgrade = headers.contains_key(header::UPGRADE);
    let body = request.body.take().map_or_else(Body::empty, Body::wrap);
    let mut outgoing = http::Request::new(body);
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = target;
    *outgoing.version_mut() = Version::HTTP_11;
    *outgoing.headers_mut() = headers;
    let mut response = client.request(outgoing).await.map_err(|error| root_cause(&error))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS && upgrade {
        join(request, &mut response);
        return Ok(response.map(|_| Body::empty()));
    }
    strip(response.headers_mut());
    Ok(response.map(Body::wrap))
}

/// Whether a client asks for another protocol on its connection.
pub fn wants_upgrade(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|v| v.to_str().ok());
    headers.contains_key(header::UPGRADE)
        && connection.flat_map(|v| v.split(',')).any(|token| token.trim().eq_ignore_ascii_case("upgrade"))
}

/// Removes what is about the connection, and what the connection header names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
    headers.remove(header::UPGRADE);
}

/// Says for whom and how the request came in.
fn forwarded(headers: &mut HeaderMap, request: &Request) {
    if let Some(peer) = request.extensions.get::<Peer>() {
        let before = headers.get("x-forwarded-for").and_then(|v| v.to_str().ok());
        let client = peer.remote.ip().to_string();
        let chain = before.map_or_else(|| client.clone(), |before| format!("{before}, {client}"));
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

/// Connects the two ends of an upgraded connection until one of them closes.
fn join(request: &mut Request, response: &mut http::Response<hyper::body::Incoming>) {
    let Some(client) = request.extensions.remove::<hyper::upgrade::OnUpgrade>() else { return };
    let backend = hyper::upgrade::on(response);
    tokio::spawn(async move {
        let (Ok(client), Ok(backend)) = tokio::join!(client, backend) else { return };
        let (mut client, mut backend) = (hyper_util::rt::TokioIo::new(client), hyper_util::rt::TokioIo::new(backend));
        // Either end may just go away: that is how such connections end.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut backend).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_the_connection_stays_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "keep-alive, X-Mine"), ("x-mine", "1"), ("te", "trailers"), ("accept", "*/*")]
        {
            headers.insert(name.parse::<HeaderName>().expect("a name"), HeaderValue::from_static(value));
        }
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
