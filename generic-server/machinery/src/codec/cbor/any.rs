//! Items as values of no type.

use std::borrow::Cow;
use std::collections::HashSet;

use super::error::CborError;
use super::head::*;
use super::{scalar, time, wellformed};
use crate::go_text::quote;
use crate::json::MAX_DEPTH;
use crate::{Map, Str, Value};

/// Reads one document, an object or `null`. Maps with a key that comes twice, keys that are no texts, numbers that no
/// 64 bits hold, and simple values but `true`, `false` and `null` are errors: the first one in the bytes is told.
pub fn decode(bytes: &[u8]) -> Result<Value, CborError> {
    wellformed::check(bytes)?;
    let mut reader = Reader::new(bytes);
    reader.root()
}

/// Reads items of bytes that are well-formed. Whatever a method returns, it stands behind the item then: what is wrong
/// inside of an item is no reason not to look at what comes behind it.
pub(super) struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    /// The encodings that tags expect later for byte strings, the innermost last.
    pub(super) later: Vec<u64>,
    /// How many containers are open.
    depth: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Reader { data, at: 0, later: Vec::new(), depth: 0 }
    }

    /// The head of the next item, which stays the next.
    pub(super) fn peek(&self) -> Head {
        const NOTHING: Head = Head { major: PRIMITIVE, info: 22, argument: 22, size: 0 };
        Head::read(self.data.get(self.at..).unwrap_or_default()).unwrap_or(NOTHING)
    }

    pub(super) fn head(&mut self) -> Head {
        let head = self.peek();
        self.at += head.size;
        head
    }

    fn byte(&self) -> u8 {
        self.data.get(self.at).copied().unwrap_or(BREAK)
    }

    /// Whether the next item is `null` or `undefined`.
    pub(super) fn is_nil(&self) -> bool {
        matches!(self.byte(), 0xf6 | 0xf7)
    }

    /// Whether what is open ends here; passes the end.
    pub(super) fn is_break(&mut self) -> bool {
        let ends = self.byte() == BREAK;
        self.at += usize::from(ends);
        ends
    }

    /// Passes one item.
    pub(super) fn skip(&mut self) {
        let mut left: Vec<Option<u64>> = vec![Some(1)];
        while let Some(last) = left.last_mut() {
            match last {
                Some(0) => {
                    left.pop();
                    continue;
                }
                Some(count) => *count -= 1,
                None if self.is_break() => {
                    left.pop();
                    continue;
                }
                None => {}
            }
            let mut head = self.head();
            while head.major == TAG {
                head = self.head();
            }
            match head.major {
                BYTES | TEXT | ARRAY | MAP if head.is_indefinite() => left.push(None),
                BYTES | TEXT => self.at = self.at.saturating_add(head.argument as usize).min(self.data.len()),
                ARRAY => left.push(Some(head.argument)),
                MAP => left.push(Some(head.argument.saturating_mul(2))),
                _ => {}
            }
            if self.at >= self.data.len() {
                return;
            }
        }
    }

    /// The members or items that are open: how many, if that is known.
    pub(super) fn entries(&mut self) -> Entries {
        let head = self.head();
        Entries { left: (!head.is_indefinite()).then_some(head.argument), index: 0 }
    }

    /// Passes what is left of a map behind a key whose value is next.
    pub(super) fn skip_rest(&mut self, entries: &mut Entries) {
        self.skip();
        while entries.next(self).is_some() {
            self.skip();
            self.skip();
        }
    }

    /// Passes the tags of self-described CBOR.
    pub(super) fn strip(&mut self) {
        while self.peek().major == TAG && self.peek().argument == TAG_SELF_DESCRIBED {
            self.head();
        }
    }

    /// Checks that what stands behind known tags is of their kind. The item is passed if not.
    pub(super) fn check_tags(&mut self) -> Result<(), CborError> {
        let before = self.at;
        while self.peek().major == TAG {
            let tag = self.head().argument;
            if let Err(error) = check_tag(tag, self.byte()) {
                self.skip();
                return Err(error);
            }
        }
        self.at = before;
        Ok(())
    }

    /// The bytes of a byte string or a text.
    pub(super) fn bytes(&mut self) -> Cow<'a, [u8]> {
        let head = self.head();
        if !head.is_indefinite() {
            return Cow::Borrowed(self.take(head.argument));
        }
        let mut whole = Vec::new();
        while !self.is_break() && self.at < self.data.len() {
            let piece = self.head();
            whole.extend_from_slice(self.take(piece.argument));
        }
        Cow::Owned(whole)
    }

    fn take(&mut self, length: u64) -> &'a [u8] {
        let end = self.at.saturating_add(length as usize).min(self.data.len());
        let taken = self.data.get(self.at..end).unwrap_or_default();
        self.at = end;
        taken
    }

    /// The bytes of a text, each of whose pieces must be UTF-8.
    pub(super) fn text_bytes(&mut self) -> Result<Cow<'a, [u8]>, CborError> {
        let head = self.peek();
        if !head.is_indefinite() {
            let text = self.bytes();
            return if std::str::from_utf8(&text).is_ok() { Ok(text) } else { Err(invalid_utf8()) };
        }
        self.head();
        let (mut whole, mut is_valid) = (Vec::new(), true);
        while !self.is_break() && self.at < self.data.len() {
            let piece = self.head();
            let piece = self.take(piece.argument);
            is_valid &= std::str::from_utf8(piece).is_ok();
            whole.extend_from_slice(piece);
        }
        if is_valid { Ok(Cow::Owned(whole)) } else { Err(invalid_utf8()) }
    }

    /// Goes into a container, if there is room for one more on the stack.
    pub(super) fn enter(&mut self) -> Result<(), CborError> {
        if self.depth >= MAX_DEPTH {
            self.skip();
            return Err(wellformed::too_deep());
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// A document: Go reads it into a map.
    fn root(&mut self) -> Result<Value, CborError> {
        const MAP_TYPE: &str = "map[string]interface {}";
        self.strip();
        self.check_tags()?;
        let before = self.later.len();
        while self.peek().major == TAG {
            self.tag();
        }
        let head = self.peek();
        let value = match head.major {
            MAP => self.object(),
            PRIMITIVE if head.info <= 24 && head.argument != 20 && head.argument != 21 => self.simple(head),
            major => {
                self.skip();
                Err(CborError::mismatch(name(major), MAP_TYPE))
            }
        };
        self.later.truncate(before);
        value
    }

    /// Passes a tag. One that expects an encoding later holds until `later` is cut.
    pub(super) fn tag(&mut self) {
        let tag = self.head().argument;
        if matches!(tag, TAG_BASE64URL | TAG_BASE64 | TAG_BASE16) {
            self.later.push(tag);
        }
    }

    /// The next item. In lists and maps it may say once more that it is CBOR.
    pub(super) fn any(&mut self) -> Result<Value, CborError> {
        self.strip();
        self.check_tags()?;
        let before = self.later.len();
        let value = loop {
            let head = self.peek();
            match head.major {
                TAG if matches!(head.argument, TAG_TIME | TAG_EPOCH) => break self.time(),
                TAG => self.tag(),
                _ => break self.untagged(head),
            }
        };
        self.later.truncate(before);
        value
    }

    fn untagged(&mut self, head: Head) -> Result<Value, CborError> {
        match head.major {
            POSITIVE | NEGATIVE => {
                self.head();
                scalar::integer(head).map(Value::Int)
            }
            BYTES => {
                let bytes = self.bytes();
                Ok(Value::String(scalar::text(&bytes, self.later.last().copied())))
            }
            TEXT => Ok(Value::String(scalar::text(&self.text_bytes()?, None))),
            ARRAY => self.list(),
            MAP => self.object(),
            _ => match head.float() {
                Some(f) => {
                    self.head();
                    Ok(Value::Float(f))
                }
                None => self.simple(head),
            },
        }
    }

    /// `true`, `false` or `null`; nothing else is taken.
    pub(super) fn simple(&mut self, head: Head) -> Result<Value, CborError> {
        self.head();
        match head.argument {
            20 => Ok(Value::Bool(false)),
            21 => Ok(Value::Bool(true)),
            22 => Ok(Value::Null),
            value => {
                let why = format!("simple value {value} is not recognized");
                Err(CborError::unacceptable(name(PRIMITIVE), &why))
            }
        }
    }

    fn time(&mut self) -> Result<Value, CborError> {
        let is_text = self.head().argument == TAG_TIME;
        if is_text {
            let text = self.text_bytes()?;
            return time::of_text(&String::from_utf8_lossy(&text)).map(Value::from);
        }
        time::of_number(self.head()).map(Value::from)
    }

    fn list(&mut self) -> Result<Value, CborError> {
        self.enter()?;
        let mut entries = self.entries();
        let (mut items, mut wrong) = (Vec::new(), None);
        while entries.next(self).is_some() {
            match self.any() {
                Ok(item) if wrong.is_none() => items.push(item),
                Ok(_) => {}
                Err(error) => _ = wrong.get_or_insert(error),
            }
        }
        self.leave();
        wrong.map_or(Ok(Value::from(items)), Err)
    }

    fn object(&mut self) -> Result<Value, CborError> {
        self.map(&mut Reader::any)
    }

    /// A map from texts to what `value` reads.
    pub(super) fn map(
        &mut self,
        value: &mut dyn FnMut(&mut Self) -> Result<Value, CborError>,
    ) -> Result<Value, CborError> {
        self.enter()?;
        let found = self.members(value);
        self.leave();
        found.map(|members| Value::Object(Map::from_entries(members)))
    }

    fn members(
        &mut self,
        value: &mut dyn FnMut(&mut Self) -> Result<Value, CborError>,
    ) -> Result<Vec<(Str, Value)>, CborError> {
        let mut entries = self.entries();
        let (mut members, mut known, mut wrong) = (Vec::new(), HashSet::new(), None);
        while let Some(index) = entries.next(self) {
            let key = match self.text() {
                Ok(key) => key,
                Err(error) => {
                    self.skip();
                    wrong.get_or_insert(error);
                    continue;
                }
            };
            match value(self) {
                Ok(_) if known.contains(&key) => {
                    while entries.next(self).is_some() {
                        self.skip();
                        self.skip();
                    }
                    return Err(CborError::duplicate(&quote(&key), index));
                }
                Ok(value) => {
                    known.insert(key.clone());
                    members.push((key, value));
                }
                Err(error) => _ = wrong.get_or_insert(error),
            }
        }
        wrong.map_or(Ok(members), Err)
    }

    /// A value of Go's type `string`.
    pub(super) fn text(&mut self) -> Result<Str, CborError> {
        self.strip();
        self.check_tags()?;
        let before = self.later.len();
        while self.peek().major == TAG {
            self.tag();
        }
        let later = self.later.last().copied();
        self.later.truncate(before);
        let head = self.peek();
        match head.major {
            BYTES => Ok(scalar::text(&self.bytes(), later)),
            TEXT => Ok(scalar::text(&self.text_bytes()?, None)),
            PRIMITIVE if head.float().is_none() => match self.simple(head)? {
                Value::Null => Ok(Str::default()),
                _ => Err(CborError::mismatch(name(PRIMITIVE), "string")),
            },
            major => {
                self.skip();
                Err(CborError::mismatch(name(major), "string"))
            }
        }
    }
}

/// The entries of an array or map, one after the other.
pub(super) struct Entries {
    left: Option<u64>,
    index: usize,
}

impl Entries {
    /// The position of the next entry; `None` behind the last one.
    pub(super) fn next(&mut self, reader: &mut Reader<'_>) -> Option<usize> {
        match &mut self.left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None if reader.is_break() => return None,
            None => {}
        }
        // Bytes that are well-formed do not end before their items do.
        (reader.at < reader.data.len()).then(|| {
            self.index += 1;
            self.index - 1
        })
    }
}

fn invalid_utf8() -> CborError {
    CborError::Other("cbor: invalid UTF-8 string".into())
}

/// Whether an item that begins with this byte may stand behind a tag.
fn check_tag(tag: u64, first: u8) -> Result<(), CborError> {
    let major = first >> 5;
    let wanted = match tag {
        TAG_TIME if major != TEXT => "text string",
        TAG_EPOCH if !matches!(major, POSITIVE | NEGATIVE) && !matches!(first, 0xf9..=0xfb) => {
            "integer or floating-point number"
        }
        _ => return Ok(()),
    };
    let found = name(major);
    Err(CborError::Other(format!("cbor: tag number {tag} must be followed by {wanted}, got {found}")))
}
