//! A connection: its streams, and the two tasks that read and write its frames.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    Headers, SpdyError, Stream,
    frame::{self, PROTOCOL_ERROR, REFUSED_STREAM},
    reader::{Event, FrameReader},
    writer::{Outgoing, write},
};

/// How long the other end may take to say whether it wants a stream (upstream: the same).
const REPLY: Duration = Duration::from_secs(30);
/// Pieces of a stream that nobody has taken yet. Then the connection waits.
const PIECES: usize = 16;
/// What waits to be sent.
const OUTGOING: usize = 4;
/// Streams that the other end may have open.
const STREAMS: usize = 1024;
/// Bytes of frames about control that wait to be sent. What finds no room is not answered.
const CONTROL: usize = 4096;

/// A connection. It is closed when it is dropped.
pub struct Connection {
    shared: Arc<Shared>,
}

/// The streams that the other end opens.
pub struct Incoming {
    streams: mpsc::Receiver<Stream>,
}

impl Incoming {
    /// The next one; `None` when the connection is gone. It waits for [`Stream::accept`] or [`Stream::refuse`].
    pub async fn next(&mut self) -> Option<Stream> {
        self.streams.recv().await
    }
}

impl Connection {
    /// The end that opens streams. Those that the other end opens are refused.
    pub fn client<T: AsyncRead + AsyncWrite + Send + 'static>(io: T) -> Self {
        Self::start(io, false).0
    }

    /// The end that streams are opened to.
    pub fn server<T: AsyncRead + AsyncWrite + Send + 'static>(io: T) -> (Self, Incoming) {
        Self::start(io, true)
    }

    fn start<T: AsyncRead + AsyncWrite + Send + 'static>(io: T, is_server: bool) -> (Self, Incoming) {
        let (outgoing, to_send) = mpsc::channel(OUTGOING);
        let shared = Arc::new(Shared {
            outgoing,
            is_server,
            control: Control::default(),
            streams: Mutex::new(Streams { next: if is_server { 2 } else { 1 }, ..Streams::default() }),
            ping: Mutex::default(),
            closing: CancellationToken::new(),
            gone: CancellationToken::new(),
        });
        let (read_half, write_half) = tokio::io::split(io);
        tokio::spawn(write(write_half, to_send, Arc::clone(&shared)));
        let (opened, streams) = mpsc::channel(1);
        tokio::spawn(read(read_half, opened, Arc::clone(&shared)));
        (Self { shared }, Incoming { streams })
    }

    /// Opens a stream, and waits until the other end has said that it is welcome.
    ///
    /// # Errors
    /// It is not, nothing is said, or the connection is gone.
    pub async fn open(&self, headers: Headers) -> Result<Stream, SpdyError> {
        let (pieces, taken) = mpsc::channel(PIECES);
        let (replied, reply) = oneshot::channel();
        let (number, numbered) = oneshot::channel();
        let opened = async {
            self.shared.send(Outgoing::Open { headers: headers.clone(), pieces, replied, number }).await?;
            let id = numbered.await.map_err(|_| SpdyError::Closed)?;
            // The sender is dropped with the connection's streams.
            match reply.await {
                Ok(true) => Ok(id),
                Ok(false) => Err(SpdyError::Reset),
                Err(_) => Err(SpdyError::Closed),
            }
        };
        let id = timeout(REPLY, opened).await.map_err(|_| SpdyError::Timeout)??;
        Ok(Stream { headers, id, shared: Arc::clone(&self.shared), pieces: taken })
    }

    /// Asks whether the other end is there, and waits for its answer.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn ping(&self) -> Result<(), SpdyError> {
        let answered = {
            let mut ping = self.shared.ping.lock().unwrap_or_else(PoisonError::into_inner);
            let id = if ping.last == 0 || ping.last > 0x7fff_fffd {
                u32::from(self.shared.is_server) + 1
            } else {
                ping.last + 2
            };
            ping.last = id;
            let (answer, answered) = oneshot::channel();
            ping.answer = Some(answer);
            self.shared.control.push(|out| frame::ping(out, id));
            answered
        };
        tokio::select! {
            answered = answered => answered.map_err(|_| SpdyError::Closed),
            () = self.shared.gone.cancelled() => Err(SpdyError::Closed),
        }
    }

    /// Waits until the connection is gone.
    pub async fn gone(&self) {
        self.shared.gone.cancelled().await;
    }
}

impl Drop for Connection {
    /// Resets all streams, says farewell, and closes the connection, even if the other end takes nothing of that.
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// What the tasks and the streams of a connection share.
pub(super) struct Shared {
    outgoing: mpsc::Sender<Outgoing>,
    is_server: bool,
    pub(super) control: Control,
    streams: Mutex<Streams>,
    ping: Mutex<Ping>,
    /// The last words are to be said.
    pub(super) closing: CancellationToken,
    /// Nothing can be read or written any more.
    pub(super) gone: CancellationToken,
}

#[derive(Default)]
struct Ping {
    last: u32,
    answer: Option<oneshot::Sender<()>>,
}

#[derive(Default)]
struct Streams {
    open: HashMap<u32, Entry>,
    /// The number of the next stream that is opened here.
    next: u32,
    /// The highest number that the other end has used.
    last_received: u32,
    /// No more streams.
    ended: bool,
}

struct Entry {
    /// `None` once the other end has sent all.
    pieces: Option<mpsc::Sender<Bytes>>,
    /// Whom the reply is told to.
    replied: Option<oneshot::Sender<bool>>,
    /// All is sent from here.
    finished: bool,
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something sent in its turn.
    pub(super) async fn send(&self, outgoing: Outgoing) -> Result<(), SpdyError> {
        tokio::select! {
            biased;
            () = self.gone.cancelled() => Err(SpdyError::Closed),
            () = self.closing.cancelled() => Err(SpdyError::Closed),
            sent = self.outgoing.send(outgoing) => sent.map_err(|_| SpdyError::Closed),
        }
    }

    /// Makes an entry for a stream that is opened here; `None` if there can be no more.
    pub(super) fn add_own(&self, pieces: mpsc::Sender<Bytes>, replied: oneshot::Sender<bool>) -> Option<u32> {
        let mut streams = self.streams();
        let id = streams.next;
        if streams.ended || id > 0x7fff_ffff {
            return None;
        }
        streams.next += 2;
        streams.open.insert(id, Entry { pieces: Some(pieces), replied: Some(replied), finished: false });
        Some(id)
    }

    /// Whether bytes may be sent on a stream.
    pub(super) fn is_writable(&self, id: u32) -> bool {
        self.streams().open.get(&id).is_some_and(|entry| !entry.finished)
    }

    /// All is sent on a stream.
    pub(super) fn finished_here(&self, id: u32) {
        let mut streams = self.streams();
        if let Some(entry) = streams.open.get_mut(&id) {
            entry.finished = true;
            if entry.pieces.is_none() {
                streams.open.remove(&id);
            }
        }
    }

    /// The other end has sent all on a stream.
    fn finished_there(&self, id: u32) {
        let mut streams = self.streams();
        if let Some(entry) = streams.open.get_mut(&id) {
            entry.pieces = None;
            if entry.finished {
                streams.open.remove(&id);
            }
        }
    }

    /// Ends a stream in both directions.
    pub(super) fn reset(&self, id: u32, reason: u32) {
        let removed = self.streams().open.remove(&id);
        if removed.is_some() {
            self.control.push(|out| frame::reset(out, id, reason));
        }
    }

    fn close(&self) {
        self.streams().ended = true;
        self.closing.cancel();
    }

    /// What is said at the end: streams that are not at theirs are reset, and there will be no more.
    pub(super) fn farewell(&self) -> BytesMut {
        let mut out = BytesMut::new();
        let mut streams = self.streams();
        for (id, _) in streams.open.drain().filter(|(_, entry)| !entry.finished) {
            frame::reset(&mut out, id, frame::CANCEL);
        }
        frame::go_away(&mut out, streams.last_received);
        out
    }
}

/// Frames about control that wait to be sent.
#[derive(Default)]
pub(super) struct Control {
    frames: Mutex<BytesMut>,
    notify: Notify,
}

impl Control {
    /// Adds frames; where others take up too much room they are left out.
    fn push(&self, frame: impl FnOnce(&mut BytesMut)) {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        if frames.len() < CONTROL {
            frame(&mut frames);
        }
        drop(frames);
        self.notify.notify_one();
    }

    pub(super) fn take(&self) -> BytesMut {
        std::mem::take(&mut self.frames.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) async fn changed(&self) {
        self.notify.notified().await;
    }
}

/// Reads frames until the connection ends, and hands on what they say.
async fn read<R: AsyncRead + Unpin>(io: R, opened: mpsc::Sender<Stream>, shared: Arc<Shared>) {
    let mut frames = FrameReader::new(io);
    let work = async {
        while let Ok(Some(event)) = frames.next().await {
            if handle(event, &opened, &shared).await.is_break() {
                break;
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = shared.gone.cancelled() => {}
    }
    // Whoever reads from a stream gets what has come, and then its end.
    let open = {
        let mut streams = shared.streams();
        streams.ended = true;
        std::mem::take(&mut streams.open)
    };
    drop(open);
    shared.gone.cancel();
}

async fn handle(event: Event, opened: &mpsc::Sender<Stream>, shared: &Arc<Shared>) -> std::ops::ControlFlow<()> {
    match event {
        Event::Open { stream, headers, fin, one_way } => open(stream, headers, fin, one_way, opened, shared).await,
        Event::Reply { stream, fin } => {
            let replied = shared.streams().open.get_mut(&stream).and_then(|entry| entry.replied.take());
            if let Some(replied) = replied {
                // Whoever has opened it may have lost patience.
                let _ = replied.send(true);
                if fin {
                    shared.finished_there(stream);
                }
            }
        }
        Event::Headers { stream, fin: true } => shared.finished_there(stream),
        Event::Headers { .. } | Event::Nothing => {}
        Event::Data { stream, piece, fin } => {
            // What comes before the reply is nobody's.
            let pieces =
                shared.streams().open.get(&stream).filter(|e| e.replied.is_none()).and_then(|e| e.pieces.clone());
            if let Some(pieces) = pieces.filter(|_| !piece.is_empty()) {
                // Nobody reads what comes: it is passed over.
                let _ = pieces.send(piece).await;
            }
            if fin {
                shared.finished_there(stream);
            }
        }
        Event::Reset { stream } => {
            let entry = shared.streams().open.remove(&stream);
            if let Some(replied) = entry.and_then(|entry| entry.replied) {
                let _ = replied.send(false);
            }
        }
        Event::Ping(id) if (id % 2 == 0) == shared.is_server => {
            let mut ping = shared.ping.lock().unwrap_or_else(PoisonError::into_inner);
            if ping.last == id
                && let Some(answer) = ping.answer.take()
            {
                let _ = answer.send(());
            }
        }
        Event::Ping(id) => shared.control.push(|out| frame::ping(out, id)),
        Event::GoAway => return std::ops::ControlFlow::Break(()),
    }
    std::ops::ControlFlow::Continue(())
}

/// A stream of the other end's.
async fn open(
    id: u32,
    headers: Headers,
    fin: bool,
    one_way: bool,
    opened: &mpsc::Sender<Stream>,
    shared: &Arc<Shared>,
) {
    let (pieces, taken) = mpsc::channel(PIECES);
    let refusal = {
        let mut streams = shared.streams();
        let is_next = id > streams.last_received && (id % 2 == 1) == shared.is_server;
        let refusal = match () {
            () if streams.ended => return,
            () if !is_next => Some(PROTOCOL_ERROR),
            () if !shared.is_server || streams.open.len() >= STREAMS => Some(REFUSED_STREAM),
            () => None,
        };
        if is_next {
            streams.last_received = id;
        }
        if refusal.is_none() {
            let entry = Entry { pieces: (!fin).then_some(pieces), replied: None, finished: one_way };
            streams.open.insert(id, entry);
        }
        refusal
    };
    if let Some(reason) = refusal {
        shared.control.push(|out| frame::reset(out, id, reason));
        return;
    }
    let stream = Stream { headers, id, shared: Arc::clone(shared), pieces: taken };
    if opened.send(stream).await.is_err() {
        shared.reset(id, REFUSED_STREAM);
    }
}

#[cfg(test)]
mod tests;
