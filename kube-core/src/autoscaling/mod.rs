//! The group autoscaling: v2, which is stored, and v1, which keeps in annotations what it has no fields for.

mod annotations;
mod conversion;
mod defaults;
mod metrics;
mod printer;
mod validation;

use generic_server::resource::Resource;

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("autoscaling", "v1");
const V2: GroupVersion = GroupVersion("autoscaling", "v2");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [autoscalers(V2), autoscalers(V1).stored_as(V2, conversion::V1).table(printer::TABLE_V1)]
        .into_iter()
        .map(Row::build)
        .collect()
}

fn autoscalers(version: GroupVersion) -> Row {
    version
        .namespaced("horizontalpodautoscalers", "HorizontalPodAutoscaler", "qwQve8ut294=")
        .short(&["hpa"])
        .category("all")
        .strategy(defaults::RULES)
        .table(printer::TABLE)
        .status()
}
