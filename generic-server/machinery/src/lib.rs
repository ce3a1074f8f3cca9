//! The Kubernetes object model and its rules: values, metadata, schemas, codecs, patches. No I/O, no async.
//!
//! ```
//! use machinery::{
//!     codec::json,
//!     meta::Meta,
//!     patch::merge,
//!     request::{Query, resolve},
//! };
//!
//! let pod = json::decode(br#"{"metadata": {"name": "web", "labels": {"app": "a"}}}"#).unwrap();
//! let patch = json::decode(br#"{"metadata": {"labels": {"app": "b"}}}"#).unwrap();
//! let patched = merge::apply(&pod, &patch).unwrap();
//! assert_eq!(Meta::of(&patched).label("app"), Some("b"));
//!
//! let info = resolve("GET", "/api/v1/namespaces/a/pods/web/log", &Query::parse("follow=true"));
//! assert_eq!((info.verb_name(), &*info.resource, &*info.subresource), ("get", "pods", "log"));
//! ```

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
