//! The other end's headers, inflated: one stream of zlib for all blocks of a connection, with the dictionary before it.

use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags::TINFL_FLAG_HAS_MORE_INPUT},
};

use super::{
    SpdyError,
    headers::{DICTIONARY, DICTIONARY_ID, MAX_BLOCK},
};

/// How far back a reference may point.
const WINDOW: usize = 32 * 1024;

const CORRUPT: SpdyError = SpdyError::Protocol("zlib: invalid header");

/// Inflates blocks.
pub(super) struct Inflater {
    state: Box<DecompressorOxide>,
    window: Box<[u8]>,
    /// Where in the window the next byte goes.
    at: usize,
    /// What has come of the two or six bytes before the first block; `None` once they are read.
    prelude: Option<Vec<u8>>,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self { state: Box::default(), window: vec![0; WINDOW].into_boxed_slice(), at: 0, prelude: Some(Vec::new()) }
    }

    /// Appends what this input means to a block, which may not become longer than a block may be.
    pub(super) fn inflate(&mut self, mut input: &[u8], block: &mut Vec<u8>) -> Result<(), SpdyError> {
        while self.prelude.is_some() {
            let Some((first, rest)) = input.split_first() else { return Ok(()) };
            input = rest;
            self.begin(*first)?;
        }
        loop {
            let (status, read, written) =
                decompress(&mut self.state, input, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            input = &input[read..];
            if block.len() + written > MAX_BLOCK {
                return Err(SpdyError::Protocol("invalid control frame"));
            }
            block.extend_from_slice(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % WINDOW;
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput => return Ok(()),
                // A stream that ends has no room for the next block; Go's reader stumbles there.
                _ => return Err(SpdyError::Protocol("flate: corrupt input")),
            }
        }
    }

    /// One more byte of zlib's header.
    fn begin(&mut self, byte: u8) -> Result<(), SpdyError> {
        let Some(prelude) = &mut self.prelude else { return Ok(()) };
        prelude.push(byte);
        let [format, flags, id @ ..] = prelude.as_slice() else { return Ok(()) };
        if format & 0x0f != 8 || format >> 4 > 7 || u16::from_be_bytes([*format, *flags]) % 31 != 0 {
            return Err(CORRUPT);
        }
        if flags & 0x20 == 0 {
            self.prelude = None;
            return Ok(());
        }
        let Ok(id) = <[u8; 4]>::try_from(id) else { return Ok(()) };
        if u32::from_be_bytes(id) != DICTIONARY_ID {
            return Err(SpdyError::Protocol("zlib: invalid dictionary"));
        }
        self.window[..DICTIONARY.len()].copy_from_slice(&DICTIONARY);
        self.at = DICTIONARY.len();
        self.prelude = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spdy::headers::{BlockWriter, Headers};

    /// Two blocks as zlib compresses them, the second by references to the first and to the dictionary: the streams
    /// `error` and `data` of port 80, of request 0.
    const COMPRESSED: [&str; 2] = [
        "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc64610024398b209198094adc8c0600000000ffff",
        "c2aa15540a2512d209000000ffff",
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        (0..hex.len()).step_by(2).map(pair).collect()
    }

    #[test]
    fn compressed_blocks_are_read() {
        let mut inflater = Inflater::new();
        for (compressed, kind) in COMPRESSED.iter().zip(["error", "data"]) {
            let mut block = Vec::new();
            for byte in bytes(compressed) {
                inflater.inflate(&[byte], &mut block).expect("a block");
            }
            let headers = Headers::decode(&block, true).expect("headers");
            let found = ["streamtype", "port", "requestid"].map(|name| headers.get(name).unwrap_or_default());
            assert_eq!(found, [kind, "80", "0"]);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut writer, mut inflater) = (BlockWriter::default(), Inflater::new());
        let long = "x".repeat(100_000);
        for value in ["", "a", &long, "b"] {
            let headers = Headers::of([("name", value)]);
            let mut block = Vec::new();
            inflater.inflate(&writer.write(&headers), &mut block).expect("a block");
            assert_eq!(Headers::decode(&block, true), Ok(headers));
        }
    }

    #[test]
    fn what_is_no_zlib_and_what_grows_without_end_is_refused() {
        let check = |input: &[u8], expect: &'static str| {
            let found = Inflater::new().inflate(input, &mut Vec::new());
            assert_eq!(found, Err(SpdyError::Protocol(expect)), "{input:?}");
        };
        check(&[0x79, 0x20], "zlib: invalid header");
        check(&[0x78, 0x20, 1, 2, 3, 4], "zlib: invalid dictionary");
        check(&[0x78, 0x9c, 0x07], "flate: corrupt input");
        let mut bomb = vec![0x78, 0x9c];
        let mut compressed = miniz_oxide::deflate::compress_to_vec(&vec![0; 4 << 20], 9);
        compressed.truncate(compressed.len() - 2);
        bomb.extend(compressed);
        assert!(bomb.len() < 5000);
        check(&bomb, "invalid control frame");
    }
}
