//! The response body: whole, in chunks made as the client takes them, or a stream without an end.

mod expiring;
mod gzip;
mod piece;

use std::{
    any::Any,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

pub use piece::{Piece, PieceWriter};

use crate::usage::InUse;

/// What ends a body early: the connection (HTTP/1.1) or the stream (HTTP/2) is reset, for the status line is long gone.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Small pieces are joined up to this size, so that a list of a thousand small objects is a few frames and TLS records.
const JOIN_UP_TO: usize = 32 * 1024;
/// Pieces of this size or more go out as they are: copying them would cost more than their own frame.
const SEND_ALONE: usize = 8 * 1024;

const LINE_FEED: Bytes = Bytes::from_static(b"\n");

/// A response body.
///
/// Nothing is produced before the connection asks for it, so flow control reaches the producer.
#[derive(Default)]
pub struct Body {
    kind: Kind,
    /// The connection is in use as long as the body is there.
    _in_use: Option<InUse>,
    /// What its request keeps until the body has been sent.
    _kept: Option<Box<dyn Any + Send>>,
    /// Who is told if the body ends with an error.
    cut_short: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    /// Bytes, and a line feed behind them.
    Line(Bytes),
    Pieces(Joined),
    Kept(Vec<Arc<Piece>>, u64),
    Gzip(Box<gzip::Gzip>),
    Other(Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError> + Send>>),
}

impl Kind {
    fn of_chunks<const N: usize>(chunks: [Bytes; N]) -> Self {
        let length = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Kind::Pieces(Joined::new(Source::Chunks(Box::new(chunks.into_iter())), Some(length)))
    }
}

impl Body {
    fn of(kind: Kind) -> Self {
        Self { kind, _in_use: None, _kept: None, cut_short: None }
    }

    /// Keeps a connection in use until the body is taken whole, or given up.
    #[must_use]
    pub(crate) fn used_by(self, in_use: InUse) -> Self {
        Self { _in_use: Some(in_use), ..self }
    }

    /// No bytes.
    pub fn empty() -> Self {
        Self::of(Kind::Empty)
    }

    /// All bytes at once; the length is known.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::of(if bytes.is_empty() { Kind::Empty } else { Kind::Full(bytes) })
    }

    /// All bytes at once and a line feed behind them: stored text has none, and is not copied for it where it is long.
    pub fn line(bytes: Bytes) -> Self {
        Self::of(Kind::Line(bytes))
    }

    /// Chunks, drawn one by one as the connection has room. `length` is their sum where it is known (it becomes
    /// Content-Length, and must be right).
    pub fn chunks<I>(chunks: I, length: Option<u64>) -> Self
    where
        I: IntoIterator<Item = Bytes>,
        I::IntoIter: Send + 'static,
    {
        Self::of(Kind::Pieces(Joined::new(Source::Chunks(Box::new(chunks.into_iter())), length)))
    }

    /// Pieces that are kept. They go out as they are unless the body is compressed, which costs next to nothing then.
    pub fn pieces(pieces: Vec<Arc<Piece>>) -> Self {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self::of(if length == 0 { Kind::Empty } else { Kind::Kept(pieces, length) })
    }

    /// A stream: a watch, a log, what another server sends. An error resets the connection's stream. What is ready at
    /// the same moment is sent together; nothing waits for more.
    pub fn stream<S, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<Bytes, E>> + Send + 'static,
        E: Into<BodyError>,
    {
        let stream = futures_util::StreamExt::map(stream, |item| item.map_err(Into::into));
        Self::of(Kind::Pieces(Joined::new(Source::Stream(Box::pin(stream)), None)))
    }

    /// A stream that ends: of so many bytes if that is known, at least of so many if not. An error resets it.
    pub fn large<S>(stream: S, length: Option<u64>, at_least: u64) -> Self
    where
        S: Stream<Item = Result<Bytes, BodyError>> + Send + 'static,
    {
        let pieces = Joined::new(Source::Stream(Box::pin(stream)), length);
        Self::of(Kind::Pieces(Joined { at_least, ..pieces }))
    }

    /// Lets go at the deadline of what was not taken until then, even if the client takes nothing more; after that the body
    /// ends with an error. Small bodies are not worth the watch.
    #[must_use]
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.kind = match self.kind {
            Kind::Full(bytes) if bytes.len() as u64 >= expiring::WORTH_IT => Kind::of_chunks([bytes]),
            Kind::Line(bytes) if bytes.len() as u64 >= expiring::WORTH_IT => Kind::of_chunks([bytes, LINE_FEED]),
            kind => kind,
        };
        if let (Kind::Pieces(pieces), Some(deadline)) = (&mut self.kind, deadline)
            && pieces.left.is_none_or(|left| left >= expiring::WORTH_IT)
        {
            let source = std::mem::replace(&mut pieces.source, Source::Done);
            pieces.source = Source::Expiring(expiring::Expiring::new(source, deadline));
        }
        self
    }

    /// This body, compressed as it is taken. One that another server sends stays as it is.
    #[must_use]
    pub fn gzip(self) -> Self {
        let Body { kind, _in_use, _kept, cut_short } = self;
        Self { _in_use, _kept, cut_short, ..Self::gzipped(kind) }
    }

    fn gzipped(kind: Kind) -> Self {
        let source = match kind {
            Kind::Full(bytes) => Joined::new(Source::Chunks(Box::new(std::iter::once(bytes))), None),
            Kind::Line(bytes) => Joined::new(Source::Chunks(Box::new([bytes, LINE_FEED].into_iter())), None),
            Kind::Pieces(pieces) => pieces,
            Kind::Kept(pieces, _) => {
                let (chain, length) = piece::gzip(pieces);
                return Self::chunks(chain, Some(length));
            }
            kind => return Self::of(kind),
        };
        Self::of(Kind::Gzip(Box::new(gzip::Gzip::new(source))))
    }

    /// This body, and something that is let go when the body has been sent or given up. What is in memory as a whole is
    /// taken to be sent already.
    #[must_use]
    pub fn holding(self, kept: Box<dyn Any + Send>) -> Self {
        match self.kind {
            Kind::Empty | Kind::Full(_) | Kind::Line(_) | Kind::Kept(..) => self,
            _ => {
                let kept = match self._kept {
                    Some(before) => Box::new((before, kept)),
                    None => kept,
                };
                Self { _kept: Some(kept), ..self }
            }
        }
    }

    /// This body, and who is told when it ends with an error.
    #[must_use]
    pub(crate) fn cut_short(self, tell: Box<dyn FnOnce() + Send>) -> Self {
        Self { cut_short: Some(tell), ..self }
    }

    /// Whether all bytes are there already, or are made from what is there.
    pub(crate) fn is_in_memory(&self) -> bool {
        match &self.kind {
            Kind::Empty | Kind::Full(_) | Kind::Line(_) | Kind::Kept(..) => true,
            Kind::Pieces(joined) => matches!(joined.source, Source::Chunks(_) | Source::Done),
            Kind::Gzip(_) | Kind::Other(_) => false,
        }
    }

    /// The bytes, if all of them are there or are made from what is there.
    pub(crate) fn in_memory(mut self) -> (Option<Vec<Bytes>>, Self) {
        let pieces = match &mut self.kind {
            Kind::Empty => Vec::new(),
            Kind::Full(bytes) => vec![bytes.clone()],
            Kind::Line(bytes) => vec![bytes.clone(), LINE_FEED],
            Kind::Kept(pieces, _) => pieces.iter().map(|piece| piece.text()).collect(),
            Kind::Pieces(joined) => match std::mem::replace(&mut joined.source, Source::Done) {
                Source::Chunks(chunks) if joined.held.is_none() => {
                    let pieces: Vec<Bytes> = chunks.collect();
                    joined.source = Source::Chunks(Box::new(pieces.clone().into_iter()));
                    pieces
                }
                source => {
                    joined.source = source;
                    return (None, self);
                }
            },
            Kind::Gzip(_) | Kind::Other(_) => return (None, self),
        };
        (Some(pieces), self)
    }

    /// This body; when it has been sent whole, what was sent goes to `then` as well. What another server sends, or is
    /// compressed already, does not.
    pub(crate) fn copied_to(mut self, then: Box<dyn FnOnce(Vec<Bytes>) + Send>) -> Self {
        if let Kind::Pieces(joined) = &mut self.kind {
            joined.copy = Some(Copy { pieces: Vec::new(), then });
        }
        self
    }

    /// Another body as it is, trailers included (what a proxied server answers).
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BodyError>,
    {
        Self::of(Kind::Other(Box::pin(http_body_util::BodyExt::map_err(body, Into::into))))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::full(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::full(text)
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::full(text)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = http_body::Body::size_hint(self);
        f.debug_struct("Body").field("lower", &hint.lower()).field("upper", &hint.upper()).finish()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = self.poll_kind(cx);
        if let Poll::Ready(Some(Err(_))) = next
            && let Some(tell) = self.cut_short.take()
        {
            tell();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(_) | Kind::Line(_) | Kind::Kept(..) => false,
            Kind::Pieces(pieces) => pieces.is_done(),
            Kind::Gzip(body) => body.is_done(),
            Kind::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Line(bytes) => SizeHint::with_exact(bytes.len() as u64 + 1),
            Kind::Kept(_, length) => SizeHint::with_exact(*length),
            Kind::Pieces(pieces) => pieces.left.map_or_else(
                || {
                    let mut hint = SizeHint::default();
                    hint.set_lower(pieces.at_least);
                    hint
                },
                SizeHint::with_exact,
            ),
            Kind::Gzip(_) => SizeHint::default(),
            Kind::Other(body) => body.size_hint(),
        }
    }
}

impl Body {
    fn poll_kind(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Kind::Kept(pieces, length) = &mut self.kind {
            let texts = std::mem::take(pieces).into_iter().map(|piece| piece.text());
            self.kind = Kind::Pieces(Joined::new(Source::Chunks(Box::new(texts)), Some(*length)));
        }
        match &mut self.kind {
            Kind::Empty | Kind::Kept(..) => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.kind = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Line(bytes) => {
                let bytes = std::mem::take(bytes);
                if bytes.len() >= SEND_ALONE {
                    self.kind = Kind::Full(LINE_FEED);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                self.kind = Kind::Empty;
                let mut line = Vec::with_capacity(bytes.len() + 1);
                line.extend_from_slice(&bytes);
                line.push(b'\n');
                Poll::Ready(Some(Ok(Frame::data(line.into()))))
            }
            Kind::Pieces(pieces) => pieces.poll(cx).map(|next| next.map(|item| item.map(Frame::data))),
            Kind::Gzip(body) => body.poll(cx).map(|next| next.map(|item| item.map(Frame::data))),
            Kind::Other(body) => body.as_mut().poll_frame(cx),
        }
    }
}

enum Source {
    Chunks(Box<dyn Iterator<Item = Bytes> + Send>),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>),
    Expiring(expiring::Expiring),
    Done,
}

impl Source {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let next = match self {
            Self::Chunks(chunks) => chunks.next().map(Ok),
            Self::Stream(stream) => match stream.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
            Self::Expiring(source) => match source.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
            Self::Done => None,
        };
        if !matches!(next, Some(Ok(_))) {
            // Frees what the producer holds as soon as it has nothing more to say.
            *self = Self::Done;
        }
        Poll::Ready(next)
    }
}

/// Joins the small pieces of a source.
struct Joined {
    source: Source,
    /// Drawn already, goes out with the next poll.
    held: Option<Result<Bytes, BodyError>>,
    /// Bytes not handed out yet, where the length is known.
    left: Option<u64>,
    /// Where it is not: a length that it has at least.
    at_least: u64,
    /// Who wants to have the bytes, too.
    copy: Option<Copy>,
}

/// Gathers what is sent.
struct Copy {
    pieces: Vec<Bytes>,
    then: Box<dyn FnOnce(Vec<Bytes>) + Send>,
}

impl Joined {
    fn new(source: Source, length: Option<u64>) -> Self {
        Self { source, held: None, left: length, at_least: 0, copy: None }
    }

    fn is_done(&self) -> bool {
        self.held.is_none() && matches!(self.source, Source::Done)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let first = match self.next_piece(cx) {
            Poll::Ready(Some(Ok(piece))) => piece,
            other => {
                if let (Poll::Ready(None), Some(copy)) = (&other, self.copy.take_if(|_| !other.is_pending())) {
                    (copy.then)(copy.pieces);
                }
                return other;
            }
        };
        let joined = if first.len() >= SEND_ALONE { first } else { self.join(first, cx) };
        self.left = self.left.map(|left| left.saturating_sub(joined.len() as u64));
        // Whoever knows the length does not ask for what is behind the end.
        if self.left == Some(0)
            && let Some(copy) = self.copy.take()
        {
            (copy.then)(copy.pieces);
        }
        Poll::Ready(Some(Ok(joined)))
    }

    /// Adds to `first` what is ready and small.
    fn join(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        let mut single = first;
        let mut joined = BytesMut::new();
        loop {
            let room = JOIN_UP_TO - joined.len().max(single.len());
            match self.next_piece(cx) {
                Poll::Ready(Some(Ok(piece))) if piece.len() < SEND_ALONE && piece.len() <= room => {
                    if joined.is_empty() {
                        let likely = if matches!(self.source, Source::Chunks(_)) { JOIN_UP_TO } else { 4096 };
                        joined.reserve(likely.max(single.len() + piece.len()));
                        joined.extend_from_slice(&std::mem::take(&mut single));
                    }
                    joined.extend_from_slice(&piece);
                }
                Poll::Ready(Some(item)) => {
                    self.held = Some(item);
                    break;
                }
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if joined.is_empty() { single } else { joined.freeze() }
    }

    /// The next piece that is not empty (an empty frame would tell the client nothing).
    fn next_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if let Some(held) = self.held.take() {
            return Poll::Ready(Some(held));
        }
        loop {
            match self.source.poll(cx) {
                Poll::Ready(Some(Ok(piece))) if piece.is_empty() => {}
                Poll::Ready(Some(Ok(piece))) => {
                    if let Some(copy) = &mut self.copy {
                        copy.pieces.push(piece.clone());
                    }
                    return Poll::Ready(Some(Ok(piece)));
                }
                other => return other,
            }
        }
    }
}

#[cfg(test)]
mod tests;
