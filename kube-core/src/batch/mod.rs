//! The group batch: pods that run to completion.

mod failure_policy;
mod indexes;
mod jobs;
mod printers;
mod schedule;
mod status;
mod validation;

use generic_server::resource::{Resource, SelectableField as Field, UnknownField::UnsupportedForKind};

use crate::row::{GroupVersion, Row};

const V1: GroupVersion = GroupVersion("batch", "v1");

/// The group's rows.
pub(crate) fn resources() -> Vec<Resource> {
    [
        V1.namespaced("cronjobs", "CronJob", "sd5LIXh4Fjs=")
            .table(printers::CRON_JOBS)
            .strategy(jobs::CRON_JOBS)
            .short(&["cj"])
            .category("all")
            .status(),
        V1.namespaced("jobs", "Job", "mudhfqk/qZY=")
            .table(printers::JOBS)
            .strategy(jobs::JOBS)
            .category("all")
            .status()
            .fields(UnsupportedForKind, [Field::at("status.successful", &["status.succeeded"]).or("0")]),
    ]
    .into_iter()
    .map(Row::build)
    .collect()
}
