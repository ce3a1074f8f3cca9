//! Conversions that several groups need.

use generic_server::resource::Conversion;
use machinery::{Str, Value};

/// Between two versions that differ in their name alone.
pub(crate) struct Renamed {
    /// The apiVersion that is served.
    served: Str,
    /// The apiVersion that is stored.
    stored: Str,
}

impl Renamed {
    /// Between a version that is served and the stored one, by their apiVersions.
    pub(crate) fn new(served: Str, stored: Str) -> Self {
        Renamed { served, stored }
    }
}

impl Conversion for Renamed {
    fn from_storage(&self, object: Value) -> Value {
        renamed(object, self.served.clone())
    }

    fn to_storage(&self, object: Value) -> Value {
        renamed(object, self.stored.clone())
    }

    fn renames(&self) -> bool {
        true
    }
}

/// The object under another apiVersion.
pub(crate) fn renamed(mut object: Value, api_version: Str) -> Value {
    object.make_object().insert("apiVersion", api_version);
    object
}
