//! What must be in every namespace: one object of a kind, made where it is missing and mended where it has changed.

use std::sync::Arc;

use machinery::{Str, Value, json::scan, meta::status::Status};
use storage::cache::Object;

use crate::{
    client::segment,
    follow::follow,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

/// Namespaces that are looked at at once.
const WORKERS: usize = 5;

/// An object that every namespace has.
pub(crate) struct Wanted {
    /// The queue's name in metrics.
    pub(crate) queue: &'static str,
    /// The resource, of the core group.
    pub(crate) plural: &'static str,
    /// The object's name.
    pub(crate) name: &'static str,
    /// The object, without a namespace.
    pub(crate) object: Value,
    /// What the object that is there is to become, if it is not as it should be.
    pub(crate) mend: fn(current: &Value, wanted: &Value) -> Option<Value>,
}

/// Keeps it in all namespaces.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready, wanted: Wanted) {
    let queue: Queue<Str> = Queue::new(wanted.queue, Backoff::default(), &shared.metrics);
    let (namespaces, objects) = (shared.lister("", "namespaces").clone(), shared.lister("", wanted.plural).clone());
    let (added, changed, name) = (queue.clone(), queue.clone(), wanted.name);
    let in_namespace = move |_: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if let Some(namespace) = new.filter(|namespace| is_active(namespace)) {
            added.add(namespace.name().into());
        }
    };
    let of_object = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if let Some(object) = new.or(old).filter(|object| object.name() == name) {
            changed.add(object.namespace().unwrap_or_default().into());
        }
    };
    let wanted = Arc::new(wanted);
    let sync = move |namespace: Str| sync(shared.clone(), wanted.clone(), namespace);
    let work = async {
        if objects.cache().ready().await.is_ok() {
            queue.work(WORKERS, sync).await; // what is there is known by then
        }
    };
    tokio::select! {
        () = follow(&namespaces, in_namespace, || ready.synced()) => {}
        () = follow(&objects, of_object, || {}) => {}
        () = work => {}
    }
}

fn is_active(namespace: &Object) -> bool {
    scan::text(namespace.bytes(), &["status", "phase"]).as_deref() == Some("Active")
}

async fn sync(shared: Arc<Shared>, wanted: Arc<Wanted>, namespace: Str) -> Result<Outcome, Status> {
    let found = shared.lister("", "namespaces").find("", &namespace).await?;
    if !found.is_some_and(|namespace| is_active(&namespace)) {
        return Ok(Outcome::Done);
    }
    let (lister, client) = (shared.lister("", wanted.plural), shared.client());
    let collection = format!("/api/v1/namespaces/{}/{}", segment(&namespace), wanted.plural);
    let written = match lister.find(&namespace, wanted.name).await? {
        None => client.create(&collection, &wanted.object).await,
        Some(object) => {
            let current = lister.decode(object.bytes())?;
            let Some(mended) = (wanted.mend)(&current, &wanted.object) else { return Ok(Outcome::Done) };
            client.update(&format!("{collection}/{}", wanted.name), &mended).await
        }
    };
    match written {
        Ok(_) => Ok(Outcome::Done),
        Err(status) if status.is_conflict() || status.is_already_exists() => Ok(Outcome::Retry),
        Err(status) if status.is_not_found() || is_terminating(&status) => Ok(Outcome::Done),
        Err(status) => Err(status),
    }
}

/// Whether a write was refused since its namespace is going.
pub(crate) fn is_terminating(status: &Status) -> bool {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}
