//! What is read, a log for one, sent to a client over a WebSocket.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::websocket::{Frame, Idle, NORMAL, WebSocketReader, sink};

/// How what is read is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Binary,
    /// As text, which it is.
    Text,
    /// In Base64, each message for itself.
    Base64,
}

/// What a message holds at most, before it is encoded (upstream: the same).
const MESSAGE: usize = 2048;
/// What a client's frame may hold; nobody reads it.
const MAX_FRAME: u64 = 32 << 20;
/// How long a client may take to take the last message.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The subprotocol and the encoding of the first of a client's protocols that there is: `binary.k8s.io` and
/// `base64.binary.k8s.io`, or none where none is asked for. `None` if there is none of them.
pub fn choose<'a>(asked: impl IntoIterator<Item = &'a str>) -> Option<(Option<&'static str>, Encoding)> {
    let mut asked = asked.into_iter().peekable();
    if asked.peek().is_none() {
        return Some((None, Encoding::Binary));
    }
    asked.find_map(|protocol| match protocol {
        "binary.k8s.io" => Some((Some("binary.k8s.io"), Encoding::Binary)),
        "base64.binary.k8s.io" => Some((Some("base64.binary.k8s.io"), Encoding::Base64)),
        _ => None,
    })
}

/// Where bytes come from.
pub trait Pieces: Send {
    /// The next ones; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// Sends an empty message and then what comes, in messages of no great length, until there is no more or the client closes
/// the WebSocket. What the client sends is passed over.
pub async fn send<C, P>(client: C, encoding: Encoding, pieces: P)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
    P: Pieces,
{
    // The first message tells the client that it is connected.
    messages(client, encoding, Parts { pieces, left: Bytes::new(), has_begun: false }).await;
}

/// Pieces in parts, with an empty one before them.
struct Parts<P> {
    pieces: P,
    left: Bytes,
    has_begun: bool,
}

impl<P: Pieces> Pieces for Parts<P> {
    async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Bytes::new());
        }
        while self.left.is_empty() {
            self.left = self.pieces.next().await?;
        }
        Some(self.left.split_to(self.left.len().min(MESSAGE)))
    }
}

/// Sends each piece as a message, until there is no more or the client closes the WebSocket. What the client sends is passed
/// over.
pub async fn messages<C, P>(client: C, encoding: Encoding, mut pieces: P)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
    P: Pieces,
{
    let (read_half, write_half) = tokio::io::split(client);
    let (idle, gone) = (Idle::default(), CancellationToken::new());
    let (sink, writer) = sink(write_half, idle.clone(), gone.clone());
    let writer = AbortOnDropHandle::new(tokio::spawn(writer));
    let mut reader = WebSocketReader::new(read_half, sink.clone(), idle, MAX_FRAME);
    let sending = async {
        while let Some(piece) = pieces.next().await {
            let frame = match encoding {
                Encoding::Binary => Frame::Binary(piece),
                Encoding::Text => Frame::Text(piece),
                Encoding::Base64 => Frame::Text(STANDARD.encode(piece).into()),
            };
            if sink.send(frame).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = async { while reader.next().await.is_some() {} } => {}
        () = gone.cancelled() => {}
    }
    drop(reader);
    let last_words = async {
        sink.close(NORMAL).await;
        drop(sink);
        writer.await
    };
    let _ = timeout(LAST_WORDS, last_words).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[test]
    fn the_first_protocol_that_there_is_counts() {
        assert_eq!(choose([]), Some((None, Encoding::Binary)));
        assert_eq!(choose(["binary.k8s.io"]), Some((Some("binary.k8s.io"), Encoding::Binary)));
        assert_eq!(choose(["x", "base64.binary.k8s.io"]), Some((Some("base64.binary.k8s.io"), Encoding::Base64)));
        assert_eq!(choose(["v4.channel.k8s.io"]), None);
    }

    /// These pieces, one after the other.
    struct Given(Vec<&'static [u8]>);

    impl Pieces for Given {
        async fn next(&mut self) -> Option<Bytes> {
            (!self.0.is_empty()).then(|| Bytes::from_static(self.0.remove(0)))
        }
    }

    /// Nothing ever.
    struct Silence;

    impl Pieces for Silence {
        async fn next(&mut self) -> Option<Bytes> {
            std::future::pending().await
        }
    }

    async fn received(encoding: Encoding, pieces: &[&'static [u8]]) -> Vec<u8> {
        let (mut client, there) = duplex(64 * 1024);
        send(there, encoding, Given(pieces.to_vec())).await;
        let mut received = Vec::new();
        client.read_to_end(&mut received).await.expect("closed");
        received
    }

    #[tokio::test]
    async fn what_is_read_is_sent_in_messages() {
        let found = received(Encoding::Binary, &[b"one", b"", b"two"]).await;
        assert_eq!(found, b"\x82\x00\x82\x03one\x82\x03two\x88\x02\x03\xe8");
        let found = received(Encoding::Base64, &[b"foo\n"]).await;
        assert_eq!(found, b"\x81\x00\x81\x08Zm9vCg==\x88\x02\x03\xe8");
        let found = received(Encoding::Text, &[b"foo\n"]).await;
        assert_eq!(found, b"\x81\x00\x81\x04foo\n\x88\x02\x03\xe8");
        let long = received(Encoding::Binary, &[&[7; MESSAGE + 1]]).await;
        assert_eq!(long.len(), 2 + (4 + MESSAGE) + (2 + 1) + 4);
    }

    #[tokio::test]
    async fn a_client_that_closes_is_sent_nothing_more() {
        let (mut client, there) = duplex(64);
        client.write_all(b"\x88\x80\x00\x00\x00\x00").await.expect("sent");
        send(there, Encoding::Binary, Silence).await;
    }
}
