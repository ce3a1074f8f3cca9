//! Conversion between versions.

use generic_server::resource::Conversion;
use machinery::{Str, Value};

/// Conversion `None`: versions differ in their apiVersion alone.
pub(super) struct Rename {
    served: Str,
    stored: Str,
}

impl Rename {
    pub(super) fn new(group: &str, served: &str, stored: &str) -> Self {
        Rename { served: format!("{group}/{served}").into(), stored: format!("{group}/{stored}").into() }
    }
}

impl Conversion for Rename {
    fn from_storage(&self, mut object: Value) -> Value {
        object.make_object().insert("apiVersion", &self.served);
        object
    }

    fn to_storage(&self, mut object: Value) -> Value {
        object.make_object().insert("apiVersion", &self.stored);
        object
    }
}
