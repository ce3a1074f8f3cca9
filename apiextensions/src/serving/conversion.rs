//! Conversion between versions.
//!
//! What another version does not specify is lost on the way to it, as when the object was sent in that version.

use generic_server::resource::Conversion;

use machinery::{
    Str, Value,
    schema::{self, LazySchema},
};

/// Conversion `None`: versions differ in their apiVersion alone.
pub(super) struct Rename {
    served: (Str, LazySchema),
    stored: (Str, LazySchema),
}

impl Rename {
    /// Between two versions of a group, with their schemas.
    pub(super) fn new(group: &str, served: (&str, LazySchema), stored: (&str, LazySchema)) -> Self {
        let named = |(version, schema): (&str, LazySchema)| (format!("{group}/{version}").into(), schema);
        Rename { served: named(served), stored: named(stored) }
    }
}

/// Gives an object another apiVersion; answers whether it had a different one.
fn rename(object: &mut Value, version: &Str) -> bool {
    if object.str_at(&["apiVersion"]) == Some(version) {
        return false;
    }
    object.make_object().insert("apiVersion", version);
    true
}

impl Conversion for Rename {
    fn from_storage(&self, mut object: Value) -> Value {
        let (version, schema) = &self.served;
        if rename(&mut object, version) {
            schema::prune(schema, &mut object);
        }
        object
    }

    fn to_storage(&self, mut object: Value) -> Value {
        let (version, schema) = &self.stored;
        if rename(&mut object, version) {
            schema::prune(schema, &mut object);
        }
        object
    }

    /// Who manages which fields is found out with the fields of both versions.
    fn to_sibling(&self, object: Value) -> Value {
        object
    }

    fn from_sibling(&self, mut object: Value) -> Value {
        rename(&mut object, &self.served.0);
        object
    }
}
