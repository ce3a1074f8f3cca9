//! Writes frames, one after the other: what is about control first.

use std::{io, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{
    Headers,
    connection::Shared,
    frame::{self, FIN, SYN_REPLY, SYN_STREAM},
    headers::BlockWriter,
};
use crate::PIECE;

/// How long the other end may take to take the last words.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What is to be sent in turn.
pub(super) enum Outgoing {
    /// A new stream. Its number is the writer's to say: numbers must rise in the order in which they are sent.
    Open { headers: Headers, pieces: mpsc::Sender<Bytes>, replied: oneshot::Sender<bool>, number: oneshot::Sender<u32> },
    /// A stream of the other end's is welcome.
    Reply { stream: u32 },
    /// Bytes, and whether they are the last ones.
    Data { stream: u32, piece: Bytes, fin: bool },
}

/// Writes until the connection is closed.
pub(super) async fn write<W: AsyncWrite + Unpin>(io: W, mut outgoing: mpsc::Receiver<Outgoing>, shared: Arc<Shared>) {
    let mut writer = Writer { io: BufWriter::with_capacity(PIECE, io), blocks: BlockWriter::default() };
    let closing = shared.closing.clone();
    let work = async {
        loop {
            let next = tokio::select! {
                biased;
                () = closing.cancelled() => return Ok(()),
                () = shared.control.changed() => None,
                next = outgoing.recv() => match next {
                    None => return Ok(()),
                    next => next,
                },
            };
            writer.control(&shared).await?;
            if let Some(next) = next {
                writer.send(next, &shared).await?;
            }
            if outgoing.is_empty() {
                writer.io.flush().await?;
            }
        }
    };
    let patience = async {
        closing.cancelled().await;
        sleep(LAST_WORDS).await;
    };
    let written: io::Result<()> = tokio::select! {
        biased;
        written = work => written,
        () = patience => Err(io::ErrorKind::TimedOut.into()),
        () = shared.gone.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
    };
    if written.is_ok() {
        // Who does not take them either is left without them.
        let _ = timeout(LAST_WORDS, writer.last_words(outgoing, &shared)).await;
    }
    shared.gone.cancel();
}

struct Writer<W> {
    io: BufWriter<W>,
    blocks: BlockWriter,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn control(&mut self, shared: &Shared) -> io::Result<()> {
        let frames = shared.control.take();
        self.io.write_all(&frames).await
    }

    async fn send(&mut self, outgoing: Outgoing, shared: &Shared) -> io::Result<()> {
        let mut out = BytesMut::new();
        match outgoing {
            Outgoing::Open { headers, pieces, replied, number } => {
                let Some(stream) = shared.add_own(pieces, replied) else { return Ok(()) };
                let ids = [stream.to_be_bytes(), [0; 4]].concat();
                frame::control(&mut out, SYN_STREAM, 0, &[&ids, &[0, 0], &self.blocks.write(&headers)]);
                if number.send(stream).is_err() {
                    shared.reset(stream, frame::CANCEL);
                }
                self.io.write_all(&out).await
            }
            Outgoing::Reply { stream } => {
                let block = self.blocks.write(&Headers::default());
                frame::control(&mut out, SYN_REPLY, 0, &[&stream.to_be_bytes(), &block]);
                self.io.write_all(&out).await
            }
            Outgoing::Data { stream, piece, fin } => {
                let header = frame::data_header(stream, if fin { FIN } else { 0 }, piece.len());
                self.io.write_all(&header).await?;
                self.io.write_all(&piece).await
            }
        }
    }

    /// What was sent before the connection was closed comes before the farewell.
    async fn last_words(&mut self, mut outgoing: mpsc::Receiver<Outgoing>, shared: &Shared) -> io::Result<()> {
        outgoing.close();
        while let Ok(next) = outgoing.try_recv() {
            self.send(next, shared).await?;
        }
        self.control(shared).await?;
        self.io.write_all(&shared.farewell()).await?;
        self.io.shutdown().await
    }
}
