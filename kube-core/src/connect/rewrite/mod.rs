//! What pods, services and nodes serve, made to be served below this server's paths: redirects, and links in HTML.

mod body;
mod html;
mod tag;
mod url;

use generic_server::response::Response;
use http::{HeaderValue, header};
use machinery::meta::{go_url::GoUrl, status::Status};

use body::Coding;
pub(super) use url::{Place, cleaned};

/// Rewrites an answer: where it sends on to, or else the links in its HTML.
///
/// # Errors
/// It sends on to what is no URL.
pub(super) fn rewritten(mut answer: Response, place: Place) -> Result<Response, Status> {
    let location = text_of(&answer, header::LOCATION);
    if !location.is_empty() {
        if let Err(why) = GoUrl::parse(&location) {
            let quoted = machinery::meta::go_text::quote(&location);
            return Err(Status::internal_error(format!(
                "error trying to parse Location header: parse {quoted}: {why}"
            )));
        }
        let rewritten = place.rewrite(&location).unwrap_or(location);
        if let Ok(value) = HeaderValue::from_str(&rewritten) {
            answer.headers_mut().insert(header::LOCATION, value);
        }
        return Ok(answer);
    }
    let kind = text_of(&answer, header::CONTENT_TYPE);
    let is_html = kind.split(';').next().is_some_and(|kind| kind.trim() == "text/html");
    let Some(coding) = Coding::named(&text_of(&answer, header::CONTENT_ENCODING)).filter(|_| is_html) else {
        return Ok(answer);
    };
    answer.headers_mut().remove(header::CONTENT_LENGTH);
    Ok(answer.map(|body| body::rewritten(body, coding, place)))
}

fn text_of(answer: &Response, name: header::HeaderName) -> String {
    let value = answer.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    value.unwrap_or_default().into_owned()
}
