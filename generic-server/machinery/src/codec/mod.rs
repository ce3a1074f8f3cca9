//! Codecs between bytes and values: JSON, YAML, protobuf, CBOR.

pub mod json;
pub mod protobuf;
pub mod yaml;

pub use json::scan;
