//! One monitor a kind: it tells the graph of every object, and of all that happens to it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use generic_server::registry::Lister;
use machinery::{
    json::scan,
    meta::{GrRef, GroupResource},
    request::Verb,
};
use storage::cache::{CacheEntry, EventType, Everything, Followed, ReadAt, Scope, Snapshot, WatchEvent};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    Queues,
    facts::{Facts, Reference},
    graph::{Graph, Place},
    source::Source,
};
use crate::kinds::{Kinds, List, StoredKind};

/// So many objects are looked at before others get their turn.
const BATCH: usize = 128;
/// When a kind's cache has ended, its successor is looked for so often, so many times.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const MAX_LOOKS: usize = 100;

/// The graph, and who feeds it.
pub(super) struct Monitors {
    kinds: Arc<Kinds>,
    queues: Queues,
    graph: Mutex<Graph<Source>>,
    running: Mutex<HashMap<GroupResource, Arc<Monitor>>>,
}

/// One kind's.
struct Monitor {
    kind: Arc<StoredKind>,
    /// What the graph has been told of.
    told: tokio::sync::Mutex<Option<Snapshot>>,
}

/// Events are not collected, and own nothing.
fn is_monitored(kind: &StoredKind) -> bool {
    let verbs = [Verb::Delete, Verb::List, Verb::Watch];
    kind.plural != "events" && verbs.into_iter().all(|verb| kind.verbs.contains(verb))
}

impl Monitors {
    pub(super) fn new(kinds: Arc<Kinds>, queues: Queues) -> Self {
        Monitors { kinds, queues, graph: Mutex::default(), running: Mutex::default() }
    }

    /// The graph, for a moment.
    pub(super) fn graph(&self) -> MutexGuard<'_, Graph<Source>> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<GroupResource, Arc<Monitor>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the graph up to date with the store. Whether it is: a cache may have lost its store for a while.
    pub(super) async fn catch_up(&self) -> bool {
        let all: Vec<_> = self.running().values().cloned().collect();
        for monitor in all {
            if monitor.kind.lister.cache().read(ReadAt::Latest).await.is_err() {
                return false;
            }
            self.pull(&monitor).await;
        }
        true
    }

    /// An object of another server is there, or has changed.
    pub(super) fn observe(&self, place: Place<Source>, facts: Facts) {
        let (list, mut work) = (self.kinds.list(), Vec::new());
        self.graph().observe(place, facts, |reference, place| is_known(&list, reference, place), &mut work);
        self.queues.add(work);
    }

    /// A kind is no longer served.
    pub(super) fn forget_kind(&self, name: GrRef<'_>) {
        let mut work = Vec::new();
        self.graph().forget_kind(|source| source.name() == name, &mut work);
        self.queues.add(work);
    }

    /// An object was found to be gone.
    pub(super) fn removed(&self, uid: &str) {
        let mut work = Vec::new();
        self.graph().remove(uid, &mut work);
        self.queues.add(work);
    }

    /// Monitors all kinds, as they come and go with definitions. `synced` is called when all objects are in the graph.
    pub(super) async fn run(self: &Arc<Self>, definitions: &Lister, synced: impl FnOnce()) {
        for kind in self.kinds.list().all().iter().filter(|kind| is_monitored(kind)) {
            let _ = kind.lister.cache().ready().await; // one that was stopped has a successor
        }
        let (ended, mut ends) = mpsc::unbounded_channel::<Arc<StoredKind>>();
        let mut tasks = JoinSet::new();
        let mut changes = definitions.cache().follow(Scope::All, Arc::new(Everything));
        self.adapt(&mut tasks, &ended);
        if !self.catch_up().await {
            tracing::warn!("some watch caches are behind, their objects are looked at later");
        }
        synced();
        loop {
            tokio::select! {
                next = changes.next() => match next {
                    Some(_) => self.adapt(&mut tasks, &ended),
                    None => return,
                },
                Some(kind) = ends.recv() => {
                    let (monitors, again) = (self.clone(), ended.clone());
                    if self.is_served(&kind) {
                        // Its table is about to be exchanged.
                        tasks.spawn(async move { monitors.look_for_successor(kind, again).await });
                    } else {
                        self.adapt(&mut tasks, &ended);
                    }
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    fn is_served(&self, kind: &Arc<StoredKind>) -> bool {
        let list = self.kinds.list();
        list.resource(GrRef::new(&kind.group, &kind.plural)).is_some_and(|now| Arc::ptr_eq(&now.lister, &kind.lister))
    }

    async fn look_for_successor(self: Arc<Self>, kind: Arc<StoredKind>, again: mpsc::UnboundedSender<Arc<StoredKind>>) {
        for _ in 0..MAX_LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.is_served(&kind) {
                let _ = again.send(kind);
                return;
            }
        }
    }

    /// Starts monitors of kinds that are new, and ends those of kinds that are gone.
    fn adapt(self: &Arc<Self>, tasks: &mut JoinSet<()>, ended: &mpsc::UnboundedSender<Arc<StoredKind>>) {
        let list = self.kinds.list();
        let mut running = self.running();
        let gone: Vec<GroupResource> = running
            .iter()
            .filter(|(name, monitor)| {
                let now = list.resource(name.as_ref());
                now.is_none_or(|now| !is_monitored(now) || !Arc::ptr_eq(&now.lister, &monitor.kind.lister))
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            running.remove(&name);
            if list.resource(name.as_ref()).is_none() {
                self.forget_kind(name.as_ref());
            }
        }
        for kind in list.all().iter().filter(|kind| is_monitored(kind)) {
            let name = kind.group_resource();
            if running.contains_key(&name) {
                continue;
            }
            let monitor = Arc::new(Monitor { kind: kind.clone(), told: tokio::sync::Mutex::default() });
            running.insert(name, monitor.clone());
            let (monitors, ended) = (self.clone(), ended.clone());
            tasks.spawn(async move {
                monitors.follow(&monitor).await;
                let _ = ended.send(monitor.kind.clone());
            });
        }
    }

    async fn follow(&self, monitor: &Monitor) {
        let mut follower = monitor.kind.lister.cache().follow(Scope::All, Arc::new(Everything));
        let mut is_first = true;
        while let Some(followed) = follower.next().await {
            match followed {
                // It may have come and gone between two looks at the cache.
                Followed::Event(WatchEvent::Object { kind: EventType::Deleted, object, .. }) => {
                    let uid = scan::text(object.bytes(), &["metadata", "uid"]);
                    self.removed(&uid.unwrap_or_default());
                }
                Followed::Event(_) => {}
                Followed::Reset(_) if std::mem::take(&mut is_first) => {}
                Followed::Reset(_) => self.recheck(),
            }
            self.pull(monitor).await;
        }
    }

    fn recheck(&self) {
        let (list, mut work) = (self.kinds.list(), Vec::new());
        self.graph().recheck(|reference, place| is_known(&list, reference, place), &mut work);
        self.queues.add(work);
    }

    /// Tells the graph what has changed in a cache since the last time.
    async fn pull(&self, monitor: &Monitor) {
        let mut told = monitor.told.lock().await;
        let latest = monitor.kind.lister.cache().latest();
        let mut changes: Vec<(Option<CacheEntry>, Option<CacheEntry>)> = Vec::new();
        match &*told {
            Some(last) if last.shares(&latest) => return,
            Some(last) => last.changes(&latest, |old, new| changes.push((old.cloned(), new.cloned()))),
            None => changes.extend(latest.range("", None).map(|entry| (None, Some(entry.clone())))),
        }
        let list = self.kinds.list();
        for batch in changes.chunks(BATCH) {
            let mut work = Vec::new();
            {
                let mut graph = self.graph();
                for (old, new) in batch {
                    self.tell(&mut graph, &list, monitor, (old.as_ref(), new.as_ref()), &mut work);
                }
            }
            self.queues.add(work);
            tokio::task::yield_now().await;
        }
        *told = Some(latest);
    }

    fn tell(
        &self,
        graph: &mut Graph<Source>,
        list: &List,
        monitor: &Monitor,
        (old, new): (Option<&CacheEntry>, Option<&CacheEntry>),
        work: &mut Vec<super::Work>,
    ) {
        let new = match new {
            Some(CacheEntry::Object(new)) => Some((new, Facts::read(new.bytes()))),
            Some(CacheEntry::Broken(_)) => return, // nothing is known of it, but it is not gone
            None => None,
        };
        if let Some(CacheEntry::Object(old)) = old {
            let uid = scan::text(old.bytes(), &["metadata", "uid"]).unwrap_or_default();
            if new.as_ref().is_none_or(|(_, facts)| facts.uid != *uid) {
                graph.remove(&uid, work);
            }
        }
        if let Some((object, facts)) = new {
            let place = Place {
                kind: Source::Own(monitor.kind.clone()),
                namespace: object.namespace().unwrap_or_default().into(),
                name: object.name().into(),
            };
            graph.observe(place, facts, |reference, place| is_known(list, reference, place), work);
        }
    }
}

/// Whether an owner is in its cache.
fn is_known(list: &List, reference: &Reference, place: &Place<Source>) -> bool {
    let Some(kind) = list.find(&reference.api_version, &reference.kind) else { return false };
    let namespace = if kind.namespaced { place.namespace.as_str() } else { "" };
    if kind.namespaced && namespace.is_empty() {
        return false;
    }
    let snapshot = kind.lister.cache().latest();
    let found = snapshot.get(&kind.lister.key(namespace, &reference.name)).and_then(CacheEntry::object);
    found.is_some_and(|owner| scan::text(owner.bytes(), &["metadata", "uid"]).is_some_and(|uid| *uid == *reference.uid))
}
