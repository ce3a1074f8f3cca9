//! Step on the way back: large answers are compressed for clients that take gzip.

use http::{HeaderValue, header};
use http_body::Body as _;

use crate::response::Response;
use crate::{body::Body, request::Request};
use machinery::request::Verb;

/// Smaller answers are sent as they are: compressing them costs more than it saves (upstream: the same).
const THRESHOLD: u64 = 128 * 1024;

/// Whether the answer to a request may be compressed: what the chain's own handlers write, and metrics; never a watch.
pub(super) fn allowed(request: &Request) -> bool {
    let info = &request.info;
    let ours = info.is_resource
        || ["/api", "/apis", "/openapi/v2", "/metrics"].iter().any(|root| info.path.trim_end_matches('/') == *root);
    ours && info.verb != Verb::Watch && takes_gzip(request.header("accept-encoding").unwrap_or(""))
}

/// As upstream reads the header: gzip stands in it, and without parameters.
fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|encoding| encoding.trim() == "gzip")
}

/// Compresses an answer that is known to be large: what may be of any size (a stream without an end, what another server
/// sends) stays as it is.
pub(super) fn compress(response: Response) -> Response {
    let large = response.body().size_hint().lower() > THRESHOLD;
    if !large || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let mut response = response.map(Body::gzip);
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response;

    #[test]
    fn gzip_is_taken_where_it_is_named_plainly() {
        let check = |accepted: &str, expect: bool| assert_eq!(takes_gzip(accepted), expect, "{accepted}");
        check("", false);
        check("gzip", true);
        check("deflate, gzip", true);
        check(" gzip ,br", true);
        check("gzip;q=0.5", false);
        check("x-gzip", false);
        check("*", false);
        check("GZIP", false);
    }

    #[test]
    fn only_large_answers_of_known_size_are_compressed() {
        let check = |body: Body, expect: bool| {
            let response = compress(response::bytes(http::StatusCode::OK, "application/json", body));
            let encoding = response.headers().get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
            assert_eq!(encoding == Some("gzip"), expect);
            assert_eq!(response.headers().contains_key(header::VARY), expect);
        };
        check(Body::full(vec![b'x'; 128 * 1024]), false);
        check(Body::full(vec![b'x'; 128 * 1024 + 1]), true);
        check(Body::chunks([vec![b'x'; 200_000].into()], Some(200_000)), true);
        check(Body::chunks([vec![b'x'; 200_000].into()], None), false);
        check(Body::large(futures_util::stream::empty(), None, 200_000), true);
        check(Body::large(futures_util::stream::empty(), None, 100_000), false);
        check(Body::empty(), false);
    }
}
