//! Members of a service that hang together: what a client leaves out that knows only some of them, or that no longer
//! applies, is filled in or dropped.

use std::collections::{BTreeSet, HashMap};

use machinery::{Value, object};

use crate::service_network::service::{Service, node_port};
use crate::strategy::restore;

/// A new service with a cluster IP and no list of them has a list of one.
pub(super) fn on_create(new: &mut Value) {
    let service = Service(new);
    if !service.cluster_ip().is_empty() && service.cluster_ips().is_empty() {
        let ip = service.cluster_ip().to_owned();
        new.set(&["spec", "clusterIPs"], super::families::list([ip.as_str()]));
    }
}

/// An update that leaves out what the server chose keeps it, as far as it still applies.
pub(super) fn on_update(new: &mut Value, old: &Value) {
    let before = Service(old);
    if !before.is_external_name() && !Service(new).is_external_name() {
        if Service(new).cluster_ip().is_empty() {
            restore(new, old, &["spec", "clusterIP"]);
        }
        if Service(new).cluster_ips().is_empty() && Service(new).cluster_ip() == before.cluster_ip() {
            restore(new, old, &["spec", "clusterIPs"]);
        }
    }
    if before.has_node_ports() && Service(new).has_node_ports() {
        keep_node_ports(new, before);
    }
    if before.needs_health_check() && Service(new).needs_health_check() && Service(new).health_check_port() == 0 {
        restore(new, old, &["spec", "healthCheckNodePort"]);
    }
    agree(new, old);
}

/// Ports without node ports get the ones that the ports of the same name had, unless others ask for these.
fn keep_node_ports(new: &mut Value, old: Service<'_>) {
    let asked: BTreeSet<i64> = Service(new).node_ports().into_iter().collect();
    let lacks = Service(new).ports().iter().any(|port| node_port(port) == 0);
    let Some(ports) = new.at_mut(&["spec", "ports"]).as_array_mut().filter(|_| lacks) else { return };
    let name = |port: &Value| port.str_at(&["name"]).unwrap_or_default().to_owned();
    // Of ports with one name the last counts.
    let by_name: HashMap<String, i64> = old.ports().iter().map(|port| (name(port), node_port(port))).collect();
    let had: BTreeSet<i64> = old.node_ports().into_iter().collect();
    for port in ports.iter_mut().filter(|port| node_port(port) == 0) {
        let before = by_name.get(&name(port)).copied().unwrap_or_default();
        if before != 0 && !(asked.contains(&before) && had.contains(&before)) {
            port.set(&["nodePort"], before);
        }
    }
}

/// The cluster IP and the list that begins with it agree, when a client changes only one of them.
fn agree(new: &mut Value, old: &Value) {
    let before = Service(old);
    if !before.cluster_ips().is_empty()
        && Service(new).cluster_ips().is_empty()
        && before.cluster_ip() == Service(new).cluster_ip()
    {
        restore(new, old, &["spec", "clusterIPs"]);
    }
    let service = Service(new);
    let is_only_half = service.cluster_ips().is_empty() || before.cluster_ips() == service.cluster_ips();
    if before.cluster_ip() == service.cluster_ip() || !is_only_half {
        return;
    }
    if service.cluster_ip().is_empty() {
        new.remove_at(&["spec", "clusterIPs"]);
    } else {
        let ip = service.cluster_ip().to_owned();
        new.set(&["spec", "clusterIPs"], super::families::list([ip.as_str()]));
    }
}

/// What a new type has no use for goes, if the client left it as it was.
pub(super) fn drop_by_type(new: &mut Value, old: &Value) {
    let before = Service(old);
    let same = |new: &Value, member: &str| {
        let (a, b) = (Service(new).spec(member), before.spec(member));
        a.unwrap_or(&Value::Null).semantic_eq(b.unwrap_or(&Value::Null))
    };
    if !before.is_external_name() && Service(new).is_external_name() {
        if same(new, "clusterIP") && same(new, "clusterIPs") {
            new.remove_at(&["spec", "clusterIP"]);
            new.remove_at(&["spec", "clusterIPs"]);
        }
        for member in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(new, member) {
                new.remove_at(&["spec", member]);
            }
        }
    }
    if before.has_node_ports() && !Service(new).has_node_ports() {
        let had: BTreeSet<i64> = before.node_ports().into_iter().collect();
        let now = Service(new).node_ports();
        if !now.is_empty() && now.iter().all(|port| had.contains(port)) {
            let ports = new.at_mut(&["spec", "ports"]).as_array_mut();
            ports.into_iter().flatten().for_each(|port| {
                port.remove_at(&["nodePort"]);
            });
        }
    }
    let gone = [
        ("healthCheckNodePort", before.needs_health_check() && !Service(new).needs_health_check()),
        ("allocateLoadBalancerNodePorts", before.is_balanced() && !Service(new).is_balanced()),
        ("loadBalancerClass", before.is_balanced() && !Service(new).is_balanced()),
        ("externalTrafficPolicy", before.is_externally_accessible() && !Service(new).is_externally_accessible()),
    ];
    for (member, applies_no_longer) in gone {
        if applies_no_longer && same(new, member) {
            new.remove_at(&["spec", member]);
        }
    }
    if !Service(new).is_balanced() && new.at(&["status", "loadBalancer"]) != Some(&object! {}) {
        new.set(&["status", "loadBalancer"], object! {});
    }
}
