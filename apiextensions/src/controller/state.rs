//! The controller's state of each definition.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use machinery::Str;

use crate::serving::Served;

/// What is known of one definition. Whoever holds it is the only one to act on the definition.
#[derive(Default)]
pub(super) struct Slot {
    /// The revision up to which all is done; 0 for none.
    pub(super) revision: u64,
    /// What is served.
    pub(super) served: Option<Served>,
    /// The uid of the definition whose objects are being removed.
    pub(super) clearing: Option<Str>,
}

impl Slot {
    pub(super) fn is_empty(&self) -> bool {
        self.revision == 0 && self.served.is_none()
    }
}

/// The slots, by the definitions' names.
#[derive(Default)]
pub(super) struct Slots(Mutex<HashMap<Str, Arc<tokio::sync::Mutex<Slot>>>>);

impl Slots {
    fn lock(&self) -> MutexGuard<'_, HashMap<Str, Arc<tokio::sync::Mutex<Slot>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slot of a definition; made if there is none.
    pub(super) fn get(&self, name: &str) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut slots = self.lock();
        match slots.get(name) {
            Some(slot) => slot.clone(),
            None => slots.entry(name.into()).or_default().clone(),
        }
    }

    /// The slot of a definition, if there is one.
    pub(super) fn find(&self, name: &str) -> Option<Arc<tokio::sync::Mutex<Slot>>> {
        self.lock().get(name).cloned()
    }

    /// Drops an empty slot that nobody else waits for.
    pub(super) fn forget(&self, name: &str) {
        let mut slots = self.lock();
        // Two: the one in the map, and the caller's.
        if slots.get(name).is_some_and(|slot| Arc::strong_count(slot) <= 2) {
            slots.remove(name);
        }
    }

    /// All names.
    pub(super) fn names(&self) -> Vec<Str> {
        self.lock().keys().cloned().collect()
    }
}
