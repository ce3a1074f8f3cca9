//! Reads what a client sends: messages in pieces, however long they are.

use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};

use super::{BINARY, CLOSE, CONTINUATION, Idle, PING, PONG, PROTOCOL_ERROR, TEXT, WebSocketSink};
use crate::PIECE;

/// A piece of a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// It is the first one.
    pub begins: bool,
    /// It is the last one.
    pub ends: bool,
    /// The message is said to be text.
    pub is_text: bool,
    /// These bytes of it.
    pub bytes: Bytes,
}

/// What is left of a frame.
struct Payload {
    left: u64,
    mask: [u8; 4],
    /// The frame is the last one of its message.
    last: bool,
    begins: bool,
}

/// Reads a client's messages. Pings are answered, and what is against the protocol ends the connection.
pub struct WebSocketReader<R> {
    io: BufReader<R>,
    sink: WebSocketSink,
    idle: Idle,
    /// What a frame may hold.
    limit: u64,
    payload: Option<Payload>,
    /// The kind of the message that is not at its end.
    kind: Option<u8>,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> WebSocketReader<R> {
    /// A reader of frames of so many bytes at most.
    pub fn new(io: R, sink: WebSocketSink, idle: Idle, limit: u64) -> Self {
        let io = BufReader::with_capacity(PIECE, io);
        Self { io, sink, idle, limit, payload: None, kind: None, buffer: BytesMut::new() }
    }

    /// The next piece; `None` when the client has closed the WebSocket, has broken the protocol, or is gone. Empty pieces
    /// come only at the end of messages, or as the whole of one.
    pub async fn next(&mut self) -> Option<Message> {
        let next = self.read().await;
        self.idle.touch();
        // Whoever is gone, and whoever sends what is none, is not listened to any more.
        next.ok().flatten()
    }

    async fn read(&mut self) -> io::Result<Option<Message>> {
        while self.payload.is_none() {
            if !self.header().await? {
                return Ok(None);
            }
            self.idle.touch();
        }
        let mut payload = self.payload.take().expect("a header was read");
        let wanted = usize::try_from(payload.left.min(PIECE as u64)).expect("pieces are small");
        if wanted > 0 {
            self.buffer.reserve(wanted);
            if (&mut self.io).take(wanted as u64).read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        unmask(&mut self.buffer, payload.mask);
        let bytes = self.buffer.split().freeze();
        payload.mask.rotate_left(bytes.len() % 4);
        payload.left -= bytes.len() as u64;
        let ends = payload.left == 0 && payload.last;
        let message = Message { begins: payload.begins, ends, is_text: self.kind == Some(TEXT), bytes };
        if ends {
            self.kind = None;
        }
        if payload.left > 0 {
            payload.begins = false;
            self.payload = Some(payload);
        }
        Ok(Some(message))
    }

    /// Reads a frame's header, and all of a frame about control. `false`: it was the last one.
    async fn header(&mut self) -> io::Result<bool> {
        let first = self.io.read_u8().await?;
        let second = self.io.read_u8().await?;
        let (last, reserved, kind) = (first & 0x80 != 0, first & 0x70, first & 0x0f);
        let is_control = matches!(kind, CLOSE | PING | PONG);
        let fits = match kind {
            _ if is_control => last && second & 0x7f <= 125,
            CONTINUATION => self.kind.is_some(),
            TEXT | BINARY => self.kind.is_none(),
            _ => false,
        };
        // A client masks what it sends; this end knows no extensions.
        if reserved != 0 || second & 0x80 == 0 || !fits {
            self.sink.close(PROTOCOL_ERROR).await;
            return Ok(false);
        }
        let length = match second & 0x7f {
            126 => u64::from(self.io.read_u16().await?),
            127 => self.io.read_u64().await? & (u64::MAX >> 1),
            short => u64::from(short),
        };
        if length > self.limit {
            return Ok(false);
        }
        let mut mask = [0; 4];
        self.io.read_exact(&mut mask).await?;
        if is_control {
            return self.control(kind, length, mask).await;
        }
        let begins = kind != CONTINUATION;
        if begins {
            self.kind = Some(kind);
        }
        self.payload = Some(Payload { left: length, mask, last, begins });
        Ok(true)
    }

    async fn control(&mut self, kind: u8, length: u64, mask: [u8; 4]) -> io::Result<bool> {
        let mut bytes = [0; 125];
        let bytes = &mut bytes[..usize::try_from(length).expect("checked")];
        self.io.read_exact(bytes).await?;
        unmask(bytes, mask);
        if kind == PING {
            self.sink.pong(Bytes::copy_from_slice(bytes));
        }
        Ok(kind != CLOSE)
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let (words, rest) = bytes.as_chunks_mut::<4>();
    let word = u32::from_ne_bytes(mask);
    for bytes in words {
        *bytes = (u32::from_ne_bytes(*bytes) ^ word).to_ne_bytes();
    }
    rest.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

impl Message {
    /// Takes the first byte off.
    pub(crate) fn take_first(&mut self) -> Option<u8> {
        self.bytes.has_remaining().then(|| self.bytes.get_u8())
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::websocket::sink;

    const MASK: [u8; 4] = [1, 2, 3, 4];

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            short @ 0..126 => out.push(0x80 | short as u8),
            long => {
                out.push(0x80 | 127);
                out.extend((long as u64).to_be_bytes());
            }
        }
        out.extend(MASK);
        let mut payload = payload.to_vec();
        unmask(&mut payload, MASK);
        out.extend(payload);
        out
    }

    /// The messages, each as a whole, and what is sent back.
    async fn read(bytes: &[u8], limit: u64) -> (Vec<(bool, Vec<u8>)>, Vec<u8>) {
        let mut sent = Vec::new();
        let (sink, writer) = sink(&mut sent, Idle::default(), CancellationToken::new());
        let mut reader = WebSocketReader::new(bytes, sink, Idle::default(), limit);
        let mut messages: Vec<(bool, Vec<u8>)> = Vec::new();
        let reading = async {
            let mut ended = true;
            while let Some(message) = reader.next().await {
                assert_eq!(message.begins, ended);
                assert!(message.bytes.len() <= PIECE);
                if message.begins {
                    messages.push((message.is_text, Vec::new()));
                }
                messages.last_mut().expect("begun").1.extend_from_slice(&message.bytes);
                ended = message.ends;
            }
            drop(reader);
        };
        tokio::join!(reading, writer);
        (messages, sent)
    }

    #[tokio::test]
    async fn messages_come_as_they_were_sent() {
        let large: Vec<u8> = (0..100_001_u32).map(|i| i as u8).collect();
        let bytes = [
            frame(0x82, b"\x01abc"),
            frame(0x81, b""),
            frame(0x02, b"one "),
            frame(0x89, b"ping"),
            frame(0x00, b"two "),
            frame(0x80, b"three"),
            frame(0x8a, b"pong"),
            frame(0x82, &large),
            frame(0x88, &[3, 232]),
            frame(0x82, b"too late"),
        ];
        let (messages, sent) = read(&bytes.concat(), 1 << 20).await;
        let expect =
            [(false, b"\x01abc".to_vec()), (true, Vec::new()), (false, b"one two three".to_vec()), (false, large)];
        assert!(messages == expect);
        assert_eq!(sent, b"\x8a\x04ping");
    }

    #[tokio::test]
    async fn what_is_against_the_protocol_is_the_end() {
        let closed = b"\x88\x02\x03\xea".to_vec();
        let check = async |bytes: &[u8], limit: u64, sent: &[u8]| {
            let found = read(&[bytes, &frame(0x82, b"x")].concat(), limit).await;
            assert_eq!(found, (Vec::new(), sent.to_vec()), "{bytes:?}");
        };
        check(&[0x82, 1, b'x'], 100, &closed).await; // not masked
        check(&frame(0xc2, b"x"), 100, &closed).await; // an extension
        check(&frame(0x83, b"x"), 100, &closed).await; // no kind
        check(&frame(0x80, b"x"), 100, &closed).await; // goes on with nothing
        check(&frame(0x09, b"x"), 100, &closed).await; // a ping in parts
        check(&frame(0x89, &[0; 126]), 1000, &closed).await; // a large ping
        check(&frame(0x82, &[0; 101]), 100, b"").await; // too large
        check(&[&[0x82, 0xff][..], &[0x7f; 12]].concat(), 32 << 20, b"").await;
    }
}
