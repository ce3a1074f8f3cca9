//! The group networking.k8s.io: ingresses, policies and the address ranges of services.

mod ingress_validation;
mod printers;
mod rules;
mod validation;

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("networking.k8s.io", "v1");
const V1BETA1: GroupVersion = GroupVersion("networking.k8s.io", "v1beta1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("ingressclasses", "IngressClass", "l/iqIbDgFyQ=")
            .table(printers::INGRESS_CLASSES)
            .strategy(rules::INGRESS_CLASSES),
        V1.namespaced("ingresses", "Ingress", "39NQlfNR+bo=")
            .table(printers::INGRESSES)
            .strategy(rules::INGRESSES)
            .short(&["ing"])
            .path("ingress")
            .status(),
        addresses(V1),
        V1.namespaced("networkpolicies", "NetworkPolicy", "YpfwF18m1G8=")
            .table(printers::NETWORK_POLICIES)
            .strategy(rules::NETWORK_POLICIES)
            .short(&["netpol"]),
        ranges(V1),
        addresses(V1BETA1).renamed_from(V1).deprecated_since(34, None),
        ranges(V1BETA1).renamed_from(V1).deprecated_since(34, None),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}

fn addresses(version: GroupVersion) -> Row {
    version
        .cluster("ipaddresses", "IPAddress", "3f/plJFChNE=")
        .table(printers::IP_ADDRESSES)
        .strategy(rules::IP_ADDRESSES)
        .short(&["ip"])
}

fn ranges(version: GroupVersion) -> Row {
    version
        .cluster("servicecidrs", "ServiceCIDR", "gNLvruQhW2g=")
        .table(printers::SERVICE_CIDRS)
        .strategy(rules::SERVICE_CIDRS)
        .status()
}
