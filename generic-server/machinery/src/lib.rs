//! The Kubernetes object model and its rules: values, metadata, schemas, codecs, patches. No I/O, no async.

pub mod codec;
pub mod config;
pub mod meta;
pub mod patch;
pub mod request;
pub mod schema;
pub mod value;

pub use value::{Map, Str, Value};
