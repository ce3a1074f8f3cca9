//! A list that is being written: a piece at a time, as its client takes it.

use bytes::Bytes;
use futures_util::stream;
use machinery::{codec::protobuf, meta::status::Status};

use super::{
    super::decode,
    items::Source,
    layout::Layout,
    writer::{NOTE_WHOLE, SOUND, Writer},
};
use crate::{body::BodyError, offload};

/// The size of a piece, give or take an object.
const PIECE: usize = 32 << 10;
/// So much is made before the header is sent. Beyond this a list is large enough to be compressed.
const AHEAD: usize = 128 << 10;
/// So many objects are looked at before others have their turn.
const TURN: usize = 64;

/// A list that is being written.
pub(super) struct Pieces {
    pub(super) writer: Writer,
    pub(super) source: Source,
    /// What is sent before the next item.
    pub(super) head: Vec<u8>,
    /// What is sent behind the last one; `None` once it was.
    pub(super) tail: Option<Vec<u8>>,
    /// Whether an item was written.
    pub(super) begun: bool,
    /// All bytes, if they can be counted before they are made.
    pub(super) length: Option<u64>,
}

impl Pieces {
    /// A list of messages begins with its length: each object is measured, once in its life.
    pub(super) async fn of_messages(writer: Writer, source: Source, layout: &Layout) -> Result<Self, Status> {
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
    pub(super) async fn ahead(&mut self) -> Result<(Vec<Bytes>, u64, bool), Status> {
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
    pub(super) async fn check_rest(&mut self) -> Result<(), Status> {
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
    pub(super) fn into_stream(self) -> impl futures_util::Stream<Item = Result<Bytes, BodyError>> + Send {
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
