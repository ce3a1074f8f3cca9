//! OpenAPI: what clients may ask for and how it looks, made from the rows of the resource table and their schemas.
//!
//! A document is never held as a whole: it is a chain of compressed pieces, those of the built-in rows and one or two of each
//! custom resource, which are made when they are first asked for and kept with the row. The hash by which clients keep a
//! document is one of the rows and their schemas, so that the index needs no document at all.

pub(crate) mod cbor;
pub(crate) mod frame;
mod gnostic;
pub(crate) mod members;
mod parameters;
pub(crate) mod paths;
pub(crate) mod row;
pub(crate) mod schemas;
mod shared;
pub(crate) mod v2;
pub(crate) mod v3;

pub use frame::Described;
pub use row::{Published, RowParts};
