//! What answers carry for those who record them: the Status or the object that they are, and the tunnel that they open.

pub(crate) mod managed_fields;

use std::sync::{Arc, Mutex, PoisonError};

use audit::{Recorder, Stage};
use bytes::Bytes;
use machinery::meta::status::Status;

use crate::negotiate::Accepted;

/// An answer's extension: the Status that it is.
#[derive(Clone)]
pub(crate) struct SentStatus(pub(crate) Arc<Status>);

/// An answer's extension: its body is an object of the API.
#[derive(Clone)]
pub(crate) enum Shown {
    /// The body itself, in this encoding.
    Body(Accepted),
    /// The object's JSON in pieces, whatever the body is encoded as.
    Json {
        /// These.
        pieces: Vec<Bytes>,
        /// Managed fields are left out already, if they are to be.
        is_lean: bool,
    },
}

impl Shown {
    /// The JSON of an object.
    pub(crate) fn json(pieces: Vec<Bytes>) -> Self {
        Shown::Json { pieces, is_lean: false }
    }
}

/// Emits the last event of a request when it is dropped.
pub(crate) struct Completion(pub(crate) Recorder);

impl Drop for Completion {
    fn drop(&mut self) {
        // Nobody waits for it any more.
        drop(self.0.emit(Stage::ResponseComplete));
    }
}

/// What a tunnel holds as long as it lasts: the last event of its request, once its answer is on its way.
#[derive(Clone, Default)]
pub(crate) struct Tunnel(Arc<Mutex<Option<Completion>>>);

/// An answer's extension: the tunnel that it opens.
#[derive(Clone)]
pub(crate) struct OfTunnel(pub(crate) Tunnel);

impl Tunnel {
    /// Has the event emitted when the tunnel is gone. Where it is gone already that is now.
    pub(crate) fn arm(self, completion: Completion) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(completion);
    }
}
