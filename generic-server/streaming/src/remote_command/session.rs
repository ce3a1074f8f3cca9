//! A client's WebSocket from its first message to its last.

use std::{convert::Infallible, error::Error};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    CommandOptions, ERROR, IDLE, LAST_WORDS, MAX_FRAME, RESIZE, STDERR, STDIN, STDOUT,
    channels::{Channels, Input, Sizes},
    command::{Inputs, run, version_of},
    status::Outcome,
};
use crate::{
    spdy::Connection,
    websocket::{Frame, Idle, NORMAL, WebSocketReader, WebSocketSink, sink},
};

/// A connection to a kubelet that speaks SPDY by now.
pub struct Kubelet<T> {
    /// The connection.
    pub io: T,
    /// The protocol that the kubelet has chosen (`X-Stream-Protocol-Version`).
    pub protocol: String,
}

/// Translates what comes over `client`, a WebSocket whose handshake is done, until the command has ended; `kubelet` is
/// the connection on which it runs, or why there is none, which the client is told. Answers the HTTP code that is to be
/// counted.
pub async fn translate<C, K, F, E>(client: C, options: CommandOptions, kubelet: F) -> u16
where
    C: AsyncRead + AsyncWrite + Send + 'static,
    K: AsyncRead + AsyncWrite + Send + 'static,
    F: Future<Output = Result<Kubelet<K>, E>>,
    E: Error + Send + 'static,
{
    let (read_half, write_half) = tokio::io::split(client);
    let (idle, gone) = (Idle::default(), CancellationToken::new());
    let (sink, writer) = sink(write_half, idle.clone(), gone.clone());
    let writer = AbortOnDropHandle::new(tokio::spawn(writer));
    let reader = WebSocketReader::new(read_half, sink.clone(), idle.clone(), MAX_FRAME);
    let (stdin, typed) = mpsc::channel(1);
    let (sizes, resized) = mpsc::channel(1);
    let outcome = command(options, kubelet, Inputs { stdin: typed, sizes: resized }, &sink, &gone);
    let listening = async {
        listen(reader, options, stdin, sizes, &gone).await;
        // The other direction ends with it. Who does not take the last words is left without them.
        let _ = timeout(LAST_WORDS, sink.close(NORMAL)).await;
        let _ = timeout(LAST_WORDS, gone.cancelled()).await;
        gone.cancel();
        std::future::pending::<Infallible>().await
    };
    let watching = async {
        idle.lasted(IDLE).await;
        gone.cancel();
        std::future::pending::<Infallible>().await
    };
    let outcome = tokio::select! {
        outcome = outcome => outcome,
        never = listening => match never {},
        never = watching => match never {},
    };
    let last_words = async {
        // A client that is gone need not know.
        let _ = sink.send(Frame::Channel(ERROR, outcome.to_json().into())).await;
        sink.close(NORMAL).await;
        drop(sink);
        writer.await
    };
    let _ = timeout(LAST_WORDS, last_words).await;
    outcome.code()
}

/// How long a kubelet may take to answer when nobody waits for it any more.
const NOBODY_WAITS: std::time::Duration = std::time::Duration::from_secs(30);

async fn command<K, F, E>(
    options: CommandOptions,
    kubelet: F,
    inputs: Inputs,
    sink: &WebSocketSink,
    gone: &CancellationToken,
) -> Outcome
where
    K: AsyncRead + AsyncWrite + Send + 'static,
    F: Future<Output = Result<Kubelet<K>, E>>,
    E: Error + Send + 'static,
{
    // An empty message tells the client that it is connected.
    let first = match options {
        CommandOptions { stdout: true, .. } => STDOUT,
        CommandOptions { stderr: true, .. } => STDERR,
        _ => ERROR,
    };
    let _ = sink.send(Frame::Channel(first, Bytes::new())).await;
    let in_vain = async {
        gone.cancelled().await;
        sleep(NOBODY_WAITS).await;
    };
    let kubelet = tokio::select! {
        kubelet = kubelet => kubelet,
        () = in_vain => return Outcome::Failed("the client is gone".to_owned()),
    };
    let kubelet = match kubelet {
        Ok(kubelet) => kubelet,
        Err(why) => return Outcome::Failed(why.to_string()),
    };
    let Some(version) = version_of(&kubelet.protocol) else {
        return Outcome::Failed(format!("unable to upgrade connection: unknown protocol {:?}", kubelet.protocol));
    };
    let connection = Connection::client(kubelet.io);
    run(&connection, version, options, inputs, sink).await
}

/// Hands on what the client sends, until it closes the WebSocket or breaks the protocol.
async fn listen<R: AsyncRead + Unpin>(
    mut reader: WebSocketReader<R>,
    options: CommandOptions,
    stdin: mpsc::Sender<Bytes>,
    sizes: mpsc::Sender<super::channels::Size>,
    gone: &CancellationToken,
) {
    let mut stdin = Some(stdin).filter(|_| options.stdin);
    let mut sizes = Some(sizes).filter(|_| options.tty);
    let (mut channels, mut sizes_read) = (Channels::default(), Sizes::default());
    let listening = async {
        while let Some(message) = reader.next().await {
            match channels.read(message) {
                Input::Data(STDIN, bytes) => {
                    if let Some(stdin) = &stdin {
                        // A command that does not read any more is not told of it.
                        let _ = stdin.send(bytes).await;
                    }
                }
                Input::Data(RESIZE, bytes) => {
                    for size in sizes_read.read(&bytes) {
                        if let Some(sizes) = &sizes {
                            let _ = sizes.send(size).await;
                        }
                    }
                }
                Input::Close(STDIN) => stdin = None,
                Input::Close(RESIZE) => sizes = None,
                // Channels that the client only reads, or that there are not.
                Input::Data(..) | Input::Close(_) | Input::Nothing => {}
                Input::Violation => return,
            }
        }
    };
    gone.run_until_cancelled(listening).await;
}

#[cfg(test)]
mod tests;
