//! The one schema engine: a built-in type and a CRD's structural schema are the same [`Schema`].

pub mod builtin;
mod custom;
mod decode;
mod default;
mod embedded;
mod lazy;
pub mod openapi;
pub mod pattern;
mod prune;
mod strict;
mod strict_json;
pub mod structural;
mod types;
mod validate;

pub(crate) use builtin::named_go_type;
pub use custom::{read_applied, read_custom, read_metadata};
pub(crate) use decode::go_type;
pub use decode::packed_base64;
pub use decode::{DecodeError, decode, decode_text, omit_empty, settle};
pub use default::{apply_defaults, drop_nulls};
pub use embedded::{coerce_embedded, validate_embedded};
pub use lazy::LazySchema;
pub use pattern::Pattern;
pub use prune::{prune, prune_part};
pub use strict::in_document_order;
pub use types::*;
pub use validate::{has_format, is_known_format, list_errors, ratchet, validate, validate_lists, validate_update};
