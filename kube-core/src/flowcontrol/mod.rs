//! The group flowcontrol.apiserver.k8s.io: how many requests of whom at once.

mod levels;
mod mandatory;
mod printers;
mod rules;
mod validation;

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("flowcontrol.apiserver.k8s.io", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.cluster("flowschemas", "FlowSchema", "GJVAJZSZBIw=")
            .table(printers::FLOW_SCHEMAS)
            .strategy(rules::FLOW_SCHEMAS)
            .status(),
        V1.cluster("prioritylevelconfigurations", "PriorityLevelConfiguration", "Kir5PVfvNeI=")
            .table(printers::PRIORITY_LEVELS)
            .strategy(rules::PRIORITY_LEVELS)
            .status(),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
