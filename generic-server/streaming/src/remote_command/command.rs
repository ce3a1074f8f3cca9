//! The kubelet's end of a command: its streams, and what goes over them.

use std::convert::Infallible;

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

use super::{CommandOptions, MAX_ERROR, PING, STDERR, STDOUT, channels::Size, status::Outcome};
use crate::{
    spdy::{Connection, Headers, SpdyError, Stream, StreamReader, StreamWriter},
    throttle::{Rate, Throttle},
    websocket::{Frame, WebSocketSink},
};

/// What the client sends.
pub(super) struct Inputs {
    pub(super) stdin: mpsc::Receiver<Bytes>,
    pub(super) sizes: mpsc::Receiver<Size>,
}

/// The streams of a command, in the order in which they are opened.
struct Streams {
    error: Stream,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

impl Streams {
    /// Opens all of them before anything is sent: kubelets start to read when they have all that they wait for.
    async fn open(connection: &Connection, options: CommandOptions, version: u8) -> Result<Self, SpdyError> {
        let open = async |kind: &'static str, wanted: bool| match wanted {
            true => connection.open(Headers::of([("streamtype", kind)])).await.map(Some),
            false => Ok(None),
        };
        Ok(Streams {
            error: connection.open(Headers::of([("streamtype", "error")])).await?,
            stdin: open("stdin", options.stdin).await?,
            stdout: open("stdout", options.stdout).await?,
            stderr: open("stderr", options.stderr && !options.tty).await?,
            resize: open("resize", options.tty && version >= 3).await?,
        })
    }
}

/// The version of a protocol that a kubelet has chosen; one that says nothing speaks the first one.
pub(super) fn version_of(protocol: &str) -> Option<u8> {
    match protocol {
        "" | "channel.k8s.io" => Some(1),
        "v2.channel.k8s.io" => Some(2),
        "v3.channel.k8s.io" => Some(3),
        "v4.channel.k8s.io" => Some(4),
        super::PROTOCOL => Some(5),
        _ => None,
    }
}

/// Runs a command, until the kubelet has said how it has ended.
pub(super) async fn run(
    connection: &Connection,
    version: u8,
    options: CommandOptions,
    inputs: Inputs,
    sink: &WebSocketSink,
) -> Outcome {
    let streams = match Streams::open(connection, options, version).await {
        Ok(streams) => streams,
        Err(why) => return Outcome::Failed(why.to_string()),
    };
    let has_output = streams.stdout.is_some() || streams.stderr.is_some();
    let (error, _error_out) = streams.error.split();
    let outputs = async {
        let out = copy_out(streams.stdout, STDOUT, sink, options.rate);
        tokio::join!(out, copy_out(streams.stderr, STDERR, sink, options.rate));
    };
    let outcome = async {
        if version > 1 {
            let ((), message) = tokio::join!(outputs, read_error(error));
            return message.map_or_else(Outcome::Failed, |message| Outcome::read(&message, version));
        }
        // The first protocol has no end of the stream for errors: a command has ended when its output has.
        let failure = async {
            match read_error(error).await {
                Ok(message) if message.is_empty() => std::future::pending().await,
                message => message.map_or_else(Outcome::Failed, |message| Outcome::read(&message, version)),
            }
        };
        tokio::select! {
            biased;
            failure = failure => failure,
            () = outputs, if has_output => Outcome::Success,
            () = connection.gone() => Outcome::Success,
        }
    };
    let feeding = async {
        tokio::join!(
            feed_stdin(streams.stdin, inputs.stdin, options.rate, version),
            feed_sizes(streams.resize, inputs.sizes),
            keep_alive(connection),
        );
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        biased;
        outcome = outcome => outcome,
        never = feeding => match never {},
    }
}

/// Hands what a command writes to the client. Once the client is gone the rest is passed over: the command is not held up.
async fn copy_out(stream: Option<Stream>, channel: u8, sink: &WebSocketSink, rate: Option<Rate>) {
    let Some(stream) = stream else { return };
    let (mut from, _writer) = stream.split();
    let mut throttle = Throttle::new(rate);
    let mut is_there = true;
    while let Some(mut piece) = from.next().await {
        while is_there && !piece.is_empty() {
            let some = throttle.some_of(piece.len()).await;
            is_there = sink.send(Frame::Channel(channel, piece.split_to(some))).await.is_ok();
        }
    }
}

/// All that the kubelet says about how the command has ended.
async fn read_error(mut from: StreamReader) -> Result<Vec<u8>, String> {
    let mut message = Vec::new();
    let mut too_long = false;
    while let Some(piece) = from.next().await {
        too_long |= message.len() + piece.len() > MAX_ERROR;
        if !too_long {
            message.extend_from_slice(&piece);
        }
    }
    if too_long { Err(format!("error reading from error stream: more than {MAX_ERROR} bytes")) } else { Ok(message) }
}

/// Hands what the client types to the command. What the command does not take any more is passed over, for resizes may
/// follow.
async fn feed_stdin(stream: Option<Stream>, mut typed: mpsc::Receiver<Bytes>, rate: Option<Rate>, version: u8) {
    let Some(stream) = stream else { return };
    let (mut from, to) = stream.split();
    let closes = version > 1;
    let copying = async {
        let mut throttle = Throttle::new(rate);
        let mut is_open = true;
        while let Some(mut bytes) = typed.recv().await {
            while is_open && !bytes.is_empty() {
                let some = throttle.some_of(bytes.len()).await;
                is_open = to.write(bytes.split_to(some)).await.is_ok();
            }
        }
        finish(&to, closes).await;
    };
    // The kubelet sends nothing here, but it closes the stream when nobody reads any more.
    let waiting = async {
        while from.next().await.is_some() {}
        finish(&to, closes).await;
    };
    tokio::join!(copying, waiting);
}

async fn finish(to: &StreamWriter, closes: bool) {
    if closes {
        // It may be finished, or gone, already.
        let _ = to.finish().await;
    }
}

async fn feed_sizes(stream: Option<Stream>, mut sizes: mpsc::Receiver<Size>) {
    let Some(stream) = stream else { return };
    let (_reader, to) = stream.split();
    while let Some(size) = sizes.recv().await {
        if to.write(size.to_json().into()).await.is_err() {
            return;
        }
    }
}

/// Keeps what is between this server and the kubelet from closing an idle connection.
async fn keep_alive(connection: &Connection) {
    let mut ticks = interval(PING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if connection.ping().await.is_err() {
            return;
        }
    }
}
