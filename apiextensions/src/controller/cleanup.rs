//! Removing the objects of a definition in deletion, and then its finalizer.

use std::{sync::Arc, time::Duration};

use auth::User;
use futures_util::{StreamExt, stream};
use generic_server::{
    options::{DeleteOptions, WriteOptions},
    registry::{Registry, Write},
};
use machinery::{
    Str, Value,
    meta::{MetaMut, status::Status},
};
use storage::cache::{Everything, Followed, Object, ReadAt, Scope};
use tokio::sync::oneshot;

use crate::definition::{CLEANUP, Condition, Definition, ESTABLISHED, TERMINATING, is_true, set_condition};

/// How long a DELETE waits for the objects to go; those with finalizers of their own may take for ever.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// How many objects are deleted at once.
const WORKERS: usize = 16;

/// Between two tries after a fault.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts to clear up. What is returned ends when all is done that need not wait for others.
pub(super) fn start(
    definitions: Arc<Registry>,
    registry: Option<Arc<Registry>>,
    name: Str,
    uid: Str,
) -> oneshot::Receiver<()> {
    let (done, first_pass) = oneshot::channel();
    let cleanup = Cleanup { definitions, registry, name, uid };
    tokio::spawn(async move {
        let mut done = Some(done);
        while let Err(status) = cleanup.run(&mut done).await {
            tracing::warn!(
                definition = cleanup.name.as_str(),
                error = status.message,
                "cannot remove custom resources"
            );
            let why = format!("could not delete all custom resources: {}", status.message);
            let _ = cleanup.note(Condition::new(TERMINATING, true, "InstanceDeletionFailed", why)).await;
            tokio::time::sleep(PAUSE).await;
        }
    });
    first_pass
}

struct Cleanup {
    definitions: Arc<Registry>,
    /// None if the definition was never established.
    registry: Option<Arc<Registry>>,
    name: Str,
    uid: Str,
}

impl Cleanup {
    async fn run(&self, done: &mut Option<oneshot::Sender<()>>) -> Result<(), Status> {
        let definition = match self.definitions.get_value("", &self.name).await {
            Ok(definition) if Definition(&definition).uid() == self.uid => definition,
            Ok(_) => return Ok(()),
            Err(status) if status.is_not_found() => return Ok(()),
            Err(status) => return Err(status),
        };
        if let (true, Some(registry)) = (is_true(&definition, ESTABLISHED), &self.registry) {
            let text = "CustomResource deletion is in progress";
            self.note(Condition::new(TERMINATING, true, "InstanceDeletionInProgress", text)).await?;
            self.remove_all(registry, done).await?;
        }
        self.finish().await
    }

    /// Deletes the objects and waits until they are gone.
    async fn remove_all(&self, registry: &Registry, done: &mut Option<oneshot::Sender<()>>) -> Result<(), Status> {
        registry.ready().await?;
        let mut follower = registry.cache().follow(Scope::All, Arc::new(Everything));
        while let Some(followed) = follower.next().await {
            if let Followed::Reset(_) = followed {
                delete_each(registry).await?;
            }
            let left = registry.cache().read(ReadAt::Any).await;
            let left = left.map_err(|e| Status::internal_error(e.to_string()))?;
            if left.range(registry.prefix(), None).next().is_none() {
                break;
            }
            if let Some(done) = done.take() {
                let _ = done.send(()); // the rest waits for finalizers
            }
        }
        Ok(())
    }

    async fn note(&self, condition: Condition) -> Result<(), Status> {
        self.edit("status", |new| set_condition(new, &condition)).await
    }

    /// Takes the finalizer away, upon which the definition goes.
    async fn finish(&self) -> Result<(), Status> {
        self.edit("status", |new| {
            MetaMut::of(new).remove_finalizer(CLEANUP);
        })
        .await
    }

    async fn edit(&self, subresource: &str, change: impl Fn(&mut Value) + Send + Sync) -> Result<(), Status> {
        let edit = |current: &Value| {
            let mut new = current.clone();
            if Definition(current).uid() == self.uid {
                change(&mut new);
            }
            Ok(new)
        };
        match self.definitions.edit("", &self.name, subresource, edit).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) => Err(status),
        }
    }
}

/// Asks for the deletion of every object.
async fn delete_each(registry: &Registry) -> Result<(), Status> {
    let snapshot = registry.cache().latest();
    let mut objects = Vec::with_capacity(snapshot.len());
    for entry in snapshot.range(registry.prefix(), None) {
        objects.push(entry.object().cloned().ok_or_else(|| registry.unreadable(entry))?);
    }
    let results: Vec<Result<(), Status>> =
        stream::iter(objects).map(|object| delete(registry, object)).buffer_unordered(WORKERS).collect().await;
    results.into_iter().collect()
}

async fn delete(registry: &Registry, object: Arc<Object>) -> Result<(), Status> {
    let (user, options) = (User::loopback(), WriteOptions::default());
    let mut warnings = Vec::new();
    let mut write = Write {
        row: &registry.row,
        namespace: object.namespace().unwrap_or(""),
        subresource: "",
        user: &user,
        audit: generic_server::audit::OFF,
        options: &options,
        warnings: &mut warnings,
    };
    match registry.delete(&mut write, object.name(), &DeleteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_not_found() => Ok(()),
        Err(status) => Err(status),
    }
}
