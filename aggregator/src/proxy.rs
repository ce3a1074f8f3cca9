//! Handing requests to a remote server: who asks goes along in headers, bodies stream both ways, upgrades pass through.

use async_trait::async_trait;
use auth::User;
use generic_server::{
    Body,
    endpoint::Endpoint,
    proxy::ForwardError,
    request::Request,
    response::{Response, text},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header::LOCATION, uri::PathAndQuery};
use machinery::meta::status::Status;
use outbound::ClientSpan;

use crate::backends::Backend;

#[async_trait]
impl Endpoint for Backend {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        if self.state.load().is_err() {
            return Ok(unavailable());
        }
        let client = match &self.client {
            Ok(client) => client,
            Err(why) => return Ok(text(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n"))),
        };
        let Ok((host, port)) = self.resolver.resolve(&self.service) else { return Ok(unavailable()) };
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let path = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let uri: Uri = format!("https://{host}:{port}{path}").parse().map_err(Status::internal_error)?;
        let mut headers = generic_server::proxy::headers_of(&request);
        if let Err(why) = identify(&mut headers, &request.user, self.proxied.sends_uids) {
            return Ok(unreachable(&why));
        }
        if let Ok(id) = HeaderValue::from_str(&request.audit_id) {
            headers.insert("audit-id", id);
        }
        let span = match generic_server::proxy::wants_upgrade(&request.headers) {
            true => ClientSpan::default(),
            false => ClientSpan::begin(&request.method, &mut headers, &uri.to_string()),
        };
        let audit = request.audit.clone();
        let annotate = |key: String, why: &'static str| audit.annotate(key, why);
        match generic_server::proxy::forward(client, &mut request, uri, headers).await {
            Ok(response) => {
                span.answered(response.status());
                self.certificates.answered(&host, annotate);
                let redirects = self.proxied.rejects_redirects && sends_elsewhere(&response);
                Ok(if redirects { redirected() } else { response.map(|body| body.holding(Box::new(span))) })
            }
            Err(error) => {
                let why = error.to_string();
                span.failed(&why);
                self.certificates.failed(&host, &why, annotate);
                Ok(match error {
                    ForwardError::Unreachable(why) => unreachable(&why),
                    ForwardError::Protocol(why) | ForwardError::Broken(why) => {
                        text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
                    }
                })
            }
        }
    }
}

/// Whether an answer sends the client to another place.
fn sends_elsewhere(response: &Response) -> bool {
    response.status().is_redirection() && response.headers().get(LOCATION).is_some_and(|to| !to.is_empty())
}

/// The 502 for a backend that would have the client go elsewhere, with its credentials.
fn redirected() -> Response {
    let mut response =
        Response::new(Body::full("the backend attempted to redirect this request, which is not permitted"));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// The 503 for a backend that is known not to be there.
fn unavailable() -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, "service unavailable\n")
}

/// The 503 for a backend that should be there.
fn unreachable(why: &str) -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, format!("error trying to reach service: {why}\n"))
}

/// Says who asks. What the client itself claims to be goes no further.
///
/// # Errors
/// A part of the identity that no header can carry: without it, the user would be somebody else.
pub(crate) fn identify(headers: &mut HeaderMap, user: &User, sends_uids: bool) -> Result<(), String> {
    let is_claim =
        |name: &HeaderName| name.as_str().starts_with("x-remote-") || name.as_str().starts_with("impersonate-");
    let claimed: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
    for name in claimed {
        headers.remove(name);
    }
    let mut add = |name: HeaderName, shown: &str, value: &str| {
        let invalid = || format!("net/http: invalid header field value for {shown:?}");
        // Receivers drop spaces around a value, which makes it another one.
        let value = Some(value).filter(|value| value.trim_matches([' ', '\t']) == *value).ok_or_else(invalid)?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| invalid())?;
        headers.try_append(name, value).map(|_| ()).map_err(|_| "net/http: too many headers".to_owned())
    };
    add(HeaderName::from_static("x-remote-user"), "X-Remote-User", &user.name)?;
    if sends_uids && !user.uid.is_empty() {
        add(HeaderName::from_static("x-remote-uid"), "X-Remote-Uid", &user.uid)?;
    }
    for group in &user.groups {
        add(HeaderName::from_static("x-remote-group"), "X-Remote-Group", group)?;
    }
    for (key, values) in &user.extra {
        let shown = format!("X-Remote-Extra-{}", escape(key));
        let name: HeaderName = shown.parse().map_err(|_| format!("net/http: invalid header field name {shown:?}"))?;
        for value in values {
            add(name.clone(), &shown, value)?;
        }
    }
    Ok(())
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
        identify(&mut headers, &user, true).expect("headers carry it");
        let all: Vec<String> = headers.iter().map(|(k, v)| format!("{k}={}", v.to_str().expect("text"))).collect();
        assert_eq!(
            all,
            ["x-remote-user=bob", "x-remote-group=a", "x-remote-group=b", "x-remote-extra-example.com%2fscopes=s"]
        );
    }

    #[test]
    fn an_identity_that_no_header_carries_whole_goes_nowhere() {
        let check = |user: User, expect: &str| {
            let refused = identify(&mut HeaderMap::new(), &user, true);
            assert_eq!(refused, Err(format!("net/http: invalid header field value for {expect:?}")), "{user:?}");
        };
        let named = |name: &str| User { name: name.into(), ..User::default() };
        check(named("bob\n"), "X-Remote-User");
        check(named("bob\u{7f}"), "X-Remote-User");
        check(named(" admin"), "X-Remote-User");
        check(User { uid: "1\0".into(), ..named("bob") }, "X-Remote-Uid");
        check(User { groups: vec!["a".into(), "untrusted\r\nx: y".into()], ..named("bob") }, "X-Remote-Group");
        let extra = vec![(Str::from("a b"), vec![Str::from("\u{1b}")])];
        check(User { extra, ..named("bob") }, "X-Remote-Extra-a%20b");
        assert_eq!(identify(&mut HeaderMap::new(), &named("j\u{fc}rgen"), true), Ok(()));
    }

    #[test]
    fn only_an_answer_with_a_place_sends_elsewhere() {
        let check = |code: u16, to: Option<&'static str>, expect: bool| {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::from_u16(code).expect("a code");
            if let Some(to) = to {
                answer.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
            }
            assert_eq!(sends_elsewhere(&answer), expect, "{code} {to:?}");
        };
        check(302, Some("https://elsewhere.example.com/"), true);
        check(307, Some("/here"), true);
        check(304, None, false);
        check(201, Some("/made"), false);
        check(302, Some(""), false);
    }
}
