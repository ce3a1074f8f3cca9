//! What controllers of single objects have in common: keys, the loop, and writes that must not lose another's.

use std::{future::Future, sync::Arc};

use machinery::{
    Str, Value,
    meta::{GrRef, GvrRef, Meta, MetaMut, status::Status},
};
use storage::cache::Object;

use crate::{
    client::Client,
    follow::follow,
    kinds::collection,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

/// An object by namespace (empty for those of the cluster) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: Str,
    pub(crate) name: Str,
}

impl Key {
    pub(crate) fn of(object: &Object) -> Self {
        Key { namespace: object.namespace().unwrap_or_default().into(), name: object.name().into() }
    }

    /// The object's path.
    pub(crate) fn path(&self, of: GvrRef<'_>) -> String {
        let objects = collection(of.group, of.version, of.resource, &self.namespace);
        format!("{objects}/{}", crate::client::segment(&self.name))
    }
}

/// A controller that looks at each object of one kind on its own.
pub(crate) struct Each {
    /// The queue's name in metrics.
    pub(crate) queue: &'static str,
    /// Of which resource.
    pub(crate) resource: GrRef<'static>,
    /// Objects that are looked at at once.
    pub(crate) workers: usize,
    /// Whether an object may need something.
    pub(crate) concerns: fn(&Object) -> bool,
}

/// Looks at objects as they are made and changed.
pub(crate) async fn each<F, Fut>(shared: &Arc<Shared>, ready: Ready, of: Each, sync: F)
where
    F: Fn(Arc<Shared>, Key) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, Status>> + Send + 'static,
{
    let queue: Queue<Key> = Queue::new(of.queue, Backoff::default(), &shared.metrics);
    let lister = shared.lister(of.resource.group, of.resource.resource).clone();
    let (added, own) = (queue.clone(), shared.clone());
    let added = move |_: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if let Some(object) = new.filter(|object| (of.concerns)(object)) {
            added.add(Key::of(object));
        }
    };
    tokio::select! {
        () = follow(&lister, added, || ready.synced()) => {}
        () = queue.work(of.workers, move |key| sync(own.clone(), key)) => {}
    }
}

/// The object as it is now, in the storage version; none if it is gone.
pub(crate) async fn read(shared: &Shared, resource: GrRef<'static>, key: &Key) -> Result<Option<Value>, Status> {
    match shared.lister(resource.group, resource.resource).get_value(&key.namespace, &key.name).await {
        Ok(object) => Ok(Some(object)),
        Err(status) if status.is_not_found() => Ok(None),
        Err(status) => Err(status),
    }
}

/// Writes an object as it was read, with a finalizer more or less. If it has changed, it is to be looked at again.
pub(crate) async fn set_finalizer(
    client: &Client,
    path: &str,
    object: &Value,
    finalizer: &str,
    wanted: bool,
) -> Result<Outcome, Status> {
    let mut changed = object.clone();
    match wanted {
        true => MetaMut::of(&mut changed).add_finalizer(finalizer),
        false => drop(MetaMut::of(&mut changed).remove_finalizer(finalizer)),
    }
    written(client.update(path, &changed).await)
}

/// What a write means: one that has come too late is made anew.
pub(crate) fn written(result: Result<Value, Status>) -> Result<Outcome, Status> {
    match result {
        Ok(_) => Ok(Outcome::Done),
        Err(status) if status.is_not_found() => Ok(Outcome::Done),
        Err(status) if status.is_conflict() => Ok(Outcome::Retry),
        Err(status) => Err(status),
    }
}

/// Whether an object is being deleted and waits for this finalizer.
pub(crate) fn waits_for(object: &Value, finalizer: &str) -> bool {
    let meta = Meta::of(object);
    meta.is_terminating() && meta.has_finalizer(finalizer)
}
