//! OpenAPI: what clients may ask for and how it looks, made from the rows of the resource table and their schemas.

pub mod docs;
