//! Two connections that speak with each other, and with others who do not keep to the protocol.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;

fn pair() -> (Connection, Connection, Incoming) {
    let (here, there) = duplex(1024);
    let (server, incoming) = Connection::server(there);
    (Connection::client(here), server, incoming)
}

fn named(kind: &str) -> Headers {
    Headers::of([("streamtype", kind)])
}

/// Opens a stream and accepts it at the other end.
async fn opened(client: &Connection, incoming: &mut Incoming, kind: &str) -> (Stream, Stream) {
    let accepted = async {
        let stream = incoming.next().await.expect("a stream");
        stream.accept().await.expect("accepted");
        stream
    };
    let (own, other) = tokio::join!(client.open(named(kind)), accepted);
    (own.expect("a stream"), other)
}

async fn all(reader: &mut crate::spdy::StreamReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

#[tokio::test]
async fn streams_carry_bytes_both_ways_and_close_one_way_at_a_time() {
    let (client, _server, mut incoming) = pair();
    let (own, other) = opened(&client, &mut incoming, "data").await;
    assert_eq!(other.headers, named("data"));
    let ((mut own_in, own_out), (mut other_in, other_out)) = (own.split(), other.split());
    let sent: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let send = async {
        own_out.write(sent.clone().into()).await.expect("sent");
        own_out.finish().await.expect("finished");
        assert_eq!(own_out.write(Bytes::from_static(b"x")).await, Err(SpdyError::Reset), "nothing after the end");
    };
    let echo = async {
        let received = all(&mut other_in).await;
        other_out.write(received.into()).await.expect("the other direction is still open");
        other_out.finish().await.expect("finished");
    };
    let ((), (), echoed) = tokio::join!(send, echo, all(&mut own_in));
    assert!(echoed == sent);
    assert!(client.shared.streams().open.is_empty(), "a stream that is closed both ways is forgotten");
}

#[tokio::test]
async fn who_does_not_read_holds_up_who_sends() {
    let (client, _server, mut incoming) = pair();
    let (own, other) = opened(&client, &mut incoming, "data").await;
    let (_, out) = own.split();
    let (mut other_in, _) = other.split();
    let piece = Bytes::from(vec![0; crate::PIECE]);
    let mut sent = 0;
    // With nobody reading, everything comes to a standstill when the queues are full.
    let stuck = async {
        loop {
            out.write(piece.clone()).await.expect("sent");
            sent += 1;
        }
    };
    tokio::select! {
        biased;
        () = stuck => {}
        () = async { for _ in 0..10_000 { tokio::task::yield_now().await } } => {}
    }
    assert!((1..=24).contains(&sent), "{sent} pieces are on their way");
    let mut received = 0;
    while received < sent * crate::PIECE {
        received += other_in.next().await.expect("a piece").len();
    }
}

#[tokio::test]
async fn streams_are_refused_and_reset() {
    let (client, server, mut incoming) = pair();
    let refused = async { incoming.next().await.expect("a stream").refuse() };
    let (own, ()) = tokio::join!(client.open(named("data")), refused);
    assert_eq!(own.err(), Some(SpdyError::Reset));
    let (own, other) = opened(&client, &mut incoming, "data").await;
    let ((mut own_in, own_out), (_, other_out)) = (own.split(), other.split());
    other_out.reset();
    assert_eq!(own_in.next().await, None);
    assert_eq!(own_out.write(Bytes::from_static(b"x")).await, Err(SpdyError::Reset));
    // The end that opens streams wants none itself.
    assert_eq!(server.open(named("data")).await.err(), Some(SpdyError::Reset));
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_about_a_stream_is_given_up() {
    let (here, _there) = duplex(1024);
    let client = Connection::client(here);
    assert_eq!(client.open(named("data")).await.err(), Some(SpdyError::Timeout));
}

#[tokio::test]
async fn pings_are_answered_at_both_ends() {
    let (client, server, _incoming) = pair();
    for _ in 0..3 {
        assert_eq!((client.ping().await, server.ping().await), (Ok(()), Ok(())));
    }
    drop(server);
    client.gone().await;
    assert_eq!(client.ping().await, Err(SpdyError::Closed));
}

#[tokio::test]
async fn the_end_of_a_connection_is_the_end_of_its_streams_once_all_is_read() {
    let (client, server, mut incoming) = pair();
    let (own, other) = opened(&client, &mut incoming, "data").await;
    let ((mut own_in, _), (_, other_out)) = (own.split(), other.split());
    other_out.write(Bytes::from_static(b"last words")).await.expect("sent");
    other_out.finish().await.expect("finished");
    drop(server);
    assert_eq!(all(&mut own_in).await, b"last words");
    client.gone().await;
    assert_eq!(client.open(named("data")).await.err(), Some(SpdyError::Closed));
    assert!(incoming.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_connection_closes_though_the_other_end_takes_nothing() {
    let (here, there) = duplex(16);
    let client = Connection::client(here);
    let opening = client.open(named(&"x".repeat(1000)));
    let _ = tokio::time::timeout(Duration::from_secs(1), opening).await;
    let shared = Arc::clone(&client.shared);
    drop(client);
    shared.gone.cancelled().await;
    drop(there);
}

#[tokio::test]
async fn pings_without_end_are_not_kept() {
    let mut pings = BytesMut::new();
    (0..10_000).for_each(|i| frame::ping(&mut pings, i * 2 + 2));
    let (mut here, there) = duplex(16);
    let client = Connection::client(there);
    // Nobody reads the answers.
    here.write_all(&pings).await.expect("all of them are read");
    assert!(client.shared.control.take().len() <= CONTROL + 12);
}

#[tokio::test]
async fn numbers_of_streams_rise_and_are_the_other_ends() {
    let mut blocks = crate::spdy::headers::BlockWriter::default();
    let mut syn = |id: u32| {
        let mut out = BytesMut::new();
        let ids = [id.to_be_bytes(), [0; 4]].concat();
        frame::control(&mut out, frame::SYN_STREAM, 0, &[&ids, &[0, 0], &blocks.write(&named("data"))]);
        out
    };
    let reset = |id: u32, reason: u32| {
        let mut out = BytesMut::new();
        frame::reset(&mut out, id, reason);
        out.to_vec()
    };
    let bytes = [syn(3), syn(1), syn(4)].concat();
    let expect = [reset(1, PROTOCOL_ERROR), reset(4, PROTOCOL_ERROR)].concat();
    let (mut here, there) = duplex(1024);
    let (_server, mut incoming) = Connection::server(there);
    here.write_all(&bytes).await.expect("sent");
    let mut answer = vec![0; expect.len()];
    here.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(answer, expect);
    assert_eq!(incoming.next().await.expect("a stream").headers, named("data"));
}
