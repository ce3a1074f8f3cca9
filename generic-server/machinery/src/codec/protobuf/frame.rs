//! Watch streams: each event is a length (four bytes, big-endian) and a WatchEvent message without an envelope, which
//! holds the object with one.

use super::ProtoError;
use super::wire::{BYTES, Reader, key, put_bytes, put_message};

/// A frame with an event; `object` is in its envelope.
pub fn watch_frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + event_type.len() + 24);
    out.extend_from_slice(&[0; 4]);
    put_bytes(&mut out, key(1, BYTES), event_type.as_bytes());
    let written: Result<(), ProtoError> = put_message(&mut out, key(2, BYTES), |out| {
        put_bytes(out, key(1, BYTES), object);
        Ok(())
    });
    written.expect("bytes are always written");
    let len = u32::try_from(out.len() - 4).expect("objects are far below 4 GiB");
    out[..4].copy_from_slice(&len.to_be_bytes());
    out
}

/// The first frame's content and the bytes after it; `None` if it is not complete yet, or longer than `max` (then it will
/// never be).
pub fn read_frame(bytes: &[u8], max: usize) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok().filter(|len| *len <= max)?;
    rest.split_at_checked(len)
}

/// The type and the object's envelope of the WatchEvent in a frame.
pub fn watch_event(content: &[u8]) -> Result<(&str, &[u8]), ProtoError> {
    let (mut event_type, mut object): (&str, &[u8]) = ("", &[]);
    let mut reader = Reader::new(content, "WatchEvent");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => {
                event_type = std::str::from_utf8(reader.bytes()?)
                    .map_err(|_| ProtoError::Value("proto: invalid UTF-8 in the type of an event".into()))?;
            }
            (2, BYTES) => {
                let mut raw = Reader::new(reader.bytes()?, "RawExtension");
                while let Some((number, wire)) = raw.key()? {
                    match (number, wire) {
                        (1, BYTES) => object = raw.bytes()?,
                        (_, wire) => raw.skip(wire)?,
                    }
                }
            }
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok((event_type, object))
}
