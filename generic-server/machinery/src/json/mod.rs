//! JSON as Kubernetes reads and writes it: sigs.k8s.io/json's grammar and error texts, Go's escapes and numbers.

mod decode;
mod encode;
mod error;
mod lexer;
mod order;
pub mod scan;
mod serde_impl;
mod strict;

pub use decode::{MAX_DEPTH, decode, decode_shallow, decode_strict, strict_findings};
pub use encode::{encode, encode_into, encode_pretty, encode_pretty_into, encode_text, is_longer_than, write_string};
pub use error::JsonError;
pub(crate) use lexer::mend_utf8;
pub use order::{Part, encode_document, encode_document_pretty, encode_part_into};
pub use strict::{Container, Fields, Finding, Typed};
