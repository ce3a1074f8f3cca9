//! A pod, as far as endpoints depend on it: read once, and kept as long as the pod stays as it is.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use generic_server::registry::Lister;
use machinery::{
    Str, Value,
    json::scan,
    meta::{
        Meta, Timestamp,
        ip::{self, Family},
        status::Status,
    },
    object,
};
use storage::cache::Object;

use super::{items, service::Service, text, trigger_time};
use crate::objects::Key;

/// A pod. Clones are handles to the same one.
#[derive(Clone)]
pub(super) struct Pod(Arc<Facts>);

/// What counts of it.
struct Facts {
    namespace: Str,
    name: Str,
    uid: Str,
    node: Str,
    hostname: Str,
    subdomain: Str,
    is_terminating: bool,
    is_ready: bool,
    /// When it has become ready or ceased to be.
    ready_since: Option<Timestamp>,
    is_reachable: bool,
    /// The family of the address that it has had first.
    family: Option<Family>,
    addresses: Vec<IpAddr>,
    /// The ports of containers and sidecars: name, protocol, number.
    ports: Vec<(Str, Str, i64)>,
}

impl Pod {
    pub(super) fn of(pod: &Value) -> Self {
        let (meta, of) = (Meta::of(pod), |path: &[&str]| Str::from(text(pod, path)));
        let mut conditions = items(pod, &["status", "conditions"]).iter();
        let ready = conditions.find(|condition| text(condition, &["type"]) == "Ready");
        let is_over = matches!(text(pod, &["status", "phase"]), "Failed" | "Succeeded");
        let ips = items(pod, &["status", "podIPs"]);
        let has_ip = !text(pod, &["status", "podIP"]).is_empty() || !ips.is_empty();
        Pod(Arc::new(Facts {
            namespace: meta.namespace().into(),
            name: meta.name().into(),
            uid: meta.uid().into(),
            node: of(&["spec", "nodeName"]),
            hostname: of(&["spec", "hostname"]),
            subdomain: of(&["spec", "subdomain"]),
            is_terminating: meta.is_terminating(),
            is_ready: ready.is_some_and(|condition| text(condition, &["status"]) == "True"),
            ready_since: ready.and_then(|c| c.str_at(&["lastTransitionTime"])).and_then(trigger_time::parse),
            is_reachable: !is_over && has_ip,
            family: ip::parse_sloppy(text(pod, &["status", "podIP"])).map(ip::family),
            addresses: ips.iter().filter_map(|ip| ip::parse_sloppy(ip.str_at(&["ip"])?)).collect(),
            ports: ports_of(pod),
        }))
    }

    pub(super) fn name(&self) -> &Str {
        &self.0.name
    }

    pub(super) fn node(&self) -> &str {
        &self.0.node
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.0.is_terminating
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.is_ready
    }

    /// When it has become ready or ceased to be.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        self.0.ready_since
    }

    /// Whether endpoints may tell of it: it runs, and has an address.
    pub(super) fn is_reachable(&self) -> bool {
        self.0.is_reachable
    }

    /// Its addresses of a family, as they are written canonically.
    pub(super) fn addresses(&self, family: Family) -> impl Iterator<Item = String> + '_ {
        let of_family = self.0.addresses.iter().filter(move |ip| ip::family(**ip) == family);
        of_family.map(|ip| ip.to_canonical().to_string())
    }

    /// The family of the address that it has had first.
    pub(super) fn family(&self) -> Option<Family> {
        self.0.family
    }

    /// The host name that it has in a service.
    pub(super) fn hostname_in(&self, service: &Service) -> Option<&str> {
        let is_there = self.0.subdomain == service.meta().name();
        Some(self.0.hostname.as_str()).filter(|name| is_there && !name.is_empty())
    }

    /// The ports that a service's ports lead to.
    pub(super) fn ports(&self, service: &Service) -> Vec<Option<i64>> {
        let is_named = |port: &Value| matches!(port.get("targetPort"), Some(Value::String(_)));
        let named = if service.ports().iter().any(is_named) { self.named_ports() } else { HashMap::new() };
        let number = |port: &Value| match port.get("targetPort") {
            Some(Value::Int(number)) => Some(*number),
            Some(Value::String(name)) => named.get(&(name.as_str(), text(port, &["protocol"]))).copied(),
            _ => Some(0),
        };
        service.ports().iter().map(number).collect()
    }

    /// The ports by name and protocol; the first one counts.
    fn named_ports(&self) -> HashMap<(&str, &str), i64> {
        let mut named = HashMap::new();
        for (name, protocol, number) in &self.0.ports {
            named.entry((name.as_str(), protocol.as_str())).or_insert(*number);
        }
        named
    }

    /// The reference that endpoints have to it.
    pub(super) fn reference(&self) -> Value {
        let Facts { namespace, name, uid, .. } = &*self.0;
        object! { "kind" => "Pod", "namespace" => namespace.clone(), "name" => name.clone(), "uid" => uid.clone() }
    }
}

fn ports_of(pod: &Value) -> Vec<(Str, Str, i64)> {
    let sidecars = items(pod, &["spec", "initContainers"]).iter();
    let sidecars = sidecars.filter(|container| text(container, &["restartPolicy"]) == "Always");
    let containers = items(pod, &["spec", "containers"]).iter().chain(sidecars);
    let port = |port: &Value| {
        let number = port.get("containerPort").and_then(Value::as_i64)?;
        Some((text(port, &["name"]).into(), text(port, &["protocol"]).into(), number))
    };
    containers.flat_map(|container| items(container, &["ports"])).filter_map(port).collect()
}

/// The pods of each service as they were in its last sync: those that have not changed since are not read again.
#[derive(Default)]
pub(super) struct Pods(Mutex<HashMap<Key, Known>>);

/// Pods by name, each with its revision.
type Known = HashMap<Str, (u64, Pod)>;

impl Pods {
    /// What is known of a service's pods. One worker at a time has it: it is given back by [`Self::keep`].
    pub(super) fn take(&self, service: &Key) -> Known {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(service).unwrap_or_default()
    }

    /// Keeps these pods as those of a service.
    pub(super) fn keep(&self, service: &Key, known: Known) {
        if !known.is_empty() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(service.clone(), known);
        }
    }
}

/// Reads pods of one namespace, but for those that are known as they are.
pub(super) fn read(known: &mut Known, pods: &[&Arc<Object>], lister: &Lister) -> Result<Vec<Pod>, Status> {
    read_by(known, pods.iter().map(|pod| (pod.name(), pod.revision(), *pod)), |pod| lister.decode(pod.bytes()))
}

fn read_by<'a, T>(
    known: &mut Known,
    pods: impl Iterator<Item = (&'a str, u64, T)>,
    decode: impl Fn(T) -> Result<Value, Status>,
) -> Result<Vec<Pod>, Status> {
    let mut before = std::mem::take(known);
    let mut all = Vec::new();
    for (name, revision, object) in pods {
        let pod = match before.remove(name) {
            Some((same, pod)) if same == revision => pod,
            _ => Pod::of(&decode(object)?),
        };
        known.insert(pod.name().clone(), (revision, pod.clone()));
        all.push(pod);
    }
    Ok(all)
}

/// Whether a change of a pod may change endpoints of services that select it all the time.
pub(super) fn differs(old: &Object, new: &Object) -> bool {
    const PATHS: [&[&str]; 7] = [
        &["metadata", "deletionTimestamp"],
        &["status", "conditions"],
        &["status", "phase"],
        &["status", "podIPs"],
        &["spec", "nodeName"],
        &["spec", "hostname"],
        &["spec", "subdomain"],
    ];
    PATHS.iter().any(|path| scan::field(old.bytes(), path) != scan::field(new.bytes(), path))
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    #[test]
    fn named_ports_are_looked_for_in_containers_and_sidecars() {
        let port = |name: &str, number: i64| {
            array![object! { "name" => name, "containerPort" => number, "protocol" => "TCP" }]
        };
        let pod = Pod::of(&object! { "spec" => object! {
            "containers" => array![object! { "ports" => port("web", 8080) }],
            "initContainers" => array![
                object! { "ports" => port("setup", 1) },
                object! { "ports" => port("mesh", 15001), "restartPolicy" => "Always" },
            ],
        } });
        let check = |target: Value, protocol: &str, expect: Option<i64>| {
            let port = object! { "targetPort" => target, "protocol" => protocol };
            let service = Service(object! { "spec" => object! { "ports" => array![port.clone()] } });
            assert_eq!(pod.ports(&service), [expect], "{port:?}");
        };
        check(Value::Int(80), "TCP", Some(80));
        check("web".into(), "TCP", Some(8080));
        check("web".into(), "UDP", None);
        check("mesh".into(), "TCP", Some(15001));
        check("setup".into(), "TCP", None);
    }

    #[test]
    fn addresses_are_canonical_and_of_one_family() {
        let ip = |ip: &str| object! { "ip" => ip };
        let ips = array![ip("10.0.0.010"), ip("FD00::0:1"), ip("::ffff:1.2.3.4"), ip("none")];
        let pod = Pod::of(&object! { "status" => object! { "podIPs" => ips } });
        assert_eq!(pod.addresses(Family::V4).collect::<Vec<_>>(), ["10.0.0.10", "1.2.3.4"]);
        assert_eq!(pod.addresses(Family::V6).collect::<Vec<_>>(), ["fd00::1"]);
    }

    #[test]
    fn pods_that_stay_as_they_are_are_read_once() {
        let (mut known, decoded) = (Known::default(), std::cell::RefCell::new(Vec::new()));
        let mut read = |pods: &[(&str, u64)], expect: &[&str]| {
            let decode = |name: &str| {
                decoded.borrow_mut().push(name.to_owned());
                Ok(object! { "metadata" => object! { "name" => name } })
            };
            let all = read_by(&mut known, pods.iter().map(|(name, revision)| (*name, *revision, *name)), decode);
            let names: Vec<Str> = all.expect("they are read").iter().map(|pod| pod.name().clone()).collect();
            assert_eq!(names, pods.iter().map(|(name, _)| Str::from(*name)).collect::<Vec<_>>());
            assert_eq!(decoded.take(), expect, "{pods:?}");
            assert_eq!(known.len(), pods.len(), "the others are forgotten");
        };
        read(&[("a", 1), ("b", 2)], &["a", "b"]);
        read(&[("a", 1), ("b", 3)], &["b"]);
        read(&[("b", 3)], &[]);
        read(&[("a", 1), ("b", 3)], &["a"]);
    }
}
