//! What a request to the API asks for: its query, its verb, and the attributes that its path names.
//!
//! `resolve` reads a method and a path as upstream's RequestInfo resolver does. Routing, authorization, flow control, metrics
//! and audit share the result.

mod info;
mod query;
mod resolve;
mod verbs;

pub use info::{RequestInfo, Route};
pub use query::{Query, strict_percent_decode};
pub use resolve::{field_terms, label_requirements, resolve, resource_info};
pub use verbs::{Verb, Verbs};
