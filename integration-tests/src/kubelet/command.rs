//! Commands: processes of this machine, with their streams over SPDY or a WebSocket.

use std::process::Stdio;

use bytes::{Bytes, BytesMut};
use streaming::{
    spdy::{Connection, StreamReader, StreamWriter},
    websocket::{Frame, Idle, NORMAL, WebSocketReader, WebSocketSink, sink},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    process::Command,
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

/// The streams that are asked for.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

/// Where a stream's bytes go.
enum Out {
    Spdy(StreamWriter),
    Channel(u8, WebSocketSink),
    Nowhere,
}

impl Out {
    async fn write(&self, bytes: Bytes) -> bool {
        match self {
            Out::Spdy(stream) => stream.write(bytes).await.is_ok(),
            Out::Channel(channel, sink) => sink.send(Frame::Channel(*channel, bytes)).await.is_ok(),
            Out::Nowhere => true,
        }
    }

    async fn finish(&self) {
        if let Out::Spdy(stream) = self {
            // The client may be gone.
            let _ = stream.finish().await;
        }
    }
}

/// The streams of a command.
struct Streams {
    error: Out,
    stdin: mpsc::Receiver<Bytes>,
    stdout: Out,
    stderr: Out,
    sizes: mpsc::Receiver<Bytes>,
}

/// Runs a command whose streams a client opens.
pub(super) async fn over_spdy<T: AsyncRead + AsyncWrite + Send + 'static>(io: T, command: Vec<String>, wanted: Wanted) {
    let (_connection, mut incoming) = Connection::server(io);
    let [error, stdin, stdout, stderr, resize] = [
        ("error", true),
        ("stdin", wanted.stdin),
        ("stdout", wanted.stdout),
        ("stderr", wanted.stderr && !wanted.tty),
        ("resize", wanted.tty),
    ]
    .map(|(kind, wanted)| wanted.then_some(kind));
    let mut streams = std::collections::HashMap::new();
    for _ in [error, stdin, stdout, stderr, resize].into_iter().flatten() {
        let Some(stream) = incoming.next().await else { return };
        if stream.accept().await.is_err() {
            return;
        }
        streams.insert(stream.headers.get("streamtype").unwrap_or_default().to_owned(), stream.split());
    }
    let mut take = |kind: Option<&str>| kind.and_then(|kind| streams.remove(kind));
    let (stdin, _stdin_out) = take(stdin).map_or((None, None), |(from, to)| (Some(from), Some(to)));
    let (sizes, _) = take(resize).map_or((None, None), |(from, to)| (Some(from), Some(to)));
    let mut out = |kind| take(kind).map_or(Out::Nowhere, |(_, to)| Out::Spdy(to));
    let streams = Streams {
        error: out(error),
        stdout: out(stdout),
        stderr: out(stderr),
        stdin: received(stdin),
        sizes: received(sizes),
    };
    run(command, streams).await;
}

fn received(stream: Option<StreamReader>) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let Some(mut stream) = stream else { return };
        while let Some(bytes) = stream.next().await {
            if sender.send(bytes).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Runs a command for a client that has channels (`v4.channel.k8s.io`).
pub(super) async fn over_websocket<T>(io: T, command: Vec<String>, wanted: Wanted)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read_half, write_half) = tokio::io::split(io);
    let (to_client, writer) = sink(write_half, Idle::default(), CancellationToken::new());
    let writer = tokio::spawn(writer);
    let mut reader = WebSocketReader::new(read_half, to_client.clone(), Idle::default(), 1 << 20);
    let (stdin, typed) = mpsc::channel(1);
    let (sizes, resized) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(message) = reader.next().await {
            let bytes = message.bytes;
            let sent = match bytes.first() {
                Some(0) if wanted.stdin => stdin.send(bytes.slice(1..)).await,
                Some(4) => sizes.send(bytes.slice(1..)).await,
                _ => Ok(()),
            };
            if sent.is_err() {
                return;
            }
        }
    });
    let out = |channel, wanted| if wanted { Out::Channel(channel, to_client.clone()) } else { Out::Nowhere };
    let streams = Streams {
        error: out(3, true),
        stdin: typed,
        stdout: out(1, wanted.stdout),
        stderr: out(2, wanted.stderr && !wanted.tty),
        sizes: resized,
    };
    run(command, streams).await;
    to_client.close(NORMAL).await;
    drop(to_client);
    let _ = writer.await;
}

/// Runs a command, and says how it has ended.
async fn run(command: Vec<String>, mut streams: Streams) {
    let status = match command.first().map(String::as_str) {
        Some("sizes") => {
            // What a terminal would be told: the sizes that come until one is of no width.
            while let Some(size) = streams.sizes.recv().await {
                let last = String::from_utf8_lossy(&size).contains("\"Width\":0");
                streams.stdout.write(size).await;
                if last {
                    break;
                }
            }
            r#"{"metadata":{},"status":"Success"}"#.to_owned()
        }
        Some(program) => process(program, &command[1..], &mut streams).await,
        None => failure("no command"),
    };
    streams.stdout.finish().await;
    streams.stderr.finish().await;
    streams.error.write(status.into()).await;
    streams.error.finish().await;
}

fn failure(why: &str) -> String {
    format!(r#"{{"metadata":{{}},"status":"Failure","message":"{why}","reason":"InternalError"}}"#)
}

async fn process(program: &str, arguments: &[String], streams: &mut Streams) -> String {
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else { return failure("cannot be run") };
    let (mut to, out, err) =
        (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let stdin = &mut streams.stdin;
    let typing = async move {
        while let Some(bytes) = stdin.recv().await {
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let showing = async { tokio::join!(copy(out, &streams.stdout), copy(err, &streams.stderr)) };
    let running = async {
        showing.await;
        child.wait().await
    };
    let ended = tokio::select! {
        ended = running => ended,
        never = async { typing.await; std::future::pending::<std::io::Result<_>>().await } => never,
    };
    match ended.ok().and_then(|status| status.code()) {
        Some(0) => r#"{"metadata":{},"status":"Success"}"#.to_owned(),
        Some(code) => format!(
            r#"{{"metadata":{{}},"status":"Failure","message":"command terminated with non-zero exit code","reason":"NonZeroExitCode","details":{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}}}"#
        ),
        None => failure("killed"),
    }
}

async fn copy(mut from: impl AsyncRead + Unpin, to: &Out) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(16 * 1024);
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if !to.write(buffer.split().freeze()).await {
                    return;
                }
            }
        }
    }
}
