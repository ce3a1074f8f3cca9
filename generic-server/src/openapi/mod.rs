//! OpenAPI: what clients may ask for and how it looks, made from the rows of the resource table and their schemas.
//!
//! A document is made when it is first asked for, and again only when its rows have changed: the hash by which clients keep
//! it is one of the rows, so that the index needs no document at all.

pub mod docs;
mod endpoint;
mod gnostic;
mod parameters;
mod paths;
mod schemas;
mod v2;
mod v3;

pub use endpoint::{OpenApi, Published};
