//! Bodies of HTML, decompressed and compressed again where they are compressed, as they come.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::{
    Compression,
    write::{DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder},
};
use futures_util::stream;
use generic_server::{Body, BodyError};
use http_body_util::BodyExt as _;

use super::{html::Rewriter, url::Place};

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Deflate,
}

impl Coding {
    /// The coding of this name; `None`: nobody here can read it.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "" => Some(Coding::Plain),
            "gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            _ => None,
        }
    }

    /// How much is read at once: what is compressed becomes a thousand times as much at most.
    fn step(self) -> usize {
        if self == Coding::Plain { 16 * 1024 } else { 1024 }
    }
}

/// The body with its URLs rewritten.
pub(super) fn rewritten(body: Body, coding: Coding, place: Place) -> Body {
    let work = Work {
        body,
        left: Bytes::new(),
        decoder: Decoder::of(coding),
        rewriter: Rewriter::new(Box::new(move |url: &str| place.rewrite(url))),
        encoder: Encoder::of(coding),
        coding,
        is_done: false,
    };
    Body::stream(stream::try_unfold(work, |mut work| async move {
        let next = work.next().await?;
        Ok::<_, BodyError>(next.map(|bytes| (bytes, work)))
    }))
}

type Rewrite = Box<dyn Fn(&str) -> Option<String> + Send>;

struct Work {
    body: Body,
    left: Bytes,
    decoder: Decoder,
    rewriter: Rewriter<Rewrite>,
    encoder: Encoder,
    coding: Coding,
    is_done: bool,
}

impl Work {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while !self.is_done {
            if self.left.is_empty() {
                match self.body.frame().await {
                    None => {
                        self.is_done = true;
                        let out = self.finish()?;
                        return Ok(Some(out.into()).filter(|out: &Bytes| !out.is_empty()));
                    }
                    Some(frame) => self.left = frame?.into_data().unwrap_or_default(),
                }
            }
            let step = self.left.split_to(self.left.len().min(self.coding.step()));
            self.decoder.write(&step)?;
            let out = self.rewrite()?;
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
        Ok(None)
    }

    fn rewrite(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.rewriter.push(&self.decoder.take(), &mut out);
        self.encoder.write(out)
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        self.decoder.finish()?;
        let mut out = self.rewrite()?;
        let mut rest = Vec::new();
        self.rewriter.finish(&mut rest);
        out.extend(self.encoder.write(rest)?);
        out.extend(self.encoder.finish()?);
        Ok(out)
    }
}

enum Decoder {
    Plain(Vec<u8>),
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(DeflateDecoder<Vec<u8>>),
}

impl Decoder {
    fn of(coding: Coding) -> Self {
        match coding {
            Coding::Plain => Decoder::Plain(Vec::new()),
            Coding::Gzip => Decoder::Gzip(MultiGzDecoder::new(Vec::new())),
            Coding::Deflate => Decoder::Deflate(DeflateDecoder::new(Vec::new())),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Decoder::Plain(out) => out.write_all(bytes),
            Decoder::Gzip(out) => out.write_all(bytes).and_then(|()| out.flush()),
            Decoder::Deflate(out) => out.write_all(bytes).and_then(|()| out.flush()),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Decoder::Plain(out) => out,
            Decoder::Gzip(out) => out.get_mut(),
            Decoder::Deflate(out) => out.get_mut(),
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        match self {
            Decoder::Plain(_) => Ok(()),
            Decoder::Gzip(out) => out.try_finish(),
            Decoder::Deflate(out) => out.try_finish(),
        }
    }
}

enum Encoder {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(DeflateEncoder<Vec<u8>>),
}

impl Encoder {
    fn of(coding: Coding) -> Self {
        match coding {
            Coding::Plain => Encoder::Plain,
            Coding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            Coding::Deflate => Encoder::Deflate(DeflateEncoder::new(Vec::new(), Compression::best())),
        }
    }

    fn write(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Plain => return Ok(bytes),
            Encoder::Gzip(out) => out.write_all(&bytes)?,
            Encoder::Deflate(out) => out.write_all(&bytes)?,
        }
        Ok(self.take())
    }

    fn take(&mut self) -> Vec<u8> {
        match self {
            Encoder::Plain => Vec::new(),
            Encoder::Gzip(out) => std::mem::take(out.get_mut()),
            Encoder::Deflate(out) => std::mem::take(out.get_mut()),
        }
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Encoder::Plain => {}
            Encoder::Gzip(out) => out.try_finish()?,
            Encoder::Deflate(out) => out.try_finish()?,
        }
        Ok(self.take())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn place() -> Place {
        Place { base: "/base".to_owned(), authority: "192.0.2.1".to_owned(), host: String::new() }
    }

    async fn sent(bytes: Vec<u8>, coding: Coding) -> Result<Vec<u8>, BodyError> {
        let pieces: Vec<Bytes> = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
        let body = Body::stream(stream::iter(pieces.into_iter().map(Ok::<_, BodyError>)));
        Ok(rewritten(body, coding, place()).collect().await?.to_bytes().to_vec())
    }

    #[tokio::test]
    async fn bodies_are_rewritten_in_every_coding() {
        let document = "<a href=/x>y</a>".repeat(1000);
        let expect = "<a href=\"/base/x\">y</a>".repeat(1000);
        assert_eq!(sent(document.clone().into_bytes(), Coding::Plain).await.expect("a body"), expect.as_bytes());
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(document.as_bytes()).expect("compressed");
        let found = sent(gzip.finish().expect("compressed"), Coding::Gzip).await.expect("a body");
        let mut text = String::new();
        flate2::read::GzDecoder::new(found.as_slice()).read_to_string(&mut text).expect("gzip");
        assert_eq!(text, expect);
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(document.as_bytes()).expect("compressed");
        let found = sent(deflate.finish().expect("compressed"), Coding::Deflate).await.expect("a body");
        text.clear();
        flate2::read::DeflateDecoder::new(found.as_slice()).read_to_string(&mut text).expect("deflate");
        assert_eq!(text, expect);
        assert!(sent(b"no gzip at all".to_vec(), Coding::Gzip).await.is_err());
        assert_eq!(sent(Vec::new(), Coding::Plain).await.expect("nothing"), b"");
    }
}
