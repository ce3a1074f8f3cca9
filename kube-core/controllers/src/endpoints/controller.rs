//! The endpoint-controller: Endpoints of services that select pods.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use machinery::{
    Map, Str, Value,
    meta::{GrRef, Meta, Timestamp, status::Status},
    object,
};
use storage::cache::Object;

use super::{
    ENDPOINTS, HEADLESS, LEADER, SERVICES, TRIGGER_TIME, compute, labelled, latest,
    pod::{self, Pods},
    selection::Selecting,
    service::Service,
    subsets,
    trigger_time::{self, TriggerTimes},
};
use crate::{
    client::{Deletion, segment},
    events::{About, Events},
    follow::follow,
    kinds::collection,
    objects::{self, Key},
    per_namespace::is_terminating,
    ready::Ready,
    shared::Shared,
    workqueue::{Backoff, Outcome, Queue},
};

const NAME: &str = "endpoint-controller";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Services that are looked at at once (`--concurrent-endpoint-syncs`).
const WORKERS: usize = 5;

struct Controller {
    shared: Arc<Shared>,
    events: Events,
    times: TriggerTimes,
    pods: Pods,
}

/// Keeps Endpoints as services and pods are.
pub(crate) async fn run(shared: Arc<Shared>, ready: Ready) {
    let queue: Queue<Key> = Queue::new("endpoint", Backoff::default(), &shared.metrics);
    let lister = |of: GrRef<'static>| shared.lister(of.group, of.resource).clone();
    let (services, pods, endpoints) = (lister(SERVICES), lister(GrRef::new("", "pods")), lister(ENDPOINTS));
    let selecting = Arc::new(Selecting::default());
    let (of_service, added, of_pod, changed, own) =
        (selecting.clone(), queue.clone(), selecting.clone(), queue.clone(), queue.clone());
    let service_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| {
        of_service.service_changed(old, new);
        if let Some(service) = new.or(old) {
            added.add(Key::of(service));
        }
    };
    // Those that are there at the start are looked at, for services may have gone meanwhile.
    let started = Arc::new(AtomicBool::new(false));
    let is_started = started.clone();
    let endpoints_changed = move |old: Option<&Arc<Object>>, new: Option<&Arc<Object>>| match (old, new) {
        (Some(old), None) => own.add(Key::of(old)),
        (None, Some(new)) if !is_started.load(Relaxed) && !is_of_a_leader(new) => own.add(Key::of(new)),
        _ => {}
    };
    let known = [services.clone(), pods.clone(), endpoints.clone()];
    let controller = Arc::new(Controller {
        events: shared.events(NAME),
        shared,
        times: TriggerTimes::default(),
        pods: Pods::default(),
    });
    let sync = move |key: Key| {
        let controller = controller.clone();
        async move { controller.sync(&key).await }
    };
    let work = async {
        for lister in known {
            if lister.cache().ready().await.is_err() {
                return;
            }
        }
        queue.work(WORKERS, sync).await;
    };
    tokio::select! {
        () = follow(&services, service_changed, || ready.synced()) => {}
        () = follow(&pods, move |old, new| of_pod.pod_changed(old, new, &changed), || {}) => {}
        () = follow(&endpoints, endpoints_changed, move || started.store(true, Relaxed)) => {}
        () = work => {}
    }
}

fn is_of_a_leader(endpoints: &Object) -> bool {
    machinery::json::scan::field(endpoints.bytes(), &["metadata", "annotations", LEADER]).is_some()
}

impl Controller {
    async fn sync(&self, key: &Key) -> Result<Outcome, Status> {
        let Some(service) = objects::read(&self.shared, SERVICES, key).await? else {
            self.times.forget(key);
            self.pods.take(key);
            return self.delete(key).await;
        };
        let service = Service(service);
        let Some(selector) = service.selector().filter(|_| service.is_served()).cloned() else {
            return Ok(Outcome::Done);
        };
        let lister = self.shared.lister("", "pods").clone();
        let snapshot = latest(&lister).await?;
        let current = objects::read(&self.shared, ENDPOINTS, key).await?;
        let is_new = current.is_none();
        let (namespace, mut known) = (key.namespace.clone(), self.pods.take(key));
        let computed = compute(move || {
            let labels: Vec<(&str, &str)> =
                selector.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or(""))).collect();
            let pods = labelled(&lister, &snapshot, &namespace, &labels);
            let pods = pod::read(&mut known, &pods, &lister)?;
            let mut subsets = subsets::of_service(&service, &pods)
                .ok_or_else(|| Status::internal_error("the ports and addresses of all pods are too many"))?;
            let is_truncated = subsets::truncate(&mut subsets);
            let is_right = current.as_ref().is_some_and(|current| is_right(current, &service, &subsets, is_truncated));
            Ok::<_, Status>((service, (pods, known), (!is_right).then_some((current, subsets, is_truncated))))
        });
        let (service, (pods, known), change) = computed.await??;
        self.pods.keep(key, known);
        // Whether or not something is written, what was seen is seen.
        let time = self.times.at_sync(key, &service, &pods);
        let Some((current, subsets, is_truncated)) = change else { return Ok(Outcome::Done) };
        let new = written(key, current, &service, subsets, (is_truncated, time));
        self.write(key, new, is_new).await
    }

    async fn delete(&self, key: &Key) -> Result<Outcome, Status> {
        if objects::read(&self.shared, ENDPOINTS, key).await?.is_none() {
            return Ok(Outcome::Done);
        }
        match self.shared.client().delete(&key.path(ENDPOINTS.in_version("v1")), Deletion::default()).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(Outcome::Done),
        }
    }

    async fn write(&self, key: &Key, new: Value, is_new: bool) -> Result<Outcome, Status> {
        let (client, all) = (self.shared.client(), collection("", "v1", ENDPOINTS.resource, &key.namespace));
        let result = match is_new {
            true => client.create(&all, &new).await,
            false => client.update(&format!("{all}/{}", segment(&key.name)), &new).await,
        };
        let (reason, what) = match is_new {
            true => (
                "FailedToCreateEndpoint",
                format!("Failed to create endpoint for service {}/{}", key.namespace, key.name),
            ),
            false => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {}/{}", key.namespace, key.name)),
        };
        match result {
            Ok(_) => Ok(Outcome::Done),
            Err(status) if status.is_conflict() || status.is_already_exists() => Ok(Outcome::Retry),
            Err(status) if is_new && is_terminating(&status) => Ok(Outcome::Done),
            Err(status) => {
                let about = About {
                    api_version: "v1",
                    kind: "Endpoints",
                    namespace: &key.namespace,
                    name: &key.name,
                    uid: subsets::uid_of(&new),
                };
                self.events.make(&about, "Warning", reason, &format!("{what}: {}", status.message)).await;
                Err(status)
            }
        }
    }
}

/// Whether Endpoints are as they should be.
fn is_right(current: &Value, service: &Service, subsets: &[Value], is_truncated: bool) -> bool {
    let annotation = Meta::of(current).annotation(OVER_CAPACITY).is_some();
    has_labels(current, service) && annotation == is_truncated && subsets::same(current, subsets)
}

/// Whether the labels are the service's and the controller's. Whether it is headless counts when they are written alone.
fn has_labels(current: &Value, service: &Service) -> bool {
    let of = |meta: Meta<'_>| {
        let labels = meta.labels().into_iter().flat_map(|labels| labels.iter());
        let rest = labels.filter(|(key, _)| !matches!(key.as_str(), HEADLESS | MANAGED_BY));
        rest.cloned().collect::<Vec<_>>()
    };
    Meta::of(current).label(MANAGED_BY) == Some(NAME) && of(Meta::of(current)) == of(service.meta())
}

fn written(
    key: &Key,
    current: Option<Value>,
    service: &Service,
    subsets: Vec<Value>,
    (is_truncated, time): (bool, Option<Timestamp>),
) -> Value {
    let mut new = current.unwrap_or_else(|| {
        object! { "kind" => "Endpoints", "apiVersion" => "v1", "metadata" => object! { "name" => key.name.clone() } }
    });
    let mut labels = service.meta().labels().cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    if !service.has_ip() {
        labels.insert(Str::new_static(HEADLESS), "");
    }
    labels.insert(Str::new_static(MANAGED_BY), NAME);
    new.set(&["metadata", "labels"], labels);
    let mut annotations = Meta::of(&new).annotations().cloned().unwrap_or_default();
    set(&mut annotations, TRIGGER_TIME, time.map(trigger_time::written));
    set(&mut annotations, OVER_CAPACITY, is_truncated.then(|| "truncated".to_owned()));
    new.set(&["metadata", "annotations"], annotations);
    new.set(&["subsets"], Value::from(subsets));
    new
}

fn set(map: &mut Map, key: &'static str, value: Option<String>) {
    match value {
        Some(value) => drop(map.insert(Str::new_static(key), value)),
        None => drop(map.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::super::pod::Pod;
    use super::*;

    fn service(spec: Value) -> Service {
        let labels = object! { "app" => "web", "service.kubernetes.io/headless" => "mine" };
        Service(object! {
            "metadata" => object! { "name" => "s", "namespace" => "n", "labels" => labels },
            "spec" => spec,
        })
    }

    fn pod(name: &str, ip: &str, is_ready: bool) -> Pod {
        Pod::of(&pod_object(name, ip, is_ready))
    }

    fn pod_object(name: &str, ip: &str, is_ready: bool) -> Value {
        let condition = object! { "type" => "Ready", "status" => if is_ready { "True" } else { "False" } };
        object! {
            "metadata" => object! { "name" => name, "namespace" => "n", "uid" => format!("uid-{name}") },
            "spec" => object! { "nodeName" => "n1", "hostname" => name, "subdomain" => "s" },
            "status" => object! { "podIP" => ip, "podIPs" => array![object! { "ip" => ip }], "conditions" => array![condition] },
        }
    }

    fn key() -> Key {
        Key { namespace: "n".into(), name: "s".into() }
    }

    #[test]
    fn endpoints_tell_who_is_ready_under_the_labels_of_the_service() {
        let ports = array![object! { "name" => "http", "port" => 80, "targetPort" => 8080, "protocol" => "TCP" }];
        let service = service(object! { "clusterIP" => "10.0.0.1", "ipFamilies" => array!["IPv4"], "ports" => ports });
        let pods = [pod("a", "10.1.0.1", true), pod("b", "10.1.0.2", false)];
        let subsets = subsets::of_service(&service, &pods).expect("they are few");
        let address = |name: &str, ip: &str| {
            let target =
                object! { "kind" => "Pod", "namespace" => "n", "name" => name, "uid" => format!("uid-{name}") };
            object! { "ip" => ip, "hostname" => name, "nodeName" => "n1", "targetRef" => target }
        };
        let expect = object! {
            "addresses" => array![address("a", "10.1.0.1")],
            "notReadyAddresses" => array![address("b", "10.1.0.2")],
            "ports" => array![object! { "name" => "http", "port" => 8080, "protocol" => "TCP" }],
        };
        assert_eq!(subsets, [expect]);
        let new = written(&key(), None, &service, subsets.clone(), (false, Some(Timestamp::new(0, 0))));
        let labels = object! { "app" => "web", "endpoints.kubernetes.io/managed-by" => "endpoint-controller" };
        assert_eq!(new.at(&["metadata", "labels"]), Some(&labels));
        assert_eq!(new.str_at(&["metadata", "annotations", TRIGGER_TIME]), Some("1970-01-01T00:00:00Z"));
        assert!(is_right(&new, &service, &subsets, false), "nothing is to be written twice");
        assert!(!is_right(&new, &service, &[], false) && !is_right(&new, &service, &subsets, true));
    }

    #[test]
    fn pods_that_terminate_stay_where_unready_ones_are_wanted_too() {
        let ports = || array![object! { "port" => 80, "targetPort" => 8080, "protocol" => "TCP" }];
        let leaving = || {
            let mut pod = pod_object("a", "10.1.0.1", true);
            pod.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            Pod::of(&pod)
        };
        let plain = service(object! { "clusterIP" => "10.0.0.1", "ports" => ports() });
        assert_eq!(subsets::of_service(&plain, &[leaving()]), Some(Vec::new()));
        let all = object! { "clusterIP" => "10.0.0.1", "ports" => ports(), "publishNotReadyAddresses" => true };
        assert_eq!(subsets::of_service(&service(all), &[leaving()]).map(|subsets| subsets.len()), Some(1));
    }

    #[test]
    fn a_headless_service_needs_no_ports_and_says_so() {
        let service = service(object! { "clusterIP" => "None", "publishNotReadyAddresses" => true });
        let subsets = subsets::of_service(&service, &[pod("a", "fd00::1", false)]).expect("one");
        assert_eq!(subsets[0].at(&["addresses"]).and_then(Value::as_array).map(<[Value]>::len), Some(1));
        assert!(subsets[0].get("ports").is_none());
        let new = written(&key(), None, &service, subsets, (true, None));
        assert_eq!(Meta::of(&new).label(HEADLESS), Some(""));
        assert_eq!(Meta::of(&new).annotation(OVER_CAPACITY), Some("truncated"));
        assert!(Meta::of(&new).annotation(TRIGGER_TIME).is_none());
    }
}
