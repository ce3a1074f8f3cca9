//! Protobuf's wire format: keys, varints, lengths.

use super::{Fault, ProtoError};

/// A varint: booleans and integers.
pub const VARINT: u8 = 0;
/// Eight bytes.
pub const FIXED64: u8 = 1;
/// A length and so many bytes: strings, bytes, messages.
pub const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// A cursor over the fields of one message.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    message: &'static str,
}

impl<'a> Reader<'a> {
    /// `message` is the Go type's name, for error texts.
    pub(super) fn new(bytes: &'a [u8], message: &'static str) -> Self {
        Reader { bytes, message }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next field's number and wire type; `None` at the end.
    #[inline(always)] // so that the parts stay in registers: this is the hottest loop of all reading
    pub(super) fn key(&mut self) -> Result<Option<(u32, u8)>, Fault> {
        let key = self.packed_key()?;
        Ok(if key == 0 { None } else { Some(((key >> 3) as u32, (key & 7) as u8)) })
    }

    /// Number and wire type as one number; 0 at the end.
    #[inline]
    fn packed_key(&mut self) -> Result<u64, Fault> {
        if self.bytes.is_empty() {
            return Ok(0);
        }
        let key = self.varint()?;
        let wire = (key & 7) as u8;
        let number = (key >> 3) as i32; // as Go does: the low bits
        if wire == END_GROUP || number <= 0 {
            return Err(self.no_field(number, key));
        }
        Ok((number as u64) << 3 | u64::from(wire))
    }

    #[cold]
    fn no_field(&self, tag: i32, key: u64) -> Fault {
        Box::new(match (key & 7) as u8 {
            END_GROUP => ProtoError::EndGroup(self.message),
            _ => ProtoError::Tag { message: self.message, tag, key },
        })
    }

    /// As [`Reader::key`], of a map's entry, where any number may stand.
    pub(super) fn unchecked_key(&mut self) -> Result<Option<(i32, u8)>, Fault> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        Ok(Some(((key >> 3) as i32, (key & 7) as u8)))
    }

    /// Whether a zero comes next, as a varint or a length; it is passed then.
    #[inline]
    pub(super) fn zero_follows(&mut self) -> bool {
        let [0, rest @ ..] = self.bytes else { return false };
        self.bytes = rest;
        true
    }

    /// Whether this key comes next; it is passed then.
    #[inline]
    pub(super) fn key_follows(&mut self, key: u32) -> bool {
        let mut ahead = *self;
        let follows = !ahead.is_empty() && ahead.varint().is_ok_and(|next| next == u64::from(key));
        if follows {
            *self = ahead;
        }
        follows
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Fault> {
        if let [first @ 0..0x80, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok(u64::from(*first));
        }
        let mut value = 0;
        for (i, &b) in self.bytes.iter().enumerate().take(10) {
            value |= u64::from(b & 0x7f) << (7 * i);
            if b < 0x80 {
                self.bytes = &self.bytes[i + 1..];
                return Ok(value);
            }
        }
        Err(Box::new(if self.bytes.len() < 10 { ProtoError::UnexpectedEof } else { ProtoError::Overflow }))
    }

    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.varint()?;
        if len > i64::MAX as u64 {
            return Err(Box::new(ProtoError::Length));
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let (value, rest) = self.bytes.split_at_checked(len).ok_or_else(|| Box::new(ProtoError::UnexpectedEof))?;
        self.bytes = rest;
        Ok(value)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, Fault> {
        let (value, rest) = self.bytes.split_first_chunk::<8>().ok_or_else(|| Box::new(ProtoError::UnexpectedEof))?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*value))
    }

    /// Passes over a field of whatever kind.
    pub(super) fn skip(&mut self, wire: u8) -> Result<(), Fault> {
        let mut groups = 0usize;
        let mut wire = wire;
        loop {
            match wire {
                VARINT => drop(self.varint()?),
                FIXED64 => drop(self.fixed64()?),
                BYTES => drop(self.bytes()?),
                FIXED32 => self.bytes = self.bytes.get(4..).ok_or_else(|| Box::new(ProtoError::UnexpectedEof))?,
                START_GROUP => groups += 1,
                END_GROUP if groups > 0 => groups -= 1,
                END_GROUP => return Err(Box::new(ProtoError::UnexpectedEndGroup)),
                other => return Err(Box::new(ProtoError::IllegalWireType(other))),
            }
            if groups == 0 {
                return Ok(());
            }
            if self.bytes.is_empty() {
                return Err(Box::new(ProtoError::UnexpectedEof));
            }
            wire = (self.varint()? & 7) as u8;
        }
    }
}

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of bytes.
pub fn put_bytes(out: &mut Vec<u8>, key: u32, value: &[u8]) {
    put_varint(out, key.into());
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a field that holds what `write` appends. The length goes in front when it is known.
pub fn put_message<E>(out: &mut Vec<u8>, key: u32, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    put_varint(out, key.into());
    out.push(0);
    let start = out.len();
    write(out)?;
    let len = out.len() - start;
    if len < 0x80 {
        out[start - 1] = len as u8;
    } else {
        let mut prefix = Vec::with_capacity(5);
        put_varint(&mut prefix, len as u64);
        out.splice(start - 1..start, prefix);
    }
    Ok(())
}

/// The key of a field.
pub const fn key(number: u32, wire: u8) -> u32 {
    number << 3 | wire as u32
}
