//! SPDY/3.1, the protocol of kubelets' streams, as far as they use it.
//!
//! Its own flow control is not used: as the library of kubelets has it, WINDOW_UPDATE and SETTINGS are read and passed
//! over, and whoever reads too slowly holds up the connection.

mod connection;
mod frame;
mod headers;
mod inflate;
mod reader;
mod stream;
mod writer;

pub use connection::{Connection, Incoming};
pub use headers::Headers;
pub use stream::{Stream, StreamReader, StreamWriter};

/// The name of the protocol in Upgrade headers.
pub const PROTOCOL: &str = "SPDY/3.1";

/// Why a connection ends, or a stream does not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpdyError {
    /// The other end speaks something else.
    #[error("{0}")]
    Protocol(&'static str),
    /// The connection is gone.
    #[error("connection closed")]
    Closed,
    /// The other end does not want the stream.
    #[error("Stream reset")]
    Reset,
    /// The other end says nothing about the stream.
    #[error("Timeout occurred")]
    Timeout,
    /// The connection broke.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for SpdyError {
    fn from(error: std::io::Error) -> Self {
        SpdyError::Io(error.to_string())
    }
}
