//! Follows the definitions: accepts names, establishes, serves, and clears up.
//!
//! [`Controller::sync`] brings one definition as far as it can go: one small write after the other, as upstream's
//! controllers do them, until nothing is left to do. Whoever changes a definition waits for it; a follower of the cache
//! calls it too, for what others have written and for what was left over when the server started.

mod acceptance;
mod cleanup;
mod naming;
mod state;

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use generic_server::{
    endpoint::AfterWrite,
    offload,
    registry::Registry,
    table::ResourceTable,
    tasks::{Task, TaskContext, TaskResult},
};
use machinery::{Str, Value, codec::json, meta::status::Status};
use storage::cache::{CacheEntry, Everything, Followed, ReadAt, Scope, WatchEvent};

pub(crate) use self::acceptance::Acceptances;
use self::{
    naming::{Claims, Step},
    state::{Slot, Slots},
};
use crate::{
    definition::{CLEANUP, Definition, Shelf},
    serving::{Means, Served, Tables},
};

/// How many definitions are looked at at once when the server starts.
const WORKERS: usize = 32;

/// The controller.
pub(crate) struct Controller {
    definitions: Arc<Registry>,
    shelf: Arc<Shelf>,
    means: Means,
    tables: Tables,
    claims: Claims,
    slots: Slots,
}

impl Controller {
    pub(crate) fn new(definitions: Arc<Registry>, table: Arc<ArcSwap<ResourceTable>>, means: Means) -> Self {
        Controller {
            definitions,
            shelf: means.shelf.clone(),
            means,
            tables: Tables::new(table),
            claims: Claims::default(),
            slots: Slots::default(),
        }
    }

    /// Brings the definition `name` as far as it can go.
    pub(crate) async fn sync(self: &Arc<Self>, name: &str) {
        let slot = self.slots.get(name);
        let mut slot = slot.lock().await;
        if let Err(status) = self.sync_slot(name, &mut slot).await {
            // The follower or the next write comes back to it.
            tracing::warn!(definition = name, error = status.message, "cannot bring a definition up to date");
        }
        if slot.is_empty() {
            self.slots.forget(name);
        }
    }

    async fn sync_slot(self: &Arc<Self>, name: &str, slot: &mut Slot) -> Result<(), Status> {
        loop {
            let object = match self.definitions.get("", name, ReadAt::Latest).await {
                Ok(object) => object,
                Err(status) if status.is_not_found() => {
                    self.forget(name, slot);
                    return Ok(());
                }
                Err(status) => return Err(status),
            };
            if slot.revision == object.revision() {
                return Ok(());
            }
            let size = object.bytes().len();
            let definition = offload::once(size, || json::decode(object.bytes())).map_err(Status::internal_error)?;
            let claim = self.claims.claim(name, &definition);
            if !claim.released.is_empty() {
                self.reconsider(claim.released);
            }
            // Served before anybody can read that it is established.
            offload::once(size, || self.serve(name, slot, &definition, object.revision()));
            match naming::next(&definition, &claim.names) {
                Step::Write(edit) => self.write(name, &definition, edit).await?,
                Step::Done => {
                    slot.revision = object.revision();
                    if !self.clear_up(name, slot, &definition).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Writes a status that was made from `seen`; if the definition has changed since, it is looked at again.
    async fn write(&self, name: &str, seen: &Value, edit: naming::Edit) -> Result<(), Status> {
        let version = seen.at(&["metadata", "resourceVersion"]).cloned();
        let change = |current: &Value| {
            let mut new = current.clone();
            if current.at(&["metadata", "resourceVersion"]) == version.as_ref() {
                edit(&mut new);
            }
            Ok(new)
        };
        match self.definitions.edit("", name, "status", change).await {
            Ok(_) => Ok(()),
            Err(status) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(status) => Err(status),
        }
    }

    fn serve(&self, name: &str, slot: &mut Slot, definition: &Value, revision: u64) {
        match &mut slot.served {
            Some(served) if served.uid() == Definition(definition).uid() => {
                if served.update(definition, revision, &self.means) {
                    self.tables.set(name, served);
                }
            }
            other => {
                if let Some(old) = other.take() {
                    self.tables.remove(name, &old);
                    old.stop();
                }
                if let Some(served) = Served::new(definition, revision, &self.means) {
                    self.tables.set(name, &served);
                    *other = Some(served);
                }
            }
        }
    }

    fn forget(self: &Arc<Self>, name: &str, slot: &mut Slot) {
        if let Some(old) = slot.served.take() {
            self.tables.remove(name, &old);
            self.means.metrics.forget(name, &old.versions());
            old.stop();
        }
        slot.revision = 0;
        self.reconsider(self.claims.release(name));
    }

    /// Looks again at definitions that wanted names which have become free.
    fn reconsider(self: &Arc<Self>, names: Vec<Str>) {
        for name in names {
            let controller = self.clone();
            tokio::spawn(async move {
                if let Some(slot) = controller.slots.find(&name) {
                    slot.lock().await.revision = 0;
                }
                controller.sync(&name).await;
            });
        }
    }

    /// Begins to remove the objects of a definition in deletion, and waits for what can be removed at once. Answers whether
    /// there was anything to do.
    async fn clear_up(&self, name: &str, slot: &mut Slot, definition: &Value) -> bool {
        let finalizers = definition.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
        let due = Definition(definition).is_deleting() && finalizers.iter().any(|f| f.as_str() == Some(CLEANUP));
        let uid = Definition(definition).uid();
        if !due || slot.clearing.as_ref() == Some(&uid) {
            return false;
        }
        slot.clearing = Some(uid.clone());
        let registry = slot.served.as_ref().map(|served| served.registry().clone());
        let first_pass = cleanup::start(self.definitions.clone(), registry, name.into(), uid);
        let _ = tokio::time::timeout(cleanup::TIMEOUT, first_pass).await; // it goes on without us
        true
    }

    /// Brings many definitions as far as they can go: on all cores, since most of it is reading.
    async fn sync_all(self: &Arc<Self>, names: Vec<Str>) {
        stream::iter(names)
            .for_each_concurrent(WORKERS, |name| {
                let controller = self.clone();
                async move {
                    // A panic is in the log already, and harms this definition alone.
                    let _ = tokio::spawn(async move { controller.sync(&name).await }).await;
                }
            })
            .await;
    }

    /// Follows the cache until the server stops.
    async fn follow(self: Arc<Self>, context: TaskContext) -> TaskResult {
        let mut follower = self.definitions.cache().follow(Scope::All, Arc::new(Everything));
        let mut beginning = true;
        loop {
            let followed = tokio::select! {
                followed = follower.next() => followed,
                () = context.cancelled() => return Ok(()),
            };
            match followed {
                None => return Ok(()),
                Some(Followed::Reset(snapshot)) => {
                    let mut names = self.slots.names();
                    names.extend(snapshot.range(self.definitions.prefix(), None).map(|e| name_of(e.key())));
                    names.sort_unstable();
                    names.dedup();
                    // Names that were accepted once are taken before others are looked at.
                    for object in snapshot.range(self.definitions.prefix(), None).filter_map(CacheEntry::object) {
                        self.claims.restore(object);
                    }
                    if std::mem::take(&mut beginning) {
                        self.tables.hold(); // nobody has been told of a definition yet
                    }
                    self.sync_all(names).await;
                    self.tables.release();
                    context.ready();
                }
                Some(Followed::Event(WatchEvent::Object { object, .. })) => self.sync(object.name()).await,
                Some(Followed::Event(WatchEvent::Bookmark { .. })) => {}
            }
        }
    }
}

fn name_of(key: &str) -> Str {
    Str::from(key.rsplit('/').next().unwrap_or(key))
}

/// Lets writes of definitions wait for the controller.
pub(crate) struct Settle(pub(crate) Arc<Controller>);

#[async_trait]
impl AfterWrite for Settle {
    async fn written(&self, _namespace: &str, name: &str) {
        // In a task of its own: it goes on if the client goes away.
        let (controller, name) = (self.0.clone(), Str::from(name));
        let _ = tokio::spawn(async move { controller.sync(&name).await }).await;
    }
}

/// What runs beside the requests, under the names that readyz shows.
pub(crate) fn tasks(controller: &Arc<Controller>) -> Vec<Task> {
    let (definitions, follower) = (controller.definitions.clone(), controller.clone());
    let informers = Task::new("start-apiextensions-informers", move |context| {
        let definitions = definitions.clone();
        async move {
            definitions.cache().ready().await?;
            context.ready();
            Ok(())
        }
    });
    let controllers = Task::new("start-apiextensions-controllers", move |context| follower.clone().follow(context));
    let synced = Task::new("crd-informer-synced", |context| async move {
        context.ready();
        Ok(())
    });
    vec![informers, controllers.after("start-apiextensions-informers"), synced.after("start-apiextensions-controllers")]
}
