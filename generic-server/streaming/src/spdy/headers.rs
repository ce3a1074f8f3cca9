//! Blocks of headers: names and values, compressed with a dictionary that both ends know.

use std::sync::LazyLock;

use super::SpdyError;

/// Headers as they are sent: names in lower case, several values of one name with a NUL between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

/// How many headers a block may have, and how long a name or value may be (upstream: the same), and all of them together.
const MAX_COUNT: usize = 1000;
const MAX_FIELD: usize = 1 << 20;
pub(super) const MAX_BLOCK: usize = 1 << 20;

/// What no request or reply may say: it is about a connection of HTTP.
const OF_CONNECTIONS: [&str; 4] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding"];

impl Headers {
    /// Of these names, in lower case, and values.
    pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Headers(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The first value of a name in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(own, _)| own == name)?;
        value.split('\0').next()
    }

    /// The block, not compressed.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |out: &mut Vec<u8>, n: usize| {
            out.extend_from_slice(&u32::try_from(n).expect("headers of this server are short").to_be_bytes());
        };
        number(&mut out, self.0.len());
        for text in self.0.iter().flat_map(|(name, value)| [name, value]) {
            number(&mut out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        out
    }

    /// Reads a whole block. `of_request`: it opens a stream.
    pub(super) fn decode(mut block: &[u8], of_request: bool) -> Result<Self, SpdyError> {
        const SHORT: SpdyError = SpdyError::Protocol("compressed payload size was incorrect");
        const INVALID: SpdyError = SpdyError::Protocol("invalid control frame");
        let number = |block: &mut &[u8]| -> Result<usize, SpdyError> {
            let (number, rest) = block.split_first_chunk().ok_or(SHORT)?;
            *block = rest;
            usize::try_from(u32::from_be_bytes(*number)).map_err(|_| INVALID)
        };
        let text = |block: &mut &[u8]| -> Result<String, SpdyError> {
            let length = number(block)?;
            if length > MAX_FIELD {
                return Err(INVALID);
            }
            let (text, rest) = block.split_at_checked(length).ok_or(SHORT)?;
            *block = rest;
            Ok(String::from_utf8_lossy(text).into_owned())
        };
        let count = number(&mut block)?;
        if count > MAX_COUNT {
            return Err(INVALID);
        }
        let mut headers: Vec<(String, String)> = Vec::new();
        for _ in 0..count {
            let name = text(&mut block)?;
            if name.chars().any(char::is_uppercase) {
                return Err(SpdyError::Protocol("header was not lowercased"));
            }
            if OF_CONNECTIONS.contains(&name.as_str()) || of_request && name == "host" {
                return Err(SpdyError::Protocol("frame contained invalid header"));
            }
            let value = text(&mut block)?;
            headers.push((name, value));
        }
        let mut names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(SpdyError::Protocol("multiple headers with same name"));
        }
        if block.is_empty() { Ok(Headers(headers)) } else { Err(SHORT) }
    }
}

/// Writes blocks into one stream of zlib. They are stored, not compressed: a stream's headers are a few dozen bytes, and
/// once a connection has four streams it sends no more of them.
#[derive(Default)]
pub(super) struct BlockWriter {
    has_begun: bool,
}

/// The beginning of the stream: the format, and that a dictionary is needed.
const PRELUDE: [u8; 2] = [0x78, 0x20];
/// Ends what is sent of the stream at a byte, and has the reader see all of it.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];

impl BlockWriter {
    /// The next block's part of the stream.
    pub(super) fn write(&mut self, headers: &Headers) -> Vec<u8> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend(PRELUDE);
            out.extend(DICTIONARY_ID.to_be_bytes());
        }
        for stored in headers.encode().chunks(usize::from(u16::MAX)) {
            let length = u16::try_from(stored.len()).expect("chunks are that long at most");
            out.push(0);
            out.extend(length.to_le_bytes());
            out.extend((!length).to_le_bytes());
            out.extend_from_slice(stored);
        }
        out.extend(FLUSH);
        out
    }
}

/// The Adler-32 of the dictionary.
pub(super) const DICTIONARY_ID: u32 = 0xe3c6_a7c2;

/// The dictionary of SPDY/3: words with their lengths, and then what values are made of.
pub(super) static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut out = Vec::new();
    for word in WORDS.split('|') {
        out.extend(u32::try_from(word.len()).expect("words are short").to_be_bytes());
        out.extend(word.as_bytes());
    }
    VALUES.iter().for_each(|part| out.extend(part.as_bytes()));
    out
});

const WORDS: &str = "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|\
    accept-ranges|age|allow|authorization|cache-control|connection|content-base|content-encoding|\
    content-language|content-length|content-location|content-md5|content-range|content-type|date|etag|\
    expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|\
    last-modified|location|max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|\
    retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|\
    www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin";

const VALUES: [&str; 5] = [
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
     404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable",
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
     public",
    "privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_the_protocols() {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in DICTIONARY.iter() {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!((DICTIONARY.len(), b << 16 | a), (1423, DICTIONARY_ID));
        assert_eq!(u16::from_be_bytes(PRELUDE) % 31, 0, "the check of zlib's header");
    }

    #[test]
    fn blocks_are_read_as_they_are_written_and_nothing_else() {
        let headers = Headers::of([("streamtype", "data"), ("port", "80\x0081")]);
        let block = headers.encode();
        assert_eq!(Headers::decode(&block, true), Ok(headers.clone()));
        assert_eq!((headers.get("port"), headers.get("x")), (Some("80"), None));
        let check = |block: &[u8], expect: &'static str| {
            assert_eq!(Headers::decode(block, true), Err(SpdyError::Protocol(expect)));
        };
        check(&block[..block.len() - 1], "compressed payload size was incorrect");
        check(&[&block[..], &[0]].concat(), "compressed payload size was incorrect");
        check(&[0xff; 4], "invalid control frame");
        check(&[0, 0, 0, 1, 0xff, 0, 0, 0], "invalid control frame");
        check(&Headers::of([("Port", "")]).encode(), "header was not lowercased");
        check(&Headers::of([("a", ""), ("a", "")]).encode(), "multiple headers with same name");
        check(&Headers::of([("keep-alive", "")]).encode(), "frame contained invalid header");
        check(&Headers::of([("host", "")]).encode(), "frame contained invalid header");
        assert!(Headers::decode(&Headers::of([("host", "")]).encode(), false).is_ok());
    }
}
