//! Bytes in a request's target that Go's server takes as they are and hyper does not: they are percent-encoded on their way to
//! it, which is the same path and the same query. (HTTP/2 has no such place: a path like that ends its stream.)

/// Where in a request's first line the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Nothing came of it but empty lines.
    #[default]
    Before,
    Method,
    Path,
    Query,
    /// Behind the target: nothing is changed any more.
    Behind,
}

/// The first line of a request that is being read.
#[derive(Debug, Default)]
pub(super) struct FirstLine(Part);

impl FirstLine {
    /// The next bytes as hyper takes them; `None` if that is as they are.
    pub(super) fn escaped(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut escaped: Option<Vec<u8>> = None;
        for (i, byte) in bytes.iter().copied().enumerate() {
            self.0 = match (self.0, byte) {
                (Part::Behind, _) => match &mut escaped {
                    None => return None,
                    Some(escaped) => {
                        escaped.extend_from_slice(&bytes[i..]);
                        break;
                    }
                },
                (Part::Before, b'\r' | b'\n') => Part::Before,
                (_, b'\n') | (Part::Path | Part::Query, b' ') => Part::Behind,
                (Part::Before | Part::Method, b' ') => Part::Path,
                (Part::Before | Part::Method, _) => Part::Method,
                (Part::Path, b'?') => Part::Query,
                (part, _) => part,
            };
            match &mut escaped {
                _ if self.is_strange(byte) => {
                    let escaped = escaped.get_or_insert_with(|| bytes[..i].to_vec());
                    escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
                }
                Some(escaped) => escaped.push(byte),
                None => {}
            }
        }
        escaped
    }

    /// Whether hyper would not take a byte here, or would take it for the begin of a fragment.
    fn is_strange(&self, byte: u8) -> bool {
        match self.0 {
            Part::Path => matches!(byte, b'#' | b'<' | b'>' | b'`' | 0x80..),
            Part::Query => matches!(byte, b'#' | b'<' | b'>' | b'"' | 0x80..),
            Part::Before | Part::Method | Part::Behind => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &[u8], expect: &[u8]) {
        // However it is cut into pieces.
        for size in [1, 2, 3, 5, request.len()] {
            let mut line = FirstLine::default();
            let pieces = request.chunks(size).map(|piece| line.escaped(piece).unwrap_or_else(|| piece.to_vec()));
            let found = pieces.collect::<Vec<_>>().concat();
            assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(expect), "pieces of {size}");
        }
    }

    #[test]
    fn what_hyper_would_refuse_in_a_target_is_escaped() {
        check(b"GET /a<b>`?x=\"<>#y HTTP/1.1\r\nX: <\r\n", b"GET /a%3Cb%3E%60?x=%22%3C%3E%23y HTTP/1.1\r\nX: <\r\n");
        check(b"\r\nGET /a#b HTTP/1.1\r\n\r\n", b"\r\nGET /a%23b HTTP/1.1\r\n\r\n");
        check("GET /ä?ö HTTP/1.1\r\n".as_bytes(), b"GET /%C3%A4?%C3%B6 HTTP/1.1\r\n");
        check(b"GET /\xff HTTP/1.1\r\n", b"GET /%FF HTTP/1.1\r\n");
        for plain in [&b"GET /a{\"|^}%3C?a{|^`b HTTP/1.1\r\nA: `#\r\n\r\n<`#"[..], b"GET\n<", b"GET /a\n<"] {
            check(plain, plain);
            assert_eq!(FirstLine::default().escaped(plain), None);
        }
    }
}
