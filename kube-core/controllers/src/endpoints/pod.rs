//! A pod, as far as endpoints depend on it.

use std::collections::HashMap;

use machinery::{
    Value,
    json::scan,
    meta::{
        Meta, Timestamp,
        ip::{self, Family},
    },
    object,
};
use storage::cache::Object;

use super::{items, service::Service, text, trigger_time};

/// A pod.
pub(super) struct Pod(pub(super) Value);

impl Pod {
    pub(super) fn meta(&self) -> Meta<'_> {
        Meta::of(&self.0)
    }

    pub(super) fn node(&self) -> &str {
        text(&self.0, &["spec", "nodeName"])
    }

    pub(super) fn is_terminating(&self) -> bool {
        self.meta().is_terminating()
    }

    fn ready_condition(&self) -> Option<&Value> {
        items(&self.0, &["status", "conditions"]).iter().find(|condition| text(condition, &["type"]) == "Ready")
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready_condition().is_some_and(|condition| text(condition, &["status"]) == "True")
    }

    /// When it has become ready or ceased to be.
    pub(super) fn ready_since(&self) -> Option<Timestamp> {
        self.ready_condition()?.str_at(&["lastTransitionTime"]).and_then(trigger_time::parse)
    }

    /// Whether endpoints may tell of it: it runs, and has an address.
    pub(super) fn is_reachable(&self) -> bool {
        let is_over = matches!(text(&self.0, &["status", "phase"]), "Failed" | "Succeeded");
        let has_ip =
            !text(&self.0, &["status", "podIP"]).is_empty() || !items(&self.0, &["status", "podIPs"]).is_empty();
        !is_over && has_ip
    }

    /// Its addresses of a family, as they are written canonically.
    pub(super) fn addresses(&self, family: Family) -> impl Iterator<Item = String> + '_ {
        let parsed =
            items(&self.0, &["status", "podIPs"]).iter().filter_map(|ip| ip::parse_sloppy(ip.str_at(&["ip"])?));
        parsed.filter(move |ip| ip::family(*ip) == family).map(|ip| ip.to_canonical().to_string())
    }

    /// The family of the address that it has had first.
    pub(super) fn family(&self) -> Option<Family> {
        ip::parse_sloppy(text(&self.0, &["status", "podIP"])).map(ip::family)
    }

    /// The host name that it has in a service.
    pub(super) fn hostname_in(&self, service: &Service) -> Option<&str> {
        let hostname = text(&self.0, &["spec", "hostname"]);
        let is_there = text(&self.0, &["spec", "subdomain"]) == service.meta().name();
        Some(hostname).filter(|name| is_there && !name.is_empty())
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

    /// The ports of containers and sidecars by name and protocol; the first one counts.
    fn named_ports(&self) -> HashMap<(&str, &str), i64> {
        let sidecars = items(&self.0, &["spec", "initContainers"]).iter();
        let sidecars = sidecars.filter(|container| text(container, &["restartPolicy"]) == "Always");
        let containers = items(&self.0, &["spec", "containers"]).iter().chain(sidecars);
        let mut named = HashMap::new();
        for port in containers.flat_map(|container| items(container, &["ports"])) {
            if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
                named.entry((text(port, &["name"]), text(port, &["protocol"]))).or_insert(number);
            }
        }
        named
    }

    /// The reference that endpoints have to it.
    pub(super) fn reference(&self) -> Value {
        let meta = self.meta();
        object! { "kind" => "Pod", "namespace" => meta.namespace(), "name" => meta.name(), "uid" => meta.uid() }
    }
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
        let pod = Pod(object! { "spec" => object! {
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
        let pod = Pod(object! { "status" => object! { "podIPs" => ips } });
        assert_eq!(pod.addresses(Family::V4).collect::<Vec<_>>(), ["10.0.0.10", "1.2.3.4"]);
        assert_eq!(pod.addresses(Family::V6).collect::<Vec<_>>(), ["fd00::1"]);
    }
}
