//! Jobs and cron jobs.

use generic_server::resource::{KindTraits, WriteContext};
use machinery::{Str, Value};

use super::{status, validation};
use crate::{
    core::pods,
    core::pods::template::{named_after, warnings},
    defaults::{each, is_empty, pointer, text, within},
    strategy::Rules,
};

/// The rules of jobs.
pub(super) const JOBS: Rules = Rules {
    traits: KindTraits { orphan_warning: Some(ORPHANED), ..Rules::WORKLOAD.orphans().traits },
    ..Rules::WORKLOAD
}
.defaults(job)
.create(create_job)
.validate(validation::job)
.revalidate(validation::job_again)
.validate_update(validation::job_update)
.validate_status(status::job)
.warn(job_warnings);

/// The rules of cron jobs.
pub(super) const CRON_JOBS: Rules = Rules::WORKLOAD
    .defaults(cron_job)
    .validate(validation::cron_job)
    .validate_update(validation::cron_job_update)
    .warn(|job, old| {
        let mut warnings = named_after(job, old);
        if job.str_at(&["spec", "schedule"]).is_some_and(|schedule| schedule.contains("TZ")) {
            warnings.push(ZONE_IN_SCHEDULE.to_owned());
        }
        warnings.extend(pods::warnings::within(job, old, &["spec", "jobTemplate", "spec", "template"]));
        warnings
    });

const ORPHANED: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to \
                        remove them or set propagationPolicy=Orphan to suppress this warning";

const ZONE_IN_SCHEDULE: &str = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone field instead, see \
    https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones for more details";

const MANY_INDEXES: &str = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes \
    might not be able to track completedIndexes when a big number of indexes fail";

fn job_warnings(job: &Value, old: Option<&Value>) -> Vec<String> {
    let mut all = Vec::new();
    let count = |member: &str| job.at(&["spec", member]).and_then(Value::as_i64).unwrap_or(0);
    let indexed = job.str_at(&["spec", "completionMode"]) == Some("Indexed");
    if old.is_none() && indexed && count("completions") > 100_000 && count("parallelism") > 10_000 {
        all.push(MANY_INDEXES.to_owned());
    }
    all.extend(warnings(job, old));
    all
}

const LABELS: [&str; 2] = ["metadata", "labels"];
const TEMPLATE_LABELS: [&str; 4] = ["spec", "template", "metadata", "labels"];

fn job(job: &mut Value) {
    within(job, "spec", |spec| {
        let unset = |name: &str| spec.get(name).is_none_or(Value::is_null);
        if unset("completions") && unset("parallelism") {
            pointer(spec, "completions", 1);
        }
        pointer(spec, "parallelism", 1);
        let per_index = spec.get("backoffLimitPerIndex").is_some_and(|v| !v.is_null());
        pointer(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
        pointer(spec, "completionMode", "NonIndexed");
        pointer(spec, "suspend", false);
        pointer(spec, "manualSelector", false);
        let has_policy = spec.get("podFailurePolicy").is_some_and(|v| !v.is_null());
        pointer(spec, "podReplacementPolicy", if has_policy { "Failed" } else { "TerminatingOrFailed" });
        within(spec, "podFailurePolicy", |policy| {
            each(policy, "rules", |rule| each(rule, "onPodConditions", |c| text(c, "status", "True")));
        });
        within(spec, "template", pods::template_defaults);
    });
    let labels = job.at(&TEMPLATE_LABELS).filter(|l| !is_empty(Some(l))).cloned();
    if is_empty(job.at(&LABELS))
        && let Some(labels) = labels
    {
        job.set(&LABELS, labels);
    }
}

/// Unless the client selects pods itself, the job's uid does: labels of the template, and the selector that finds them.
/// A job without labels of its own shares the template's.
fn create_job(_cx: &WriteContext<'_>, job: &mut Value) {
    if job.at(&["spec", "manualSelector"]).and_then(Value::as_bool) == Some(true) {
        return;
    }
    let shares = is_empty(job.at(&LABELS)) || job.at(&LABELS) == job.at(&TEMPLATE_LABELS);
    let own = |name: &str| job.str_at(&["metadata", name]).map(Str::from).unwrap_or_default();
    let (uid, name) = (own("uid"), own("name"));
    let labels = job.at_mut(&TEMPLATE_LABELS).make_object();
    for (key, value) in [
        ("controller-uid", &uid),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        // A label that is there stays, and is refused if it is another job's.
        if !labels.contains_key(key) {
            labels.insert(key, value);
        }
    }
    if shares {
        let labels = job.at(&TEMPLATE_LABELS).cloned();
        job.set(&LABELS, labels);
    }
    let selector = ["spec", "selector", "matchLabels", "batch.kubernetes.io/controller-uid"];
    if job.at(&selector).is_none() {
        job.set(&selector, uid);
    }
}

fn cron_job(job: &mut Value) {
    within(job, "spec", |spec| {
        text(spec, "concurrencyPolicy", "Allow");
        pointer(spec, "suspend", false);
        pointer(spec, "successfulJobsHistoryLimit", 3);
        pointer(spec, "failedJobsHistoryLimit", 1);
        // Of a job's own defaults a template gets none: the job that is made of it does.
        within(spec, "jobTemplate", |template| {
            within(template, "spec", |spec| {
                within(spec, "podFailurePolicy", |policy| {
                    each(policy, "rules", |rule| each(rule, "onPodConditions", |c| text(c, "status", "True")));
                });
                within(spec, "template", pods::template_defaults);
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use machinery::{codec::json, object};

    use super::*;

    fn created(text: &str) -> Value {
        let mut v = json::decode(text.as_bytes()).expect("valid JSON");
        job(&mut v);
        let cx = WriteContext {
            group: "batch",
            version: "v1",
            namespace: "n",
            subresource: "",
            user: &auth::User::default(),
            features: &Default::default(),
        };
        create_job(&cx, &mut v);
        v
    }

    #[test]
    fn a_job_finds_its_pods_by_its_uid() {
        let job = created(r#"{"metadata":{"name":"j","uid":"1"},"spec":{"template":{"spec":{}}}}"#);
        let labels = object! {
            "controller-uid" => "1", "batch.kubernetes.io/controller-uid" => "1",
            "job-name" => "j", "batch.kubernetes.io/job-name" => "j",
        };
        assert_eq!(job.at(&LABELS), Some(&labels));
        assert_eq!(job.at(&TEMPLATE_LABELS), Some(&labels));
        let selector = job.at(&["spec", "selector", "matchLabels"]);
        assert_eq!(selector, Some(&object! { "batch.kubernetes.io/controller-uid" => "1" }));
    }

    #[test]
    fn labels_of_its_own_and_a_selector_of_its_own_stay() {
        let job =
            created(r#"{"metadata":{"name":"j","uid":"1","labels":{"own":"1"}},"spec":{"template":{"spec":{}}}}"#);
        assert_eq!(job.at(&LABELS), Some(&object! { "own" => "1" }));
        let manual = r#"{"metadata":{"name":"j"},"spec":{"manualSelector":true,"selector":{"matchLabels":{"m":"1"}},
            "template":{"metadata":{"labels":{"m":"1"}},"spec":{}}}}"#;
        let job = created(manual);
        assert_eq!(job.at(&LABELS), Some(&object! { "m" => "1" }));
        assert_eq!(job.at(&["spec", "selector", "matchLabels"]), Some(&object! { "m" => "1" }));
    }
}
