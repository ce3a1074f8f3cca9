//! Codecs between bytes and values: JSON, YAML, Kubernetes protobuf, CBOR.

pub mod cbor;
pub mod pem;
pub mod protobuf;
pub mod yaml;

pub use crate::json::{self, scan};
