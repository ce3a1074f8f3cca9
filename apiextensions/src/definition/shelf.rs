//! Looks definitions up by name: in the cache, and among those that are just being written.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use generic_server::registry::Lister;
use machinery::{Str, Value, codec::json};

/// The definitions.
pub(crate) struct Shelf {
    lister: Arc<Lister>,
    /// Those that are served already, though their first write is not done.
    arriving: Mutex<HashMap<Str, Value>>,
}

impl Shelf {
    /// The definitions that a lister reads.
    pub(crate) fn new(lister: Arc<Lister>) -> Self {
        Shelf { lister, arriving: Mutex::default() }
    }

    fn arriving(&self) -> MutexGuard<'_, HashMap<Str, Value>> {
        self.arriving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A definition as it is now.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        if let Some(definition) = self.arriving().get(name) {
            return Some(definition.clone());
        }
        let snapshot = self.lister.cache().latest();
        let object = snapshot.get(&self.lister.key("", name))?.object()?;
        json::decode(object.bytes()).ok()
    }

    /// Shows a definition until it [has arrived](Shelf::arrived).
    pub(crate) fn announce(&self, name: &str, definition: Value) {
        self.arriving().insert(name.into(), definition);
    }

    /// The definition is in the cache, or will never be.
    pub(crate) fn arrived(&self, name: &str) {
        self.arriving().remove(name);
    }
}
