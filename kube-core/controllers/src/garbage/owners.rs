//! Whether the owners that an object names exist: by their live state. Nothing of that is remembered, not even that one does
//! not exist: a store that is restored may have it again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, status::Status},
};
use storage::cache::{CacheEntry, ReadAt};
use tokio::time::Instant;

use super::{
    facts::{Facts, Reference},
    graph::Place,
    source::Source,
    told::{Told, shown},
};
use crate::{
    client::{Client, segment},
    kinds::{Kinds, StoredKind, collection},
};

/// All namespaces are searched for a misplaced owner no more often, whatever the number of its dependents.
const SEARCH_EVERY: Duration = Duration::from_secs(10);
/// So many owners that were searched for are remembered.
const SEARCHED: usize = 1024;

/// An owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is not there, or another object has its name.
    Absent,
    /// It is there and stays, or goes without waiting.
    Solid,
    /// It is being deleted and waits for its dependents.
    Waiting,
}

/// Why an owner cannot be looked for.
#[derive(Debug)]
pub(super) enum Unresolved {
    /// No kind of this name is served in this version; it may come.
    NoKind,
    /// An object of the cluster names an owner in a namespace, which does not help it.
    InNamespace,
    /// The request has failed.
    Failed(Status),
}

/// Looks for owners.
pub(super) struct Owners {
    client: Client,
    kinds: Arc<Kinds>,
    told: Arc<Told>,
    /// By uid: when an owner was searched for in all namespaces, and whether it was found.
    searched: Mutex<HashMap<Str, (Instant, bool)>>,
}

impl Owners {
    pub(super) fn new(client: Client, kinds: Arc<Kinds>, told: Arc<Told>) -> Self {
        Owners { client, kinds, told, searched: Mutex::default() }
    }

    /// What has become of an owner of the object at this place, whose uid is `dependent`.
    pub(super) async fn find(
        &self,
        reference: &Reference,
        place: &Place<Source>,
        dependent: &str,
    ) -> Result<Owner, Unresolved> {
        let list = self.kinds.list();
        let facts = match list.find(&reference.api_version, &reference.kind) {
            Some(kind) => {
                if kind.namespaced && place.namespace.is_empty() {
                    self.tell_misplaced(kind, reference, place, dependent).await;
                    return Err(Unresolved::InNamespace);
                }
                let found = self.read(kind, reference, &place.namespace).await.map_err(Unresolved::Failed)?;
                if found.as_ref().is_none_or(|facts| facts.uid != reference.uid) && kind.namespaced {
                    self.tell_misplaced(kind, reference, place, dependent).await;
                }
                found
            }
            None => self.read_remote(reference, &place.namespace).await?,
        };
        Ok(match facts.filter(|facts| facts.uid == reference.uid) {
            None => Owner::Absent,
            Some(facts) if facts.waits() => Owner::Waiting,
            Some(_) => Owner::Solid,
        })
    }

    async fn read(&self, kind: &StoredKind, reference: &Reference, namespace: &str) -> Result<Option<Facts>, Status> {
        let namespace = if kind.namespaced { namespace } else { "" };
        match kind.lister.get(namespace, &reference.name, ReadAt::Latest).await {
            Ok(object) => Ok(Some(Facts::read(object.bytes()))),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Asks the aggregated server that has the kind.
    async fn read_remote(&self, reference: &Reference, namespace: &str) -> Result<Option<Facts>, Unresolved> {
        let Some((group, version)) = reference.api_version.split_once('/') else { return Err(Unresolved::NoKind) };
        if self.kinds.has_version(group, version) {
            return Err(Unresolved::NoKind);
        }
        let listed =
            self.client.get(&format!("/apis/{}/{}", segment(group), segment(version)), "application/json").await;
        let resources = match listed {
            Ok(list) => list,
            Err(status) if status.is_not_found() => return Err(Unresolved::NoKind),
            Err(status) => return Err(Unresolved::Failed(status)),
        };
        let resources = resources.get("resources").and_then(Value::as_array).unwrap_or_default();
        let name = |resource: &Value| resource.str_at(&["name"]).unwrap_or_default().to_owned();
        let found = resources
            .iter()
            .find(|resource| resource.str_at(&["kind"]) == Some(&reference.kind) && !name(resource).contains('/'))
            .ok_or(Unresolved::NoKind)?;
        let namespaced = found.get("namespaced").and_then(Value::as_bool).unwrap_or(false);
        if namespaced && namespace.is_empty() {
            return Err(Unresolved::InNamespace);
        }
        let objects = collection(group, version, &name(found), if namespaced { namespace } else { "" });
        match self.client.get_remote(&format!("{objects}/{}", segment(&reference.name))).await {
            Ok(object) => Ok(Some(Facts::of(&object))),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(Unresolved::Failed(status)),
        }
    }

    /// Tells by an event that an owner is in another namespace, if it is.
    async fn tell_misplaced(&self, kind: &StoredKind, reference: &Reference, place: &Place<Source>, dependent: &str) {
        if !self.is_elsewhere(kind, reference) {
            return;
        }
        let namespace = place.namespace.as_str();
        let message = format!("ownerRef {} does not exist in namespace {namespace:?}", shown(reference, namespace));
        self.told.about(place, dependent, "OwnerRefInvalidNamespace", &message).await;
    }

    fn is_elsewhere(&self, kind: &StoredKind, reference: &Reference) -> bool {
        let now = Instant::now();
        let mut searched = self.searched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = searched.get(&reference.uid).filter(|(at, _)| now - *at < SEARCH_EVERY) {
            return *found;
        }
        let found = self.search(kind, reference);
        if searched.len() >= SEARCHED {
            searched.clear();
        }
        searched.insert(reference.uid.clone(), (now, found));
        found
    }

    fn search(&self, kind: &StoredKind, reference: &Reference) -> bool {
        let list = self.kinds.list();
        let Some(namespaces) = list.resource(GrRef::new("", "namespaces")) else { return false };
        let (namespaces, owners) = (namespaces.lister.cache().latest(), kind.lister.cache().latest());
        namespaces.range("", None).filter_map(CacheEntry::object).any(|namespace| {
            let key = kind.lister.key(namespace.name(), &reference.name);
            let owner = owners.get(&key).and_then(CacheEntry::object);
            owner.is_some_and(|o| scan::text(o.bytes(), &["metadata", "uid"]).is_some_and(|uid| *uid == *reference.uid))
        })
    }
}
