//! Decides about one object by its live state and that of its owners, and acts.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use machinery::{
    Str, Value, array,
    meta::{Meta, status::Status},
    object,
};

use super::{
    Queues,
    facts::{FOREGROUND, ORPHAN, Reference},
    graph::{Node, Place},
    live::Live,
    monitors::Monitors,
    owners::{Owner, Owners, Unresolved},
    remotes::Remotes,
    source::Source,
    told::{Told, shown},
};
use crate::{
    client::{Client, Deletion},
    shared::Shared,
    workqueue::Outcome,
};

/// So many dependents forget an owner at once.
const AT_ONCE: usize = 20;
/// So often a write is tried whose object has changed meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// When servers that are down are asked again for dependents that are to be orphaned.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Acts.
pub(super) struct Collector {
    client: Client,
    monitors: Arc<Monitors>,
    remotes: Arc<Remotes>,
    queues: Queues,
    owners: Owners,
    told: Arc<Told>,
}

/// The owners of an object by what has become of them.
#[derive(Default)]
struct Classes<'a> {
    solid: Vec<&'a Reference>,
    absent: Vec<&'a Reference>,
    waiting: Vec<&'a Reference>,
}

impl Collector {
    pub(super) fn new(shared: &Shared, monitors: Arc<Monitors>, remotes: Arc<Remotes>, queues: Queues) -> Self {
        let told = Arc::new(Told::new(shared.events("garbage-collector-controller")));
        let owners = Owners::new(shared.client(), shared.kinds.clone(), told.clone());
        Collector { client: shared.client(), monitors, remotes, queues, owners, told }
    }

    /// Looks at an object; if it cannot be deleted, its owners that wait for it tell.
    pub(super) async fn attempt_to_delete(&self, uid: &Str) -> Result<Outcome, Status> {
        let result = self.delete_or_let_go(uid).await;
        if let Err(status) = &result {
            self.tell_owners(uid, status).await;
        }
        result
    }

    async fn tell_owners(&self, uid: &str, status: &Status) {
        let (what, waiting) = {
            let graph = self.monitors.graph();
            let Some(node) = graph.node(uid) else { return };
            let Place { kind, namespace, name } = &node.place;
            let what =
                format!("[{}/{}, namespace: {namespace}, name: {name}, uid: {uid}]", kind.api_version(), kind.kind());
            let blocked = node.facts.owners.iter().filter(|owner| owner.blocks).filter_map(|o| graph.node(&o.uid));
            let waiting = blocked.filter(|owner| owner.facts.waits());
            (what, waiting.map(|owner| (owner.place.clone(), owner.facts.uid.clone())).collect::<Vec<_>>())
        };
        let message = format!("the dependent {what} blocks the deletion and cannot be deleted: {}", status.message);
        for (owner, uid) in waiting {
            self.told.about(&owner, &uid, "DependentNotDeleted", &message).await;
        }
    }

    /// Deletes an object that no owner is left of, or lets one go that has waited for its dependents.
    async fn delete_or_let_go(&self, uid: &Str) -> Result<Outcome, Status> {
        let Some(node) = self.monitors.graph().node(uid).cloned() else { return Ok(Outcome::Done) };
        if node.facts.deleting && !node.facts.waits() {
            return Ok(Outcome::Done); // it goes, and then its dependents are looked at
        }
        let Some(latest) = self.read(&node.place, uid).await? else {
            self.gone(uid);
            return Ok(Outcome::Done);
        };
        let facts = &latest.facts;
        if facts.waits() {
            return self.let_go(&node.place, uid).await;
        }
        if facts.owners.is_empty() || facts.deleting {
            return Ok(Outcome::Done);
        }
        let classes = match self.classify(&facts.owners, &node.place, uid).await {
            Ok(classes) => classes,
            Err(Unresolved::Failed(status)) => return Err(status),
            Err(Unresolved::NoKind) => return Ok(Outcome::Retry), // it may come, and it is told
            Err(Unresolved::InNamespace) => return Ok(Outcome::Done),
        };
        if !classes.solid.is_empty() {
            if classes.absent.is_empty() && classes.waiting.is_empty() {
                return Ok(Outcome::Done);
            }
            let kept: HashSet<&str> = classes.solid.iter().map(|reference| reference.uid.as_str()).collect();
            let keep = |reference: &Value| kept.contains(reference.str_at(&["uid"]).unwrap_or_default());
            return self.keep_owners(&node.place, &latest.decode()?, keep).await;
        }
        let has_dependents = self.monitors.graph().dependents(uid).next().is_some();
        if !classes.waiting.is_empty() && has_dependents {
            return self.delete_in_foreground(&node, uid, &latest).await;
        }
        let propagation = match (facts.orphan, facts.foreground) {
            (true, _) => "Orphan",
            (_, true) => "Foreground",
            _ => "Background",
        };
        self.delete(&node.place, uid, &latest, propagation).await
    }

    /// The live state of an object; none if it is gone.
    async fn read(&self, place: &Place<Source>, uid: &str) -> Result<Option<Live>, Status> {
        Live::read(&self.client, place, uid).await
    }

    fn gone(&self, uid: &str) {
        self.told.forget(uid);
        self.monitors.removed(uid);
    }

    async fn classify<'a>(
        &self,
        owners: &'a [Reference],
        place: &Place<Source>,
        uid: &str,
    ) -> Result<Classes<'a>, Unresolved> {
        let mut classes = Classes::default();
        for reference in owners {
            let found = self.owners.find(reference, place, uid).await;
            if let Err(why) = &found {
                self.tell_unresolved(reference, place, uid, why).await;
            }
            match found? {
                Owner::Absent => classes.absent.push(reference),
                Owner::Solid => classes.solid.push(reference),
                Owner::Waiting => classes.waiting.push(reference),
            }
        }
        Ok(classes)
    }

    /// Why an object stays whose owner cannot be looked for. One in the wrong namespace is told where it is found.
    async fn tell_unresolved(&self, reference: &Reference, place: &Place<Source>, uid: &str, why: &Unresolved) {
        let owner = shown(reference, &place.namespace);
        match why {
            Unresolved::NoKind => {
                let message = format!("ownerRef {owner} is of a kind that is not served: the object stays");
                self.told.once(place, uid, "OwnerRefUnknownKind", &message).await;
            }
            Unresolved::Failed(status) => {
                let message = format!("ownerRef {owner} cannot be looked for, the object stays: {}", status.message);
                self.told.once(place, uid, "OwnerRefUnreachable", &message).await;
            }
            Unresolved::InNamespace => {}
        }
    }

    /// An owner that waits goes once nothing blocks it; until then, what blocks it is looked at.
    async fn let_go(&self, place: &Place<Source>, uid: &Str) -> Result<Outcome, Status> {
        if !self.monitors.catch_up().await {
            return Ok(Outcome::Retry); // what is not known may block it
        }
        let blocking: Vec<(Str, bool)> = {
            let graph = self.monitors.graph();
            graph.blocking(uid).map(|(dependent, node)| (dependent.clone(), node.facts.waits())).collect()
        };
        if blocking.is_empty() {
            return self.remove_finalizer(place, uid, FOREGROUND).await;
        }
        blocking.into_iter().filter(|(_, waits)| !waits).for_each(|(dependent, _)| self.queues.delete.add(dependent));
        Ok(Outcome::Done)
    }

    /// Deletes an object whose owner waits for it and that has dependents itself. If one of these waits already, they may
    /// wait for each other: then it no longer blocks its owners.
    async fn delete_in_foreground(&self, node: &Node<Source>, uid: &Str, latest: &Live) -> Result<Outcome, Status> {
        let is_cycle = self.monitors.graph().dependents(uid).any(|(_, dependent)| dependent.facts.waits());
        if is_cycle {
            let object = latest.decode()?;
            let owners = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).unwrap_or_default();
            let free = |reference: &Value| {
                let mut reference = reference.clone();
                if reference.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true) {
                    reference.set(&["blockOwnerDeletion"], false);
                }
                reference
            };
            let owners: Vec<Value> = owners.iter().map(free).collect();
            match self.patch(&node.place, &object, object! { "ownerReferences" => owners }).await {
                Ok(_) => {}
                Err(status) if status.is_conflict() => return Ok(Outcome::Retry),
                Err(status) if status.is_not_found() => return Ok(Outcome::Done),
                Err(status) => return Err(status),
            }
            return match self.read(&node.place, uid).await? {
                Some(latest) => self.delete(&node.place, uid, &latest, "Foreground").await,
                None => Ok(Outcome::Done),
            };
        }
        self.delete(&node.place, uid, latest, "Foreground").await
    }

    async fn delete(
        &self,
        place: &Place<Source>,
        uid: &Str,
        latest: &Live,
        propagation: &str,
    ) -> Result<Outcome, Status> {
        let version = latest.version();
        let path = place.kind.path(&place.namespace, &place.name);
        match self.client.delete(&path, Deletion { propagation, uid, version: &version }).await {
            Ok(()) => Ok(Outcome::Done),
            Err(status) if status.is_not_found() => {
                self.gone(uid);
                Ok(Outcome::Done)
            }
            Err(status) if status.is_conflict() => self.delete_changed(place, uid, latest, propagation).await,
            Err(status) => Err(status),
        }
    }

    /// An object that changes all the time goes as well, as long as its owners stay the same.
    async fn delete_changed(
        &self,
        place: &Place<Source>,
        uid: &Str,
        seen: &Live,
        propagation: &str,
    ) -> Result<Outcome, Status> {
        let Some(now) = self.read(place, uid).await? else {
            self.gone(uid);
            return Ok(Outcome::Done);
        };
        if now.facts.owners != seen.facts.owners {
            return Ok(Outcome::Retry);
        }
        let path = place.kind.path(&place.namespace, &place.name);
        match self.client.delete(&path, Deletion { propagation, uid, version: "" }).await {
            Ok(()) => Ok(Outcome::Done),
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(Outcome::Retry),
            Err(status) => Err(status),
        }
    }

    /// Takes the other owners out of an object's references.
    async fn keep_owners(
        &self,
        place: &Place<Source>,
        latest: &Value,
        keep: impl Fn(&Value) -> bool,
    ) -> Result<Outcome, Status> {
        let owners = latest.at(&["metadata", "ownerReferences"]).and_then(Value::as_array).unwrap_or_default();
        let kept: Vec<Value> = owners.iter().filter(|reference| keep(reference)).cloned().collect();
        let patch = object! { "ownerReferences" => if kept.is_empty() { Value::Null } else { kept.into() } };
        match self.patch(place, latest, patch).await {
            Ok(_) => Ok(Outcome::Done),
            Err(status) if status.is_not_found() => Ok(Outcome::Done),
            Err(status) if status.is_conflict() => Ok(Outcome::Retry),
            Err(status) => Err(status),
        }
    }

    /// Changes the metadata of an object, if it is still as it was seen.
    async fn patch(&self, place: &Place<Source>, seen: &Value, mut metadata: Value) -> Result<Value, Status> {
        let meta = Meta::of(seen);
        metadata.set(&["uid"], meta.uid());
        metadata.set(&["resourceVersion"], meta.resource_version());
        let path = place.kind.path(&place.namespace, &place.name);
        self.client.merge(&path, &object! { "metadata" => metadata }).await
    }

    async fn remove_finalizer(&self, place: &Place<Source>, uid: &str, finalizer: &str) -> Result<Outcome, Status> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(latest) = self.read(place, uid).await? else { return Ok(Outcome::Done) };
            let latest = latest.decode()?;
            let meta = Meta::of(&latest);
            if !meta.has_finalizer(finalizer) {
                return Ok(Outcome::Done);
            }
            let others: Vec<&str> = meta.finalizers().filter(|other| *other != finalizer).collect();
            let others = if others.is_empty() { array![] } else { others.into() };
            match self.patch(place, &latest, object! { "finalizers" => others }).await {
                Ok(_) => return Ok(Outcome::Done),
                Err(status) if status.is_not_found() => return Ok(Outcome::Done),
                Err(status) if status.is_conflict() => {}
                Err(status) => return Err(status),
            }
        }
        Ok(Outcome::Retry)
    }

    /// Has the dependents of an object forget it, and then lets it go.
    pub(super) async fn attempt_to_orphan(&self, uid: &Str) -> Result<Outcome, Status> {
        if !self.monitors.catch_up().await {
            return Ok(Outcome::Retry); // what is not known may be its dependent, and would be deleted
        }
        if let Err(why) = self.remotes.catch_up().await {
            let Some(place) = self.monitors.graph().node(uid).map(|node| node.place.clone()) else {
                return Ok(Outcome::Done);
            };
            let message = format!("dependents in other API servers are not known, they are waited for: {why}");
            self.told.about(&place, uid, "DependentsUnknown", &message).await;
            return Ok(Outcome::After(ASK_AGAIN));
        }
        let (node, dependents) = {
            let graph = self.monitors.graph();
            let Some(node) = graph.node(uid).cloned() else { return Ok(Outcome::Done) };
            let dependents: Vec<_> =
                graph.dependents(uid).map(|(uid, node)| (uid.clone(), node.place.clone())).collect();
            (node, dependents)
        };
        let forget = stream::iter(dependents).map(|(dependent, place)| self.forget_owner(place, dependent, uid));
        let outcomes: Vec<_> = forget.buffer_unordered(AT_ONCE).collect().await;
        for outcome in outcomes {
            if outcome? != Outcome::Done {
                return Ok(Outcome::Retry);
            }
        }
        self.remove_finalizer(&node.place, uid, ORPHAN).await
    }

    async fn forget_owner(&self, place: Place<Source>, dependent: Str, owner: &str) -> Result<Outcome, Status> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(latest) = self.read(&place, &dependent).await? else { return Ok(Outcome::Done) };
            if !latest.facts.owners.iter().any(|reference| reference.uid == owner) {
                return Ok(Outcome::Done);
            }
            let keep = |reference: &Value| reference.str_at(&["uid"]) != Some(owner);
            if self.keep_owners(&place, &latest.decode()?, keep).await? == Outcome::Done {
                return Ok(Outcome::Done);
            }
        }
        Ok(Outcome::Retry)
    }
}
