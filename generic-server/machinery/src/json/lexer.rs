//! The tokens of JSON: strings, numbers, literals, each with Go's complaint about the byte that does not fit.

use std::borrow::Cow;

use super::JsonError;
use super::error::Context;
use crate::{Str, Value};

/// An error on its way out: small, so that what usually is there instead moves cheaply.
pub(super) type Fault = Box<JsonError>;

/// A cursor over a JSON text.
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    /// The same bytes, when all of them are UTF-8; else strings are mended one by one.
    text: Option<&'a str>,
    pos: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Lexer { bytes, text: std::str::from_utf8(bytes).ok(), pos: 0 }
    }

    /// The next byte that is not white space, not consumed.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(&b) = self.bytes.get(self.pos) {
            if !matches!(b, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(b);
            }
            self.pos += 1;
        }
        None
    }

    /// Consumes the byte that [`Lexer::peek`] showed.
    #[inline]
    pub(super) fn bump(&mut self) {
        self.pos += 1;
    }

    /// Go's error for the byte at the cursor.
    #[cold]
    pub(super) fn refuse(&self, phrase: &'static str) -> Fault {
        self.refuse_in(Context::Plain(phrase))
    }

    #[cold]
    fn refuse_in(&self, context: Context) -> Fault {
        match self.bytes.get(self.pos) {
            Some(&byte) => Box::new(JsonError::Invalid { byte, context, offset: self.pos }),
            None => Box::new(JsonError::UnexpectedEnd),
        }
    }

    /// `true`, `false` or `null`; the cursor is on its first byte.
    pub(super) fn literal(&mut self, word: &'static str) -> Result<(), Fault> {
        for &expected in word.as_bytes() {
            if self.bytes.get(self.pos) != Some(&expected) {
                return Err(self.refuse_in(Context::Literal { word, expected }));
            }
            self.pos += 1;
        }
        Ok(())
    }

    /// A string; the cursor is on its opening quote.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Str, Fault> {
        self.pos += 1;
        let start = self.pos;
        self.pos = plain_end(self.bytes, start);
        match (self.bytes.get(self.pos), self.text) {
            (Some(b'"'), Some(text)) => {
                let s = Str::new(&text[start..self.pos]);
                self.pos += 1;
                Ok(s)
            }
            (Some(b'"' | b'\\'), _) => self.escaped_string(start).map(Str::from),
            _ => Err(self.refuse("in string literal")),
        }
    }

    /// The rest of a string that has escapes or broken UTF-8; the cursor is on the first backslash or the end.
    #[cold]
    fn escaped_string(&mut self, start: usize) -> Result<String, Fault> {
        let mut out = String::from(self.slice(start, self.pos));
        loop {
            match self.bytes.get(self.pos) {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.pos += 1;
                    self.escape(&mut out)?;
                }
                _ => return Err(self.refuse("in string literal")),
            }
            let start = self.pos;
            self.pos = plain_end(self.bytes, start);
            out.push_str(&self.slice(start, self.pos));
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Fault> {
        let c = match self.bytes.get(self.pos) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(&c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'u') => {
                self.pos += 1;
                let c = self.code_point()?;
                out.push(c);
                return Ok(());
            }
            _ => return Err(self.refuse("in string escape code")),
        };
        self.pos += 1;
        out.push(c);
        Ok(())
    }

    /// What follows `\u`, with the second half of a pair. Lone surrogates become U+FFFD, as in Go.
    fn code_point(&mut self) -> Result<char, Fault> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.bytes[self.pos..].starts_with(b"\\u") {
            let back = self.pos;
            self.pos += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let c = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.pos = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let mut n = 0;
        for _ in 0..4 {
            let digit = self.bytes.get(self.pos).and_then(|&b| char::from(b).to_digit(16));
            let Some(digit) = digit else { return Err(self.refuse("in \\u hexadecimal character escape")) };
            n = n * 16 + digit;
            self.pos += 1;
        }
        Ok(n)
    }

    /// A number; the cursor is on its sign or first digit.
    pub(super) fn number(&mut self) -> Result<Value, Fault> {
        let start = self.pos;
        let negative = self.bytes.get(self.pos) == Some(&b'-');
        if negative {
            self.pos += 1;
        }
        match self.bytes.get(self.pos) {
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.refuse("in numeric literal")),
        }
        let mut integer = true;
        if self.bytes.get(self.pos) == Some(&b'.') {
            integer = false;
            self.pos += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if matches!(self.bytes.get(self.pos), Some(b'e' | b'E')) {
            integer = false;
            self.pos += 1;
            if matches!(self.bytes.get(self.pos), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        let text = std::str::from_utf8(&self.bytes[start..self.pos]).expect("digits, signs and points are ASCII");
        if integer && let Ok(i) = text.parse() {
            return Ok(Value::Int(i));
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Value::Float(f)),
            _ => Err(Box::new(JsonError::NumberRange(text.to_owned()))),
        }
    }

    fn digits(&mut self) {
        while matches!(self.bytes.get(self.pos), Some(b'0'..=b'9')) {
            self.pos += 1;
        }
    }

    fn some_digits(&mut self, phrase: &'static str) -> Result<(), Fault> {
        if !matches!(self.bytes.get(self.pos), Some(b'0'..=b'9')) {
            return Err(self.refuse(phrase));
        }
        self.digits();
        Ok(())
    }

    /// The bytes between two plain ASCII bytes, as text. Go puts U+FFFD for each byte that is not UTF-8.
    #[inline]
    fn slice(&self, start: usize, end: usize) -> Cow<'a, str> {
        match self.text {
            Some(text) => Cow::Borrowed(&text[start..end]),
            None => Cow::Owned(mend_utf8(&self.bytes[start..end])),
        }
    }
}

#[cold]
pub(crate) fn mend_utf8(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

/// The first byte from `pos` on that ends a run of plain string bytes: a quote, a backslash, a control character, or
/// the end. Eight bytes at a time.
#[inline]
pub(crate) fn plain_end(bytes: &[u8], mut pos: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zeros = |x: u64| x.wrapping_sub(ONES) & !x & HIGHS;
    while let Some(chunk) = bytes.get(pos..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let stops = control | zeros(word ^ (ONES * 0x22)) | zeros(word ^ (ONES * 0x5c));
        if stops != 0 {
            // Borrows spoil only bytes above the first true stop, so the lowest one is right.
            return pos + (stops.trailing_zeros() / 8) as usize;
        }
        pos += 8;
    }
    while let Some(&b) = bytes.get(pos) {
        if b < 0x20 || b == b'"' || b == b'\\' {
            break;
        }
        pos += 1;
    }
    pos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_runs_end_where_a_look_at_each_byte_says() {
        for stop in [0x00u8, 0x1f, b'"', b'\\', b'\n'] {
            for at in 0..20 {
                for filler in [b' ', b'!', b'#', b'[', b']', 0x7f, 0x80, 0xff] {
                    let mut bytes = vec![filler; 24];
                    bytes[at] = stop;
                    bytes[at + 2] = b'"';
                    assert_eq!(plain_end(&bytes, 0), at, "stop {stop:#x} filler {filler:#x}");
                }
            }
        }
        assert_eq!(plain_end(b"abcdefghijk", 0), 11);
    }
}
