//! The one schema engine: a built-in type and a CRD's structural schema are the same [`Schema`].

pub mod builtin;
mod decode;
mod types;

pub use decode::{DecodeError, decode};
pub use types::*;
