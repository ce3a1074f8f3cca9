//! Revisioned storage with etcd's semantics, and the watch cache above it.
//!
//! The trait is [`Store`]; everything above reads through a [`cache`] and writes through the trait.
//!
//! ```
//! use storage::{Error, Expect, Memory, Store};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let store = Memory::new();
//! let made = store.put("/registry/a", "1".into(), Expect::Absent, None).await.unwrap();
//! store.put("/registry/a", "2".into(), Expect::Revision(made), None).await.unwrap();
//! let late = store.put("/registry/a", "3".into(), Expect::Revision(made), None).await;
//! assert!(matches!(late, Err(Error::Conflict { .. })));
//! # });
//! ```

pub mod api;
pub mod cache;
pub mod conformance;
pub mod embedded;
pub mod encrypt;
mod error;
pub mod etcd;
mod layer;
pub mod limits;
pub mod memory;
pub mod tally;
mod watchers;

pub use api::*;
pub use error::Error;
pub use layer::Layer;
pub use memory::Memory;
