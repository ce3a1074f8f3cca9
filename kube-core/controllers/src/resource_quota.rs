//! What is used of resource quotas: counted anew when a bound changes, when objects go or use less, and from time to time.
//! What is made is charged by admission.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use kube_core::admission::Recount;
use machinery::{
    Map, Str, Value,
    json::scan,
    meta::{GrRef, GroupResource, status::Status},
};
use storage::cache::{CacheEntry, Object, ReadAt};
use tokio::{sync::Notify, task::JoinSet};

use crate::{
    follow::follow,
    kinds::StoredKind,
    objects::{self, Key},
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const QUOTAS: GrRef<'static> = GrRef::new("", "resourcequotas");
/// Quotas that are counted at once (`--concurrent-resource-quota-syncs`).
const WORKERS: usize = 5;
/// How often a quota is counted in any case (`--resource-quota-sync-period`).
const RESYNC: Duration = Duration::from_secs(300);
/// When a quota is counted once more after its status was written: a write that was not charged yet, or charged and not stored,
/// while it was counted, is seen then.
const AGAIN: Duration = Duration::from_secs(1);
/// Changes of objects are gathered for so long at least,
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// and for so many times as long as it takes to count.
const PAUSE_FACTOR: u64 = 20;
/// The resources whose objects are counted by rules of their own.
const RULED: [GrRef<'static>; 4] = [
    GrRef::new("", "pods"),
    GrRef::new("", "services"),
    GrRef::new("", "persistentvolumeclaims"),
    GrRef::new("resource.k8s.io", "resourceclaims"),
];

/// The quotas that there are.
#[derive(Default)]
struct Known {
    /// By namespace and name: the resources whose objects each counts by name.
    quotas: HashMap<Str, HashMap<Str, HashSet<GroupResource>>>,
}

struct Controller {
    shared: Arc<Shared>,
    queue: Queue<Key>,
    known: Mutex<Known>,
    /// Other resources may have to be followed.
    changed: Notify,
    /// Microseconds that a count takes.
    cost: AtomicU64,
}

/// Keeps their status up to date.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue = Queue::new("resourcequota_primary", Backoff::default(), &shared.metrics);
    let quotas = shared.lister(QUOTAS.group, QUOTAS.resource).clone();
    let controller = Arc::new(Controller {
        shared,
        queue: queue.clone(),
        known: Mutex::default(),
        changed: Notify::new(),
        cost: AtomicU64::default(),
    });
    let (of_quota, of_objects) = (controller.clone(), controller.clone());
    let sync = move |key: Key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    };
    tokio::select! {
        () = follow(&quotas, move |old, new| of_quota.quota_changed(old, new), || ready.synced()) => {}
        () = of_objects.follow_objects() => {}
        () = queue.work(WORKERS, sync) => {}
    }
}

impl Controller {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn quota_changed(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let Some(key) = new.or(old).map(|quota| Key::of(quota)) else { return };
        let spec = |quota: &Arc<Object>| scan::field(quota.bytes(), &["spec"]).map(<[u8]>::to_vec);
        if old.and_then(spec) == new.and_then(spec) && old.is_some() {
            return; // its status
        }
        {
            let mut known = self.known();
            match new {
                Some(quota) => {
                    let names = counted_by_name(quota);
                    known.quotas.entry(key.namespace.clone()).or_default().insert(key.name.clone(), names);
                }
                None => {
                    if let Some(quotas) = known.quotas.get_mut(&key.namespace) {
                        quotas.remove(&key.name);
                        if quotas.is_empty() {
                            known.quotas.remove(&key.namespace);
                        }
                    }
                }
            }
        }
        self.changed.notify_one();
        if new.is_some() {
            self.queue.add(key);
        }
    }

    /// Follows the resources that any quota counts.
    async fn follow_objects(self: Arc<Self>) {
        let mut followed: HashSet<GroupResource> = HashSet::new();
        let mut tasks: JoinSet<GroupResource> = JoinSet::new();
        loop {
            let mut wanted: HashSet<GroupResource> = HashSet::new();
            {
                let known = self.known();
                if !known.quotas.is_empty() {
                    wanted.extend(RULED.map(GrRef::to_owned));
                }
                known.quotas.values().flat_map(HashMap::values).for_each(|names| wanted.extend(names.iter().cloned()));
            }
            let list = self.shared.kinds.list();
            for name in wanted {
                let Some(kind) = list.resource(name.as_ref()).filter(|_| !followed.contains(&name)) else {
                    continue;
                };
                followed.insert(name.clone());
                let (own, kind) = (self.clone(), kind.clone());
                tasks.spawn(async move {
                    let each =
                        |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| own.object_changed(&kind, old, new);
                    follow(&kind.lister, each, || {}).await;
                    name
                });
            }
            tokio::select! {
                () = self.changed.notified() => {}
                // The kind is gone, or its definition has changed.
                Some(ended) = tasks.join_next() => {
                    if let Ok(name) = ended {
                        followed.remove(&name);
                    }
                }
            }
        }
    }

    /// Has the quotas of a namespace counted in which an object may use less than before.
    fn object_changed(&self, kind: &StoredKind, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let Some(old) = old else { return };
        if new.is_some_and(|new| !may_use_less(kind, old, new)) {
            return;
        }
        let namespace = old.namespace().unwrap_or_default();
        let known = self.known();
        let Some(quotas) = known.quotas.get(namespace) else { return };
        let pause = self.pause();
        for name in quotas.keys() {
            self.queue.add_after(Key { namespace: namespace.into(), name: name.clone() }, pause);
        }
    }

    fn pause(&self) -> Duration {
        MIN_PAUSE.max(Duration::from_micros(self.cost.load(Relaxed).saturating_mul(PAUSE_FACTOR)))
    }

    async fn sync(&self, key: &Key) -> Result<Outcome, Status> {
        let Some(mut quota) = objects::read(&self.shared, QUOTAS, key).await? else { return Ok(Outcome::Done) };
        let spec = quota.get("spec").cloned().unwrap_or(Value::Null);
        let used = self.count(key, Recount::new(&spec)).await?;
        let hard = spec.get("hard").cloned().unwrap_or_else(Value::object);
        let status = [("hard", hard), ("used", used)].map(|(name, value)| (Str::new_static(name), value));
        let status = Value::from(Map::from_iter(status));
        if quota.get("status") == Some(&status) {
            return Ok(Outcome::After(RESYNC));
        }
        quota.set(&["status"], status);
        let path = key.path(QUOTAS.in_version("v1"));
        match objects::written(self.shared.client().update(&format!("{path}/status"), &quota).await)? {
            Outcome::Done => Ok(Outcome::After(AGAIN.max(self.pause()))),
            other => Ok(other),
        }
    }

    /// Counts what is there, beside the requests.
    async fn count(&self, key: &Key, mut count: Recount) -> Result<Value, Status> {
        let mut counted = Vec::new();
        for kind in self.shared.kinds.list().in_namespaces() {
            if !count.counts(&kind.group, &kind.plural) {
                continue;
            }
            kind.lister.ready().await?;
            let snapshot = kind.lister.cache().read(ReadAt::Latest).await;
            counted.push((kind, snapshot.map_err(|error| Status::internal_error(error.to_string()))?));
        }
        let namespace = key.namespace.clone();
        let began = Instant::now();
        let counting = tokio::task::spawn_blocking(move || {
            for (kind, snapshot) in counted {
                for object in
                    snapshot.range(&kind.lister.namespace_prefix(&namespace), None).filter_map(CacheEntry::object)
                {
                    if is_ruled(&kind) {
                        count.add(&kind.group, &kind.plural, &kind.lister.decode(object.bytes())?);
                    } else {
                        count.add(&kind.group, &kind.plural, &Value::Null); // whatever it is, it is one
                    }
                }
            }
            Ok(count.used())
        });
        let used = counting.await.map_err(Status::internal_error)?;
        self.cost.store(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX), Relaxed);
        used
    }
}

fn is_ruled(kind: &StoredKind) -> bool {
    RULED.contains(&GrRef::new(&kind.group, &kind.plural))
}

/// The resources whose objects a quota counts by name.
fn counted_by_name(quota: &Object) -> HashSet<GroupResource> {
    let hard = scan::field(quota.bytes(), &["spec", "hard"]).map(scan::names).unwrap_or_default();
    Recount::counted_by_name(hard.iter().map(|name| &**name)).into_iter().collect()
}

/// Whether a change may free something. Of pods: their end, or another size; of others, what they ask for.
fn may_use_less(kind: &StoredKind, old: &Object, new: &Object) -> bool {
    let differs = |path: &[&str]| scan::field(old.bytes(), path) != scan::field(new.bytes(), path);
    let paths: &[&[&str]] = match kind.plural.as_str() {
        _ if !is_ruled(kind) => &[],
        "pods" => {
            &[&["spec"], &["status", "phase"], &["status", "containerStatuses"], &["metadata", "deletionTimestamp"]]
        }
        _ => &[&["spec"], &["status", "allocatedResources"]],
    };
    paths.iter().any(|path| differs(path))
}
