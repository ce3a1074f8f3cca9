//! What is sent to a client, one frame after the other.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::{Notify, mpsc},
};
use tokio_util::sync::CancellationToken;

use super::{BINARY, CLOSE, Idle, PONG, TEXT};
use crate::PIECE;

/// What waits to be sent.
const QUEUE: usize = 2;

/// A message, or the end.
#[derive(Debug)]
pub enum Frame {
    /// Bytes, behind a byte that says of which channel they are.
    Channel(u8, Bytes),
    /// Bytes as they are.
    Binary(Bytes),
    /// Text as it is.
    Text(Bytes),
    /// The end, and why.
    Close(u16),
}

/// The client takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client is gone")]
pub struct Gone;

/// Where frames for a client go. Clones go to the same one.
#[derive(Clone)]
pub struct WebSocketSink {
    frames: mpsc::Sender<Frame>,
    pong: Arc<Pong>,
    gone: CancellationToken,
}

/// The last ping that is to be answered.
#[derive(Default)]
struct Pong {
    bytes: Mutex<Option<Bytes>>,
    notify: Notify,
}

/// A sink, and what writes what goes there until all clones are dropped, a frame says that this is the end, or the client is
/// gone; then `gone` is cancelled, as whoever knows of it first does. A client that does not read holds it up.
pub fn sink<W: AsyncWrite + Unpin>(
    io: W,
    idle: Idle,
    gone: CancellationToken,
) -> (WebSocketSink, impl Future<Output = ()>) {
    let (frames, waiting) = mpsc::channel(QUEUE);
    let pong = Arc::new(Pong::default());
    let sink = WebSocketSink { frames, pong: Arc::clone(&pong), gone: gone.clone() };
    let writer = async move {
        let written = gone.run_until_cancelled(write(io, waiting, &pong, &idle)).await;
        // It ends the same way, whatever the reason is.
        drop(written);
        gone.cancel();
    };
    (sink, writer)
}

impl WebSocketSink {
    /// Sends a frame, as soon as there is room for it.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn send(&self, frame: Frame) -> Result<(), Gone> {
        match self.gone.run_until_cancelled(self.frames.send(frame)).await {
            Some(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }

    /// Says that this is the end.
    pub async fn close(&self, why: u16) {
        // Whoever is gone need not be told.
        let _ = self.send(Frame::Close(why)).await;
    }

    /// Answers a ping. Of several that wait the last one is answered (RFC 6455, 5.5.3).
    pub(super) fn pong(&self, bytes: Bytes) {
        *self.pong.bytes.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        self.pong.notify.notify_one();
    }
}

async fn write<W: AsyncWrite + Unpin>(
    io: W,
    mut waiting: mpsc::Receiver<Frame>,
    pong: &Pong,
    idle: &Idle,
) -> io::Result<()> {
    let mut io = BufWriter::with_capacity(2 * PIECE, io);
    loop {
        let next = tokio::select! {
            biased;
            () = pong.notify.notified() => None,
            next = waiting.recv() => Some(next),
        };
        idle.touch();
        let pinged = pong.bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bytes) = pinged {
            frame(&mut io, PONG, &[], &bytes).await?;
        }
        match next {
            None => {}
            Some(None) => break,
            Some(Some(Frame::Channel(channel, bytes))) => frame(&mut io, BINARY, &[channel], &bytes).await?,
            Some(Some(Frame::Binary(bytes))) => frame(&mut io, BINARY, &[], &bytes).await?,
            Some(Some(Frame::Text(bytes))) => frame(&mut io, TEXT, &[], &bytes).await?,
            Some(Some(Frame::Close(why))) => {
                frame(&mut io, CLOSE, &[], &why.to_be_bytes()).await?;
                break;
            }
        }
        if waiting.is_empty() {
            io.flush().await?;
        }
        idle.touch();
    }
    io.shutdown().await
}

async fn frame<W: AsyncWrite + Unpin>(io: &mut W, kind: u8, before: &[u8], bytes: &[u8]) -> io::Result<()> {
    let length = before.len() + bytes.len();
    io.write_u8(0x80 | kind).await?;
    match length {
        0..126 => io.write_u8(length as u8).await?,
        126..0x1_0000 => {
            io.write_u8(126).await?;
            io.write_u16(length as u16).await?;
        }
        _ => {
            io.write_u8(127).await?;
            io.write_u64(length as u64).await?;
        }
    }
    io.write_all(before).await?;
    io.write_all(bytes).await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn frames_say_how_long_they_are() {
        let mut sent = Vec::new();
        let (sink, writer) = sink(&mut sent, Idle::default(), CancellationToken::new());
        let sending = async {
            sink.send(Frame::Channel(1, Bytes::new())).await.expect("there");
            sink.send(Frame::Binary(vec![7; 126].into())).await.expect("there");
            sink.send(Frame::Text(vec![b'x'; 0x1_0000].into())).await.expect("there");
            sink.close(1000).await;
            drop(sink);
        };
        tokio::join!(sending, writer);
        let binary = [&[0x82, 126, 0, 126][..], &[7; 126]].concat();
        let text = [&[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0][..], &vec![b'x'; 0x1_0000]].concat();
        let expect = [&b"\x82\x01\x01"[..], &binary, &text, b"\x88\x02\x03\xe8"].concat();
        assert!(sent == expect);
    }

    #[tokio::test]
    async fn who_takes_nothing_holds_up_who_sends_until_it_is_given_up() {
        let (here, mut there) = duplex(1);
        let gone = CancellationToken::new();
        let (sink, writer) = sink(here, Idle::default(), gone.clone());
        let writer = tokio::spawn(writer);
        let sending = async {
            let mut sent = 0;
            while sink.send(Frame::Binary(vec![0; PIECE].into())).await.is_ok() {
                sent += 1;
            }
            sent
        };
        let giving_up = async {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            gone.cancel();
        };
        let (sent, ()) = tokio::join!(sending, giving_up);
        assert!(sent <= QUEUE + 3, "{sent}");
        writer.await.expect("it ends");
        drop(sink);
        let mut left = Vec::new();
        there.read_to_end(&mut left).await.expect("closed");
    }
}
