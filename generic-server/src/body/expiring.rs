//! A source that is let go at a deadline, whether or not the client takes anything then: a connection that is stalled does
//! not ask its bodies, so the deadline is a task of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use tokio::task::AbortHandle;

use super::{BodyError, Source};

/// What is smaller than this is little even if a connection's hundred streams all hold as much.
pub(super) const WORTH_IT: u64 = 64 << 10;

/// The source until the deadline, nothing afterwards.
pub(super) struct Expiring {
    source: Arc<Mutex<Option<Source>>>,
    timer: AbortHandle,
}

impl Expiring {
    /// Must be called within a tokio runtime.
    pub(super) fn new(source: Source, deadline: Instant) -> Self {
        let source = Arc::new(Mutex::new(Some(source)));
        let expires = source.clone();
        let timer = tokio::spawn(async move {
            tokio::time::sleep_until(deadline.into()).await;
            // Dropped outside the lock: it may be much.
            let expired = expires.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(expired);
        });
        Expiring { source, timer: timer.abort_handle() }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *source {
            Some(source) => source.poll(cx),
            None => Poll::Ready(Some(Err("the time for the request is over".into()))),
        }
    }
}

impl Drop for Expiring {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;

    use super::*;
    use crate::body::Body;

    fn body(held: &Arc<()>, deadline: Instant) -> Body {
        let held = held.clone();
        let chunks = (0..100).map(move |_| {
            let _ = &held;
            Bytes::from_static(&[b'x'; 10_000])
        });
        Body::chunks(chunks, Some(1_000_000)).until(Some(deadline))
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_at_the_deadline_is_let_go() {
        let held = Arc::new(());
        let now = tokio::time::Instant::now();
        let mut stalled = body(&held, (now + Duration::from_secs(60)).into_std());
        assert!(stalled.frame().await.expect("a frame").is_ok());
        assert_eq!(Arc::strong_count(&held), 2);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(Arc::strong_count(&held), 1, "nobody has asked for more, and it is gone");
        assert!(stalled.frame().await.expect("an item").is_err());
        assert!(stalled.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_in_time_is_whole() {
        let held = Arc::new(());
        let deadline = (tokio::time::Instant::now() + Duration::from_secs(60)).into_std();
        let taken = body(&held, deadline).collect().await.expect("no error").to_bytes();
        assert_eq!((taken.len(), Arc::strong_count(&held)), (1_000_000, 1));
    }
}
