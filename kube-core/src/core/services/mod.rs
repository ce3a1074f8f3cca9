//! Services and endpoints.

mod endpoints;
mod families;
mod linked;
mod reserve;
mod validation;
mod warnings;

use generic_server::resource::WriteContext;
use machinery::{Value, meta::names, object};

pub(crate) use reserve::Pools;
pub(crate) use warnings::balancer_warnings;

use crate::{
    defaults::{each, is_empty, part, pointer, text, within},
    strategy::Rules,
};

/// The rules of services.
pub(super) const SERVICES: Rules =
    STRICTLY_NAMED.names(names::name_is_dns_label).unless("RelaxedServiceNameValidation", &STRICTLY_NAMED);

/// Those of services whose names are DNS labels as they once were.
const STRICTLY_NAMED: Rules = Rules {
    defaults: service,
    update,
    validate: validation::create,
    validate_update: Some(validation::update),
    validate_status: validation::status,
    warn: warnings::warnings,
    warn_status: balancer_warnings,
    ..Rules::STATUS.create_on_update().returns_deleted().names(names::name_is_dns1035_label)
};

/// The rules of endpoints.
pub(super) const ENDPOINTS: Rules = Rules::PLAIN
    .create_on_update()
    .defaults(endpoint_defaults)
    .validate(endpoints::create)
    .validate_update(endpoints::update)
    .warn(endpoints::warnings);

/// Three hours, in which a client stays with a pod.
const AFFINITY_SECONDS: i64 = 3 * 60 * 60;

fn service(service: &mut Value) {
    within(service, "spec", |spec| {
        text(spec, "sessionAffinity", "None");
        match spec.str_at(&["sessionAffinity"]) {
            Some("None") => {
                spec.make_object().remove("sessionAffinityConfig");
            }
            Some("ClientIP") => {
                let config = part(spec, "sessionAffinityConfig");
                pointer(part(config, "clientIP"), "timeoutSeconds", AFFINITY_SECONDS);
            }
            _ => {}
        }
        text(spec, "type", "ClusterIP");
        each(spec, "ports", port);
        let kind = spec.str_at(&["type"]).unwrap_or_default();
        let (ports, balanced) = (matches!(kind, "NodePort" | "LoadBalancer"), kind == "LoadBalancer");
        let reachable = ports || (kind == "ClusterIP" && !is_empty(spec.get("externalIPs")));
        let internal = ports || kind == "ClusterIP";
        if reachable {
            text(spec, "externalTrafficPolicy", "Cluster");
        }
        if internal {
            pointer(spec, "internalTrafficPolicy", "Cluster");
        }
        if balanced {
            pointer(spec, "allocateLoadBalancerNodePorts", true);
        }
    });
    if service.str_at(&["spec", "type"]) == Some("LoadBalancer") {
        within(service, "status", |status| {
            within(status, "loadBalancer", |balancer| {
                each(balancer, "ingress", |ingress| {
                    if !is_empty(ingress.get("ip")) {
                        pointer(ingress, "ipMode", "VIP");
                    }
                });
            });
        });
    }
    pointer(part(service, "status"), "loadBalancer", object! {});
}

fn update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    linked::drop_by_type(new, old);
}

/// Traffic goes to the port of the same number, unless told otherwise.
fn port(port: &mut Value) {
    text(port, "protocol", "TCP");
    let target = port.get("targetPort");
    let unset = target.is_none_or(|t| t.is_null() || t.as_i64() == Some(0) || t.as_str() == Some(""));
    if unset && let Some(number) = port.get("port").cloned() {
        port.set(&["targetPort"], number);
    }
}

fn endpoint_defaults(endpoints: &mut Value) {
    each(endpoints, "subsets", |subset| each(subset, "ports", |port| text(port, "protocol", "TCP")));
}
