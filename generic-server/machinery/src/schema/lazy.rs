//! Schemas that are read when they are first asked for.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, LazyLock},
};

use super::Schema;

type Make = Box<dyn FnOnce() -> Schema + Send>;

/// A shared schema, which may not be there yet: of thousands of custom resources only few are in use.
#[derive(Clone)]
pub struct LazySchema(Arc<LazyLock<Schema, Make>>);

impl LazySchema {
    /// A schema that `make` gives when it is first asked for.
    pub fn new(make: impl FnOnce() -> Schema + Send + 'static) -> Self {
        LazySchema(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl Deref for LazySchema {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        &self.0
    }
}

impl From<Schema> for LazySchema {
    fn from(schema: Schema) -> Self {
        LazySchema::new(move || schema)
    }
}

impl Default for LazySchema {
    fn default() -> Self {
        Schema::default().into()
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazySchema") // to show it would be to ask for it
    }
}
