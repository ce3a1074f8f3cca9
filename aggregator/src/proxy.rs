//! Handing requests to a remote server: who asks goes along in headers, bodies stream both ways, upgrades pass through.

use async_trait::async_trait;
use generic_server::{
    Body,
    auth::User,
    outbound::root_cause,
    pipeline::respond::{Response, text},
    request::Request,
    serve::Peer,
    server::Endpoint,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version, header, uri::PathAndQuery};
use machinery::meta::status::Status;

use crate::backends::Backend;

/// Headers that are about one connection, not about the request (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

#[async_trait]
impl Endpoint for Backend {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        if self.state.load().is_err() {
            return Ok(unavailable());
        }
        let (Ok((host, port)), Ok(client)) = (self.resolver.resolve(&self.service), &self.client) else {
            return Ok(unavailable());
        };
        let upgrade = wants_upgrade(&request.headers);
        let outgoing = self.outgoing(&mut request, &host, port, upgrade)?;
        let mut response = client.request(outgoing).await.map_err(|error| {
            Status::service_unavailable(format!("error trying to reach service: {}", root_cause(&error)))
        })?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && upgrade {
            join(&mut request, &mut response);
            return Ok(response.map(|_| Body::empty()));
        }
        strip(response.headers_mut());
        Ok(response.map(Body::wrap))
    }
}

impl Backend {
    /// The request as the backend gets it.
    fn outgoing(
        &self,
        request: &mut Request,
        host: &str,
        port: u16,
        upgrade: bool,
    ) -> Result<http::Request<Body>, Status> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let path = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let uri: Uri = format!("https://{host}:{port}{path}").parse().map_err(Status::internal_error)?;
        let body = request.body.take().map_or_else(Body::empty, Body::wrap);
        let mut outgoing = http::Request::new(body);
        *outgoing.method_mut() = request.method.clone();
        *outgoing.uri_mut() = uri;
        *outgoing.version_mut() = Version::HTTP_11;
        let mut headers = request.headers.clone();
        let protocol = headers.get(header::UPGRADE).cloned();
        strip(&mut headers);
        if let (true, Some(protocol)) = (upgrade, protocol) {
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, protocol);
        }
        headers.remove(header::AUTHORIZATION);
        headers.remove(header::HOST);
        identify(&mut headers, &request.user);
        forwarded(&mut headers, request);
        *outgoing.headers_mut() = headers;
        Ok(outgoing)
    }
}

/// The 503 for a backend that is known not to be there.
fn unavailable() -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n")
}

fn wants_upgrade(headers: &HeaderMap) -> bool {
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

/// Says who asks. What the client itself claims to be goes no further.
fn identify(headers: &mut HeaderMap, user: &User) {
    let claimed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-remote-") || name.as_str().starts_with("impersonate-"))
        .cloned()
        .collect();
    for name in claimed {
        headers.remove(name);
    }
    let mut add = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            headers.append(name, value);
        }
    };
    add(HeaderName::from_static("x-remote-user"), &user.name);
    if !user.uid.is_empty() {
        add(HeaderName::from_static("x-remote-uid"), &user.uid);
    }
    for group in &user.groups {
        add(HeaderName::from_static("x-remote-group"), group);
    }
    for (key, values) in &user.extra {
        if let Ok(name) = format!("x-remote-extra-{}", escape(key)).parse::<HeaderName>() {
            for value in values {
                add(name.clone(), value);
            }
        }
    }
}

/// A key of extra facts as a header may carry it: what is no token character is percent-encoded.
fn escape(key: &str) -> String {
    let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$&'*+-.^_`|~".contains(&b);
    key.to_ascii_lowercase()
        .bytes()
        .map(|b| if token(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
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
    use machinery::Str;

    use super::*;

    #[test]
    fn identity_is_the_servers_word_not_the_clients() {
        let mut headers = HeaderMap::new();
        headers.insert("x-remote-user", HeaderValue::from_static("root"));
        headers.insert("x-remote-extra-a", HeaderValue::from_static("b"));
        headers.insert("impersonate-user", HeaderValue::from_static("root"));
        let user = User {
            name: "bob".into(),
            groups: vec!["a".into(), "b".into()],
            extra: vec![(Str::from("example.com/Scopes"), vec!["s".into()])],
            ..User::default()
        };
        identify(&mut headers, &user);
        let all: Vec<String> = headers.iter().map(|(k, v)| format!("{k}={}", v.to_str().expect("text"))).collect();
        assert_eq!(
            all,
            ["x-remote-user=bob", "x-remote-group=a", "x-remote-group=b", "x-remote-extra-example.com%2fscopes=s"]
        );
    }

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
