//! What Go's server refuses of an HTTP/1.1 request before anybody serves it, in its words: a Host that is missing, doubled
//! or malformed, codings of bodies other than chunks, expectations other than 100-continue.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use hyper::ext::ReasonPhrase;

use crate::Body;

/// The refusal, if there is anything to refuse.
pub(super) fn refuse<B>(request: &Request<B>) -> Option<Response<Body>> {
    if request.version() > Version::HTTP_11 {
        return None;
    }
    let headers = request.headers();
    if has_strange_coding(headers) {
        return Some(answer(StatusCode::NOT_IMPLEMENTED, None, "Unsupported transfer encoding"));
    }
    let needs_host = request.version() == Version::HTTP_11 && request.method() != Method::CONNECT;
    let mut hosts = headers.get_all(header::HOST).iter();
    let problem = match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Some(None), // Go has words for it, but not for clients
        (None, _) if needs_host => Some(Some(("missing required Host header", &MISSING))),
        (Some(host), None) if !host.as_bytes().iter().all(|b| is_of_host(*b)) => {
            Some(Some(("malformed Host header", &MALFORMED)))
        }
        _ => None,
    };
    if let Some(problem) = problem {
        return Some(match problem {
            None => answer(StatusCode::BAD_REQUEST, None, "400 Bad Request"),
            Some((why, reason)) => answer(StatusCode::BAD_REQUEST, Some(reason), format!("400 Bad Request: {why}")),
        });
    }
    let expect = headers.get(header::EXPECT)?;
    let known = expect.is_empty() || expect.as_bytes().eq_ignore_ascii_case(b"100-continue");
    (!known).then(|| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::EXPECTATION_FAILED;
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        response
    })
}

/// Behind the status code, where clients are told more than its name.
type Reason = &'static [u8];
static MISSING: Reason = b"Bad Request: missing required Host header";
static MALFORMED: Reason = b"Bad Request: malformed Host header";

fn answer(status: StatusCode, reason: Option<&Reason>, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    if let Some(reason) = reason {
        response.extensions_mut().insert(ReasonPhrase::from_static(reason));
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn has_strange_coding(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    codings.enumerate().any(|(i, coding)| i > 0 || !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
}

/// Whether Go takes a byte in a Host header.
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of the refusal of a request with these headers.
    fn check(version: Version, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().version(version).uri("/healthz");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        refuse(&request.body(()).expect("a request")).map(|response| response.status().as_u16())
    }

    #[test]
    fn hosts_codings_and_expectations_are_judged_as_go_does() {
        let one = Version::HTTP_11;
        for (headers, expect) in [
            (&[("host", "localhost:6443")][..], None),
            (&[("host", "[::1]:6443")], None),
            (&[("host", "")], None),
            (&[], Some(400)),
            (&[("host", "a"), ("host", "a")], Some(400)),
            (&[("host", "a/b")], Some(400)),
            (&[("host", "a b")], Some(400)),
            (&[("host", "a@b")], Some(400)),
            (&[("host", "a"), ("transfer-encoding", "Chunked")], None),
            (&[("host", "a"), ("transfer-encoding", "gzip, chunked")], Some(501)),
            (&[("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], Some(501)),
            (&[("host", "a"), ("expect", "100-Continue")], None),
            (&[("host", "a"), ("expect", "tea")], Some(417)),
        ] {
            assert_eq!(check(one, headers), expect, "{headers:?}");
        }
        assert_eq!(check(Version::HTTP_10, &[]), None);
        assert_eq!(check(Version::HTTP_2, &[]), None);
    }
}
