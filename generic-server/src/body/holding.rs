//! A body that keeps something until it has been sent.

use std::{
    any::Any,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::{Body, BodyError};

/// The body, and what goes with it.
pub(super) struct Holding {
    pub(super) body: Body,
    pub(super) _kept: Box<dyn Any + Send>,
}

impl http_body::Body for Holding {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
