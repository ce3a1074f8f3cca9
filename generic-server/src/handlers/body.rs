//! Reading bodies, and documents in them.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use machinery::{
    Value,
    codec::{cbor, json},
    meta::{GvkRef, status::Status},
};

use super::patch::PatchType;
use crate::options::FieldValidation;
use crate::{
    decode::{Expected, NO_SCALE, decode_object, report},
    negotiate::Media,
    request::{Request, RequestBody},
    resource::Resource,
};

/// The largest body that a write may have, in bytes.
pub(super) const LIMIT: usize = 3 << 20;

/// A body that was read before anybody asked for it.
#[derive(Clone)]
struct ReadAhead(Result<Bytes, Status>);

/// Whether the body may be longer than `most` bytes.
pub(super) fn may_exceed(request: &Request, most: usize) -> bool {
    let size = request.body.as_ref().map(|body| (body.is_end_stream(), body.size_hint().upper()));
    size.is_some_and(|(ended, upper)| !ended && upper.is_none_or(|upper| upper > most as u64))
}

/// Reads the body now. What comes of it is told to whoever asks.
pub(super) async fn read_ahead(request: &mut Request) {
    let body = receive(request).await;
    request.extensions.insert(ReadAhead(body));
}

/// How many values the body holds that was read ahead, roughly: of texts what separates them is counted; a message may
/// have one in few bytes, and CBOR a name and one in two.
pub(super) fn values_ahead(request: &Request) -> usize {
    match request.extensions.get() {
        Some(ReadAhead(Ok(bytes))) => {
            let is_cbor = request.header("content-type").is_some_and(|media| media.contains("cbor"));
            if is_cbor { bytes.len() / 2 } else { values(bytes) }
        }
        _ => 0,
    }
}

fn values(document: &[u8]) -> usize {
    const OF_A_MESSAGE: usize = 8;
    match document.starts_with(b"k8s\0") {
        true => document.len() / OF_A_MESSAGE,
        false => document.iter().filter(|byte| matches!(byte, b',' | b'\n')).count(),
    }
}

/// The whole body, up to the limit.
pub async fn read_body(request: &mut Request) -> Result<Bytes, Status> {
    match request.extensions.remove() {
        Some(ReadAhead(body)) => body,
        None => receive(request).await,
    }
    .inspect(|body| traces::event("limitedReadBody succeeded", |a| a.int("len", body.len())))
}

async fn receive(request: &mut Request) -> Result<Bytes, Status> {
    let Some(mut body) = request.body.take() else { return Ok(Bytes::new()) };
    let too_large = || Status::request_entity_too_large(format!("limit is {LIMIT}"));
    let announced = request.header("content-length").and_then(|l| l.parse::<usize>().ok()).unwrap_or(0);
    if announced > LIMIT {
        drain(&mut body).await;
        return Err(too_large());
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Status::bad_request(format!("error reading the body: {e}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > LIMIT {
            drain(&mut body).await;
            return Err(too_large());
        }
        if first.is_empty() {
            first = data; // small bodies come in one piece and are not copied
        } else {
            if rest.is_empty() {
                rest.reserve(announced.clamp(first.len() + data.len(), LIMIT));
                rest.extend_from_slice(&first);
                first = Bytes::from_static(b" ");
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Reads on for a while without keeping anything: a client that is still sending would not hear the answer.
async fn drain(body: &mut RequestBody) {
    let mut left = 8 * LIMIT;
    while let Some(Ok(frame)) = body.frame().await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

/// Has a patch recorded, as JSON if it came in CBOR.
pub(super) fn record_patch(request: &Request, bytes: &Bytes, kind: PatchType) {
    if kind.applied() != Some(Media::Cbor) {
        request.audit.patch(bytes);
    } else if request.audit.is_on()
        && let Ok(config) = cbor::decode(bytes)
    {
        request.audit.patch(&json::encode(&config).into());
    }
}

/// The encoding of a request's body.
pub(super) fn media_of(request: &Request) -> Result<Media, Status> {
    let readable = Media::readable(&request.extensions);
    Media::of_content_type(request.header("content-type"), readable)
        .ok_or_else(|| Status::unsupported_media_type(&readable.iter().map(|m| m.name()).collect::<Vec<_>>()))
}

/// The document in a request's body, as the row's type: decoded, checked for unknown fields, defaulted.
pub async fn read_object(
    request: &mut Request,
    row: &Resource,
    kind: GvkRef<'_>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let media = media_of(request)?;
    let bytes = read_body(request).await?;
    // The scale of a custom resource is no type of its server, which finds no other words for what is wrong with it.
    let refused = |status| if row.built_in || kind.kind == row.kind { status } else { Status::bad_request(NO_SCALE) };
    let (value, problems) = decode_object(&bytes, media, row, kind, validation).map_err(refused)?;
    report(&Expected { gvk: kind, row }, validation, problems, warnings).map_err(refused)?;
    request.audit.object(&value);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_documents_may_hold_many_values() {
        assert_eq!(values(b"{\"a\":[{},{},{}],\"b\":1}"), 3);
        assert_eq!(values(b"a:\n- {}\n- {}\n"), 3);
        assert_eq!(values(&[b"k8s\0".as_slice(), &[0; 60]].concat()), 8);
    }
}
