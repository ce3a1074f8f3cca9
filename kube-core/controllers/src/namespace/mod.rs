//! Deleting namespaces: first their pods, then all else, told by conditions; then the namespace is finalized.
//!
//! A namespace whose objects wait for finalizers is looked at again when the last object of a kind is gone, and from time to
//! time. One that is gone is looked at once more: a write that was admitted before the deletion may have come late.

mod conditions;
mod content;
mod remaining;

use std::{sync::Arc, time::Duration};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, GroupResource, Meta, TimeForm, Timestamp, status::Status},
    request::Verb,
};
use storage::cache::{Object, ReadAt};

use crate::{
    client::{Client, segment},
    follow::follow,
    kinds::StoredKind,
    ready::Ready,
    remote,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};
use conditions::Conditions;
use content::{Content, Deleted};
use remaining::Watchers;

/// Namespaces that are worked on at once (`--concurrent-namespace-syncs`).
const WORKERS: usize = 10;
const BACKOFF: Backoff = Backoff { base: Duration::from_millis(5), max: Duration::from_secs(60) };
/// How long other servers on the same store have to learn that a namespace is being deleted.
const SETTLE: Duration = Duration::from_secs(5);
/// When a namespace that is gone is looked at once more.
const SWEEP_AFTER: Duration = Duration::from_secs(5);
/// The finalizer that this controller takes away.
const FINALIZER: &str = "kubernetes";

/// The controller.
struct Controller {
    shared: Arc<Shared>,
    client: Client,
    watchers: Watchers,
}

/// Deletes what is in namespaces that are being deleted.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue = Queue::new("namespace", BACKOFF, &shared.metrics);
    let namespaces = shared.lister("", "namespaces").clone();
    let delay = if shared.single { Duration::ZERO } else { SETTLE };
    let controller = Arc::new(Controller { client: shared.client(), watchers: Watchers::new(queue.clone()), shared });
    let added = queue.clone();
    let each = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| match (old, new) {
        (_, Some(namespace)) if is_terminating(namespace) => added.add_after(namespace.name().into(), delay),
        (Some(gone), None) => added.add_after(gone.name().into(), SWEEP_AFTER),
        _ => {}
    };
    let sync = move |name: Str| {
        let controller = controller.clone();
        async move { controller.sync(&name).await }
    };
    tokio::select! {
        () = follow(&namespaces, each, || ready.synced()) => {}
        () = queue.work(WORKERS, sync) => {}
    }
}

fn is_terminating(namespace: &Object) -> bool {
    scan::metadata(namespace.bytes()).is_some_and(|meta| meta.deletion_timestamp.is_some())
}

/// What is left of a namespace's content.
struct Left {
    /// Seconds until it may be gone; 0 if nothing is known to be left.
    estimate: i64,
    /// Kinds with objects that are left.
    kinds: Vec<Arc<StoredKind>>,
}

/// What one pass over a namespace's content has found.
#[derive(Default)]
struct Pass {
    conditions: Conditions,
    errors: Vec<String>,
    estimate: i64,
    /// Kinds of this server of which something is left.
    kinds: Vec<Arc<StoredKind>>,
}

impl Pass {
    fn note(&mut self, kind: Option<&Arc<StoredKind>>, resource: GroupResource, deleted: Deleted) {
        self.estimate = self.estimate.max(deleted.estimate);
        if deleted.remaining > 0 {
            self.kinds.extend(kind.cloned());
        }
        self.conditions.remaining(resource, &deleted);
        if let Some(error) = deleted.error {
            self.conditions.content_failed(&error);
            self.errors.push(error);
        }
    }
}

impl Controller {
    async fn sync(&self, name: &Str) -> Result<Outcome, Status> {
        self.watchers.forget(name);
        let namespace = match self.shared.lister("", "namespaces").get_value("", name).await {
            Ok(namespace) => namespace,
            Err(status) if status.is_not_found() => return self.sweep(name).await,
            Err(status) => return Err(status),
        };
        let Some(deleted_at) = Meta::of(&namespace).deletion_timestamp() else { return Ok(Outcome::Done) };
        let deleted_at = Timestamp::parse(deleted_at, TimeForm::Seconds).unwrap_or_else(|_| Timestamp::now());
        let finalizers = namespace.at(&["spec", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
        if finalizers.is_empty() {
            return Ok(Outcome::Done);
        }
        let namespace = self.as_terminating(name, namespace).await?;
        let Some(namespace) = namespace else { return Ok(Outcome::Done) };
        let left = self.delete_content(name, &namespace, deleted_at).await?;
        if left.estimate > 0 {
            self.watchers.watch(name, &left.kinds);
            let seconds = left.estimate / 2 + 1;
            return Ok(Outcome::After(Duration::from_secs(seconds.unsigned_abs())));
        }
        self.finalize(name, &namespace).await?;
        Ok(Outcome::Done)
    }

    /// Sees to it that the phase says what goes on; the namespace as it is then.
    async fn as_terminating(&self, name: &str, namespace: Value) -> Result<Option<Value>, Status> {
        if namespace.str_at(&["status", "phase"]) == Some("Terminating") {
            return Ok(Some(namespace));
        }
        self.write(name, "status", namespace, |namespace| namespace.set(&["status", "phase"], "Terminating")).await
    }

    /// Writes a subresource of the namespace, and again for each newer state of it; none if the namespace is gone.
    async fn write(
        &self,
        name: &str,
        subresource: &str,
        mut namespace: Value,
        edit: impl Fn(&mut Value),
    ) -> Result<Option<Value>, Status> {
        let uid = Meta::of(&namespace).uid().to_owned();
        loop {
            edit(&mut namespace);
            let path = format!("/api/v1/namespaces/{}/{subresource}", segment(name));
            match self.client.update(&path, &namespace).await {
                Ok(written) => return Ok(Some(written)),
                Err(status) if status.is_not_found() => return Ok(None),
                Err(status) if status.is_conflict() => {}
                Err(status) => return Err(status),
            }
            namespace = match self.shared.lister("", "namespaces").get_value("", name).await {
                Ok(namespace) if Meta::of(&namespace).uid() == uid => namespace,
                Ok(_) => return Ok(None),
                Err(status) if status.is_not_found() => return Ok(None),
                Err(status) => return Err(status),
            };
        }
    }

    /// Takes the finalizer away that has kept the namespace for its content.
    async fn finalize(&self, name: &str, namespace: &Value) -> Result<(), Status> {
        let edit = |namespace: &mut Value| {
            let finalizers = namespace.at(&["spec", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
            let mut others: Vec<Str> = finalizers
                .iter()
                .filter_map(|finalizer| finalizer.as_shared_str().cloned())
                .filter(|finalizer| finalizer != FINALIZER)
                .collect();
            others.sort_unstable();
            others.dedup();
            namespace.set(&["spec", "finalizers"], others);
        };
        self.write(name, "finalize", namespace.clone(), edit).await.map(|_| ())
    }

    /// Deletes what is in the namespace, and writes down what came of it.
    async fn delete_content(&self, name: &Str, namespace: &Value, deleted_at: Timestamp) -> Result<Left, Status> {
        let content = Content { client: &self.client, namespace: name, deleted_at };
        let mut pass = Pass::default();
        let list = self.shared.kinds.list();
        let mut kinds = list.in_namespaces();
        let mut waits = false;
        if let Some(pods) = list.resource(GrRef::new("", "pods")) {
            kinds.retain(|kind| kind.lister.prefix() != pods.lister.prefix());
            pass.note(Some(pods), pods.group_resource(), content.delete(pods).await);
            waits = !pass.kinds.is_empty(); // what pods use stays until they are gone
        }
        if !waits {
            for kind in &kinds {
                pass.note(Some(kind), kind.group_resource(), content.delete(kind).await);
            }
            self.delete_remote_content(&content, &mut pass).await;
        }
        let mut changed = namespace.clone();
        pass.conditions.write(&mut changed, waits);
        if changed != *namespace {
            let edit = |namespace: &mut Value| pass.conditions.write(namespace, waits);
            self.write(name, "status", namespace.clone(), edit).await?;
        }
        match pass.errors.is_empty() {
            true => Ok(Left { estimate: pass.estimate, kinds: pass.kinds }),
            false => Err(Status { message: pass.errors.join(", "), ..Status::internal_error("") }),
        }
    }

    async fn delete_remote_content(&self, content: &Content<'_>, pass: &mut Pass) {
        let found = remote::discover(&self.client, &self.shared.kinds, &[Verb::Delete]).await;
        let failure = found.as_ref().map_or_else(|status| Some(status.message.clone()), remote::Found::failure);
        if let Some(failure) = failure {
            pass.conditions.discovery_failed(&failure);
            pass.errors.push(failure);
        }
        for resource in found.unwrap_or_default().resources.iter().filter(|resource| resource.namespaced) {
            let deleted = content.delete_remote(resource).await;
            pass.note(None, GroupResource::new(resource.group.clone(), resource.plural.clone()), deleted);
        }
    }

    /// Deletes what is left of a namespace that is gone. What was seen before it was found to be gone, and that alone: it may
    /// have come back since.
    async fn sweep(&self, name: &Str) -> Result<Outcome, Status> {
        let mut late = Vec::new();
        for kind in self.shared.kinds.list().in_namespaces() {
            let Ok(snapshot) = kind.lister.cache().read(ReadAt::Any).await else { continue };
            let seen: Vec<_> = snapshot.range(&kind.lister.namespace_prefix(name), None).cloned().collect();
            if !seen.is_empty() {
                late.push((kind, seen));
            }
        }
        if late.is_empty() {
            return Ok(Outcome::Done);
        }
        match self.shared.lister("", "namespaces").get("", name, ReadAt::Latest).await {
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status),
            Ok(_) => return Ok(Outcome::Done),
        }
        let content = Content { client: &self.client, namespace: name, deleted_at: Timestamp::now() };
        for (kind, seen) in late {
            tracing::info!(namespace = name.as_str(), kind = kind.kind.as_str(), "late writes go with their namespace");
            content.delete_seen(&kind, &seen).await?;
        }
        Ok(Outcome::Done)
    }
}
