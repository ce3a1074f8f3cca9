//! The body of a list: pieces made of one object after the other as the client takes them, so that a list of any size
//! costs its index and one piece.
//!
//! What can be wrong is found before the header is sent: the first pieces are made then, and objects whose text has not
//! been parsed before are parsed once. Only a webhook that fails to convert what comes after the first megabytes cuts a
//! list short.

use std::{sync::Arc, vec};

use bytes::{Buf, Bytes};
use futures_util::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use http::StatusCode;
use machinery::{
    Map, Value,
    codec::{cbor, json, protobuf, yaml},
    meta::{status::Status, time},
    object,
};
use storage::cache::{FormId, Object};

use super::{ListMeta, View, decode, meta_version};
use crate::{
    body::{Body, BodyError},
    negotiate::{Form, Media},
    offload,
    recorded::{Shown, managed_fields},
    registry::{Lister, VersionForm},
    response::{self, Response, encode},
};

/// The size of a piece, give or take an object.
const PIECE: usize = 32 << 10;
/// So much is made before the header is sent. Beyond this a list is large enough to be compressed.
const AHEAD: usize = 128 << 10;
/// So much of what others convert is had before the header is sent.
const CONVERTED_AHEAD: usize = 4 << 20;
/// Encoded objects are kept beside them for lists whose objects are no larger together: a page, not everything.
const KEPT: usize = 4 << 20;
/// So many objects are looked at before others have their turn.
const TURN: usize = 64;

/// Of the numbers noted of an object: 1 if its text is known to be JSON, or the size of its message.
const NOTE_WHOLE: usize = 0;
const SOUND: u32 = 1;
/// The size of its metadata's message.
const NOTE_METADATA: usize = 1;

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

/// A list without its items.
struct Layout {
    /// The other members, in order.
    members: Vec<(&'static str, Value)>,
    /// So many of them stand before the items.
    before: usize,
    /// The member that holds the items.
    items: &'static str,
    /// What an empty list has there.
    none: Value,
}

impl Layout {
    fn of(view: &View, meta: &ListMeta) -> Self {
        let none = Value::from(Vec::<Value>::new());
        let (kind, api_version, items, none) = match view.accepted.form {
            Form::MetadataList { beta } => {
                (Value::from("PartialObjectMetadataList"), Value::from(meta_version(beta)), "items", Value::Null)
            }
            Form::Table { beta } => {
                let none = if view.printer.has_no_rows() { Value::Null } else { none };
                (Value::from("Table"), Value::from(meta_version(beta)), "rows", none)
            }
            _ => {
                let row = &view.entry.row;
                (Value::from(&row.list_kind), Value::from(row.api_version()), "items", none)
            }
        };
        let mut members = vec![("kind", kind), ("apiVersion", api_version), ("metadata", view.list_meta(meta))];
        if items == "rows" {
            members.push(("columnDefinitions", view.column_definitions()));
        }
        if !view.entry.row.built_in && items == "items" && matches!(view.accepted.form, Form::Whole | Form::Aggregated)
        {
            members.swap(0, 1); // Go writes a map: apiVersion, items, kind, metadata
            return Layout { members, before: 1, items, none };
        }
        Layout { before: members.len(), members, items, none }
    }

    fn value(&self) -> Value {
        let mut value = Value::object();
        let object = value.make_object();
        for (name, member) in &self.members {
            object.insert(*name, member.clone());
        }
        object.insert(self.items, self.none.clone());
        value
    }

    fn empty(&self, view: &View) -> Vec<u8> {
        if view.accepted.media != Media::Json {
            return encode(&self.value(), view.accepted);
        }
        let (mut text, tail) = self.json(view.accepted.pretty);
        json::encode_into(&mut text, &self.none);
        text.extend(tail);
        text
    }

    /// What stands before the items and behind them, in text.
    fn texts(&self, view: &View) -> (Vec<u8>, Vec<u8>) {
        match (view.accepted.media, view.accepted.pretty) {
            (Media::Yaml, _) => self.yaml(),
            (_, pretty) => {
                let (mut head, mut tail) = self.json(pretty);
                head.push(b'[');
                tail.splice(0..0, if pretty { b"\n  ]".iter().copied() } else { b"]".iter().copied() });
                (head, tail)
            }
        }
    }

    /// What stands before and behind the list of items. Only compact text ends with a line feed.
    fn json(&self, pretty: bool) -> (Vec<u8>, Vec<u8>) {
        let (colon, comma, end): (&[u8], &[u8], &[u8]) =
            if pretty { (b": ", b",\n  ", b"\n}") } else { (b":", b",", b"}\n") };
        let member = |out: &mut Vec<u8>, name: &str| {
            json::write_string(out, name);
            out.extend_from_slice(colon);
        };
        let whole = |out: &mut Vec<u8>, (name, value): &(&str, Value)| {
            member(out, name);
            let part = match *name {
                "columnDefinitions" => json::Part::Columns,
                _ if self.before == 1 => json::Part::Object,
                _ => json::Part::ListMeta,
            };
            json::encode_part_into(out, part, value, pretty.then_some(1));
        };
        let (before, behind) = self.members.split_at(self.before);
        let (mut head, mut tail) = (if pretty { b"{\n  ".to_vec() } else { b"{".to_vec() }, Vec::new());
        for entry in before {
            whole(&mut head, entry);
            head.extend_from_slice(comma);
        }
        member(&mut head, self.items);
        for entry in behind {
            tail.extend_from_slice(comma);
            whole(&mut tail, entry);
        }
        tail.extend_from_slice(end);
        (head, tail)
    }

    /// CBOR's members are sorted, too, and the items are counted before they come.
    fn cbor(&self, items: usize) -> (Vec<u8>, Vec<u8>) {
        let order = |name: &str| (name.len(), name.to_owned());
        let mut members: Vec<_> = self.members.iter().collect();
        members.sort_by_key(|(name, _)| order(name));
        let (mut head, mut tail) = (cbor::SELF_DESCRIBED.to_vec(), Vec::new());
        cbor::begin_map(&mut head, members.len() + 1);
        for (name, value) in members {
            let out = if order(name) < order(self.items) { &mut head } else { &mut tail };
            cbor::put_text(out, name);
            cbor::put(out, value, None);
        }
        cbor::put_text(&mut head, self.items);
        cbor::begin_array(&mut head, items);
        (head, tail)
    }

    /// YAML's members are sorted: some stand before the items, some behind them.
    fn yaml(&self) -> (Vec<u8>, Vec<u8>) {
        let part = |wanted: &dyn Fn(&str) -> bool| {
            let members = self.members.iter().filter(|(name, _)| wanted(name));
            let members: Vec<_> = members.map(|(name, value)| ((*name).into(), value.clone())).collect();
            if members.is_empty() { Vec::new() } else { yaml::encode(&Value::Object(Map::from_entries(members))) }
        };
        let mut head = part(&|name| name < self.items);
        head.extend_from_slice(self.items.as_bytes());
        head.extend_from_slice(b":\n");
        (head, part(&|name| name > self.items))
    }
}

/// An object on its way into a list.
enum Item {
    /// As it is in the cache.
    Cached(Arc<Object>),
    /// Its JSON in the version asked for.
    Json(Bytes),
    /// Its message.
    Message(Bytes),
}

impl Item {
    /// The bytes that it is made of.
    fn size(&self) -> usize {
        match self {
            Item::Cached(object) => object.bytes().len(),
            Item::Json(bytes) | Item::Message(bytes) => bytes.len(),
        }
    }
}

/// Where the items come from.
enum Source {
    Cached(vec::IntoIter<Arc<Object>>),
    /// What others convert: a batch, and more batches.
    Converted(vec::IntoIter<Bytes>, BoxStream<'static, Result<Vec<Bytes>, Status>>),
    Messages(vec::IntoIter<Bytes>),
}

impl Source {
    async fn of(view: &View, lister: &Arc<Lister>, objects: Vec<Arc<Object>>) -> Result<Self, Status> {
        let Some(version) = view.version.as_ref().filter(|version| version.is_remote()) else {
            return Ok(Source::Cached(objects.into_iter()));
        };
        let mut batches = lister.stream_in_version(version.clone(), objects);
        let (mut ahead, mut size) = (Vec::new(), 0);
        while size < CONVERTED_AHEAD {
            let Some(batch) = batches.try_next().await? else { break };
            size += batch.iter().map(Bytes::len).sum::<usize>();
            ahead.extend(batch);
        }
        Ok(Source::Converted(ahead.into_iter(), batches))
    }

    async fn next(&mut self) -> Result<Option<Item>, Status> {
        Ok(match self {
            Source::Cached(objects) => objects.next().map(Item::Cached),
            Source::Messages(messages) => messages.next().map(Item::Message),
            Source::Converted(batch, more) => loop {
                if let Some(json) = batch.next() {
                    break Some(Item::Json(json));
                }
                match more.try_next().await? {
                    Some(next) => *batch = next.into_iter(),
                    None => break None,
                }
            },
        })
    }
}

/// Writes items in the form that was agreed on.
struct Writer {
    view: View,
    lister: Arc<Lister>,
    /// Whether other forms of the objects are kept beside them.
    keep: bool,
    /// What ages in tables are counted from, in seconds.
    now: i64,
}

impl Writer {
    /// Appends an item.
    fn write(&self, item: &Item, first: bool, out: &mut Vec<u8>) -> Result<(), Status> {
        let (accepted, built_in) = (self.view.accepted, self.view.entry.row.built_in);
        if accepted.media == Media::Protobuf {
            protobuf::put_item(out, &self.message(item)?);
            return Ok(());
        }
        let json = self.json(item)?;
        if accepted.media == Media::Yaml {
            out.extend(yaml::encode(&Value::from(vec![self.value(&json)?])));
            return Ok(());
        }
        if accepted.media == Media::Cbor {
            let whole = built_in && matches!(accepted.form, Form::Whole | Form::Aggregated);
            cbor::put(out, &self.value(&json)?, whole.then(|| &*self.view.entry.row.schema));
            return Ok(());
        }
        if !first {
            out.push(b',');
        }
        match accepted.form {
            _ if accepted.pretty => {
                out.extend_from_slice(b"\n    ");
                json::encode_part_into(out, part_of(accepted.form), &self.value(&json)?, Some(2));
            }
            Form::Whole | Form::Aggregated if built_in => {
                let skip = self.view.version.as_ref().map_or(self.lister.head_len(), VersionForm::head_len);
                out.push(b'{');
                out.extend_from_slice(json.get(skip..).unwrap_or_default());
            }
            Form::Whole | Form::Aggregated => out.extend_from_slice(&json),
            Form::MetadataList { beta } | Form::Metadata { beta } => {
                out.extend_from_slice(&self.view.metadata_document(&json, beta)?);
            }
            Form::Table { .. } => json::encode_part_into(out, json::Part::Row, &self.value(&json)?, None),
        }
        Ok(())
    }

    /// Whether a text is made by way of a tree.
    fn parses(&self) -> bool {
        let accepted = self.view.accepted;
        let made = accepted.pretty || matches!(accepted.media, Media::Yaml | Media::Cbor);
        let text = accepted.media != Media::Protobuf;
        text && (made || self.view.version.is_some() || matches!(accepted.form, Form::Table { .. }))
    }

    /// The JSON of an object in the version asked for.
    fn json(&self, item: &Item) -> Result<Bytes, Status> {
        match item {
            Item::Json(json) | Item::Message(json) => Ok(json.clone()),
            Item::Cached(object) => match &self.view.version {
                Some(version) => self.lister.by_rule_in_version(version, object, self.keep),
                None => Ok(object.bytes().clone()),
            },
        }
    }

    /// The tree of an item of a text.
    fn value(&self, json: &Bytes) -> Result<Value, Status> {
        match self.view.accepted.form {
            Form::Table { .. } => Ok(self.view.table_row(&decode(json)?, self.now)),
            Form::MetadataList { beta } | Form::Metadata { beta } => decode(&self.view.metadata_document(json, beta)?),
            Form::Whole | Form::Aggregated => {
                let mut value = decode(json)?;
                if self.view.entry.row.built_in {
                    let object = value.make_object();
                    object.remove("kind");
                    object.remove("apiVersion");
                }
                Ok(value)
            }
        }
    }

    /// The message of an item: as it is kept beside the object, or made.
    fn message(&self, item: &Item) -> Result<Bytes, Status> {
        let object = match item {
            Item::Message(message) => return Ok(message.clone()),
            Item::Json(json) => return self.make_message(json).map(Bytes::from),
            Item::Cached(object) => object,
        };
        let Some(form) = self.view.item_form() else { return self.make_message(&self.json(item)?).map(Bytes::from) };
        let cache = self.lister.cache();
        let kept = match cache.kept_form(object, form) {
            Some(kept) => kept,
            None if self.keep => cache.form(object, form, |_| self.view.encode_one(&self.json(item)?, true))?,
            None => return self.make_message(&self.json(item)?).map(Bytes::from),
        };
        let message = protobuf::envelope(&kept).map_err(Status::internal_error)?.raw;
        Ok(kept.slice_ref(message))
    }

    fn make_message(&self, json: &Bytes) -> Result<Vec<u8>, Status> {
        let value = match self.view.accepted.form {
            Form::MetadataList { beta } | Form::Metadata { beta } => decode(&self.view.metadata_document(json, beta)?)?,
            _ => decode(json)?,
        };
        protobuf::message_of(&value).map_err(Status::internal_error)
    }

    /// The size of a cached object's message: once known it is noted, for it does not change.
    fn message_len(&self, object: &Arc<Object>) -> Result<usize, Status> {
        let whole = matches!(self.view.accepted.form, Form::Whole | Form::Aggregated);
        let which = if whole { NOTE_WHOLE } else { NOTE_METADATA };
        let stored = self.view.is_stored();
        match object.note(which) {
            len if stored && len > SOUND => return Ok(len as usize),
            _ => {}
        }
        let len = self.message(&Item::Cached(object.clone()))?.len();
        if stored && let Ok(len) = u32::try_from(len) {
            object.set_note(which, len);
        }
        Ok(len)
    }
}

/// A list that is being written.
struct Pieces {
    writer: Writer,
    source: Source,
    /// What is sent before the next item.
    head: Vec<u8>,
    /// What is sent behind the last one; `None` once it was.
    tail: Option<Vec<u8>>,
    /// Whether an item was written.
    begun: bool,
    /// All bytes, if they can be counted before they are made.
    length: Option<u64>,
}

impl Pieces {
    /// A list of messages begins with its length: each object is measured, once in its life.
    async fn of_messages(writer: Writer, source: Source, layout: &Layout) -> Result<Self, Status> {
        let (mut size, source) = (0, source);
        let source = match source {
            Source::Cached(objects) => {
                let mut pace = Pace::default();
                for object in objects.as_slice() {
                    let held = object.bytes().len();
                    let message = offload::sized(offload::SHOWN, held, || writer.message_len(object)).await??;
                    size += protobuf::item_len(message);
                    pace.after(held).await;
                }
                Source::Cached(objects)
            }
            // What others convert cannot be had twice. It is metadata alone: custom resources have no messages.
            mut converted => {
                let mut messages = Vec::new();
                let mut pace = Pace::default();
                while let Some(item) = converted.next().await? {
                    let message = writer.message(&item)?;
                    size += protobuf::item_len(message.len());
                    pace.after(message.len()).await;
                    messages.push(message);
                }
                Source::Messages(messages.into_iter())
            }
        };
        let list = layout.value();
        let (head, tail) = protobuf::list_frame(&list, size).map_err(Status::internal_error)?;
        let length = Some((head.len() + size + tail.len()) as u64);
        Ok(Pieces { writer, source, head, tail: Some(tail), begun: false, length })
    }

    /// The next piece.
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        if self.tail.is_none() {
            return Ok(None);
        }
        let mut piece = std::mem::take(&mut self.head);
        piece.reserve(PIECE + PIECE / 4);
        while piece.len() < PIECE {
            match self.source.next().await? {
                Some(item) => {
                    let (size, writer, first) = (item.size(), &self.writer, !self.begun);
                    offload::sized(offload::SHOWN, size, || writer.write(&item, first, &mut piece)).await??;
                }
                None => {
                    piece.extend(self.tail.take().unwrap_or_default());
                    break;
                }
            }
            self.begun = true;
        }
        Ok(Some(piece.into()))
    }

    /// The first pieces, their size, and whether they are all.
    async fn ahead(&mut self) -> Result<(Vec<Bytes>, u64, bool), Status> {
        let (mut made, mut size) = (Vec::new(), 0);
        while size <= AHEAD {
            let Some(piece) = self.next().await? else { return Ok((made, size as u64, true)) };
            size += piece.len();
            made.push(piece);
            tokio::task::yield_now().await;
        }
        Ok((made, size as u64, self.tail.is_none()))
    }

    /// Finds what would cut the rest short: text that cannot be parsed, though its metadata could be read.
    async fn check_rest(&mut self) -> Result<(), Status> {
        let Source::Cached(objects) = &self.source else { return Ok(()) };
        if !self.writer.parses() {
            return Ok(());
        }
        let mut pace = Pace::default();
        for object in objects.as_slice() {
            if object.note(NOTE_WHOLE) == 0 {
                let size = object.bytes().len();
                offload::sized(offload::SHOWN, size, || decode(object.bytes()).map(drop)).await??;
                object.set_note(NOTE_WHOLE, SOUND);
                pace.after(size).await;
            }
        }
        Ok(())
    }

    /// The rest, a piece at each poll; others have their turn in between.
    fn into_stream(self) -> impl futures_util::Stream<Item = Result<Bytes, BodyError>> + Send {
        stream::try_unfold(self, |mut pieces| async move {
            tokio::task::yield_now().await;
            match pieces.next().await {
                Ok(piece) => Ok(piece.map(|piece| (piece, pieces))),
                Err(status) => {
                    let resource = pieces.writer.lister.group_resource();
                    tracing::warn!(%resource, error = status.message, "a list was cut short");
                    Err(BodyError::from(status.message))
                }
            }
        })
    }
}

impl View {
    /// The kept form that has the message of a list's item: that of a single object.
    fn item_form(&self) -> Option<FormId> {
        let form = match self.accepted.form {
            Form::MetadataList { beta } => Form::Metadata { beta },
            form => form,
        };
        self.form_id_of(form)
    }
}

/// What an item of a list is, for its members' order.
fn part_of(form: Form) -> json::Part {
    match form {
        Form::Table { .. } => json::Part::Row,
        Form::MetadataList { .. } | Form::Metadata { .. } => json::Part::Metadata,
        Form::Whole | Form::Aggregated => json::Part::Object,
    }
}

/// What was looked at since others had their turn.
#[derive(Default)]
struct Pace {
    objects: usize,
    bytes: usize,
}

impl Pace {
    /// Lets others have their turn, if this object was enough.
    async fn after(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes += bytes;
        if self.objects >= TURN || self.bytes > offload::INLINE {
            *self = Pace::default();
            tokio::task::yield_now().await;
        }
    }
}
