//! OpenAPI: what clients may ask for and how it looks, made from the rows of the resource table and their schemas.
//!
//! A document is never held as a whole: it is a chain of compressed pieces, those of the built-in rows and one or two of each
//! custom resource, which are made when they are first asked for and kept with the row. The hash by which clients keep a
//! document is one of the rows and their schemas, so that the index needs no document at all.

pub mod docs;
mod documents;
mod endpoint;
mod frame;
mod gnostic;
mod members;
mod parameters;
mod paths;
mod row;
mod schemas;
mod shared;
mod v2;
mod v3;

pub use endpoint::OpenApi;
pub use row::{Published, RowParts};

#[cfg(test)]
mod tests;
