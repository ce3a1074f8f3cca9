//! The group batch: pods that run to completion.

mod jobs;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::UnsupportedForKind};

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("batch", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.namespaced("cronjobs", "CronJob", "sd5LIXh4Fjs=")
            .strategy(jobs::CRON_JOBS)
            .short(&["cj"])
            .category("all")
            .status(),
        V1.namespaced("jobs", "Job", "mudhfqk/qZY=")
            .strategy(jobs::JOBS)
            .category("all")
            .status()
            .fields(UnsupportedForKind, [Field::at("status.successful", &["status.succeeded"]).or("0")]),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
