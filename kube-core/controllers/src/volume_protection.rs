//! Claims and volumes that are in use stay until they are not: their finalizers go when no pod has the claim, and when the
//! volume is not bound.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, Meta, status::Status},
};
use storage::cache::{CacheEntry, Object, ReadAt};

use crate::{
    follow::follow,
    objects::{self, Each, Key},
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const CLAIMS: GrRef<'static> = GrRef::new("", "persistentvolumeclaims");
const VOLUMES: GrRef<'static> = GrRef::new("", "persistentvolumes");

/// Lets volumes go that are not bound.
pub(crate) async fn volumes(shared: Arc<Shared>, ready: Ready) {
    let concerns = |volume: &Object| needs_look(volume, VOLUME_FINALIZER);
    let of = Each { queue: "pvprotection", resource: VOLUMES, workers: 1, concerns };
    objects::each(&shared, ready, of, |shared, key| async move { sync_volume(&shared, &key).await }).await;
}

/// Whether it is in deletion, or lacks its finalizer.
fn needs_look(object: &Object, finalizer: &str) -> bool {
    let deleting = scan::metadata(object.bytes()).is_some_and(|meta| meta.deletion_timestamp.is_some());
    let finalizers = scan::field(object.bytes(), &["metadata", "finalizers"]).unwrap_or_default();
    deleting || !String::from_utf8_lossy(finalizers).contains(finalizer)
}

async fn sync_volume(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(volume) = objects::read(shared, VOLUMES, key).await? else { return Ok(Outcome::Done) };
    let path = key.path(VOLUMES.in_version("v1"));
    if objects::waits_for(&volume, VOLUME_FINALIZER) {
        if volume.str_at(&["status", "phase"]) == Some("Bound") {
            return Ok(Outcome::Done);
        }
        return objects::set_finalizer(&shared.client(), &path, &volume, VOLUME_FINALIZER, false).await;
    }
    protect(shared, &path, &volume, VOLUME_FINALIZER).await
}

/// Gives an object its finalizer if it has none and is not in deletion.
async fn protect(shared: &Shared, path: &str, object: &Value, finalizer: &str) -> Result<Outcome, Status> {
    let meta = Meta::of(object);
    if meta.is_terminating() || meta.has_finalizer(finalizer) {
        return Ok(Outcome::Done);
    }
    objects::set_finalizer(&shared.client(), path, object, finalizer, true).await
}

/// Lets claims go that no pod has. The claims of a namespace are looked at together: its pods are read once for all.
pub(crate) async fn claims(shared: Arc<Shared>, ready: Ready) {
    let queue: Queue<Str> = Queue::new("pvcprotection", Backoff::default(), &shared.metrics);
    let (claims, pods) = (shared.lister(CLAIMS.group, CLAIMS.resource).clone(), shared.lister("", "pods").clone());
    // Namespaces with claims that wait for pods.
    let waiting: Arc<Mutex<HashSet<Str>>> = Arc::default();
    let added = queue.clone();
    let of_claim = move |_: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if let Some(claim) = new.filter(|claim| needs_look(claim, CLAIM_FINALIZER)) {
            added.add(claim.namespace().unwrap_or_default().into());
        }
    };
    let (added, known) = (queue.clone(), waiting.clone());
    let of_pod = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        let namespace = new.or(old).and_then(|pod| pod.namespace()).unwrap_or_default();
        if known.lock().unwrap_or_else(PoisonError::into_inner).contains(namespace) {
            added.add(namespace.into());
        }
    };
    let sync = move |namespace: Str| {
        let (shared, waiting) = (shared.clone(), waiting.clone());
        async move { sync_claims(&shared, &waiting, namespace).await }
    };
    let known = pods.clone();
    let work = async {
        if known.cache().ready().await.is_ok() {
            queue.work(1, sync).await;
        }
    };
    tokio::select! {
        () = follow(&claims, of_claim, || ready.synced()) => {}
        () = follow(&pods, of_pod, || {}) => {}
        () = work => {}
    }
}

async fn sync_claims(shared: &Shared, waiting: &Mutex<HashSet<Str>>, namespace: Str) -> Result<Outcome, Status> {
    let lister = shared.lister(CLAIMS.group, CLAIMS.resource);
    let read = lister.cache().read(ReadAt::Latest).await;
    let snapshot = read.map_err(|error| Status::internal_error(error.to_string()))?;
    let claims = snapshot.range(&lister.namespace_prefix(&namespace), None).filter_map(CacheEntry::object);
    let mut used: Option<HashSet<Str>> = None;
    let (mut outcome, mut waits) = (Outcome::Done, false);
    for claim in claims.filter(|claim| needs_look(claim, CLAIM_FINALIZER)) {
        let (key, value) = (Key::of(claim), lister.decode(claim.bytes())?);
        let path = key.path(CLAIMS.in_version("v1"));
        let written = if objects::waits_for(&value, CLAIM_FINALIZER) {
            // Noted before the pods are read, so that none that goes meanwhile is missed.
            waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(namespace.clone());
            let used = match &mut used {
                Some(used) => used,
                none => none.insert(used_claims(shared, &namespace).await?),
            };
            if used.contains(&key.name) {
                waits = true;
                continue;
            }
            objects::set_finalizer(&shared.client(), &path, &value, CLAIM_FINALIZER, false).await?
        } else {
            protect(shared, &path, &value, CLAIM_FINALIZER).await?
        };
        if written == Outcome::Retry {
            outcome = Outcome::Retry;
        }
    }
    if !waits {
        waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&namespace);
    }
    Ok(outcome)
}

/// The claims that scheduled pods of a namespace have. No kubelet starts a pod with a claim that is in deletion.
async fn used_claims(shared: &Shared, namespace: &str) -> Result<HashSet<Str>, Status> {
    let lister = shared.lister("", "pods");
    let read = lister.cache().read(ReadAt::Latest).await;
    let snapshot = read.map_err(|error| Status::internal_error(error.to_string()))?;
    let mut used = HashSet::new();
    for pod in snapshot.range(&lister.namespace_prefix(namespace), None).filter_map(CacheEntry::object) {
        used.extend(claims_of(&lister.decode(pod.bytes())?));
    }
    Ok(used)
}

fn claims_of(pod: &Value) -> Vec<Str> {
    if pod.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty) {
        return Vec::new();
    }
    let meta = Meta::of(pod);
    let is_shut_down = meta.is_terminating() && meta.deletion_grace_period_seconds() == Some(0);
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array).unwrap_or_default();
    let claim = |volume: &Value| match volume.str_at(&["persistentVolumeClaim", "claimName"]) {
        Some(claim) => Some(Str::from(claim)),
        None if volume.get("ephemeral").is_some() && !is_shut_down => {
            Some(format!("{}-{}", meta.name(), volume.str_at(&["name"])?).into())
        }
        None => None,
    };
    volumes.iter().filter_map(claim).collect()
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn a_scheduled_pod_has_the_claims_of_its_volumes() {
        let mut pod = object! {
            "metadata" => object! { "name" => "p" },
            "spec" => object! { "volumes" => array![
                object! { "name" => "a", "persistentVolumeClaim" => object! { "claimName" => "data" } },
                object! { "name" => "scratch", "ephemeral" => object! {} },
                object! { "name" => "c", "emptyDir" => object! {} },
            ] },
        };
        assert!(claims_of(&pod).is_empty(), "nobody has started it");
        pod.set(&["spec", "nodeName"], "n1");
        assert_eq!(claims_of(&pod), ["data", "p-scratch"]);
        pod.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        pod.set(&["metadata", "deletionGracePeriodSeconds"], 0);
        assert_eq!(claims_of(&pod), ["data"]);
    }
}
