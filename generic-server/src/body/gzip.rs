//! A body that is compressed as the client takes it.

use std::{
    io::Write as _,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};

use super::{BodyError, Joined};

/// Upstream's level: the least work.
const LEVEL: Compression = Compression::new(1);
/// So many bytes are compressed in one go, a fraction of a millisecond's work; then other tasks have their turn.
const TURN: usize = 128 * 1024;
/// A frame is sent when so many compressed bytes are there.
const FRAME: usize = 16 * 1024;

/// What is left to be compressed, and what is left to be sent.
pub(super) struct Gzip {
    source: Joined,
    /// `None` once the trailer is written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// Drawn from the source, not compressed yet.
    rest: Bytes,
}

impl Gzip {
    pub(super) fn new(source: Joined) -> Self {
        Self { source, encoder: Some(GzEncoder::new(Vec::new(), LEVEL)), rest: Bytes::new() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.encoder.is_none()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let Some(encoder) = &mut self.encoder else { return Poll::Ready(None) };
        let mut turn = TURN;
        while turn > 0 {
            if self.rest.is_empty() {
                match self.source.poll(cx) {
                    Poll::Ready(Some(Ok(piece))) => self.rest = piece,
                    Poll::Ready(Some(Err(error))) => {
                        self.encoder = None;
                        return Poll::Ready(Some(Err(error)));
                    }
                    Poll::Ready(None) => return Poll::Ready(self.finish()),
                    Poll::Pending => return Poll::Pending,
                }
            }
            let piece = self.rest.split_to(self.rest.len().min(turn));
            turn -= piece.len();
            if let Err(error) = encoder.write_all(&piece) {
                self.encoder = None;
                return Poll::Ready(Some(Err(error.into())));
            }
            if encoder.get_ref().len() >= FRAME {
                return Poll::Ready(Some(Ok(std::mem::take(encoder.get_mut()).into())));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn finish(&mut self) -> Option<Result<Bytes, BodyError>> {
        Some(self.encoder.take()?.finish().map(Bytes::from).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::super::Body;
    use super::*;

    fn unpacked(packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut out).expect("gzip");
        out
    }

    #[tokio::test]
    async fn what_is_compressed_comes_back() {
        let noise: Vec<u8> = (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for text in [vec![b'a'; 5_000_000], noise] {
            let packed = Body::full(text.clone()).gzip().collect().await.expect("no error").to_bytes();
            assert!(unpacked(&packed) == text);
            let pieces: Vec<Bytes> = text.chunks(777).map(Bytes::copy_from_slice).collect();
            let body = Body::chunks(pieces, Some(text.len() as u64)).gzip();
            assert_eq!(http_body::Body::size_hint(&body).exact(), None, "nobody knows before");
            assert!(unpacked(&body.collect().await.expect("no error").to_bytes()) == text);
        }
    }

    #[tokio::test]
    async fn it_does_no_more_than_a_turn_at_a_time() {
        let drawn = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counter = drawn.clone();
        let chunks = (0..1000).map(move |_| {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Bytes::from(vec![b'x'; 10_000])
        });
        let mut body = Body::chunks(chunks, Some(10_000_000)).gzip();
        // So even a text makes no frame within a turn: it waits for its next one.
        assert!(body.frame().now_or_never().is_none());
        let drawn = drawn.load(std::sync::atomic::Ordering::Relaxed);
        assert!((1..=TURN / 10_000 + 2).contains(&drawn), "{drawn}");
    }
}
