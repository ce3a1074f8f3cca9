//! The endpointslice-controller: EndpointSlices of services that select pods.

mod hints;
mod metrics;
mod reconcile;
pub(super) mod slice;
#[cfg(test)]
mod tests;
mod topology;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use machinery::{
    Str, Value,
    json::scan,
    meta::{GrRef, ip::Family, status::Status},
};
use storage::cache::{CacheEntry, Object, Snapshot};
use tokio::sync::Notify;

use super::{
    SERVICES, SLICES, compute, labelled, latest,
    pod::{self, Pods},
    selection::Selecting,
    service::Service,
    trigger_time::{self, TriggerTimes},
};
use crate::{
    client::{Client, Deletion, segment},
    events::{About, Events},
    follow::follow,
    kinds::collection,
    objects::{self, Key},
    per_namespace::is_terminating,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};
use metrics::Metrics;
pub(super) use metrics::{Totals, counter, counts, registered};
use reconcile::Plan;
use slice::{MANAGED_BY, SERVICE_NAME, Slice};
use topology::Topology;

const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// So many endpoints are in a slice at most (`--max-endpoints-per-slice`).
const MAX_ENDPOINTS: usize = 100;
/// Services that are looked at at once (`--concurrent-service-endpoint-syncs`).
const WORKERS: usize = 5;
/// Changes of slices are gathered for so long.
const PAUSE: Duration = Duration::from_secs(1);
const BACKOFF: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_secs(1000) };

struct Controller {
    shared: Arc<Shared>,
    events: Events,
    times: TriggerTimes,
    pods: Pods,
    metrics: Metrics,
    topology: Mutex<Topology>,
}

/// Keeps EndpointSlices as services, pods and nodes are.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue: Queue<Key> = Queue::new("endpoint_slice", BACKOFF, &shared.metrics);
    let lister = |of: GrRef<'static>| shared.lister(of.group, of.resource).clone();
    let (services, pods) = (lister(SERVICES), lister(GrRef::new("", "pods")));
    let (slices, nodes) = (lister(SLICES), lister(GrRef::new("", "nodes")));
    let selecting = Arc::new(Selecting::default());
    let (of_service, added, of_pod, changed, own) =
        (selecting.clone(), queue.clone(), selecting.clone(), queue.clone(), queue.clone());
    let service_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        of_service.service_changed(old, new);
        if let Some(service) = new.or(old) {
            added.add(Key::of(service));
        }
    };
    let slice_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        for slice in old.into_iter().chain(new) {
            if let Some(key) = service_of(slice, CONTROLLER) {
                own.add_after(key, PAUSE);
            }
        }
    };
    let nodes_changed = Arc::new(Notify::new());
    let notified = nodes_changed.clone();
    let node_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        if node_differs(old, new) {
            notified.notify_one();
        }
    };
    let known = [services.clone(), pods.clone(), slices.clone(), nodes.clone()];
    let controller = Arc::new(Controller {
        events: shared.events("endpoint-slice-controller"),
        times: TriggerTimes::default(),
        pods: Pods::default(),
        metrics: shared.families.get(Metrics::new),
        topology: Mutex::default(),
        shared,
    });
    let (looking, overloaded) = (controller.clone(), queue.clone());
    let sync = move |key: Key| {
        let controller = controller.clone();
        async move {
            let result = controller.sync(&key).await;
            let word = if result.is_ok() { "success" } else { "error" };
            controller.metrics.syncs.with_label_values(&[word]).inc();
            result
        }
    };
    let work = async {
        for lister in known {
            if lister.cache().ready().await.is_err() {
                return;
            }
        }
        tokio::join!(queue.work(WORKERS, sync), looking.look_at_nodes(&nodes_changed, &overloaded));
    };
    tokio::select! {
        () = follow(&services, service_changed, || ready.synced()) => {}
        () = follow(&pods, move |old, new| of_pod.pod_changed(old, new, &changed), || {}) => {}
        () = follow(&slices, slice_changed, || {}) => {}
        () = follow(&nodes, node_changed, || {}) => {}
        () = work => {}
    }
}

/// The service of a slice that a controller manages.
pub(super) fn service_of(slice: &Object, manager: &str) -> Option<Key> {
    let labels = slice.labels();
    let name = labels.get(SERVICE_NAME).filter(|name| !name.is_empty() && labels.get(MANAGED_BY) == Some(manager))?;
    Some(Key { namespace: slice.namespace().unwrap_or_default().into(), name: name.into() })
}

/// Whether a change of a node may change the capacity of zones.
fn node_differs(old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let is_ready = |node: &Object| {
        let conditions =
            scan::field(node.bytes(), &["status"]).and_then(|text| machinery::codec::json::decode(text).ok());
        conditions.is_some_and(|status| topology::is_node_ready(&machinery::object! { "status" => status }))
    };
    old.labels().get(topology::ZONE) != new.labels().get(topology::ZONE) || is_ready(old) != is_ready(new)
}

/// The slices of a service that a controller manages and that nobody deletes.
pub(super) async fn managed(shared: &Shared, key: &Key, manager: &str) -> Result<Vec<Slice>, Status> {
    let lister = shared.lister(SLICES.group, SLICES.resource);
    let snapshot = latest(lister).await?;
    let labels = [(SERVICE_NAME, key.name.as_str()), (MANAGED_BY, manager)];
    let found = labelled(lister, &snapshot, &key.namespace, &labels).into_iter();
    let slices = found.map(|slice| lister.decode(slice.bytes()).map(Slice::read)).collect::<Result<Vec<_>, _>>()?;
    Ok(slices.into_iter().filter(|slice| !slice.meta().is_terminating()).collect())
}

/// The zones of nodes.
struct Zones {
    nodes: Arc<generic_server::registry::Lister>,
    snapshot: Snapshot,
}

impl Zones {
    /// None if there is no such node.
    fn of(&self, node: &str) -> Option<reconcile::Zone> {
        let node = self.snapshot.get(&self.nodes.key("", node)).filter(|_| !node.is_empty())?.object()?;
        Some(node.labels().get(topology::ZONE).filter(|zone| !zone.is_empty()).map(Str::from))
    }
}

impl Controller {
    fn topology(&self) -> MutexGuard<'_, Topology> {
        self.topology.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the capacity of zones when nodes have changed.
    async fn look_at_nodes(&self, changed: &Notify, queue: &Queue<Key>) {
        let nodes = self.shared.lister("", "nodes");
        loop {
            let (snapshot, lister) = (nodes.cache().latest(), nodes.clone());
            let read = compute(move || {
                let nodes = snapshot.range("", None).filter_map(CacheEntry::object);
                nodes.filter_map(|node| lister.decode(node.bytes()).ok()).collect::<Vec<Value>>()
            });
            let Ok(read) = read.await else { return };
            let overloaded = {
                let mut topology = self.topology();
                topology.set_nodes(&read);
                topology.overloaded()
            };
            overloaded.into_iter().for_each(|key| queue.add(key));
            changed.notified().await;
        }
    }

    async fn sync(&self, key: &Key) -> Result<Outcome, Status> {
        let Some(service) = objects::read(&self.shared, SERVICES, key).await? else {
            self.times.forget(key);
            self.pods.take(key);
            self.topology().forget(key);
            self.metrics.forget(key);
            return Ok(Outcome::Done); // the garbage collector deletes what it owned
        };
        let service = Service(service);
        let Some(selector) = service.selector().filter(|_| service.is_served()).cloned() else {
            return Ok(Outcome::Done);
        };
        let existing = managed(&self.shared, key, CONTROLLER).await?;
        let lister = self.shared.lister("", "pods").clone();
        let snapshot = latest(&lister).await?;
        let nodes = self.shared.lister("", "nodes").clone();
        let zones = Zones { snapshot: latest(&nodes).await?, nodes };
        let (namespace, mut known) = (key.namespace.clone(), self.pods.take(key));
        let computed = compute(move || {
            let labels: Vec<(&str, &str)> =
                selector.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or(""))).collect();
            let pods = labelled(&lister, &snapshot, &namespace, &labels);
            let pods = pod::read(&mut known, &pods, &lister)?;
            let families = reconcile::families(&service);
            let (by_family, others) = reconcile::by_family(existing, &families);
            let plan = |(family, slices): (Family, Vec<Slice>)| {
                (family, reconcile::reconcile(&service, &pods, &|node| zones.of(node), slices, family))
            };
            let plans: Vec<(Family, Plan)> = families.into_iter().zip(by_family).map(plan).collect();
            Ok::<_, Status>((service, (pods, known), plans, others))
        });
        let (service, (pods, known), plans, others) = computed.await??;
        self.pods.keep(key, known);
        // Whether or not something is written, what was seen is seen.
        let time = self.times.at_sync(key, &service, &pods).map(trigger_time::written);
        drop(pods);
        let mut errors = Vec::new();
        for (family, plan) in plans {
            errors.extend(self.finish(key, &service, (family, plan), time.as_deref()).await);
        }
        for slice in others {
            self.topology().remove(key, slice.address_type());
            if let Err(status) = self.delete(key, slice.name()).await {
                let what = format!("error deleting {} EndpointSlice for Service", slice.name());
                errors.push(format!("{what} {}/{}: {}", key.namespace, key.name, status.message));
            }
        }
        match errors.is_empty() {
            true => Ok(Outcome::Done),
            false => Err(self.failed(key, &service, errors).await),
        }
    }

    /// Gives the slices of one family their hints and writes them.
    async fn finish(&self, key: &Key, service: &Service, of: (Family, Plan), time: Option<&str>) -> Vec<String> {
        let (family, mut plan) = of;
        let mut errors = std::mem::take(&mut plan.errors);
        let is_auto = topology::is_on(service);
        let distribution = hints::wanted(service).filter(|_| !is_auto);
        let event = if is_auto {
            self.topology().apply(key, &mut plan, family)
        } else {
            hints::apply(&mut plan, distribution.map(|(distribution, _)| distribution));
            self.topology().turn_off(key, family)
        };
        let word = distribution.map(|(_, word)| word);
        self.metrics.observe(key, reconcile::address_type(family), &plan);
        self.metrics.distribute(key, word);
        reconcile::recycle(service, &mut plan);
        match self.write(key, service, &mut plan, time).await {
            Ok(changed) => {
                let labels = [if is_auto { "Auto" } else { "Disabled" }, word.unwrap_or_default()];
                self.metrics.changed.with_label_values(&labels).observe(changed as f64);
            }
            Err(why) => errors.push(why),
        }
        if let Some((kind, reason, message)) = event {
            self.tell(key, service, (kind, reason, &message)).await;
        }
        errors
    }

    /// Does what was planned; how many slices it has written.
    async fn write(&self, key: &Key, service: &Service, plan: &mut Plan, time: Option<&str>) -> Result<usize, String> {
        let changed = plan.create.len() + plan.update.len() + plan.delete.len();
        let place = format!("EndpointSlice for Service {}/{}", key.namespace, key.name);
        let (client, all) = (self.shared.client(), slices_of(&key.namespace));
        // While a service goes, the collector deletes its slices: new ones would be left.
        let create: &mut [Slice] = if service.meta().is_terminating() { &mut [] } else { &mut plan.create };
        for slice in create {
            slice.set_trigger_time(time);
            match client.create(&all, &slice.body()).await {
                Ok(_) => self.metrics.changes.with_label_values(&["create"]).inc(),
                Err(status) if is_terminating(&status) => return Ok(0),
                Err(status) => return Err(format!("failed to create {place}: {}", status.message)),
            }
        }
        for slice in &mut plan.update {
            slice.set_trigger_time(time);
            update(&client, &all, slice)
                .await
                .map_err(|status| format!("failed to update {} {place}: {}", slice.name(), status.message))?;
            self.metrics.changes.with_label_values(&["update"]).inc();
        }
        for slice in &plan.delete {
            let deleted = self.delete(key, slice.name()).await;
            deleted.map_err(|status| format!("failed to delete {} {place}: {}", slice.name(), status.message))?;
        }
        Ok(changed)
    }

    async fn delete(&self, key: &Key, name: &str) -> Result<(), Status> {
        delete(&self.shared.client(), &slices_of(&key.namespace), name).await?;
        self.metrics.changes.with_label_values(&["delete"]).inc();
        Ok(())
    }

    async fn failed(&self, key: &Key, service: &Service, errors: Vec<String>) -> Status {
        let why = match errors.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let what = format!("Error updating Endpoint Slices for Service {}/{}: {why}", key.namespace, key.name);
        self.tell(key, service, ("Warning", "FailedToUpdateEndpointSlices", &what)).await;
        Status::internal_error(why)
    }

    async fn tell(&self, key: &Key, service: &Service, (kind, reason, message): (&str, &str, &str)) {
        let about = About {
            api_version: "v1",
            kind: "Service",
            namespace: &key.namespace,
            name: &key.name,
            uid: service.meta().uid(),
        };
        self.events.make(&about, kind, reason, message).await;
    }
}

/// Where the slices of a namespace are.
pub(super) fn slices_of(namespace: &str) -> String {
    collection(SLICES.group, "v1", SLICES.resource, namespace)
}

/// Writes a slice that is there.
pub(super) async fn update(client: &Client, all: &str, slice: &Slice) -> Result<(), Status> {
    client.update(&format!("{all}/{}", segment(slice.name())), &slice.body()).await.map(drop)
}

/// Deletes a slice; one that is gone already is well.
pub(super) async fn delete(client: &Client, all: &str, name: &str) -> Result<(), Status> {
    match client.delete(&format!("{all}/{}", segment(name)), Deletion::default()).await {
        Err(status) if !status.is_not_found() => Err(status),
        _ => Ok(()),
    }
}
