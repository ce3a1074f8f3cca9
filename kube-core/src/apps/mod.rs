//! The group apps: workloads that keep pods running.

pub(crate) mod printers;
mod validation;
mod workloads;

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("apps", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.namespaced("controllerrevisions", "ControllerRevision", "85nkx63pcBU=")
            .table(printers::CONTROLLER_REVISIONS)
            .strategy(workloads::CONTROLLER_REVISIONS),
        V1.namespaced("daemonsets", "DaemonSet", "dd7pWHUlMKQ=")
            .table(printers::DAEMON_SETS)
            .strategy(workloads::DAEMON_SETS)
            .short(&["ds"])
            .category("all")
            .status(),
        V1.namespaced("deployments", "Deployment", "8aSe+NMegvE=")
            .table(printers::DEPLOYMENTS)
            .strategy(workloads::DEPLOYMENTS)
            .short(&["deploy"])
            .category("all")
            .status()
            .scale("spec.selector"),
        V1.namespaced("replicasets", "ReplicaSet", "P1RzHs8/mWQ=")
            .table(printers::REPLICA_SETS)
            .strategy(workloads::REPLICA_SETS)
            .short(&["rs"])
            .category("all")
            .status()
            .scale("spec.selector"),
        V1.namespaced("statefulsets", "StatefulSet", "H+vl74LkKdo=")
            .table(printers::STATEFUL_SETS)
            .strategy(workloads::STATEFUL_SETS)
            .short(&["sts"])
            .category("all")
            .status()
            .scale("spec.selector"),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
