//! SPDY through a WebSocket: the bytes of a connection as binary messages, as clients forward ports.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    PIECE,
    throttle::{Rate, Throttle},
    websocket::{Frame, Idle, NORMAL, WebSocketReader, WebSocketSink, sink},
};

/// What the names of subprotocols begin with that carry SPDY.
pub const PREFIX: &str = "SPDY/3.1+";
const SUFFIX: &str = ".k8s.io";

/// How long a client may take to take the last message.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// The protocol of streams that a subprotocol carries; `None` if it carries none.
pub fn carried(subprotocol: &str) -> Option<&str> {
    (subprotocol.starts_with(PREFIX) && subprotocol.ends_with(SUFFIX)).then(|| &subprotocol[PREFIX.len()..])
}

/// Carries bytes between a client's WebSocket, whose handshake is done, and a connection, until one of them closes.
pub async fn carry<C, T>(client: C, backend: T, rate: Option<Rate>)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (read_half, write_half) = tokio::io::split(client);
    let (idle, gone) = (Idle::default(), CancellationToken::new());
    let (sink, writer) = sink(write_half, idle.clone(), gone.clone());
    let writer = AbortOnDropHandle::new(tokio::spawn(writer));
    let reader = WebSocketReader::new(read_half, sink.clone(), idle, u64::MAX >> 1);
    let (mut from, mut to) = tokio::io::split(backend);
    // Either end may just go away: that is how such connections end.
    tokio::select! {
        _ = unpack(reader, &mut to, rate) => {}
        _ = pack(&mut from, &sink, rate) => {}
        () = gone.cancelled() => {}
    }
    let last_words = async {
        sink.close(NORMAL).await;
        drop(sink);
        tokio::join!(writer, to.shutdown())
    };
    let _ = timeout(LAST_WORDS, last_words).await;
}

async fn unpack<R, W>(mut reader: WebSocketReader<R>, to: &mut W, rate: Option<Rate>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut throttle = Throttle::new(rate);
    while let Some(mut message) = reader.next().await {
        if message.is_text {
            return Err(io::ErrorKind::InvalidData.into());
        }
        while !message.bytes.is_empty() {
            let some = throttle.some_of(message.bytes.len()).await;
            to.write_all(&message.bytes.split_to(some)).await?;
        }
        if message.ends {
            to.flush().await?;
        }
    }
    Ok(())
}

async fn pack<R: AsyncRead + Unpin>(from: &mut R, sink: &WebSocketSink, rate: Option<Rate>) -> io::Result<()> {
    let mut throttle = Throttle::new(rate);
    let mut buffer = bytes::BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        if from.take(PIECE as u64).read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        while !buffer.is_empty() {
            let some = throttle.some_of(buffer.len()).await;
            let piece = buffer.split_to(some).freeze();
            sink.send(Frame::Binary(piece)).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    #[test]
    fn protocols_are_carried_under_their_names() {
        assert_eq!(carried("SPDY/3.1+portforward.k8s.io"), Some("portforward.k8s.io"));
        assert_eq!(carried("SPDY/3.1+x"), None);
        assert_eq!(carried("portforward.k8s.io"), None);
    }

    #[tokio::test]
    async fn bytes_go_both_ways_until_one_end_closes() {
        let ((mut client, there), (mut kubelet, here)) = (duplex(1024), duplex(1024));
        let carrying = tokio::spawn(carry(there, here, None));
        client
            .write_all(b"\x82\x83\x00\x00\x00\x00abc\x02\x81\x00\x00\x00\x00d\x80\x81\x00\x00\x00\x00e")
            .await
            .expect("sent");
        let mut received = [0; 5];
        kubelet.read_exact(&mut received).await.expect("received");
        assert_eq!(&received, b"abcde");
        kubelet.write_all(b"xyz").await.expect("sent");
        let mut message = [0; 5];
        client.read_exact(&mut message).await.expect("received");
        assert_eq!(&message, b"\x82\x03xyz");
        drop(kubelet);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("closed");
        assert_eq!(rest, b"\x88\x02\x03\xe8");
        carrying.await.expect("it ends");
    }

    #[tokio::test]
    async fn text_carries_nothing() {
        let ((mut client, there), (mut kubelet, here)) = (duplex(1024), duplex(1024));
        tokio::spawn(carry(there, here, None));
        client.write_all(b"\x81\x81\x00\x00\x00\x00a").await.expect("sent");
        let mut received = Vec::new();
        kubelet.read_to_end(&mut received).await.expect("closed");
        assert_eq!(received, b"");
    }
}
