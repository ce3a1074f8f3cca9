//! The group scheduling.k8s.io: how important pods are, and which are scheduled together.

mod groups;
mod validation;

use generic_server::resource::Resource;

use crate::{
    printer,
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("scheduling.k8s.io", "v1");
const V1ALPHA2: GroupVersion = GroupVersion("scheduling.k8s.io", "v1alpha2");

/// A class has a generation, and nothing of it that may change counts.
const RULES: Rules = Rules { refuse_delete, ..CLASSES };

const CLASSES: Rules = Rules::PLAIN
    .counts(&[])
    .defaults(|class| crate::defaults::pointer(class, "preemptionPolicy", "PreemptLowerPriority"))
    .validate(validation::class)
    .validate_update(validation::class_update);

fn refuse_delete(name: &str) -> Option<&'static str> {
    let of_the_system = matches!(name, "system-cluster-critical" | "system-node-critical");
    of_the_system.then_some("this is a system priority class and cannot be deleted")
}

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("priorityclasses", "PriorityClass", "1QwjyaZjj3Y=")
            .table(printer::PRIORITY_CLASSES)
            .strategy(RULES)
            .short(&["pc"]),
        V1ALPHA2
            .namespaced("podgroups", "PodGroup", "YYgX3v5V204=")
            .table(groups::GROUP_TABLE)
            .strategy(groups::GROUPS)
            .status()
            .gated("GenericWorkload"),
        V1ALPHA2
            .namespaced("workloads", "Workload", "vSX7gJe5Mx8=")
            .table(groups::WORKLOAD_TABLE)
            .strategy(groups::WORKLOADS)
            .gated("GenericWorkload"),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
