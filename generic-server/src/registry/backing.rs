//! What resources are kept on.

use std::{collections::HashMap, sync::Arc, time::Duration};

use machinery::{
    Str,
    meta::{GrRef, GroupResource},
};
use storage::{Store, encrypt::Encryption};

use super::{
    encoded::{Encoded, Form},
    measured::Measured,
};
use crate::{
    features::{Features, Versions},
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
    pub settings: RegistrySettings,
}

impl Backing {
    /// The store for one resource's keys.
    pub(super) fn store_of(&self, row: &Resource) -> Arc<dyn Store> {
        let placement = &self.settings.placement;
        let store = placement.other(GrRef::new(&row.group, &row.plural)).unwrap_or(&self.store);
        let measured = Arc::new(Measured::new(store.clone(), row));
        let store: Arc<dyn Store> = match &self.encryption {
            Some(encryption) => encryption.wrap(measured, &row.group, &row.plural),
            None => measured,
        };
        let form = match row.built_in {
            true if placement.protobuf && !ALWAYS_JSON.contains(&row.group.as_str()) => Form::Protobuf,
            false if self.settings.features.is_on(CBOR) => Form::Cbor,
            _ => return store,
        };
        Arc::new(Encoded { store, form })
    }
}

/// The gate with which custom resources are written as CBOR.
const CBOR: &str = "CBORServingAndStorage";

/// Groups whose objects upstream writes as JSON, whatever it is told.
const ALWAYS_JSON: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// Resources that are stored as one of another group: where that one is kept, they are.
const STORED_TOGETHER: [[GrRef<'static>; 2]; 1] = [[GrRef::new("events.k8s.io", "events"), GrRef::new("", "events")]];

/// Where the objects of some resources are kept, if not with all others, and how built-in ones are written.
#[derive(Clone, Default)]
pub struct Placement {
    /// `--storage-media-type`: as protobuf, where a type has such a form. What is read may have either.
    pub protobuf: bool,
    /// `--etcd-servers-overrides`: other stores, by what they are for.
    pub others: HashMap<GroupResource, Arc<dyn Store>>,
}

impl Placement {
    fn other(&self, resource: GrRef<'_>) -> Option<&Arc<dyn Store>> {
        let together = STORED_TOGETHER.iter().find(|[stored, _]| *stored == resource);
        self.others.get(&together.map_or(resource, |[_, with]| *with).to_owned())
    }
}

impl std::fmt::Debug for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let others: Vec<_> = self.others.keys().collect();
        f.debug_struct("Placement").field("protobuf", &self.protobuf).field("others", &others).finish()
    }
}

/// What flags say of all stored resources. The defaults are the flags'.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
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
    /// Which version of Kubernetes the server behaves like, and which others must be able to read what it stores.
    pub versions: Versions,
    /// Where objects are kept, and how they are written.
    pub placement: Placement,
}

impl RegistrySettings {
    /// Whether a row is served: it is asked for, or on by default, and what it depends on is there.
    pub fn serves(&self, row: &Resource) -> bool {
        self.apis.serves(row) && row.availability.gate.is_none_or(|gate| self.features.is_on(gate))
    }
}

impl Default for RegistrySettings {
    fn default() -> Self {
        RegistrySettings {
            event_ttl: Duration::from_secs(3600),
            min_watch_timeout: Duration::from_secs(1800),
            delete_collection_workers: 1,
            collects_garbage: true,
            deletes_unreadable: false,
            apis: Enablement::default(),
            features: Features::default(),
            versions: Versions::default(),
            placement: Placement::default(),
        }
    }
}
