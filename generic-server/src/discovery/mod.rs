//! Discovery: what `/api`, `/apis` and everything below them say is served. Documents are made from rows of the resource
//! table, from parts that other servers hand over, and kept until the rows change.
//!
//! A server turns its rows into [`Group`]s ([`groups_of`]); [`merge`] joins the parts of several servers;
//! [`Documents`] holds what is sent.

mod document;
mod documents;
mod group;
mod listing;
mod priority;
mod resources;

pub use crate::resource::compare_versions;
pub use document::Document;
pub use documents::Documents;
pub use group::{Freshness, Group, Version, groups_of, merge};
pub use listing::Listing;
pub use priority::{Priority, priority};
pub use resources::Resources;
