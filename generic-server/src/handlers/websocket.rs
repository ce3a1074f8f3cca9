//! Watches over WebSockets: each event is a message.

use bytes::{Buf as _, Bytes};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use machinery::meta::{go_url::GoUrl, status::Status};
use streaming::{
    reader::{self, Encoding, Pieces},
    websocket::{Handshake, Refusal, asked_protocols},
};

use crate::{body::Body, negotiate::Media, proxy::upgrade::switch, request::Request, response::Response};

/// Sends the events of a watch, each a piece of the body, as messages: text where they are JSON, and else binary.
pub(super) fn watch(request: &mut Request, events: Body, media: Media) -> Result<Response, Status> {
    let handshake = match handshake(request) {
        Ok(handshake) => handshake,
        Err(refusal) => return Ok(refused(&refusal)),
    };
    let protocol = asked_protocols(&request.headers).next().map(str::to_owned);
    let encoding = if media == Media::Json { Encoding::Text } else { Encoding::Binary };
    // A message needs no length before it.
    let skipped = if media == Media::Protobuf { LENGTH } else { 0 };
    let events = Events { body: events, skipped };
    switch(request, handshake.answer(protocol.as_deref()), move |client| reader::messages(client, encoding, events))
}

/// How long the length is that stands before a message of protobuf in a stream.
const LENGTH: usize = 4;

/// Watches are for browsers: they say where they come from. And who agrees on a protocol names one alone.
fn handshake(request: &Request) -> Result<Handshake, Refusal> {
    let handshake = Handshake::read(&request.method, &request.headers)?;
    let refuse = |status| Err(Refusal { status, text: "" });
    if request.header(header::ORIGIN.as_str()).is_none_or(|origin| GoUrl::parse_request_uri(origin).is_err()) {
        return refuse(StatusCode::FORBIDDEN);
    }
    if asked_protocols(&request.headers).count() > 1 {
        return refuse(StatusCode::BAD_REQUEST);
    }
    Ok(handshake)
}

fn refused(refusal: &Refusal) -> Response {
    let mut response = Response::new(Body::full(refusal.text));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if refusal.text.ends_with("WebSocket Version") {
        headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    }
    response
}

/// The events of a body.
struct Events {
    body: Body,
    /// So many bytes of each are not sent.
    skipped: usize,
}

impl Pieces for Events {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Ok(mut event) = self.body.frame().await?.ok()?.into_data() {
                event.advance(self.skipped.min(event.len()));
                return Some(event);
            }
        }
    }
}
