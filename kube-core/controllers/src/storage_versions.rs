//! StorageVersions forget servers that are gone: whose identity lease is no more.

use std::sync::Arc;

use generic_server::registry::Lister;
use kube_core::apiserverinternal::of_servers;
use machinery::{
    Str, Value,
    meta::{GrRef, Meta, status::Status},
};
use storage::cache::{CacheEntry, Object, ReadAt};

use crate::{
    client::Deletion,
    follow::follow,
    kinds::StoredKind,
    objects::written,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const RESOURCE: GrRef<'static> = GrRef::new("internal.apiserver.k8s.io", "storageversions");
const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const NAMESPACE: &str = "kube-system";
/// The label of leases that servers have, and what it says.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");

/// Keeps them; while StorageVersions are not served there is nothing to do.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let Some(kind) = shared.kinds.list().resource(RESOURCE).cloned() else {
        ready.synced();
        return std::future::pending().await;
    };
    let name = "storage_version_garbage_collector_storageversions";
    let queue: Queue<Str> = Queue::new(name, Backoff::default(), &shared.metrics);
    let (versions, leases) = (kind.lister.clone(), shared.lister(LEASES.0, LEASES.1).clone());
    let (added, all, known) = (queue.clone(), queue.clone(), versions.clone());
    let version_changed = move |_: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if let Some(version) = new {
            added.add(version.name().into());
        }
    };
    let lease_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if new.is_none() && old.is_some_and(|lease| is_identity(lease)) {
            let snapshot = known.cache().latest();
            snapshot.range("", None).filter_map(CacheEntry::object).for_each(|version| all.add(version.name().into()));
        }
    };
    let sync = move |name: Str| {
        let (shared, kind) = (shared.clone(), kind.clone());
        async move { sync(&shared, &kind, &name).await }
    };
    tokio::select! {
        () = follow(&versions, version_changed, || ready.synced()) => {}
        () = follow(&leases, lease_changed, || {}) => {}
        () = queue.work(1, sync) => {}
    }
}

fn is_identity(lease: &Object) -> bool {
    lease.namespace() == Some(NAMESPACE) && lease.labels().get(IDENTITY.0) == Some(IDENTITY.1)
}

async fn has_lease(leases: &Lister, server: &str) -> Result<bool, Status> {
    match leases.get(NAMESPACE, server, ReadAt::Latest).await {
        Ok(lease) => Ok(is_identity(&lease)),
        Err(status) if status.is_not_found() => Ok(false),
        Err(status) => Err(status),
    }
}

async fn sync(shared: &Shared, kind: &StoredKind, name: &str) -> Result<Outcome, Status> {
    let version = match kind.lister.get_value("", name).await {
        Ok(version) => version,
        Err(status) if status.is_not_found() => return Ok(Outcome::Done),
        Err(status) => return Err(status),
    };
    let servers = version.at(&["status", "storageVersions"]).and_then(Value::as_array).unwrap_or_default();
    let (leases, mut left) = (shared.lister(LEASES.0, LEASES.1), Vec::new());
    for server in servers {
        if has_lease(leases, server.str_at(&["apiServerID"]).unwrap_or_default()).await? {
            left.push(server.clone());
        }
    }
    if left.len() == servers.len() {
        return Ok(Outcome::Done);
    }
    let (client, path) = (shared.client(), kind.path("", name));
    if left.is_empty() {
        let deletion = Deletion { uid: Meta::of(&version).uid(), ..Deletion::default() };
        return match client.delete(&path, deletion).await {
            Err(status) if !status.is_not_found() && !status.is_conflict() => Err(status),
            _ => Ok(Outcome::Done),
        };
    }
    written(client.update(&format!("{path}/status"), &of_servers(version, left)).await)
}
