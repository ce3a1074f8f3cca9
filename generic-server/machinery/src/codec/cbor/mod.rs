//! CBOR (RFC 8949) as Kubernetes reads and writes it (KEP-4222).
//!
//! Documents are enclosed in the tag of self-described CBOR, texts and the names of members are byte strings, and members
//! stand in the order of deterministic encoding: by length, then by their bytes. Go's `[]byte` is a byte string with the
//! tag that expects base64 later; the same without the tag holds base64 already. Readers take any well-formed item: other
//! tags are looked through, text and byte strings mean the same, lengths need not be known in advance.
//!
//! The bytes are checked to be well-formed before anything is made of them, so that what is made is never larger than what
//! was sent promises.

mod any;
mod encode;
mod error;
mod head;
mod notation;
mod scalar;
#[cfg(test)]
mod tests;
mod time;
mod typed;
mod wellformed;

pub use any::decode;
pub use encode::{begin_array, begin_map, encode, encode_plain, put, put_text};
pub use error::CborError;
pub use notation::notation;
pub use typed::{decode_as, type_meta};

use crate::Value;
use crate::schema::Schema;

/// What documents begin with: the tag of self-described CBOR.
pub const SELF_DESCRIBED: &[u8] = &[0xd9, 0xd9, 0xf7];

/// One event of a watch around an encoded document.
pub fn watch_frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(object.len() + kind.len() + 24);
    frame.extend_from_slice(SELF_DESCRIBED);
    begin_map(&mut frame, 2);
    put_text(&mut frame, "type");
    put_text(&mut frame, kind);
    put_text(&mut frame, "object");
    frame.extend_from_slice(object);
    frame
}

/// The schema of a document of a built-in kind, by what the document says that it is.
fn schema_of(document: &Value) -> Option<&'static Schema> {
    let kind = document.str_at(&["kind"])?;
    let api_version = document.str_at(&["apiVersion"])?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    crate::schema::builtin::schema_of(group, version, kind)
}
