//! Table columns of jobs.

use machinery::Value;

use crate::apps::printers::{IMAGES, NAMES};
use crate::core::printers::selected;
use generic_server::printer::{
    AGE, Doc, NAME, NONE, Table, UNSET, age, boolean, containers, holds, human, int, integer, is_deleting, items, name,
    seconds, selector, since, text, text_at, text_or,
};

/// Jobs.
pub(super) const JOBS: Table = Table::new(
    &[
        NAME,
        text("Status", Doc::Text("Status of the job.")),
        text("Completions", Doc::Of("batch.v1.JobStatus", "succeeded")),
        text("Duration", Doc::Text("Time required to complete the job.")),
        AGE,
        NAMES,
        IMAGES,
        text("Selector", Doc::Of("batch.v1.JobSpec", "selector")).wide(),
    ],
    |job, now| {
        let [names, images] = containers(job.at(&["spec", "template", "spec"]));
        vec![
            name(job),
            status(job).into(),
            completions(job).into(),
            duration(job, now).into(),
            age(job, now),
            names,
            images,
            selected(job),
        ]
    },
);

fn status(job: &Value) -> &'static str {
    match () {
        () if holds(job, "Complete") => "Complete",
        () if holds(job, "Failed") => "Failed",
        () if is_deleting(job) => "Terminating",
        () if holds(job, "Suspended") => "Suspended",
        () if holds(job, "FailureTarget") => "FailureTarget",
        () if holds(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let done = int(job, &["status", "succeeded"]);
    match job.at(&["spec", "completions"]).and_then(Value::as_i64) {
        Some(wanted) => format!("{done}/{wanted}"),
        None => match int(job, &["spec", "parallelism"]) {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}"),
            _ => format!("{done}/1"),
        },
    }
}

fn duration(job: &Value, now: i64) -> String {
    let time = |name: &str| job.str_at(&["status", name]).and_then(seconds);
    time("startTime").map_or_else(String::new, |start| human(time("completionTime").unwrap_or(now) - start))
}

/// Cron jobs.
pub(super) const CRON_JOBS: Table = Table::new(
    &[
        NAME,
        text("Schedule", Doc::Of("batch.v1.CronJobSpec", "schedule")),
        text("Timezone", Doc::Of("batch.v1.CronJobSpec", "timeZone")),
        boolean("Suspend", Doc::Of("batch.v1.CronJobSpec", "suspend")),
        integer("Active", Doc::Of("batch.v1.CronJobStatus", "active")),
        text("Last Schedule", Doc::Of("batch.v1.CronJobStatus", "lastScheduleTime")),
        AGE,
        NAMES,
        IMAGES,
        text("Selector", Doc::Of("batch.v1.JobSpec", "selector")).wide(),
    ],
    |job, now| {
        let template = job.at(&["spec", "jobTemplate", "spec"]);
        let [names, images] = containers(template.and_then(|t| t.at(&["template", "spec"])));
        let suspend = match job.at(&["spec", "suspend"]).and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => UNSET,
        };
        let last = job.str_at(&["status", "lastScheduleTime"]);
        vec![
            name(job),
            text_at(job, &["spec", "schedule"]),
            text_or(job, &["spec", "timeZone"], NONE),
            suspend.into(),
            Value::Int(items(job, &["status", "active"]).len() as i64),
            last.map_or_else(|| NONE.to_owned(), |last| since(Some(last), now)).into(),
            age(job, now),
            names,
            images,
            selector(template.and_then(|t| t.get("selector"))),
        ]
    },
);
