//! The Kubernetes object model and its rules: values, metadata, schemas, codecs, patches. No I/O, no async.

pub mod codec;
pub mod config;
pub mod go_text;
pub mod json;
pub mod meta;
pub mod patch;
pub mod request;
pub mod schema;
mod stacks;
pub mod value;

pub use value::{Map, Str, Value};
