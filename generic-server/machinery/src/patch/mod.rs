//! Patches: JSON Patch, JSON Merge Patch, Strategic Merge Patch, server-side apply.
//!
//! Every function here is pure: a document and a patch go in, the patched document comes out and shares what did not
//! change. Decoding the request and judging the result (unknown fields, validation) is the caller's.

mod budget;
mod gofmt;
mod status;
#[cfg(test)]
mod testing;

pub mod apply;
pub mod json_patch;
pub mod merge;
pub mod strategic;

pub use gofmt::go_format;

/// Why a patch was refused, by the Status that upstream answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400 `BadRequest` with this message.
    #[error("{0}")]
    BadRequest(String),
    /// 422 `Invalid` with a general message and empty details: upstream keeps the cause to
    /// itself. The text here is for logs.
    #[error("{0}")]
    Unprocessable(String),
    /// 413 `RequestEntityTooLarge`; the message is the text after `Request entity too large: `.
    #[error("{0}")]
    TooLarge(String),
    /// 422 `Invalid` of an object without kind or name: the field `patch` has an invalid value.
    #[error("patch: Invalid value: {value:?}: {detail}")]
    Invalid {
        /// The patch as it is shown to the client.
        value: String,
        /// What is wrong with it.
        detail: String,
    },
    /// 500 without a reason, with this message. Upstream answers so to many malformed strategic merge patches.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            PatchError::BadRequest(_) => 400,
            PatchError::TooLarge(_) => 413,
            PatchError::Unprocessable(_) | PatchError::Invalid { .. } => 422,
            PatchError::Internal(_) => 500,
        }
    }
}
