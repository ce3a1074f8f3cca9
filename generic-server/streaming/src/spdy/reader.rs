//! Reads frames: whole ones where they are about control, data in pieces.

use std::io;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};

use super::{
    SpdyError,
    frame::{FIN, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, SYN_REPLY, SYN_STREAM, UNIDIRECTIONAL, WINDOW_UPDATE},
    headers::Headers,
    inflate::Inflater,
};
use crate::PIECE;

/// What a frame, or a piece of one, says.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Open {
        stream: u32,
        headers: Headers,
        /// Nothing follows.
        fin: bool,
        /// Nothing may be sent back.
        one_way: bool,
    },
    Reply {
        stream: u32,
        fin: bool,
    },
    /// More headers, of which nobody here makes use.
    Headers {
        stream: u32,
        fin: bool,
    },
    Data {
        stream: u32,
        piece: Bytes,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
    GoAway,
    /// SETTINGS and WINDOW_UPDATE: read and passed over.
    Nothing,
}

/// Reads the frames of a connection.
pub(super) struct FrameReader<R> {
    io: BufReader<R>,
    inflater: Inflater,
    /// A data frame that is not read to its end: the stream, what is left, and whether it is the last one.
    data: Option<(u32, usize, bool)>,
    buffer: BytesMut,
}

const INVALID: SpdyError = SpdyError::Protocol("invalid control frame");
const ZERO: SpdyError = SpdyError::Protocol("stream id zero is disallowed");

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(io: R) -> Self {
        let io = BufReader::with_capacity(PIECE, io);
        Self { io, inflater: Inflater::new(), data: None, buffer: BytesMut::new() }
    }

    /// The next event; `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, SpdyError> {
        if self.data.is_some() {
            return self.piece().await.map(Some);
        }
        let first = match self.io.read_u32().await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            first => first?,
        };
        let second = self.io.read_u32().await?;
        let (flags, length) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
        if first & 0x8000_0000 != 0 {
            return self.control((first & 0xffff) as u16, flags, length).await.map(Some);
        }
        if first == 0 {
            return Err(ZERO);
        }
        self.data = Some((first, length, flags & FIN != 0));
        self.piece().await.map(Some)
    }

    /// The next piece of a data frame.
    async fn piece(&mut self) -> Result<Event, SpdyError> {
        let (stream, left, last) = self.data.take().expect("a data frame is being read");
        if left == 0 {
            return Ok(Event::Data { stream, piece: Bytes::new(), fin: last });
        }
        self.buffer.reserve(left.min(PIECE));
        let mut limited = (&mut self.io).take(left as u64);
        if limited.read_buf(&mut self.buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let piece = self.buffer.split().freeze();
        let left = left - piece.len();
        if left > 0 {
            self.data = Some((stream, left, last));
        }
        Ok(Event::Data { stream, piece, fin: last && left == 0 })
    }

    async fn control(&mut self, kind: u16, flags: u8, length: usize) -> Result<Event, SpdyError> {
        let fin = flags & FIN != 0;
        match kind {
            SYN_STREAM => {
                let [stream, _associated] = self.numbers(length, 10).await?;
                self.io.read_u16().await?; // the priority, and a slot for certificates
                let headers = self.block(length - 10, true).await?;
                let one_way = flags & UNIDIRECTIONAL != 0;
                if stream == 0 { Err(ZERO) } else { Ok(Event::Open { stream, headers, fin, one_way }) }
            }
            SYN_REPLY | HEADERS => {
                let [stream] = self.numbers(length, 4).await?;
                self.block(length - 4, kind == HEADERS && stream % 2 == 0).await?;
                match kind {
                    _ if stream == 0 => Err(ZERO),
                    SYN_REPLY => Ok(Event::Reply { stream, fin }),
                    _ => Ok(Event::Headers { stream, fin }),
                }
            }
            RST_STREAM => {
                let [stream, reason] = self.numbers(length, 8).await?;
                match (reason, stream) {
                    (0, _) => Err(INVALID),
                    (_, 0) => Err(ZERO),
                    _ => self.skip(length - 8).await.map(|()| Event::Reset { stream }),
                }
            }
            PING => {
                let [id] = self.numbers(length, 4).await?;
                match (id, flags) {
                    (0, _) => Err(ZERO),
                    (_, 0) => self.skip(length - 4).await.map(|()| Event::Ping(id)),
                    _ => Err(INVALID),
                }
            }
            GOAWAY | WINDOW_UPDATE if flags != 0 || length != 8 => Err(INVALID),
            GOAWAY => self.skip(8).await.map(|()| Event::GoAway),
            WINDOW_UPDATE => self.skip(8).await.map(|()| Event::Nothing),
            SETTINGS => {
                let [count] = self.numbers(length, 4).await?;
                if count as usize > (length - 4) / 8 {
                    return Err(INVALID);
                }
                self.skip(length - 4).await.map(|()| Event::Nothing)
            }
            _ => Err(INVALID),
        }
    }

    /// The numbers at the beginning of a payload that is at least so long.
    async fn numbers<const N: usize>(&mut self, length: usize, at_least: usize) -> Result<[u32; N], SpdyError> {
        if length < at_least {
            return Err(INVALID);
        }
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.io.read_u32().await?;
        }
        // The uppermost bit is reserved.
        numbers[0] &= 0x7fff_ffff;
        Ok(numbers)
    }

    async fn block(&mut self, mut left: usize, of_request: bool) -> Result<Headers, SpdyError> {
        let (mut block, mut input) = (Vec::new(), [0; 1024]);
        while left > 0 {
            let part = &mut input[..left.min(1024)];
            self.io.read_exact(part).await?;
            self.inflater.inflate(part, &mut block)?;
            left -= part.len();
        }
        Headers::decode(&block, of_request)
    }

    async fn skip(&mut self, length: usize) -> Result<(), SpdyError> {
        let skipped = tokio::io::copy(&mut (&mut self.io).take(length as u64), &mut tokio::io::sink()).await?;
        if skipped == length as u64 { Ok(()) } else { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spdy::{frame, headers::BlockWriter};

    async fn read(bytes: &[u8]) -> (Vec<Event>, Option<SpdyError>) {
        let mut reader = FrameReader::new(bytes);
        let mut events = Vec::new();
        loop {
            match reader.next().await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, None),
                Err(error) => return (events, Some(error)),
            }
        }
    }

    fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        frame::control(&mut out, kind, flags, &[payload]);
        out.to_vec()
    }

    #[tokio::test]
    async fn frames_are_read() {
        let headers = Headers::of([("streamtype", "error")]);
        let mut blocks = BlockWriter::default();
        let open = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &blocks.write(&headers)].concat();
        let reply = [&[0, 0, 0, 1][..], &blocks.write(&Headers::default())].concat();
        let bytes = [
            control(SYN_STREAM, FIN, &open),
            control(SYN_REPLY, 0, &reply),
            control(SETTINGS, 0, &[0, 0, 0, 1, 0, 0, 0, 7, 0, 1, 0, 0]),
            control(WINDOW_UPDATE, 0, &[0; 8]),
            control(PING, 0, &[0, 0, 0, 2]),
            [&frame::data_header(1, 0, 2)[..], b"ab"].concat(),
            frame::data_header(1, FIN, 0).to_vec(),
            control(RST_STREAM, 0, &[0, 0, 0, 1, 0, 0, 0, 5]),
            control(GOAWAY, 0, &[0; 8]),
        ];
        let (events, error) = read(&bytes.concat()).await;
        let data = |piece: &'static [u8], fin| Event::Data { stream: 1, piece: Bytes::from_static(piece), fin };
        let expect = [
            Event::Open { stream: 1, headers, fin: true, one_way: false },
            Event::Reply { stream: 1, fin: false },
            Event::Nothing,
            Event::Nothing,
            Event::Ping(2),
            data(b"ab", false),
            data(b"", true),
            Event::Reset { stream: 1 },
            Event::GoAway,
        ];
        assert_eq!((events.as_slice(), error), (&expect[..], None));
    }

    #[tokio::test]
    async fn a_frame_as_large_as_can_be_comes_in_pieces() {
        let length = (1 << 24) - 1;
        let bytes = [&frame::data_header(3, FIN, length)[..], &vec![7; length]].concat();
        let (events, error) = read(&bytes).await;
        let sizes = |event: &Event| match event {
            Event::Data { piece, fin, .. } => (piece.len(), *fin),
            other => panic!("{other:?}"),
        };
        let sizes: Vec<_> = events.iter().map(sizes).collect();
        assert_eq!((sizes.iter().map(|(size, _)| size).sum::<usize>(), error), (length, None));
        assert!(sizes.iter().all(|(size, _)| *size <= PIECE) && sizes.iter().rev().skip(1).all(|(_, fin)| !fin));
        assert!(sizes.last().is_some_and(|(_, fin)| *fin));
    }

    #[tokio::test]
    async fn what_is_no_frame_ends_the_connection() {
        let check = async |bytes: &[u8], expect: &'static str| {
            assert_eq!(read(bytes).await.1, Some(SpdyError::Protocol(expect)), "{bytes:?}");
        };
        check(&control(10, 0, &[]), "invalid control frame").await;
        check(&control(SYN_STREAM, 0, &[0; 9]), "invalid control frame").await;
        check(&control(SYN_REPLY, 0, &[0; 3]), "invalid control frame").await;
        check(&control(GOAWAY, 0, &[0; 7]), "invalid control frame").await;
        check(&control(PING, 1, &[0, 0, 0, 2]), "invalid control frame").await;
        check(&control(PING, 0, &[0; 4]), "stream id zero is disallowed").await;
        check(&control(RST_STREAM, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), "invalid control frame").await;
        check(&control(SETTINGS, 0, &[0xff; 12]), "invalid control frame").await;
        check(&control(SYN_REPLY, 0, &[0, 0, 0, 1]), "compressed payload size was incorrect").await;
        check(&frame::data_header(0, 0, 0), "stream id zero is disallowed").await;
        assert!(matches!(read(&frame::data_header(1, 0, 5)).await.1, Some(SpdyError::Io(_))));
    }
}
