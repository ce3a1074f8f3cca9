//! The group apps: workloads that keep pods running.

use generic_server::resource::Resource;
use machinery::meta::names;

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("apps", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.namespaced("controllerrevisions", "ControllerRevision", "85nkx63pcBU="),
        V1.namespaced("daemonsets", "DaemonSet", "dd7pWHUlMKQ=")
            .strategy(Rules::WORKLOAD)
            .short(&["ds"])
            .category("all")
            .status(),
        V1.namespaced("deployments", "Deployment", "8aSe+NMegvE=")
            .strategy(Rules::WORKLOAD)
            .short(&["deploy"])
            .category("all")
            .status()
            .scale("spec.selector"),
        V1.namespaced("replicasets", "ReplicaSet", "P1RzHs8/mWQ=")
            .strategy(Rules::WORKLOAD)
            .short(&["rs"])
            .category("all")
            .status()
            .scale("spec.selector"),
        V1.namespaced("statefulsets", "StatefulSet", "H+vl74LkKdo=")
            .strategy(Rules::WORKLOAD.names(names::name_is_dns_label))
            .short(&["sts"])
            .category("all")
            .status()
            .scale("spec.selector"),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
