//! Kubernetes protobuf: the `k8s\0` envelope and, driven by the schemas' field numbers, the messages in it.
//!
//! The bytes are those of upstream's generated code: fields in the order of their numbers, values that Go does not hold
//! behind a pointer always written, maps sorted by key. Unknown fields are skipped, as upstream does.

mod decode;
mod encode;
mod envelope;
mod frame;
mod list;
mod names;
mod plan;
mod scalar;
mod special;
#[cfg(test)]
mod tests;
pub mod wire;

pub use decode::{decode, decode_as, decode_raw};
pub use encode::{encode, encode_as, encode_raw, message_of};
pub use envelope::{Envelope, MAGIC, envelope, wrap};
pub use frame::{read_frame, watch_event, watch_frame};
pub use list::{item_len, list_frame, put_item};
pub use plan::has_message;

/// Why bytes are not the message they should be, or a value has no message; in the words of upstream where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// No bytes at all.
    #[error("empty data")]
    Empty,
    /// Nothing behind the four bytes that begin an envelope.
    #[error("empty body")]
    EmptyBody,
    /// Not the four bytes that begin an envelope.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Prefix,
    /// The bytes end inside a field.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length beyond all bounds.
    #[error("proto: negative length found during unmarshaling")]
    Length,
    /// A field whose key says another kind of value than its message.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WireType {
        /// What the key says.
        wire: u8,
        /// The field.
        field: String,
    },
    /// A field number that is not above 0.
    #[error("proto: {message}: illegal tag {tag} (wire type {key})")]
    Tag {
        /// The message.
        message: &'static str,
        /// The field number.
        tag: i32,
        /// The whole key, which upstream calls the wire type here.
        key: u64,
    },
    /// The end of a group that has not begun.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(&'static str),
    /// The same in an entry of a map.
    #[error("proto: unexpected end of group")]
    UnexpectedEndGroup,
    /// A wire type that does not exist.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// Messages in messages without end.
    #[error("proto: exceeded max depth")]
    Depth,
    /// More messages than a body of the largest allowed size can mean well.
    #[error("proto: too many messages")]
    TooMany,
    /// JSON inside a message that is none.
    #[error("{0}")]
    Json(#[from] super::json::JsonError),
    /// A quantity that is none.
    #[error("{0}")]
    Quantity(#[from] crate::meta::QuantityError),
    /// A time or another value that a message cannot hold or JSON cannot show.
    #[error("{0}")]
    Value(String),
    /// A kind that has no message, or is not known.
    #[error(
        "object {kind} of {api_version} does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message"
    )]
    NoMessage {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
}

/// An error on its way out: small, so that what usually is there instead moves cheaply.
type Fault = Box<ProtoError>;

impl From<Fault> for ProtoError {
    fn from(fault: Fault) -> Self {
        *fault
    }
}
