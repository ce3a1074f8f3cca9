//! Commands between a client that speaks WebSocket and a kubelet that speaks SPDY, both played here.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    sync::oneshot,
    task::JoinHandle,
};

use super::*;
use crate::spdy::{Incoming, Stream, StreamReader, StreamWriter};

/// The client's end, and the translation.
struct Client {
    io: DuplexStream,
    translation: JoinHandle<u16>,
}

/// The kubelet's end.
struct Node {
    connection: Connection,
    incoming: Incoming,
}

const ALL: CommandOptions = CommandOptions { stdin: true, stdout: true, stderr: true, tty: false, rate: None };

fn start(options: CommandOptions, protocol: &str) -> (Client, Node) {
    let (io, there) = duplex(64 * 1024);
    let (here, node) = duplex(64 * 1024);
    let kubelet = Kubelet { io: here, protocol: protocol.to_owned() };
    let translation = tokio::spawn(translate(there, options, async { Ok::<_, io::Error>(kubelet) }));
    let (connection, incoming) = Connection::server(node);
    (Client { io, translation }, Node { connection, incoming })
}

impl Client {
    async fn send(&mut self, payload: &[u8]) {
        let mut frame = vec![0x82, 0x80 | u8::try_from(payload.len()).expect("a short message"), 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.io.write_all(&frame).await.expect("sent");
    }

    /// The next message; its kind comes first.
    async fn next(&mut self) -> (u8, Vec<u8>) {
        let kind = self.io.read_u8().await.expect("a frame");
        let length = match self.io.read_u8().await.expect("a frame") {
            126 => u64::from(self.io.read_u16().await.expect("a length")),
            127 => self.io.read_u64().await.expect("a length"),
            short => u64::from(short),
        };
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.io.read_exact(&mut payload).await.expect("a payload");
        (kind & 0x0f, payload)
    }

    /// What comes until the WebSocket is closed, by channel, and what is counted.
    async fn rest(mut self) -> (Vec<Vec<u8>>, u16) {
        let mut channels = vec![Vec::new(); 5];
        loop {
            match self.next().await {
                (2, message) => channels[usize::from(message[0])].extend_from_slice(&message[1..]),
                (8, why) => {
                    assert_eq!(why, 1000_u16.to_be_bytes());
                    return (channels, self.translation.await.expect("it ends"));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Node {
    /// The streams that are opened, which must be of these kinds.
    async fn accept<const N: usize>(&mut self, kinds: [&str; N]) -> [(StreamReader, StreamWriter); N] {
        let mut streams: Vec<Stream> = Vec::new();
        for kind in kinds {
            let stream = self.incoming.next().await.expect("a stream");
            assert_eq!(stream.headers.get("streamtype"), Some(kind));
            stream.accept().await.expect("accepted");
            streams.push(stream);
        }
        let split: Vec<_> = streams.into_iter().map(Stream::split).collect();
        split.try_into().unwrap_or_else(|_| panic!("as many as there are kinds"))
    }
}

async fn say(stream: &StreamWriter, bytes: &[u8]) {
    stream.write(Bytes::copy_from_slice(bytes)).await.expect("sent");
    stream.finish().await.expect("finished");
}

async fn all(reader: &mut StreamReader) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece);
    }
    bytes
}

const SUCCESS: &[u8] = br#"{"metadata":{},"status":"Success"}"#;

#[tokio::test]
async fn what_is_typed_is_read_and_what_is_written_is_shown() {
    let (mut client, mut node) = start(ALL, "v4.channel.k8s.io");
    assert_eq!(client.next().await, (2, vec![1]), "the client is told that it is connected");
    let [(_, error), (mut stdin, _), (_, stdout), (_, stderr)] =
        node.accept(["error", "stdin", "stdout", "stderr"]).await;
    client.send(b"\x00hello ").await;
    client.send(b"\x00world").await;
    client.send(b"\xff\x00").await;
    client.send(b"\x00after the end").await;
    assert_eq!(all(&mut stdin).await, b"hello world", "half of the connection is closed");
    say(&stdout, b"out").await;
    say(&stderr, b"err").await;
    say(&error, br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#).await;
    let (channels, code) = client.rest().await;
    assert_eq!((channels[1].as_slice(), channels[2].as_slice(), code), (&b"out"[..], &b"err"[..], 200));
    let status = String::from_utf8_lossy(&channels[3]);
    assert!(status.contains(r#""causes":[{"reason":"ExitCode","message":"7"}]"#), "{status}");
    node.connection.gone().await;
}

#[tokio::test]
async fn each_protocol_of_kubelets_is_spoken() {
    let failure = |why: &str| format!(r#""message":"Internal error occurred: {why}""#);
    for (protocol, expect) in [
        ("v2.channel.k8s.io", failure("error executing remote command: oops")),
        ("v3.channel.k8s.io", failure("error executing remote command: oops")),
        ("channel.k8s.io", failure("Error executing remote command: oops")),
        ("", failure("Error executing remote command: oops")),
    ] {
        let options = CommandOptions { stdout: true, tty: true, ..CommandOptions::default() };
        let (client, mut node) = start(options, protocol);
        let streams = match protocol {
            "v3.channel.k8s.io" => {
                let [error, stdout, _resize] = node.accept(["error", "stdout", "resize"]).await;
                [error, stdout]
            }
            _ => node.accept(["error", "stdout"]).await,
        };
        let [(_, error), (_, stdout)] = streams;
        say(&error, b"oops").await;
        say(&stdout, b"").await;
        let (channels, code) = client.rest().await;
        let status = String::from_utf8_lossy(&channels[3]).into_owned();
        assert!(status.contains(&expect) && code == 500, "{protocol}: {status}");
    }
    let (client, _node) = start(ALL, "v9.channel.k8s.io");
    assert_eq!(client.rest().await.1, 500);
}

#[tokio::test]
async fn a_terminal_is_resized() {
    let (mut client, mut node) = start(CommandOptions { tty: true, ..ALL }, "v4.channel.k8s.io");
    let [(_, error), _stdin, (_, stdout), (mut resize, _)] = node.accept(["error", "stdin", "stdout", "resize"]).await;
    client.send(b"\x04{\"Width\":80,\"Height\":24}").await;
    client.send(b"\x04{\"Width\":81,\"Height\":25}\n").await;
    let mut sizes = Vec::new();
    while sizes.len() < 50 {
        sizes.extend_from_slice(&resize.next().await.expect("a size"));
    }
    assert_eq!(sizes, b"{\"Width\":80,\"Height\":24}\n{\"Width\":81,\"Height\":25}\n");
    client.send(b"\x04no size").await;
    client.send(b"\x00x").await;
    say(&stdout, b"").await;
    say(&error, SUCCESS).await;
    assert_eq!(client.rest().await.0[3], SUCCESS);
}

#[tokio::test]
async fn resizes_that_nobody_asked_for_hold_nothing_up() {
    let (mut client, mut node) =
        start(CommandOptions { stdin: true, ..CommandOptions::default() }, "v4.channel.k8s.io");
    let [(_, error), (mut stdin, _)] = node.accept(["error", "stdin"]).await;
    for _ in 0..10 {
        client.send(b"\x04{\"Width\":80,\"Height\":24}").await;
    }
    client.send(b"\x00x").await;
    assert_eq!(stdin.next().await.as_deref(), Some(&b"x"[..]));
    say(&error, b"").await;
    assert_eq!(client.rest().await.1, 200);
}

#[tokio::test]
async fn a_kubelet_that_cannot_be_reached_is_told_on_the_channel_for_errors() {
    let (io, there) = duplex(1024);
    let dial = async { Err::<Kubelet<DuplexStream>, _>(io::Error::other("unable to upgrade connection: no")) };
    let translation = tokio::spawn(translate(there, CommandOptions::default(), dial));
    let (channels, code) = Client { io, translation }.rest().await;
    let status = String::from_utf8_lossy(&channels[3]).into_owned();
    assert!(status.contains("Internal error occurred: unable to upgrade connection: no") && code == 500, "{status}");
}

#[tokio::test]
async fn a_stream_that_the_kubelet_refuses_is_the_end() {
    let (client, mut node) = start(ALL, "v4.channel.k8s.io");
    node.incoming.next().await.expect("a stream").refuse();
    let (channels, code) = client.rest().await;
    assert!(String::from_utf8_lossy(&channels[3]).contains("Internal error occurred: Stream reset") && code == 500);
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_the_command_and_then_gets_all() {
    let (mut client, mut node) =
        start(CommandOptions { stdout: true, ..CommandOptions::default() }, "v4.channel.k8s.io");
    let [(_, error), (_, stdout)] = node.accept(["error", "stdout"]).await;
    let (progress, mut written) = tokio::sync::watch::channel(0_usize);
    let writing = tokio::spawn(async move {
        let piece = Bytes::from(vec![7; 16 * 1024]);
        for _ in 0..256 {
            stdout.write(piece.clone()).await.expect("sent");
            progress.send_modify(|sent| *sent += piece.len());
        }
        stdout.finish().await.expect("finished");
        say(&error, SUCCESS).await;
    });
    for _ in 0..20_000 {
        tokio::task::yield_now().await;
    }
    let held = *written.borrow_and_update();
    assert!(held < 1 << 20, "{held} of four million bytes are on their way");
    let (kind, first) = client.next().await;
    assert_eq!((kind, first), (2, vec![1]));
    let (channels, code) = client.rest().await;
    writing.await.expect("written");
    assert_eq!((channels[1].len(), channels[3].as_slice(), code), (4 << 20, SUCCESS, 200));
}

#[tokio::test]
async fn a_command_that_reads_slowly_holds_up_the_client() {
    let (mut client, mut node) =
        start(CommandOptions { stdin: true, ..CommandOptions::default() }, "v4.channel.k8s.io");
    let [_error, (mut stdin, _)] = node.accept(["error", "stdin"]).await;
    let message = [&[0x82, 126, 0x40, 0x01][..], &[0; 4], &[0; 0x4001]].concat();
    let message = [&message[..1], &[0x80 | 126], &message[2..]].concat();
    let (mut sent, mut received) = (0, 0);
    let sending = async {
        for _ in 0..1000 {
            client.io.write_all(&message).await.expect("sent");
            sent += 0x4000;
        }
    };
    tokio::select! {
        biased;
        () = sending => panic!("nobody reads"),
        () = async { for _ in 0..20_000 { tokio::task::yield_now().await } } => {}
    }
    assert!(sent < 1 << 20, "{sent} bytes are on their way");
    while received < sent {
        received += stdin.next().await.expect("what was sent").len();
    }
}

#[tokio::test]
async fn a_client_that_vanishes_closes_what_it_types_and_does_not_stop_the_command() {
    for says_so in [true, false] {
        let (mut client, mut node) = start(ALL, "v4.channel.k8s.io");
        let [(_, error), (mut stdin, _), (_, stdout), (_, stderr)] =
            node.accept(["error", "stdin", "stdout", "stderr"]).await;
        client.send(b"\x00last words").await;
        if says_so {
            client.io.write_all(b"\x88\x80\x00\x00\x00\x00").await.expect("sent");
        }
        drop(client.io);
        assert_eq!(all(&mut stdin).await, b"last words");
        say(&stdout, &vec![0; 1 << 20]).await;
        say(&stderr, b"").await;
        say(&error, SUCCESS).await;
        assert_eq!(client.translation.await.expect("it ends"), 200);
        node.connection.gone().await;
    }
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_is_let_go() {
    let too_large = [&[0x82, 0xff][..], &(33_u64 << 20).to_be_bytes(), &[0; 4]].concat();
    for bytes in [&b"\xff\xff\xff\xff"[..], b"\x82\x83\x00\x00\x00\x00\xff\x00\x00", b"\x82\x01\x00", &too_large] {
        let (mut client, mut node) = start(ALL, "v4.channel.k8s.io");
        let [_error, (mut stdin, _), _stdout, _stderr] = node.accept(["error", "stdin", "stdout", "stderr"]).await;
        client.io.write_all(bytes).await.expect("sent");
        assert_eq!(all(&mut stdin).await, b"", "{bytes:?}");
        let mut rest = Vec::new();
        client.io.read_to_end(&mut rest).await.expect("closed");
        drop(node);
        client.translation.await.expect("it ends");
    }
}

#[tokio::test]
async fn a_kubelet_that_vanishes_ends_the_command() {
    let (client, mut node) = start(ALL, "v4.channel.k8s.io");
    let [_error, _stdin, (_, stdout), _stderr] = node.accept(["error", "stdin", "stdout", "stderr"]).await;
    stdout.write(Bytes::from_static(b"half")).await.expect("sent");
    stdout.finish().await.expect("finished");
    drop(node);
    let (channels, code) = client.rest().await;
    assert_eq!(
        (channels[1].as_slice(), channels[3].as_slice(), code),
        (&b"half"[..], SUCCESS, 200),
        "as upstream says"
    );
}

#[tokio::test]
async fn a_kubelet_that_talks_without_end_about_errors_is_not_listened_to_for_ever() {
    let (client, mut node) = start(CommandOptions::default(), "v4.channel.k8s.io");
    let [(_, error)] = node.accept(["error"]).await;
    let talking = async { say(&error, &vec![b'x'; super::super::MAX_ERROR + 1]).await };
    let ((channels, code), ()) = tokio::join!(client.rest(), talking);
    assert!(String::from_utf8_lossy(&channels[3]).contains("more than 1048576 bytes") && code == 500);
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_closed_after_hours() {
    let (mut client, mut node) = start(ALL, "v4.channel.k8s.io");
    let [_error, (mut stdin, _), _stdout, _stderr] = node.accept(["error", "stdin", "stdout", "stderr"]).await;
    tokio::time::sleep(Duration::from_secs(3 * 60 * 60)).await;
    client.send(b"\x00x").await;
    assert_eq!(stdin.next().await.as_deref(), Some(&b"x"[..]));
    let start = tokio::time::Instant::now();
    assert_eq!(all(&mut stdin).await, b"");
    assert_eq!(start.elapsed().as_secs() / 60, 4 * 60);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_never_answers_is_given_up_when_nobody_waits() {
    let (io, there) = duplex(1024);
    let (asked, was_asked) = oneshot::channel::<()>();
    let dial = async move {
        let _asked = asked;
        std::future::pending::<Result<Kubelet<DuplexStream>, io::Error>>().await
    };
    let translation = tokio::spawn(translate(there, CommandOptions::default(), dial));
    drop(io);
    assert_eq!(translation.await.expect("it ends"), 500);
    assert!(was_asked.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_a_command_writes_is_slowed_down() {
    let rate = crate::throttle::Rate::new(1000);
    let (client, mut node) =
        start(CommandOptions { stdout: true, rate, ..CommandOptions::default() }, "v4.channel.k8s.io");
    let [(_, error), (_, stdout)] = node.accept(["error", "stdout"]).await;
    let start = tokio::time::Instant::now();
    let ((), (channels, _)) = tokio::join!(
        async {
            say(&stdout, &[0; 10_000]).await;
            say(&error, b"").await;
        },
        client.rest()
    );
    assert_eq!(channels[1].len(), 10_000);
    assert!((9900..11_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}
