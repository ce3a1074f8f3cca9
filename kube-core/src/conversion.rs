//! Conversions that several groups need.

use generic_server::resource::Conversion;
use machinery::{Str, Value};

/// Between two versions that differ in their name alone.
pub(crate) struct Renamed {
    /// The apiVersion that is served.
    pub(crate) served: &'static str,
    /// The apiVersion that is stored.
    pub(crate) stored: &'static str,
}

impl Conversion for Renamed {
    fn from_storage(&self, object: Value) -> Value {
        renamed(object, self.served)
    }

    fn to_storage(&self, object: Value) -> Value {
        renamed(object, self.stored)
    }
}

/// The object under another apiVersion.
pub(crate) fn renamed(mut object: Value, api_version: &'static str) -> Value {
    object.make_object().insert("apiVersion", Str::new_static(api_version));
    object
}
