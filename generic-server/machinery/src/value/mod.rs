//! The JSON tree that every object is, while it is not just bytes: cheap to clone, copied only where it is written.

mod map;
mod number;
mod path;
mod seen;
mod tree;

pub use map::Map;
pub(crate) use map::order;
pub use number::write_float;
pub use path::{Path, Segment};
pub use seen::{Content, Seen, repeated};
pub use tree::Value;

/// A string that is cheap to clone: short ones (up to 23 bytes, most keys) live inline, longer ones are shared.
pub type Str = smol_str::SmolStr;
