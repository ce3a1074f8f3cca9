//! Validates v1 Services.

use std::collections::HashSet;

use machinery::{
    Value,
    meta::{
        FieldError,
        ip::{self, Family, parse_sloppy},
        names,
        selector::validate_labels,
    },
};

use generic_server::resource::WriteContext;

use crate::service_network::service::{NONE, Service, family_name, family_of};
use crate::validation::{Errors, Field, Seen};

pub(super) const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
pub(super) const MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const NOT_FOR_EXTERNAL: &str = "may not be set for ExternalName services";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const UNCHANGED: &str = "may not change once set";
/// Where kubelets listen.
const KUBELET_PORT: i64 = 10250;
/// Seconds that a client may stay with a pod.
const MOST_AFFINITY_SECONDS: i64 = 86400;

/// What is wrong with a new service.
pub(super) fn create(_cx: &WriteContext<'_>, service: &Field<'_>, errors: &mut Errors) {
    whole(service, None, errors);
}

/// What is wrong with an update.
pub(super) fn update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    changed_addresses(new, old, errors);
    changed_families(new, old, errors);
    balancer_class(new, Some(old), errors);
    if Service(old.value()).needs_health_check() && Service(new.value()).needs_health_check() {
        let (port, before) = (Service(new.value()).health_check_port(), Service(old.value()).health_check_port());
        if port != before {
            new.at("spec").at("healthCheckNodePort").forbidden("field is immutable", errors);
        }
    }
    whole(new, Some(old), errors);
}

/// What is wrong with an update of the status.
pub(super) fn status(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (status, before) = (new.at("status"), old.at("status"));
    balancer_status(&status.at("loadBalancer"), &before.at("loadBalancer"), new.value(), errors);
}

fn whole(service: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let view = Service(service.value());
    topology(service, errors);
    let spec = service.at("spec");
    if view.ports().is_empty() && !view.is_headless() && !view.is_external_name() {
        spec.at("ports").required("", errors);
    }
    by_type(&spec, view, errors);
    ports(&spec.at("ports"), errors);
    if let Some(selector) = spec.at("selector").value().as_object() {
        errors.extend(validate_labels(selector, spec.at("selector").path()));
    }
    affinity(&spec, errors);
    cluster_ips(service, old, errors);
    let old_spec = old.map(|old| old.at("spec"));
    let before = |member: &'static str| -> Vec<String> {
        old_spec.as_ref().map(|old| old.at(member).texts().into_iter().map(str::to_owned).collect()).unwrap_or_default()
    };
    let old_ips = before("externalIPs");
    let old_ips: HashSet<&str> = old_ips.iter().map(String::as_str).collect();
    spec.at("externalIPs").each(|ip| {
        if ip.address_or_old(&old_ips, errors) {
            ip.check(ip::non_special_ip, errors);
        }
    });
    spec.at("type").required_one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], errors);
    node_ports(&spec.at("ports"), view, errors);
    repeated_ports(&spec.at("ports"), errors);
    source_ranges(service, view, &before("loadBalancerSourceRanges"), errors);
    let allocate = spec.at("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !view.is_balanced() {
        allocate.forbidden(ONLY_BALANCED, errors);
    }
    if !allocate.is_set() && view.is_balanced() {
        errors.push(FieldError::required("allocateLoadBalancerNodePorts", ""));
    }
    balancer_class(service, None, errors);
    external_traffic(&spec, view, errors);
    internal_traffic(&spec, view, errors);
    let distribution = spec.at("trafficDistribution");
    if distribution.is_set() {
        distribution.one_of(&["PreferClose", "PreferSameZone", "PreferSameNode"], errors);
    }
}

/// Two names of one annotation say the same.
fn topology(service: &Field<'_>, errors: &mut Errors) {
    let metadata = service.at("metadata");
    let annotations = metadata.at("annotations");
    let (hints, mode) = (annotations.key(HINTS), annotations.key(MODE));
    if hints.is_set() && mode.is_set() && hints.text() != mode.text() {
        mode.invalid(format!("must match annotations[{HINTS}] when both are specified"), errors);
    }
}

fn by_type(spec: &Field<'_>, service: Service<'_>, errors: &mut Errors) {
    let ips = spec.at("clusterIPs");
    if service.is_balanced() {
        spec.at("ports").each(|port| {
            if port.at("port").int() == Some(KUBELET_PORT) {
                let detail = format!("may not expose port {KUBELET_PORT} externally since it is used by kubelet");
                port.invalid_as(KUBELET_PORT, detail, errors);
            }
        });
    }
    match service.kind() {
        kind @ ("LoadBalancer" | "NodePort") if service.is_headless() => {
            ips.index(0).invalid(format!("may not be set to 'None' for {kind} services"), errors);
        }
        "ExternalName" => {
            for member in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.at(member);
                if !field.is_empty() {
                    field.forbidden(NOT_FOR_EXTERNAL, errors);
                }
            }
            let name = spec.at("externalName");
            let text = name.text().strip_suffix('.').unwrap_or(name.text());
            if text.is_empty() {
                name.required("", errors);
            }
            for message in if text.is_empty() { Vec::new() } else { names::dns1123_subdomain(text) } {
                name.invalid_as(text, message, errors);
            }
        }
        _ => {}
    }
}

fn ports(ports: &Field<'_>, errors: &mut Errors) {
    let several = ports.len() > 1;
    let mut seen = Seen::default();
    ports.each_item(|port, value| {
        let name = port.at("name");
        if several && name.is_empty() {
            name.required("", errors);
        } else if !name.is_empty() {
            name.check(names::dns1123_label, errors);
            if !seen.insert(value.str_at(&["name"])) {
                name.duplicate(errors);
            }
        }
        let number = port.at("port");
        for message in names::port_number(number.int_or_zero()) {
            number.invalid_as(number.int_or_zero(), message, errors);
        }
        port.at("protocol").required_one_of(&["SCTP", "TCP", "UDP"], errors);
        port_or_name(&port.at("targetPort"), errors);
        let protocol = port.at("appProtocol");
        if protocol.is_set() {
            protocol.check(names::qualified_name, errors);
        }
    });
}

/// The number or the name of a port.
fn port_or_name(port: &Field<'_>, errors: &mut Errors) {
    if port.value().as_str().is_some() {
        port.check(names::port_name, errors);
    } else {
        for message in names::port_number(port.int_or_zero()) {
            port.invalid_as(port.int_or_zero(), message, errors);
        }
    }
}

fn affinity(spec: &Field<'_>, errors: &mut Errors) {
    let affinity = spec.at("sessionAffinity");
    affinity.required_one_of(&["ClientIP", "None"], errors);
    let config = spec.at("sessionAffinityConfig");
    match affinity.text() {
        "ClientIP" => {
            let client = config.at("clientIP");
            let seconds = client.at("timeoutSeconds");
            match [&config, &client, &seconds].into_iter().find(|field| !field.is_set()) {
                Some(missing) => missing.required("when session affinity type is ClientIP", errors),
                None if (1..=MOST_AFFINITY_SECONDS).contains(&seconds.int_or_zero()) => {}
                None => {
                    seconds.invalid(format!("must be greater than 0 and less than {MOST_AFFINITY_SECONDS}"), errors)
                }
            }
        }
        "None" if config.is_set() => config.forbidden("must not be set when session affinity is None", errors),
        _ => {}
    }
}

/// Cluster IPs and the families and policy that go with them. The rest is checked where families are filled in.
pub(super) fn cluster_ips(service: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let view = Service(service.value());
    if view.is_external_name() {
        return;
    }
    let spec = service.at("spec");
    let ips = spec.at("clusterIPs");
    match (view.cluster_ip(), view.cluster_ips().first()) {
        ("", Some(_)) => ips.invalid("must be empty when `clusterIP` is not specified", errors),
        ("", None) => {}
        (_, None) => ips.required("", errors),
        (one, Some(first)) if one != *first => ips.invalid("first value must match `clusterIP`", errors),
        _ => {}
    }
    let mut seen = Seen::default();
    spec.at("ipFamilies").each_item(|family, value| {
        family.one_of(&["IPv4", "IPv6"], errors);
        if !seen.insert(value.as_str().unwrap_or_default()) {
            family.duplicate(errors);
        }
    });
    let policy = spec.at("ipFamilyPolicy");
    if policy.is_set() {
        policy.one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"], errors);
    }
    if !well_formed(&ips, old, errors) {
        return;
    }
    let texts = view.cluster_ips();
    if texts.len() > 1 && !is_dual(&texts) {
        ips.invalid("may specify no more than one IP for each IP family", errors);
    }
    if view.is_headless() {
        return;
    }
    for (i, (ip, family)) in texts.iter().zip(view.families()).enumerate() {
        let wanted = if family == "IPv6" { Family::V6 } else { Family::V4 };
        let is_six = family_of(ip) == Some(Family::V6);
        if matches!(family, "IPv4" | "IPv6") && is_six != (wanted == Family::V6) {
            let name = family_name(wanted);
            ips.index(i).invalid(format!("expected an {name} value as indicated by `ipFamilies[{i}]`"), errors);
        }
    }
}

/// Each cluster IP for itself. Answers whether all are addresses.
fn well_formed(ips: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) -> bool {
    let old_ips: HashSet<&str> =
        old.map(|old| Service(old.value()).cluster_ips()).unwrap_or_default().into_iter().collect();
    let mut fine = true;
    for i in 0..ips.len() {
        let ip = ips.index(i);
        if i == 0 && ip.text() == NONE {
            if ips.len() > 1 {
                fine = false;
                ips.invalid("'None' must be the first and only value", errors);
            }
        } else if !ip.address_or_old(&old_ips, errors) {
            fine = false;
        }
    }
    if ips.len() > 2 {
        ips.invalid("may only hold up to 2 values", errors);
    }
    fine
}

fn is_dual(ips: &[&str]) -> bool {
    let has = |family| ips.iter().any(|ip| family_of(ip) == Some(family));
    has(Family::V4) && has(Family::V6)
}

fn node_ports(ports: &Field<'_>, service: Service<'_>, errors: &mut Errors) {
    if service.kind() == "ClusterIP" {
        ports.each(|port| {
            let node_port = port.at("nodePort");
            if node_port.int_or_zero() != 0 {
                node_port.forbidden("may not be used when `type` is 'ClusterIP'", errors);
            }
        });
    }
    let mut seen = Seen::default();
    ports.each_item(|port, value| {
        let node_port = port.at("nodePort");
        let key = (value.str_at(&["protocol"]).unwrap_or_default(), node_port.int_or_zero());
        if key.1 != 0 && !seen.insert(key) {
            node_port.duplicate(errors);
        }
    });
}

/// Ports are unique by protocol and number. The error shows these two among the members of a whole port.
fn repeated_ports(ports: &Field<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    ports.each_item(|port, value| {
        let key = (value.str_at(&["protocol"]).unwrap_or_default(), port.at("port").int_or_zero());
        if !seen.insert(key) {
            let (protocol, number) = key;
            let shown = machinery::meta::BadValue::verbatim(format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                machinery::meta::go_text::quote(protocol),
            ));
            errors.push(FieldError::duplicate(port, shown));
        }
    });
}

fn source_ranges(service: &Field<'_>, view: Service<'_>, old: &[String], errors: &mut Errors) {
    let spec = service.at("spec");
    let ranges = spec.at("loadBalancerSourceRanges");
    let old: HashSet<&str> = old.iter().map(String::as_str).collect();
    if !ranges.is_empty() {
        // Upstream's path has the member's name in Go.
        let shown = spec.at("LoadBalancerSourceRanges");
        let shown = shown.with(ranges.value());
        if !view.is_balanced() {
            shown.forbidden(ONLY_BALANCED, errors);
        }
        shown.each(|range| range.network_or_old(&old, errors));
        return;
    }
    let metadata = service.at("metadata");
    let annotations = metadata.at("annotations");
    let annotation = annotations.key(SOURCE_RANGES);
    if !annotation.is_set() {
        return;
    }
    if !view.is_balanced() {
        annotation.forbidden(ONLY_BALANCED, errors);
    }
    for range in annotation.text().trim().split(',').filter(|_| !annotation.text().trim().is_empty()) {
        annotation.with(&Value::from(range)).network_or_old(&HashSet::new(), errors);
    }
}

fn balancer_class(service: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let view = Service(service.value());
    let spec = service.at("spec");
    let class = spec.at("loadBalancerClass");
    if let Some(old) = old
        && Service(old.value()).is_balanced()
        && view.is_balanced()
        && old.at("spec").at("loadBalancerClass").value() != class.value()
    {
        class.invalid(UNCHANGED, errors);
    }
    if class.is_set() {
        if view.is_balanced() {
            class.check(names::qualified_name, errors);
        } else {
            class.forbidden(ONLY_BALANCED, errors);
        }
    }
}

fn external_traffic(spec: &Field<'_>, service: Service<'_>, errors: &mut Errors) {
    let policy = spec.at("externalTrafficPolicy");
    if service.is_externally_accessible() {
        policy.required_one_of(&["Cluster", "Local"], errors);
    } else if !policy.is_empty() {
        policy.invalid("may only be set for externally-accessible services", errors);
    }
    let port = spec.at("healthCheckNodePort");
    if service.needs_health_check() {
        if port.int_or_zero() == 0 {
            port.required("", errors);
        } else {
            for message in names::port_number(port.int_or_zero()) {
                port.invalid(message, errors);
            }
        }
    } else if port.int_or_zero() != 0 {
        port.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'", errors);
    }
}

fn internal_traffic(spec: &Field<'_>, service: Service<'_>, errors: &mut Errors) {
    let policy = spec.at("internalTrafficPolicy");
    if policy.is_set() {
        policy.one_of(&["Cluster", "Local"], errors);
    } else if matches!(service.kind(), "NodePort" | "LoadBalancer" | "ClusterIP") {
        policy.required("", errors);
    }
}

/// The policy must say that a second address or family is given up.
fn must_be_single(spec: &Field<'_>, what: &str, errors: &mut Errors) {
    let policy = spec.at("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        policy.invalid(format!("must be set to 'SingleStack' when releasing the secondary {what}"), errors);
    }
}

fn changed_addresses(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (service, before) = (Service(new.value()), Service(old.value()));
    if service.is_external_name() || before.is_external_name() || (service.is_headless() && before.is_headless()) {
        return;
    }
    let spec = new.at("spec");
    let ips = spec.at("clusterIPs");
    let (now, then) = (service.cluster_ips(), before.cluster_ips());
    let changed = |i: usize, errors: &mut Errors| ips.index(i).invalid_as(ips.value(), UNCHANGED, errors);
    if now.len() == then.len() {
        (0..now.len()).filter(|i| now[*i] != then[*i]).for_each(|i| changed(i, errors));
        return;
    }
    if now.is_empty() {
        ips.index(0).invalid_as(ips.value(), "primary clusterIP can not be unset", errors);
    }
    if !now.is_empty() && !then.is_empty() && now[0] != then[0] {
        changed(0, errors);
    }
    if now.len() < then.len() && now.len() == 1 {
        must_be_single(&spec, "clusterIP", errors);
    }
}

fn changed_families(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (service, before) = (Service(new.value()), Service(old.value()));
    if service.is_external_name() || before.is_external_name() || service.is_headless() || before.is_headless() {
        return;
    }
    let spec = new.at("spec");
    let families = spec.at("ipFamilies");
    let first = families.index(0);
    let (now, then) = (service.families(), before.families());
    if now.len() == then.len() {
        for _ in (0..now.len()).filter(|i| now[*i] != then[*i]) {
            first.invalid_as(families.value(), UNCHANGED, errors);
        }
        return;
    }
    if now.len() < then.len() && service.cluster_ips().is_empty() {
        first.invalid_as(families.value(), "primary ipFamily can not be unset", errors);
    }
    if !now.is_empty() && !then.is_empty() && now[0] != then[0] {
        first.invalid_as(spec.at("clusterIPs").value(), UNCHANGED, errors);
    }
    if now.len() < then.len() && now.len() == 1 {
        must_be_single(&spec, "ipFamily", errors);
    }
}

/// What a balancer says of itself.
fn balancer_status(status: &Field<'_>, old: &Field<'_>, service: &Value, errors: &mut Errors) {
    let ingress = status.at("ingress");
    if !Service(service).is_balanced() && !ingress.is_empty() {
        ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'", errors);
        return;
    }
    let old_ingress = old.at("ingress");
    let old_ips: HashSet<&str> = old_ingress.items().iter().filter_map(|i| i.str_at(&["ip"])).collect();
    ingress.each(|point| {
        let (ip, mode, host) = (point.at("ip"), point.at("ipMode"), point.at("hostname"));
        if !ip.is_empty() {
            ip.address_or_old(&old_ips, errors);
        }
        if !mode.is_set() {
            if !ip.is_empty() {
                mode.required("must be specified when `ip` is set", errors);
            }
        } else if ip.is_empty() {
            mode.forbidden("may not be specified when `ip` is not set", errors);
        } else {
            mode.one_of(&["Proxy", "VIP"], errors);
        }
        if !host.is_empty() {
            host.check(names::dns1123_subdomain, errors);
            if parse_sloppy(host.text()).is_some() {
                host.invalid("must be a DNS name, not an IP address", errors);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn the_port_of_kubelets_stays_inside() {
        let check = |kind: &str, expect: &[&str]| {
            let ports = array![object! { "port" => KUBELET_PORT }];
            let service = object! { "spec" => object! { "type" => kind, "ports" => ports } };
            let (root, mut errors) = (Field::root(&service), Errors::default());
            by_type(&root.at("spec"), Service(&service), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{kind}");
        };
        check("NodePort", &[]);
        let refused =
            "spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet";
        check("LoadBalancer", &[refused]);
    }
}
