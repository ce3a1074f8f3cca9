//! What resources are kept on.

use std::{sync::Arc, time::Duration};

use machinery::Str;
use storage::{Store, encrypt::Encryption};

use super::measured::Measured;
use crate::{
    features::Features,
    resource::{Enablement, Resource},
};

/// Where the objects of all servers are kept.
#[derive(Clone)]
pub struct Backing {
    /// The store.
    pub store: Arc<dyn Store>,
    /// How values are encrypted there; `None`: not at all.
    pub encryption: Option<Arc<Encryption>>,
    /// What all keys start with: `/registry`.
    pub root: Str,
    /// What flags say of all stored resources.
    pub settings: Settings,
}

impl Backing {
    /// The store for one resource's keys.
    pub(super) fn store_of(&self, row: &Resource) -> Arc<dyn Store> {
        let measured = Arc::new(Measured::new(self.store.clone(), row));
        match &self.encryption {
            Some(encryption) => encryption.wrap(measured, &row.group, &row.plural),
            None => measured,
        }
    }
}

/// What flags say of all stored resources. The defaults are the flags'.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `--event-ttl`: how long objects of kinds that expire are kept after their last write.
    pub event_ttl: Duration,
    /// `--min-request-timeout`: a watch without a timeout of its own lasts between this and twice as long; zero: until
    /// its client ends it.
    pub min_watch_timeout: Duration,
    /// `--delete-collection-workers`, at least 1: objects that a collection's deletion removes at once.
    pub delete_collection_workers: usize,
    /// `--enable-garbage-collector`: what becomes of dependents is told to the garbage collector by finalizers.
    pub collects_garbage: bool,
    /// The feature gate AllowUnsafeMalformedObjectDeletion: whoever may can delete objects that cannot be read.
    pub deletes_unreadable: bool,
    /// `--runtime-config`: which built-in versions and resources are served.
    pub apis: Enablement,
    /// Which features are on.
    pub features: Features,
}

impl Settings {
    /// Whether a row is served: it is asked for, or on by default, and what it depends on is there.
    pub fn serves(&self, row: &Resource) -> bool {
        self.apis.serves(row) && row.availability.gate.is_none_or(|gate| self.features.is_on(gate))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            event_ttl: Duration::from_secs(3600),
            min_watch_timeout: Duration::from_secs(1800),
            delete_collection_workers: 1,
            collects_garbage: true,
            deletes_unreadable: false,
            apis: Enablement::default(),
            features: Features::default(),
        }
    }
}
