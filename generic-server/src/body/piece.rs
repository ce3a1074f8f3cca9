//! Pieces that documents are put together of. A piece is made once and may stand in many answers, as it is or compressed: a
//! compressed answer is a chain of compressed pieces, so that only what has changed is compressed again.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress};

/// Larger texts become several pieces: one is unpacked at a time.
const LIMIT: usize = 64 * 1024;
/// What ends a deflate stream: an empty last block.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// The header of a gzip member: deflate, no name, no time, an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A part of a body that is kept: as it is, compressed, or as both.
#[derive(Debug)]
pub struct Piece {
    length: usize,
    text: Option<Bytes>,
    packed: OnceLock<Packed>,
}

/// Blocks of a deflate stream that refer to nothing before them and end at a byte.
#[derive(Debug)]
struct Packed {
    blocks: Bytes,
    crc: Crc,
}

impl Piece {
    /// A piece that is kept as it is. It is compressed when that is first asked for.
    pub fn plain(text: impl Into<Bytes>) -> Arc<Piece> {
        let text = text.into();
        Arc::new(Piece { length: text.len(), text: Some(text), packed: OnceLock::new() })
    }

    /// A piece that is kept compressed.
    fn packed(text: &[u8]) -> Arc<Piece> {
        let packed = Packed::of(text, Compression::default());
        Arc::new(Piece { length: text.len(), text: None, packed: packed.into() })
    }

    /// Bytes of the text.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks for an empty one")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The text.
    pub fn text(&self) -> Bytes {
        match (&self.text, self.packed.get()) {
            (Some(text), _) => text.clone(),
            (None, Some(packed)) => packed.text(self.length),
            (None, None) => Bytes::new(),
        }
    }

    fn as_packed(&self) -> &Packed {
        self.packed.get_or_init(|| Packed::of(self.text.as_deref().unwrap_or_default(), Compression::fast()))
    }
}

impl Packed {
    fn of(text: &[u8], level: Compression) -> Packed {
        let mut compress = Compress::new(level, false);
        let mut blocks = Vec::with_capacity(text.len() / 6 + 64);
        loop {
            let done = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
            let rest = text.get(done..).unwrap_or_default();
            // All is written once the flush leaves room behind it.
            if compress.compress_vec(rest, &mut blocks, FlushCompress::Sync).is_err() {
                break;
            }
            if compress.total_in() == text.len() as u64 && blocks.len() < blocks.capacity() {
                break;
            }
            blocks.reserve(blocks.capacity().max(64));
        }
        blocks.shrink_to_fit();
        let mut crc = Crc::new();
        crc.update(text);
        Packed { blocks: blocks.into(), crc }
    }

    fn text(&self, length: usize) -> Bytes {
        let mut out = Vec::with_capacity(length);
        let done = Decompress::new(false).decompress_vec(&self.blocks, &mut out, FlushDecompress::Sync);
        debug_assert!(done.is_ok() && out.len() == length, "{done:?}: {} of {length} bytes", out.len());
        out.into()
    }
}

/// Writes a text as pieces that are kept compressed.
#[derive(Debug, Default)]
pub struct PieceWriter {
    pending: Vec<u8>,
    pieces: Vec<Arc<Piece>>,
}

impl PieceWriter {
    /// Appends what `write` writes.
    pub fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.pending);
        if self.pending.len() >= LIMIT {
            self.flush();
        }
    }

    fn flush(&mut self) {
        for text in self.pending.chunks(LIMIT) {
            self.pieces.push(Piece::packed(text));
        }
        self.pending.clear();
    }

    /// The pieces of all that was written.
    pub fn finish(mut self) -> Vec<Arc<Piece>> {
        self.flush();
        self.pieces
    }
}

/// The gzip member of these pieces, as a chain of what is kept, and its length.
pub(super) fn gzip(pieces: Vec<Arc<Piece>>) -> (impl Iterator<Item = Bytes> + Send, u64) {
    let mut crc = Crc::new();
    let mut length = HEADER.len() + LAST_BLOCK.len() + 8;
    for piece in &pieces {
        let packed = piece.as_packed();
        crc.combine(&packed.crc);
        length += packed.blocks.len();
    }
    let mut end = LAST_BLOCK.to_vec();
    end.extend_from_slice(&crc.sum().to_le_bytes());
    end.extend_from_slice(&crc.amount().to_le_bytes());
    let blocks = pieces.into_iter().map(|piece| piece.as_packed().blocks.clone());
    let chain = std::iter::once(Bytes::from_static(&HEADER)).chain(blocks).chain(std::iter::once(Bytes::from(end)));
    (chain, length as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use http_body::Body as _;
    use http_body_util::BodyExt;

    use super::*;
    use crate::Body;

    fn noise(length: usize) -> Vec<u8> {
        (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    #[tokio::test]
    async fn a_chain_of_pieces_is_sent_as_it_is_or_as_one_gzip_member() {
        let texts =
            [vec![b'a'; 5], noise(1), noise(LIMIT + 1), vec![b'b'; 3 * LIMIT], noise(3 * LIMIT), b"end".to_vec()];
        let mut writer = PieceWriter::default();
        texts.iter().for_each(|text| writer.put(|out| out.extend_from_slice(text)));
        let mut pieces = writer.finish();
        assert!(pieces.len() > 6 && pieces.iter().all(|piece| piece.len() <= LIMIT));
        pieces.insert(0, Piece::plain(b"begin".as_slice()));
        pieces.push(Piece::plain(Bytes::new()));
        let text = [b"begin".to_vec(), texts.concat()].concat();

        let body = Body::pieces(pieces.clone());
        assert_eq!(body.size_hint().exact(), Some(text.len() as u64));
        assert!(body.collect().await.expect("no error").to_bytes() == text);

        let body = Body::pieces(pieces).gzip();
        let length = body.size_hint().exact();
        let packed = body.collect().await.expect("no error").to_bytes();
        assert_eq!(length, Some(packed.len() as u64));
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("one member");
        assert!(unpacked == text);
    }

    #[tokio::test]
    async fn no_pieces_are_an_empty_body() {
        assert_eq!(Body::pieces(Vec::new()).collect().await.expect("no error").to_bytes(), Bytes::new());
    }
}
