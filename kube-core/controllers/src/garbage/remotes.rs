//! Objects of other servers behind the aggregator: one follower a resource, that lists and watches as any client does.
//!
//! Without an APIService of another server nothing runs and nobody is asked. What a server has told stays in the graph while it
//! is down: nothing is concluded from what cannot be seen. Objects are orphaned only when all servers were asked.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, GroupResource, Meta, status::Status},
    request::Verb,
};
use storage::cache::{CacheEntry, Everything, Scope};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

use super::{facts::Facts, graph::Place, monitors::Monitors, source::Source};
use crate::{
    client::Client,
    kinds::{Kinds, StoredKind},
    remote::{self, Resource},
};

/// What can be collected (upstream: the same).
const WANTED: &[Verb] = &[Verb::Delete, Verb::List, Verb::Watch];
/// How often servers are asked what they have (upstream: the same).
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A watch is ended and begun anew after so long,
const WATCH: Duration = Duration::from_secs(300);
/// and given up when it says nothing at all for longer than that.
const GRACE: Duration = Duration::from_secs(30);
/// Between attempts, and twice as long after each failure, up to
const PAUSE: Duration = Duration::from_secs(1);
/// so long.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// All servers together may take so long to be asked before an object is orphaned.
const PATIENCE: Duration = Duration::from_secs(60);

/// The uids of the objects that the graph was told of: those that a list has no more are gone.
type Known = Arc<tokio::sync::Mutex<HashSet<Str>>>;

/// The followers.
pub(super) struct Remotes {
    client: Client,
    kinds: Arc<Kinds>,
    monitors: Arc<Monitors>,
    running: Mutex<HashMap<GroupResource, Running>>,
}

struct Running {
    resource: Arc<Resource>,
    known: Known,
    task: AbortHandle,
}

impl Remotes {
    pub(super) fn new(client: Client, kinds: Arc<Kinds>, monitors: Arc<Monitors>) -> Self {
        Remotes { client, kinds, monitors, running: Mutex::default() }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<GroupResource, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn services(&self) -> Option<Arc<StoredKind>> {
        self.kinds.list().resource(GrRef::new("apiregistration.k8s.io", "apiservices")).cloned()
    }

    /// Whether any APIService is of another server.
    fn has_others(&self) -> bool {
        let is_other = |object: &Arc<storage::cache::Object>| {
            scan::field(object.bytes(), &["spec", "service"]).is_some_and(|service| service.starts_with(b"{"))
        };
        let Some(services) = self.services() else { return false };
        services.lister.cache().latest().range("", None).filter_map(CacheEntry::object).any(is_other)
    }

    /// Follows what other servers have, as they come and go.
    pub(super) async fn run(self: &Arc<Self>) {
        let Some(services) = self.services() else { return std::future::pending().await };
        let mut changes = services.lister.cache().follow(Scope::All, Arc::new(Everything));
        let mut tasks = JoinSet::new();
        loop {
            let others = self.has_others();
            if others || !self.running().is_empty() {
                self.adapt(&mut tasks).await;
            }
            let again = async {
                match others {
                    true => sleep(LOOK_EVERY).await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                next = changes.next() => if next.is_none() { return },
                () = again => {}
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    async fn discover(&self) -> Result<remote::Found, Status> {
        match self.has_others() {
            true => remote::discover(&self.client, &self.kinds, WANTED).await,
            false => Ok(remote::Found::default()),
        }
    }

    /// Starts followers of what is new, and ends those of what is served no more.
    async fn adapt(self: &Arc<Self>, tasks: &mut JoinSet<()>) {
        let found = match self.discover().await {
            Ok(found) => found,
            Err(status) => return tracing::debug!(error = status.message, "other servers are not known"),
        };
        let mut running = self.running();
        let is_down = |resource: &Resource| found.stale.iter().any(|(version, _)| *version == resource.api_version());
        let mut old: HashMap<GroupResource, Known> = HashMap::new();
        running.retain(|name, follower| {
            let now = found.resources.iter().find(|resource| name_of(resource) == *name);
            let stays = now.map_or_else(|| is_down(&follower.resource), |now| *now == *follower.resource);
            if !stays {
                follower.task.abort();
                old.insert(name.clone(), follower.known.clone());
            }
            stays
        });
        for resource in found.resources {
            let name = name_of(&resource);
            if running.contains_key(&name) {
                continue;
            }
            let (resource, known) = (Arc::new(resource), old.remove(&name).unwrap_or_default());
            let (remotes, followed, told) = (self.clone(), resource.clone(), known.clone());
            let task = tasks.spawn(async move { remotes.follow(&followed, &told).await });
            running.insert(name, Running { resource, known, task });
        }
        drop(running);
        old.keys().for_each(|name| self.monitors.forget_kind(name.as_ref()));
    }

    async fn follow(&self, resource: &Arc<Resource>, known: &Known) {
        let mut pause = PAUSE;
        loop {
            match self.list(resource, known).await {
                Ok(version) => {
                    pause = PAUSE;
                    self.watch(resource, known, version).await;
                }
                Err(status) => {
                    if pause == PAUSE {
                        let resource = format!("{}.{}", resource.plural, resource.group);
                        tracing::warn!(resource, error = status.message, "cannot see the objects of another server");
                    }
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
            sleep(pause).await;
        }
    }

    /// Tells the graph of all objects, and of those that are gone; the version of the list.
    async fn list(&self, resource: &Arc<Resource>, known: &Known) -> Result<String, Status> {
        // Of two lists the older one must not be told last.
        let mut known = known.lock().await;
        let (path, mut seen, mut token) = (resource.collection(""), HashSet::new(), String::new());
        let version = loop {
            let page = self.client.list_remote(&path, &token).await?;
            for item in page.get("items").and_then(Value::as_array).unwrap_or_default() {
                let uid = self.observe(resource, item);
                known.insert(uid.clone());
                seen.insert(uid);
            }
            page.str_at(&["metadata", "continue"]).unwrap_or_default().clone_into(&mut token);
            if token.is_empty() {
                break page.str_at(&["metadata", "resourceVersion"]).unwrap_or_default().to_owned();
            }
        };
        known.difference(&seen).for_each(|gone| self.monitors.removed(gone));
        *known = seen;
        Ok(version)
    }

    /// Tells the graph what happens, until it has to be listed anew.
    async fn watch(&self, resource: &Arc<Resource>, known: &Known, mut version: String) {
        let path = resource.collection("");
        loop {
            let began = Instant::now();
            let Ok(mut watch) = self.client.watch_remote(&path, &version, WATCH).await else { return };
            while let Ok(Some(event)) = timeout(WATCH + GRACE, watch.next()).await {
                let Ok(event) = event else { return };
                let object = event.get("object").unwrap_or(&Value::Null);
                match event.str_at(&["type"]) {
                    Some("ADDED" | "MODIFIED") => {
                        let mut known = known.lock().await;
                        known.insert(self.observe(resource, object));
                    }
                    Some("DELETED") => {
                        let uid = Meta::of(object).uid();
                        known.lock().await.remove(uid);
                        self.monitors.removed(uid);
                    }
                    Some("BOOKMARK") => {}
                    _ => return, // the version is too old, or nothing that is known
                }
                Meta::of(object).resource_version().clone_into(&mut version);
            }
            // One that ends each watch at once is asked for no others at once.
            if began.elapsed() < PAUSE {
                return;
            }
        }
    }

    /// Tells the graph of an object; its uid.
    fn observe(&self, resource: &Arc<Resource>, object: &Value) -> Str {
        let (meta, facts) = (Meta::of(object), Facts::of(object));
        let uid = facts.uid.clone();
        let (namespace, name) = (meta.namespace().into(), meta.name().into());
        if !uid.is_empty() {
            self.monitors.observe(Place { kind: Source::Remote(resource.clone()), namespace, name }, facts);
        }
        uid
    }

    /// Brings the graph up to date with all other servers. Fails with what cannot be known now.
    pub(super) async fn catch_up(&self) -> Result<(), String> {
        let all = async {
            let found = self.discover().await.map_err(|status| status.message)?;
            if let Some(unknown) = found.unknown() {
                return Err(unknown);
            }
            for resource in found.resources {
                let known = self.running().get(&name_of(&resource)).map(|follower| follower.known.clone());
                let listed = self.list(&Arc::new(resource), &known.unwrap_or_default()).await;
                listed.map_err(|status| status.message)?;
            }
            Ok(())
        };
        timeout(PATIENCE, all).await.unwrap_or_else(|_| Err("they did not answer in time".to_owned()))
    }
}

fn name_of(resource: &Resource) -> GroupResource {
    GroupResource::new(resource.group.clone(), resource.plural.clone())
}
