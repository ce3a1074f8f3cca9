//! A service, as far as endpoints depend on it.

use machinery::{
    Map, Value,
    meta::{
        Meta, Timestamp,
        ip::{self, Family},
    },
};

use super::{items, text, trigger_time};

/// A service.
pub(super) struct Service(pub(super) Value);

impl Service {
    pub(super) fn meta(&self) -> Meta<'_> {
        Meta::of(&self.0)
    }

    /// The labels that its pods have; none if it selects none. An empty selector is none, as in the protobuf that
    /// kube-controller-manager reads.
    pub(super) fn selector(&self) -> Option<&Map> {
        selector(&self.0)
    }

    /// Whether this server's controllers make its endpoints.
    pub(super) fn is_served(&self) -> bool {
        text(&self.0, &["spec", "type"]) != "ExternalName" && self.selector().is_some()
    }

    pub(super) fn publishes_not_ready(&self) -> bool {
        self.0.at(&["spec", "publishNotReadyAddresses"]).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn cluster_ip(&self) -> &str {
        text(&self.0, &["spec", "clusterIP"])
    }

    /// Whether it is without an address on purpose.
    pub(super) fn is_headless(&self) -> bool {
        self.cluster_ip() == "None"
    }

    /// Whether it has an address.
    pub(super) fn has_ip(&self) -> bool {
        !matches!(self.cluster_ip(), "" | "None")
    }

    pub(super) fn ports(&self) -> &[Value] {
        items(&self.0, &["spec", "ports"])
    }

    /// The families of its addresses, the first one first; none if that is not said.
    pub(super) fn families(&self) -> Vec<Family> {
        let family = |text: &Value| match text.as_str() {
            Some("IPv4") => Some(Family::V4),
            Some("IPv6") => Some(Family::V6),
            _ => None,
        };
        items(&self.0, &["spec", "ipFamilies"]).iter().filter_map(family).collect()
    }

    /// The family of its address.
    pub(super) fn family_of_ip(&self) -> Option<Family> {
        ip::parse_sloppy(self.cluster_ip()).map(ip::family)
    }

    pub(super) fn made_at(&self) -> Option<Timestamp> {
        self.meta().creation_timestamp().and_then(trigger_time::parse)
    }
}

/// The labels that a service selects pods by.
pub(super) fn selector(service: &Value) -> Option<&Map> {
    service.at(&["spec", "selector"]).and_then(Value::as_object).filter(|selector| !selector.is_empty())
}
