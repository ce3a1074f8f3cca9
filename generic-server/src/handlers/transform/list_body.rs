//! The body of a list: pieces made of one object after the other as the client takes them, so that a list of any size
//! costs its index and one piece.
//!
//! What can be wrong is found before the header is sent: the first pieces are made then, and objects whose text has not
//! been parsed before are parsed once. Only a webhook that fails to convert what comes after the first megabytes cuts a
//! list short.

mod items;
mod layout;
mod pieces;
mod writer;

use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::{StreamExt, stream};
use http::StatusCode;
use machinery::{
    Value,
    meta::{status::Status, time},
    object,
};
use storage::cache::Object;

use self::{items::Source, layout::Layout, pieces::Pieces, writer::Writer};
use super::{ListMeta, View};
use crate::{
    body::Body,
    negotiate::{Form, Media},
    recorded::{Shown, managed_fields},
    registry::Lister,
    response::{self, Response},
};

/// Encoded objects are kept beside them for lists whose objects are no larger together: a page, not everything.
const KEPT: usize = 4 << 20;

impl View {
    /// A list of cached objects.
    pub async fn list(
        self,
        lister: &Arc<Lister>,
        mut objects: Vec<Arc<Object>>,
        meta: &ListMeta,
    ) -> Result<Response, Status> {
        self.check_list()?;
        if self.is_raw() && self.is_stored() {
            let recorded = self.pieces_to_record(lister, &objects, meta);
            let mut response = self.raw_list(lister, objects, meta);
            if let Some(shown) = recorded {
                response.extensions_mut().insert(shown);
            }
            return Ok(response);
        }
        if let (Form::Table { .. }, Some(rank)) = (self.accepted.form, self.printer.rank()) {
            objects.sort_by_cached_key(|object| rank(object.bytes()));
        }
        let layout = Layout::of(&self, meta);
        let count = objects.len();
        if objects.is_empty() {
            return Ok(self.respond(StatusCode::OK, Body::full(layout.empty(&self))));
        }
        let recorded = self.pieces_to_record(lister, &objects, meta);
        let keep = objects.iter().map(|object| object.bytes().len()).sum::<usize>() <= KEPT;
        let source = Source::of(&self, lister, objects).await?;
        let writer = Writer { now: time::Timestamp::now().seconds(), lister: lister.clone(), view: self, keep };
        let mut pieces = match writer.view.media() {
            Media::Protobuf => Pieces::of_messages(writer, source, &layout).await?,
            media => {
                let (head, tail) = match media {
                    Media::Cbor => layout.cbor(count),
                    _ => layout.texts(&writer.view),
                };
                Pieces { writer, source, head, tail: Some(tail), begun: false, length: None }
            }
        };
        let (made, size, whole) = pieces.ahead().await?;
        let media = pieces.writer.view.media();
        let body = if whole {
            Body::chunks(made, Some(size))
        } else {
            pieces.check_rest().await?;
            let length = pieces.length;
            let rest = pieces.into_stream();
            Body::large(stream::iter(made.into_iter().map(Ok)).chain(rest), length, size)
        };
        let mut response = response::bytes(StatusCode::OK, media.name(), body);
        if let Some(shown) = recorded {
            response.extensions_mut().insert(shown);
        }
        Ok(response)
    }

    /// What is recorded of a list, if that is wanted: the shared bytes of its objects, or what is sent.
    fn pieces_to_record(&self, lister: &Lister, objects: &[Arc<Object>], meta: &ListMeta) -> Option<Shown> {
        if !self.audit.wants_response() {
            return None;
        }
        if !self.is_stored() || !matches!(self.accepted.form, Form::Whole | Form::Aggregated) {
            return Some(Shown::Body(self.accepted));
        }
        let (mut head, mut tail) = Layout::of(self, meta).json(false);
        head.push(b'[');
        tail.insert(0, b']');
        let skip = if self.entry.row.built_in { lister.head_len() } else { 0 };
        let (first, more): (&'static [u8], &'static [u8]) = if skip > 0 { (b"{", b",{") } else { (b"", b",") };
        let lean = self.audit.omits_managed_fields();
        let mut pieces = vec![Bytes::from(head)];
        for (i, object) in objects.iter().enumerate() {
            pieces.push(Bytes::from_static(if i == 0 { first } else { more }));
            let whole = object.bytes();
            match lean.then(|| managed_fields::cut(whole)).flatten() {
                Some((mut before, behind)) => {
                    before.advance(skip);
                    pieces.extend([before, behind]);
                }
                None => pieces.push(whole.slice(skip..)),
            }
        }
        pieces.push(tail.into());
        Some(Shown::Json { pieces, is_lean: lean })
    }

    /// A list from shared bytes: head, item, comma, item, …, tail. Nothing is decoded or copied.
    fn raw_list(&self, lister: &Lister, objects: Vec<Arc<Object>>, meta: &ListMeta) -> Response {
        let (head, tail) = Layout::of(self, meta).texts(self);
        // Built-in items carry no kind and apiVersion: what follows their common head is sent behind a brace.
        let skip = if self.entry.row.built_in { lister.head_len() } else { 0 };
        let (first, more): (&'static [u8], &'static [u8]) = if skip > 0 { (b"{", b",{") } else { (b"", b",") };
        let separators =
            objects.len().saturating_sub(1) * more.len() + if objects.is_empty() { 0 } else { first.len() };
        let items: usize = objects.iter().map(|object| object.bytes().len() - skip).sum();
        let length = (head.len() + separators + items + tail.len()) as u64;
        let pieces = objects.into_iter().enumerate().flat_map(move |(i, object)| {
            let separator = Bytes::from_static(if i == 0 { first } else { more });
            let mut bytes = object.bytes().clone();
            bytes.advance(skip);
            [separator, bytes]
        });
        let chunks = std::iter::once(Bytes::from(head)).chain(pieces).chain(std::iter::once(tail.into()));
        self.respond(StatusCode::OK, Body::chunks(chunks, Some(length)))
    }

    fn list_meta(&self, meta: &ListMeta) -> Value {
        let mut value = object! { "resourceVersion" => meta.revision.to_string() };
        let object = value.make_object();
        // Custom resources' lists always carry the member.
        let whole = matches!(self.accepted.form, Form::Whole | Form::Aggregated);
        if !meta.continuation.is_empty() || (whole && !self.entry.row.built_in) {
            object.insert("continue", meta.continuation.as_str());
        }
        if let Some(remaining) = meta.remaining {
            object.insert("remainingItemCount", remaining as i64);
        }
        if let Some(shard) = &meta.shard {
            object.insert("shardInfo", object! { "selector" => shard.as_str() });
        }
        value
    }
}
