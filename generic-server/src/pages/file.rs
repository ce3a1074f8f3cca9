//! Files as bodies.

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::{fs::File, io::AsyncReadExt as _};

use crate::body::BodyError;

/// Bytes read from the file at once.
const CHUNK: usize = 256 << 10;

/// What is in a file, no more of it than `length` bytes.
pub(super) fn file_chunks(file: File, length: u64) -> impl Stream<Item = Result<Bytes, BodyError>> + Send {
    stream::try_unfold(file.take(length), |mut file| async move {
        let mut chunk = BytesMut::with_capacity(CHUNK.min(usize::try_from(file.limit()).unwrap_or(CHUNK)));
        let read = file.read_buf(&mut chunk).await?;
        Ok((read > 0).then(|| (chunk.freeze(), file)))
    })
}
