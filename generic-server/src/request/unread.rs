//! A request's body, and what becomes of it when nobody reads it: common clients lose an answer that comes while they are
//! still sending, so what is small is read and thrown away first.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// So much is read before the answer (Go's server: the same).
const BEFORE: Bounds = Bounds { bytes: 256 << 10, time: Duration::from_secs(1) };
/// And so much after it, from clients that do not look for answers while they send. Of what is larger the rest is refused:
/// by closing the connection, or by a reset of the stream that says that nothing is wrong.
const AFTER: Bounds = Bounds { bytes: 24 << 20, time: Duration::from_secs(10) };

/// How much is read and thrown away, and for how long.
struct Bounds {
    bytes: u64,
    time: Duration,
}

/// A request's body. If it is given up before its end, it goes back to whoever answers the request.
pub struct RequestBody {
    incoming: Option<Incoming>,
    rest: Option<Arc<Rest>>,
    /// What a component of this server sends: it is in memory.
    whole: Bytes,
    /// Where what is read is counted, if anybody wants to know.
    read: Option<Arc<AtomicU64>>,
}

/// What was not read of a body.
#[derive(Default)]
pub(crate) struct Rest(Mutex<Option<Incoming>>);

impl RequestBody {
    /// The body, and where its rest will be if there is one.
    pub(crate) fn new(incoming: Incoming) -> (Self, Option<Arc<Rest>>) {
        let rest = (!incoming.is_end_stream()).then(Arc::<Rest>::default);
        (RequestBody { incoming: Some(incoming), rest: rest.clone(), whole: Bytes::new(), read: None }, rest)
    }

    /// A body that is in memory already.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        RequestBody { incoming: None, rest: None, whole: bytes, read: None }
    }

    /// Counts the bytes that are read from now on.
    pub(crate) fn count_into(&mut self, read: Arc<AtomicU64>) {
        self.read = Some(read);
    }

    fn count(&self, frame: &Frame<Bytes>) {
        if let (Some(read), Some(data)) = (&self.read, frame.data_ref()) {
            read.fetch_add(data.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let (Some(rest), Some(incoming)) = (&self.rest, self.incoming.take())
            && !incoming.is_end_stream()
        {
            *rest.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(incoming);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(incoming) = &mut self.incoming {
            let polled = Pin::new(incoming).poll_frame(cx);
            if let Poll::Ready(Some(Ok(frame))) = &polled {
                self.count(frame);
            }
            return polled;
        }
        let whole = std::mem::take(&mut self.whole);
        let frame = (!whole.is_empty()).then(|| Frame::data(whole));
        frame.iter().for_each(|frame| self.count(frame));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().map_or(self.whole.is_empty(), Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let whole = || SizeHint::with_exact(self.whole.len() as u64);
        self.incoming.as_ref().map_or_else(whole, Body::size_hint)
    }
}

impl Rest {
    /// Reads what is left, if that is little. What is more is read on beside the answer.
    pub(crate) async fn drain(&self) {
        let Some(mut body) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if body.size_hint().lower() <= BEFORE.bytes && read(&mut body, &BEFORE).await {
            return;
        }
        tokio::spawn(async move { read(&mut body, &AFTER).await });
    }
}

/// Reads a body within bounds. Whether that was all of it.
async fn read(body: &mut Incoming, bounds: &Bounds) -> bool {
    let all = async {
        let mut left = bounds.bytes;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
            if left == 0 {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(bounds.time, all).await.unwrap_or(false)
}

/// Whether a client sends its body only when it is asked to.
pub(crate) fn waits_to_send(headers: &HeaderMap) -> bool {
    headers.contains_key(header::EXPECT)
}
