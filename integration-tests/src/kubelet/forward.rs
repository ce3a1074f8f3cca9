//! Forwarded ports: two streams for each connection, to a port of this machine.

use std::collections::HashMap;

use bytes::BytesMut;
use streaming::spdy::{Connection, StreamReader, StreamWriter};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

type Ends = (StreamReader, StreamWriter);

/// Forwards what a client opens streams for: an `error` stream and a `data` stream with the same `requestid`.
pub(super) async fn ports<T: AsyncRead + AsyncWrite + Send + 'static>(io: T) {
    let (_connection, mut incoming) = Connection::server(io);
    let mut errors: HashMap<String, Ends> = HashMap::new();
    while let Some(stream) = incoming.next().await {
        let header = |name: &str| stream.headers.get(name).unwrap_or_default().to_owned();
        let (kind, port, id) = (header("streamtype"), header("port"), header("requestid"));
        if stream.accept().await.is_err() {
            return;
        }
        match (kind.as_str(), errors.remove(&id)) {
            ("error", _) => drop(errors.insert(id, stream.split())),
            ("data", Some((_, error))) => drop(tokio::spawn(connect(port, error, stream.split()))),
            _ => stream.split().1.reset(),
        }
    }
}

async fn connect(port: String, error: StreamWriter, (mut from, to): Ends) {
    let connected = match port.parse::<u16>() {
        Ok(port) => TcpStream::connect(("127.0.0.1", port)).await.map_err(|why| why.to_string()),
        Err(why) => Err(why.to_string()),
    };
    match connected {
        Ok(stream) => {
            let (mut read_half, mut write_half) = stream.into_split();
            let up = async {
                while let Some(bytes) = from.next().await {
                    if write_half.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
                let _ = write_half.shutdown().await;
            };
            let down = async {
                let mut buffer = BytesMut::new();
                while read_half.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
                    if to.write(buffer.split().freeze()).await.is_err() {
                        break;
                    }
                }
                let _ = to.finish().await;
            };
            tokio::join!(up, down);
        }
        Err(why) => {
            let text = format!("error forwarding port {port} to pod: {why}");
            let _ = error.write(text.into()).await;
            let _ = to.finish().await;
        }
    }
    let _ = error.finish().await;
}
