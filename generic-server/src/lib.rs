//! What the three servers share: serving, pipeline, handlers, registry, admission, authentication, discovery, OpenAPI, tasks.

mod body;
pub mod discovery;
pub mod resource;
pub mod serve;
pub mod tasks;

pub use body::{Body, BodyError};
