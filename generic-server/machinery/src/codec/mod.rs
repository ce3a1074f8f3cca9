//! Codecs between bytes and values: JSON, YAML, Kubernetes protobuf.
//!
//! CBOR is behind a gate that is off by default upstream: there is none here, and a request with it is answered 415 as
//! there.

pub mod pem;
pub mod protobuf;
pub mod yaml;

pub use crate::json::{self, scan};
