//! Streams over one connection, as kubelets and their clients speak them.
//!
//! `spdy` is SPDY/3.1 for both ends, `websocket` the server's end of WebSockets. `remote_command` translates a WebSocket
//! that carries the channels of a command (`v5.channel.k8s.io`) into the SPDY streams that kubelets know; `tunnel` carries
//! SPDY itself through a WebSocket, and `reader` sends what is read to one. `throttle` limits how fast bytes go. Nothing
//! here knows of HTTP clients or of pods: callers bring connections.
//!
//! Memory is bounded by constants, whatever the other end sends: messages and frames are handed on in pieces of at most
//! [`PIECE`] bytes, queues have a few places, and who does not take what is sent holds up who sends it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), streaming::spdy::SpdyError> {
//! use streaming::spdy::{Connection, Headers};
//!
//! let (here, there) = tokio::io::duplex(1024);
//! let client = Connection::client(here);
//! let (_server, mut opened) = Connection::server(there);
//! let accepted = async {
//!     let stream = opened.next().await.expect("a stream");
//!     stream.accept().await.map(|()| stream)
//! };
//! let (own, other) = tokio::join!(client.open(Headers::of([("streamtype", "data")])), accepted);
//! let ((_, sending), (mut receiving, _)) = (own?.split(), other?.split());
//! sending.write("hello".into()).await?;
//! assert_eq!(receiving.next().await.as_deref(), Some(&b"hello"[..]));
//! # Ok(())
//! # }
//! ```

pub mod reader;
pub mod remote_command;
pub mod spdy;
pub mod throttle;
pub mod tunnel;
pub mod websocket;

/// What is read, handed on and sent at once, in bytes.
pub const PIECE: usize = 16 * 1024;
