//! The server's end of WebSockets (RFC 6455), without extensions.

mod handshake;
mod idle;
mod reader;
mod sink;

pub use handshake::{Handshake, Refusal, asked_protocols, is_websocket};
pub use idle::Idle;
pub use reader::{Message, WebSocketReader};
pub use sink::{Frame, Gone, WebSocketSink, sink};

/// What a text frame begins with, and the others.
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Why a WebSocket is closed: all is done.
pub const NORMAL: u16 = 1000;
/// Why a WebSocket is closed: the client does not keep to the protocol.
pub const PROTOCOL_ERROR: u16 = 1002;
