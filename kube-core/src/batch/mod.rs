//! The group batch: pods that run to completion.

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::UnsupportedForKind};

use crate::{
    row::{GroupVersion, Row},
    strategy::Rules,
};

const V1: GroupVersion = GroupVersion("batch", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.namespaced("cronjobs", "CronJob", "sd5LIXh4Fjs=")
            .strategy(Rules::WORKLOAD)
            .short(&["cj"])
            .category("all")
            .status(),
        V1.namespaced("jobs", "Job", "mudhfqk/qZY=")
            .strategy(Rules { orphans: true, ..Rules::WORKLOAD })
            .category("all")
            .status()
            .fields(UnsupportedForKind, [Field::at("status.successful", &["status.succeeded"]).or("0")]),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
