//! The envelope: `k8s\0` and runtime.Unknown, which says the type of the message that it holds.

use super::ProtoError;
use super::wire::{BYTES, Reader, key, put_bytes, put_message};

/// The four bytes in front of every envelope.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// What an envelope says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Envelope<'a> {
    /// The group and version; empty if not said.
    pub api_version: &'a str,
    /// The kind; empty if not said.
    pub kind: &'a str,
    /// The message.
    pub raw: &'a [u8],
    /// How `raw` is compressed; empty in practice.
    pub content_encoding: &'a str,
    /// The media type of `raw` if it is not protobuf; empty in practice.
    pub content_type: &'a str,
}

/// Opens an envelope.
pub fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtoError> {
    if bytes.is_empty() {
        return Err(ProtoError::Empty);
    }
    let body = bytes.strip_prefix(MAGIC).ok_or(ProtoError::Prefix)?;
    if body.is_empty() {
        return Err(ProtoError::EmptyBody);
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(body, "Unknown");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => type_meta(reader.bytes()?, &mut envelope)?,
            (2, BYTES) => envelope.raw = reader.bytes()?,
            (3, BYTES) => envelope.content_encoding = text(reader.bytes()?)?,
            (4, BYTES) => envelope.content_type = text(reader.bytes()?)?,
            (1..=4, wire) => {
                let field = ["TypeMeta", "Raw", "ContentEncoding", "ContentType"][number as usize - 1].to_owned();
                return Err(ProtoError::WireType { wire, field });
            }
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(envelope)
}

fn type_meta<'a>(bytes: &'a [u8], envelope: &mut Envelope<'a>) -> Result<(), ProtoError> {
    let mut reader = Reader::new(bytes, "TypeMeta");
    while let Some((number, wire)) = reader.key()? {
        match (number, wire) {
            (1, BYTES) => envelope.api_version = text(reader.bytes()?)?,
            (2, BYTES) => envelope.kind = text(reader.bytes()?)?,
            (1 | 2, wire) => {
                let field = ["APIVersion", "Kind"][number as usize - 1].to_owned();
                return Err(ProtoError::WireType { wire, field });
            }
            (_, wire) => reader.skip(wire)?,
        }
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str, ProtoError> {
    std::str::from_utf8(bytes).map_err(|_| ProtoError::Value("proto: invalid UTF-8 in the type of an object".into()))
}

/// Appends an envelope around the message that `write` appends.
pub fn wrap<E>(
    out: &mut Vec<u8>,
    api_version: &str,
    kind: &str,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    out.extend_from_slice(MAGIC);
    put_message(out, key(1, BYTES), |out| {
        put_bytes(out, key(1, BYTES), api_version.as_bytes());
        put_bytes(out, key(2, BYTES), kind.as_bytes());
        Ok(())
    })?;
    put_message(out, key(2, BYTES), write)?;
    put_bytes(out, key(3, BYTES), b"");
    put_bytes(out, key(4, BYTES), b"");
    Ok(())
}
