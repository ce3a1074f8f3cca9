//! managedFields: who set which field. The bridge between writes and the apply engine.

use async_trait::async_trait;
use bytes::Bytes;
use machinery::{Value, meta::status::Status};

use crate::{
    handlers::options::WriteOptions,
    registry::{Change, Write},
    resource::Resource,
};

/// Notes in `new` which fields this write sets. Both objects are in the version of the request.
pub(crate) fn track(_write: &Write<'_>, _old: Option<&Value>, _new: &mut Value) -> Result<(), Status> {
    Ok(())
}

/// A server-side apply.
pub struct Apply {}

impl Apply {
    /// Reads the applied configuration.
    pub fn read(
        _row: &Resource,
        _namespace: &str,
        _name: &str,
        _subresource: &str,
        _bytes: &Bytes,
        _options: &WriteOptions,
    ) -> Result<Self, Status> {
        Err(Status::unsupported_media_type(&["application/json-patch+json", "application/merge-patch+json"]))
    }
}

#[async_trait]
impl Change for Apply {
    async fn apply(&self, _current: Option<&Value>, _warnings: &mut Vec<String>) -> Result<Option<Value>, Status> {
        Ok(None)
    }

    fn tracks_fields(&self) -> bool {
        true
    }
}
