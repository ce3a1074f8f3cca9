//! Turns values, errors and plain text into responses. The one place where an error becomes HTTP.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Response as HttpResponse, StatusCode, header};
use machinery::{
    Value,
    codec::{cbor, json, protobuf, yaml},
    meta::status::{Details, Status},
    request::Verb,
};

use crate::{
    body::Body,
    negotiate::{Accepted, Form, Media, Offer, negotiate},
    recorded::{SentStatus, Shown},
    request::Request,
};

/// A response of this server.
pub type Response = HttpResponse<Body>;

/// What every answer says to caches, unless it has more to say.
pub(crate) const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// A response of plain text, as Go's http.Error and the health handlers write it.
pub fn text(code: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = HttpResponse::new(Body::full(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

/// What a path gets that no server of the chain claims.
pub fn page_not_found() -> Response {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// A response of encoded bytes.
pub fn bytes(code: StatusCode, content_type: &str, body: Body) -> Response {
    let mut response = HttpResponse::new(body);
    *response.status_mut() = code;
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// A document in the encoding that was agreed on.
pub fn document(code: StatusCode, value: &Value, accepted: Accepted) -> Response {
    let mut response = object(code, Body::full(encode(value, accepted)), accepted);
    if value.str_at(&["kind"]) == Some("Status")
        && let Some(status) = Status::from_value(value)
    {
        response.extensions_mut().insert(SentStatus(Arc::new(status)));
    }
    response
}

/// A document that is encoded already.
pub fn object(code: StatusCode, body: Body, accepted: Accepted) -> Response {
    let mut response = bytes(code, content_type(accepted), body);
    response.extensions_mut().insert(Shown::Body(accepted));
    response
}

/// A document that is none of the API's for those who record what is answered.
pub fn unrecorded(mut response: Response) -> Response {
    response.extensions_mut().remove::<Shown>();
    response
}

/// A value in the encoding that was agreed on.
pub fn encode(value: &Value, accepted: Accepted) -> Vec<u8> {
    match accepted.media {
        Media::Json if accepted.pretty => json::encode_document_pretty(value), // upstream ends only compact text with a line feed
        Media::Json => {
            let mut out = json::encode_document(value);
            out.push(b'\n');
            out
        }
        Media::Yaml => yaml::encode(value),
        Media::Cbor => cbor::encode(value),
        // What has no message (upstream has one for everything it offers protobuf for) still reaches the client.
        Media::Protobuf => protobuf::encode(value).unwrap_or_else(|_| json::encode_document(value)),
    }
}

/// All warnings together may have so many characters; if they have more, each is cut to so many.
const MAX_WARNINGS: usize = 4 * 1024;
const MAX_CUT_WARNING: usize = 256;

/// Adds Warning headers (RFC 7234, code 299), each text once. What is empty or has control characters is not sent.
pub fn add_warnings(mut response: Response, warnings: &[String]) -> Response {
    if warnings.is_empty() {
        return response;
    }
    let mut seen = HashSet::new();
    let fits = |text: &&String| !text.is_empty() && !text.contains(char::is_control);
    let texts: Vec<&String> = warnings.iter().filter(fits).filter(|text| seen.insert(text.as_str())).collect();
    let length: usize = texts.iter().map(|text| text.chars().count()).sum();
    let cut = if length > MAX_WARNINGS { MAX_CUT_WARNING } else { usize::MAX };
    let mut sent = 0;
    for text in texts {
        if sent >= MAX_WARNINGS && cut < usize::MAX {
            break;
        }
        let mut header = String::from("299 - \"");
        for c in text.chars().take(cut) {
            if matches!(c, '"' | '\\') {
                header.push('\\');
            }
            header.push(c);
            sent += 1;
        }
        header.push('"');
        if let Ok(value) = HeaderValue::from_bytes(header.as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// The encoding in which the client would like to hear of errors, which have no other form: clauses that ask for one are
/// passed over. Where none is left it is indented JSON.
pub fn wanted(request: &Request) -> Accepted {
    or_indented(negotiated(request))
}

/// The same; `None` where no clause is left.
pub(crate) fn negotiated(request: &Request) -> Option<Accepted> {
    negotiated_of(request, Offer::PLAIN)
}

/// The same of errors that are told before it is known what serves the request: those have no CBOR.
pub(crate) fn negotiated_early(request: &Request) -> Option<Accepted> {
    negotiated_of(request, Offer::WITHOUT_CBOR)
}

fn negotiated_of(request: &Request, offer: Offer) -> Option<Accepted> {
    let accept = request.header("accept");
    let offer = offered(request, accept, &offer);
    negotiate(accept, request.query.get("pretty"), request.header("user-agent"), &offer)
}

/// What is offered to the request. CBOR is only had by its name, so that nobody else need be asked whether it is there.
fn offered(request: &Request, accept: Option<&str>, offer: &Offer) -> Offer {
    let is_named = offer.cbor && accept.is_some_and(|accept| accept.contains("cbor"));
    if is_named { offer.to(&request.extensions) } else { Offer { cbor: false, ..*offer } }
}

/// What was negotiated, or else indented JSON.
pub(crate) fn or_indented(negotiated: Option<Accepted>) -> Accepted {
    negotiated.unwrap_or(Accepted { pretty: true, ..Accepted::JSON })
}

/// The Content-Type of what was agreed on.
pub fn content_type(accepted: Accepted) -> &'static str {
    match (accepted.media, accepted.form) {
        (Media::Json, Form::Aggregated) => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        (Media::Protobuf, Form::Aggregated) => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        (media, _) => media.name(),
    }
}

/// What the client accepts of an offer, or the 406 that says what there is.
pub fn accepted(request: &Request, whole: &Offer) -> Result<Accepted, Status> {
    let accept = request.header("accept");
    let may_stream = request.info.is_resource && matches!(request.info.verb, Verb::List | Verb::Watch);
    let offer = &offered(request, accept, whole);
    let named = accept.unwrap_or("");
    let routed = !offer.routed || offer.has_media(named) || (may_stream && offer.has_sequence(named));
    let agreed =
        routed.then(|| negotiate(accept, request.query.get("pretty"), request.header("user-agent"), offer)).flatten();
    agreed.ok_or_else(|| not_acceptable(&whole.to(&request.extensions), may_stream, routed))
}

/// The 406: upstream's router answers it when no media type fits at all, its negotiation when only the parameters do not.
fn not_acceptable(offer: &Offer, may_stream: bool, routed: bool) -> Status {
    if routed {
        return offer.not_acceptable();
    }
    let mut names: Vec<&str> = offer.media().map(Media::name).collect();
    if may_stream {
        names.extend(offer.media().filter_map(Media::stream_name));
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {}", names.join(", "));
    Status::new(406, "NotAcceptable", text).with_details(Details::default())
}

/// Whether upstream's router says so, which knows no CBOR: its details say nothing.
fn is_of_router(status: &Status) -> bool {
    matches!(status.code, 404 | 405 | 406 | 415) && status.details.as_deref() == Some(&Details::default())
}

/// An error, in the encoding that the client would have had the answer in.
pub fn error(status: &Status, wanted: Accepted) -> Response {
    let wanted = match wanted.media {
        Media::Cbor if is_of_router(status) => or_indented(None),
        _ => Accepted { form: Form::Whole, ..wanted },
    };
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let value = status.to_value();
    let mut response = bytes(code, content_type(wanted), Body::full(encode(&value, wanted)));
    response.extensions_mut().insert(SentStatus(Arc::new(status.clone())));
    if let Some(seconds) = status.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// An error that a step before the handlers has ended the request with. Who may not do this is told so in a form that no browser
/// takes for another.
pub(crate) fn refusal(status: &Status, wanted: Accepted) -> Response {
    let mut response = error(status, wanted);
    if response.status() == StatusCode::FORBIDDEN {
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}
