//! What the three servers share: serving, pipeline, handlers, registry, admission, authentication, discovery, OpenAPI, tasks.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use generic_server::resource::Enablement;
//!
//! let flags = BTreeMap::from([("batch/v1/cronjobs".to_owned(), "false".to_owned())]);
//! assert!(Enablement::parse(&flags).is_ok());
//! let flags = BTreeMap::from([("batch/v1/CronJobs".to_owned(), "false".to_owned())]);
//! let why = Enablement::parse(&flags).unwrap_err();
//! assert!(why.to_string().contains("is always lowercase plural"), "{why}");
//! ```

pub mod admission;
mod body;
mod decode;
pub mod discovery;
pub mod docs;
pub mod endpoint;
pub mod features;
pub mod flow_control;
pub mod handlers;
pub mod health;
pub mod metrics;
pub mod negotiate;
pub mod offload;
pub mod openapi;
pub mod options;
pub mod pages;
pub mod pipeline;
pub mod printer;
pub mod proxy;
mod recorded;
pub mod registry;
pub mod request;
pub mod resource;
pub mod response;
pub mod serve;
pub mod server;
mod strangers;
pub mod table;
pub mod tasks;
#[cfg(test)]
mod testing;
mod usage;

pub use audit;
pub use body::{Body, BodyError, Piece, PieceWriter};
