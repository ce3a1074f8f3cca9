//! Revisioned storage with etcd's semantics, and the watch cache above it.
//!
//! The trait is [`Store`]; everything above reads through a [`cache`] and writes through the trait.

pub mod api;
pub mod cache;
pub mod conformance;
pub mod embedded;
pub mod encrypt;
mod error;
pub mod etcd;
pub mod limits;
pub mod memory;
mod watchers;

pub use api::*;
pub use error::Error;
pub use memory::Memory;
