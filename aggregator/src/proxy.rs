//! Handing requests to a remote server: who asks goes along in headers, bodies stream both ways, upgrades pass through.

use async_trait::async_trait;
use generic_server::{
    auth::User,
    outbound,
    pipeline::respond::{Response, text},
    request::Request,
    server::Endpoint,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, uri::PathAndQuery};
use machinery::meta::status::Status;

use crate::backends::Backend;

#[async_trait]
impl Endpoint for Backend {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        if self.state.load().is_err() {
            return Ok(unavailable());
        }
        let (Ok((host, port)), Ok(client)) = (self.resolver.resolve(&self.service), &self.client) else {
            return Ok(unavailable());
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let path = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let uri: Uri = format!("https://{host}:{port}{path}").parse().map_err(Status::internal_error)?;
        let mut headers = outbound::headers_of(&request);
        identify(&mut headers, &request.user);
        outbound::forward(client, &mut request, uri, headers)
            .await
            .map_err(|why| Status::service_unavailable(format!("error trying to reach service: {why}")))
    }
}

/// The 503 for a backend that is known not to be there.
fn unavailable() -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n")
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
}
