//! From text to a tree: tokens, grammar, macros.

pub mod ast;
mod macros;
mod parse;
mod source;
mod token;

pub use parse::{Parsed, parse};
pub use source::{Issue, Issues, Offset};
pub use token::is_reserved;
