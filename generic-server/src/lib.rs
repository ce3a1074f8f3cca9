//! What the three servers share: serving, pipeline, handlers, registry, admission, authentication, discovery, OpenAPI, tasks.

pub mod admission;
mod body;
pub mod discovery;
pub mod features;
pub mod fields;
pub mod flow_control;
pub mod handlers;
pub mod health;
pub mod index;
pub mod metrics;
pub mod negotiate;
pub mod offload;
pub mod openapi;
pub mod pages;
pub mod pipeline;
pub mod printer;
pub mod proxy;
pub mod registry;
pub mod request;
pub mod resource;
pub mod serve;
pub mod server;
pub mod tasks;

pub use body::{Body, BodyError, Piece, PieceWriter};
