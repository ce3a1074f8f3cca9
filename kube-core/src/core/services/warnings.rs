//! Warnings about v1 Services.

use machinery::{Value, meta::ip, object};

use super::validation::{HINTS, MODE};
use crate::service_network::service::{NONE, Service};

/// Warnings for whoever says where a balancer is.
pub(crate) fn balancer_warnings(object: &Value) -> Vec<String> {
    let points = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array).unwrap_or_default();
    let warning = |(i, point): (usize, &Value)| {
        ip::ip_warning(format!("status.loadBalancer.ingress[{i}]"), point.str_at(&["ip"])?)
    };
    points.iter().enumerate().filter_map(warning).collect()
}

/// Warnings for the author of a service.
pub(super) fn warnings(service: &Value, _old: Option<&Value>) -> Vec<String> {
    let view = Service(service);
    let mut out = Vec::new();
    let annotations = service.at(&["metadata", "annotations"]).cloned().unwrap_or_else(|| object! {});
    if annotations.get(HINTS).is_some() {
        out.push(format!("annotation {HINTS} is deprecated, please use {MODE} instead"));
    }
    if !view.is_headless() {
        let ips = view.cluster_ips().into_iter().enumerate();
        out.extend(ips.filter_map(|(i, ip)| ip::ip_warning(format!("spec.clusterIPs[{i}]"), ip)));
    }
    let list = |member| view.spec(member).and_then(Value::as_array).unwrap_or_default();
    let external = list("externalIPs");
    if view.kind() == "ClusterIP" && view.cluster_ip() == NONE {
        let ignored = [
            ("loadBalancerIP", !view.text("loadBalancerIP").is_empty()),
            ("externalIPs", !external.is_empty()),
            ("SessionAffinity", view.text("sessionAffinity") != "None"),
        ];
        let ignored = ignored.iter().filter(|(_, set)| *set);
        out.extend(ignored.map(|(member, _)| format!("spec.{member} is ignored for headless services")));
    }
    for (i, ip) in external.iter().filter_map(Value::as_str).enumerate() {
        out.extend(ip::ip_warning(format!("spec.externalIPs[{i}]"), ip));
    }
    if !external.is_empty() && !view.is_external_name() && view.cluster_ip() != NONE {
        out.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !view.text("loadBalancerIP").is_empty() {
        out.extend(ip::ip_warning("spec.loadBalancerIP", view.text("loadBalancerIP")));
    }
    for (i, range) in list("loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate() {
        out.extend(ip::cidr_warnings(format!("spec.loadBalancerSourceRanges[{i}]"), range));
    }
    if view.is_external_name() && !external.is_empty() {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !view.is_external_name() && !view.text("externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if view.text("trafficDistribution") == "PreferClose" {
        out.push(r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#.to_owned());
    }
    out
}
