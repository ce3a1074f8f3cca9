//! What a service says, by name.

use std::{collections::BTreeSet, net::IpAddr};

use machinery::{
    Value,
    meta::ip::{Family, family, parse_sloppy},
};

/// A service in the storage version, defaulted.
#[derive(Clone, Copy)]
pub(crate) struct Service<'a>(pub(crate) &'a Value);

/// The cluster IP of a service that wants none.
pub(crate) const NONE: &str = "None";

impl<'a> Service<'a> {
    pub(crate) fn spec(self, member: &str) -> Option<&'a Value> {
        self.0.at(&["spec", member]).filter(|v| !v.is_null())
    }

    pub(crate) fn text(self, member: &str) -> &'a str {
        self.spec(member).and_then(Value::as_str).unwrap_or_default()
    }

    fn texts(self, member: &str) -> Vec<&'a str> {
        let items = self.spec(member).and_then(Value::as_array).unwrap_or_default();
        items.iter().filter_map(Value::as_str).collect()
    }

    /// `type`.
    pub(crate) fn kind(self) -> &'a str {
        self.text("type")
    }

    pub(crate) fn cluster_ip(self) -> &'a str {
        self.text("clusterIP")
    }

    pub(crate) fn cluster_ips(self) -> Vec<&'a str> {
        self.texts("clusterIPs")
    }

    pub(crate) fn families(self) -> Vec<&'a str> {
        self.texts("ipFamilies")
    }

    /// `ipFamilyPolicy`, if it is set.
    pub(crate) fn policy(self) -> Option<&'a str> {
        self.spec("ipFamilyPolicy").and_then(Value::as_str)
    }

    pub(crate) fn ports(self) -> &'a [Value] {
        self.spec("ports").and_then(Value::as_array).unwrap_or_default()
    }

    pub(crate) fn has_selector(self) -> bool {
        self.spec("selector").and_then(Value::as_object).is_some_and(|s| !s.is_empty())
    }

    /// The node port that is asked for health; zero if there is none.
    pub(crate) fn health_check_port(self) -> i64 {
        self.spec("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0)
    }

    /// The node ports of its ports, in order, without those that have none.
    pub(crate) fn node_ports(self) -> Vec<i64> {
        self.ports().iter().map(node_port).filter(|port| *port != 0).collect()
    }

    pub(crate) fn is_headless(self) -> bool {
        self.cluster_ips() == [NONE]
    }

    pub(crate) fn is_external_name(self) -> bool {
        self.kind() == "ExternalName"
    }

    pub(crate) fn is_balanced(self) -> bool {
        self.kind() == "LoadBalancer"
    }

    /// Whether its type comes with node ports.
    pub(crate) fn has_node_ports(self) -> bool {
        matches!(self.kind(), "NodePort" | "LoadBalancer")
    }

    /// Whether ports that ask for none get node ports.
    pub(crate) fn wants_node_ports(self) -> bool {
        match self.kind() {
            "NodePort" => true,
            "LoadBalancer" => self.spec("allocateLoadBalancerNodePorts").and_then(Value::as_bool).unwrap_or(true),
            _ => false,
        }
    }

    /// Whether balancers ask nodes if they have its pods.
    pub(crate) fn needs_health_check(self) -> bool {
        self.is_balanced() && self.text("externalTrafficPolicy") == "Local"
    }

    /// Whether it can be reached from outside.
    pub(crate) fn is_externally_accessible(self) -> bool {
        let by_address = self.kind() == "ClusterIP"
            && self.spec("externalIPs").and_then(Value::as_array).is_some_and(|ips| !ips.is_empty());
        self.has_node_ports() || by_address
    }

    /// The addresses that it holds.
    pub(crate) fn addresses(self) -> impl Iterator<Item = IpAddr> + 'a {
        let ips = if self.is_external_name() || self.is_headless() { Vec::new() } else { self.cluster_ips() };
        ips.into_iter().filter_map(parse_sloppy)
    }

    /// The ports of nodes that it holds.
    pub(crate) fn held_ports(self) -> BTreeSet<i64> {
        let mut ports: BTreeSet<i64> = self.node_ports().into_iter().collect();
        if self.needs_health_check() && self.health_check_port() > 0 {
            ports.insert(self.health_check_port());
        }
        ports
    }
}

/// The node port of a service's port; zero if it has none.
pub(crate) fn node_port(port: &Value) -> i64 {
    port.get("nodePort").and_then(Value::as_i64).unwrap_or(0)
}

/// A family as services name it.
pub(crate) fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// The family that services call so.
pub(crate) fn family_called(name: &str) -> Option<Family> {
    match name {
        "IPv4" => Some(Family::V4),
        "IPv6" => Some(Family::V6),
        _ => None,
    }
}

/// The family of an address in text.
pub(crate) fn family_of(ip: &str) -> Option<Family> {
    parse_sloppy(ip).map(family)
}
