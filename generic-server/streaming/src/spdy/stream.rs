//! One stream: what comes, and what is sent.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{
    Headers, SpdyError,
    connection::Shared,
    frame::{CANCEL, REFUSED_STREAM},
    writer::Outgoing,
};
use crate::PIECE;

/// A stream in both directions.
pub struct Stream {
    /// What it was opened with.
    pub headers: Headers,
    pub(super) id: u32,
    pub(super) shared: Arc<Shared>,
    pub(super) pieces: mpsc::Receiver<Bytes>,
}

impl Stream {
    /// Tells the other end that the stream that it has opened is welcome.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn accept(&self) -> Result<(), SpdyError> {
        self.shared.send(Outgoing::Reply { stream: self.id }).await
    }

    /// Tells the other end that the stream that it has opened is not welcome.
    pub fn refuse(self) {
        self.shared.reset(self.id, REFUSED_STREAM);
    }

    /// Its two directions.
    pub fn split(self) -> (StreamReader, StreamWriter) {
        let writer = StreamWriter { id: self.id, shared: self.shared };
        (StreamReader { pieces: self.pieces }, writer)
    }
}

/// What comes on a stream. Where it is dropped, what comes is passed over.
pub struct StreamReader {
    pieces: mpsc::Receiver<Bytes>,
}

impl StreamReader {
    /// The next piece; `None` when the other end has sent all, has reset the stream, or is gone.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.pieces.recv().await
    }
}

/// What is sent on a stream.
pub struct StreamWriter {
    id: u32,
    shared: Arc<Shared>,
}

impl StreamWriter {
    /// Sends bytes, as soon as there is room for them.
    ///
    /// # Errors
    /// The connection or the stream is gone.
    pub async fn write(&self, mut bytes: Bytes) -> Result<(), SpdyError> {
        while !bytes.is_empty() {
            if !self.shared.is_writable(self.id) {
                return Err(SpdyError::Reset);
            }
            let piece = bytes.split_to(bytes.len().min(PIECE));
            self.shared.send(Outgoing::Data { stream: self.id, piece, fin: false }).await?;
        }
        Ok(())
    }

    /// Says that nothing more will be sent.
    ///
    /// # Errors
    /// The connection or the stream is gone.
    pub async fn finish(&self) -> Result<(), SpdyError> {
        if !self.shared.is_writable(self.id) {
            return Err(SpdyError::Reset);
        }
        self.shared.send(Outgoing::Data { stream: self.id, piece: Bytes::new(), fin: true }).await?;
        self.shared.finished_here(self.id);
        Ok(())
    }

    /// Ends the stream in both directions.
    pub fn reset(&self) {
        self.shared.reset(self.id, CANCEL);
    }
}
