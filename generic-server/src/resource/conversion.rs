//! From one version of a resource to another.

use std::sync::Arc;

use async_trait::async_trait;
use machinery::{Value, meta::status::Status};

/// Converts objects between a served version and the stored one. Pure; loses nothing that the stored version can hold.
pub trait Conversion: Send + Sync {
    /// From the stored version to the served one, apiVersion included.
    #[allow(
        clippy::wrong_self_convention,
        reason = "`from` and `to` are the two directions, and both need the converter"
    )]
    fn from_storage(&self, object: Value) -> Value;
    /// From the served version to the stored one, apiVersion included.
    fn to_storage(&self, object: Value) -> Value;

    /// Whether the two versions differ in their names alone.
    fn renames(&self) -> bool {
        false
    }

    /// From the served version on the way to another served one: to compare what was set through one with what is set
    /// through the other.
    fn to_sibling(&self, object: Value) -> Value {
        self.to_storage(object)
    }

    /// The other half of that way, to the served version.
    #[allow(clippy::wrong_self_convention, reason = "as above")]
    fn from_sibling(&self, object: Value) -> Value {
        self.from_storage(object)
    }
}

/// Asks somebody else to convert objects: it takes a while, and may fail.
#[async_trait]
pub trait RemoteConversion: Send + Sync {
    /// The objects in the version `api_version` (`example.com/v1`), in their order. None of them is in it yet; their
    /// number is bounded by the caller. What comes back is of the right kind and version, is the same object and fits the
    /// schema's shape; anything else is an error.
    async fn convert(&self, objects: Vec<Value>, api_version: &str) -> Result<Vec<Value>, Status>;
}

/// Who converts a row's objects.
#[derive(Clone)]
pub enum Converter {
    /// A rule of this server: at once, and it cannot fail.
    Rule(Arc<dyn Conversion>),
    /// Somebody else.
    Remote(Arc<dyn RemoteConversion>),
}
