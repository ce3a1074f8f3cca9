//! The one schema engine: a built-in type and a CRD's structural schema are the same [`Schema`].

pub mod builtin;
mod decode;
mod default;
pub mod pattern;
mod prune;
pub mod structural;
mod types;

pub use decode::{DecodeError, decode};
pub use default::{apply_defaults, drop_nulls};
pub use pattern::Pattern;
pub use prune::{prune, prune_part};
pub use types::*;
