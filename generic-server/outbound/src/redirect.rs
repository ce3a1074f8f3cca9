//! Answers that send the client to another place, followed as Go's HTTP client does.

use http::{Method, Response, StatusCode, header};
use machinery::meta::{go_text::quote, go_url::GoUrl};

/// So many requests are made in all.
const MAX_REQUESTS: usize = 10;

/// Where a request goes on.
#[derive(Debug, PartialEq)]
pub(crate) struct Next {
    pub(crate) url: String,
    pub(crate) method: Method,
    /// Whether the document is sent along.
    pub(crate) with_body: bool,
}

/// Where an answer sends its client, which has made `requests` so far; `None`: nowhere.
///
/// # Errors
/// Why it cannot be followed: what Go's client says, with the URL that it says it of.
pub(crate) fn next<B>(
    answer: &Response<B>,
    url: &str,
    method: &Method,
    requests: usize,
) -> Result<Option<Next>, (String, String)> {
    let (method, with_body) = match answer.status() {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => (Method::GET, false),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => (method.clone(), method != Method::GET),
        _ => return Ok(None),
    };
    let location = answer.headers().get(header::LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let Some(location) = location.filter(|location| !location.is_empty()) else { return Ok(None) };
    let shown = quote(&location);
    let target = GoUrl::parse(&location)
        .map_err(|why| (url.to_owned(), format!("failed to parse Location header {shown}: parse {shown}: {why}")))?;
    if requests >= MAX_REQUESTS {
        return Err((location.into_owned(), format!("stopped after {MAX_REQUESTS} redirects")));
    }
    let base = GoUrl::parse(url).map_err(|why| (url.to_owned(), why.to_string()))?;
    let next = base.join(&target);
    let scheme = next.split(':').next().unwrap_or_default();
    if !matches!(scheme, "http" | "https") {
        let why = format!("unsupported protocol scheme {}", quote(scheme));
        return Err((next, why));
    }
    Ok(Some(Next { url: next, method, with_body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, location: Option<&str>) -> Response<()> {
        let mut answer = Response::builder().status(code);
        if let Some(location) = location {
            answer = answer.header("location", location);
        }
        answer.body(()).expect("a response")
    }

    #[test]
    fn a_client_goes_where_it_is_sent() {
        let check = |code: u16, location: Option<&str>, expect: Option<(&str, Method, bool)>| {
            let found = next(&answer(code, location), "https://h/a?timeout=5s", &Method::POST, 1).expect("followed");
            let expect = expect.map(|(url, method, with_body)| (url.to_owned(), method, with_body));
            assert_eq!(found.map(|next| (next.url, next.method, next.with_body)), expect, "{code}");
        };
        check(301, Some("/b"), Some(("https://h/b", Method::GET, false)));
        check(302, Some("c?x=1"), Some(("https://h/c?x=1", Method::GET, false)));
        check(307, Some("http://other/"), Some(("http://other/", Method::POST, true)));
        check(308, Some("/b"), Some(("https://h/b", Method::POST, true)));
        check(307, None, None);
        check(300, Some("/b"), None);
        check(304, Some("/b"), None);
    }

    #[test]
    fn it_stops_where_it_cannot_go() {
        let check = |location: &str, requests: usize, url: &str, why: &str| {
            let found = next(&answer(307, Some(location)), "https://h/a", &Method::POST, requests);
            assert_eq!(found, Err((url.to_owned(), why.to_owned())));
        };
        check("/b", 10, "/b", "stopped after 10 redirects");
        check("ftp://x/", 1, "ftp://x/", "unsupported protocol scheme \"ftp\"");
        let why = "failed to parse Location header \"http://[::1\": parse \"http://[::1\": missing ']' in host";
        check("http://[::1", 1, "https://h/a", why);
    }
}
