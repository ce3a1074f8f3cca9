//! CBOR errors, in the words of upstream's decoder.

use std::fmt;

/// Why bytes are not a document, or not one of its type, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CborError {
    /// An item that its place in a type cannot hold.
    Type(Box<Mismatch>),
    /// A member that its type does not have, by its position among the members.
    UnknownField(usize),
    /// Anything else.
    Other(String),
}

/// An item that its place in a type cannot hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mismatch {
    /// What the item is.
    pub(super) found: &'static str,
    /// What the place holds, as Go calls it.
    pub(super) wanted: String,
    /// The member of the outermost struct that leads there.
    pub(super) field: String,
    /// What else is to be said.
    pub(super) detail: String,
}

impl CborError {
    pub(super) fn mismatch(found: &'static str, wanted: impl Into<String>) -> Self {
        Self::detailed(found, wanted, String::new())
    }

    pub(super) fn detailed(found: &'static str, wanted: impl Into<String>, detail: String) -> Self {
        CborError::Type(Box::new(Mismatch { found, wanted: wanted.into(), field: String::new(), detail }))
    }

    pub(super) fn duplicate(key: &str, index: usize) -> Self {
        CborError::Other(format!("cbor: found duplicate map key {key} at map element index {index}"))
    }

    pub(super) fn unacceptable(what: &str, why: &str) -> Self {
        CborError::Other(format!("cbor: data item of cbor type {what} is not accepted by protocol: {why}"))
    }

    /// The error of a value as that of the struct's member which holds it.
    pub(super) fn of_field(mut self, name: impl FnOnce() -> String) -> Self {
        if let CborError::Type(mismatch) = &mut self {
            mismatch.field = name();
        }
        self
    }
}

impl fmt::Display for CborError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CborError::Type(m) => {
                write!(f, "cbor: cannot unmarshal {} into Go ", m.found)?;
                match m.field.as_str() {
                    "" => f.write_str("value")?,
                    field => write!(f, "struct field {field}")?,
                }
                write!(f, " of type {}", m.wanted)?;
                if m.detail.is_empty() { Ok(()) } else { write!(f, " ({})", m.detail) }
            }
            CborError::UnknownField(index) => write!(f, "cbor: found unknown field at map element index {index}"),
            CborError::Other(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CborError {}
