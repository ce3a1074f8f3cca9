//! Validates status updates of batch/v1 Jobs. Most rules look only at what the update changes, so that a status that
//! was wrong before can be mended bit by bit.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::meta::BadValue;

use super::indexes;
use crate::validation::{Errors, Field, Go, Member, shown};

const UNCOUNTED: &[Member] = &[Member("Succeeded", "succeeded", Go::Plain), Member("Failed", "failed", Go::Plain)];

/// Whether the status has this condition, and it is true.
pub(super) fn is_true(status: &Field<'_>, kind: &str) -> bool {
    has(status, kind, "True")
}

fn has(status: &Field<'_>, kind: &str, state: &str) -> bool {
    let conditions = status.at("conditions");
    let found = conditions.items().iter();
    found.filter(|c| c.str_at(&["type"]) == Some(kind)).any(|c| c.str_at(&["status"]) == Some(state))
}

/// How a job stands, by its conditions.
#[derive(Clone, Copy)]
struct Standing {
    complete: bool,
    failed: bool,
    failing: bool,
    succeeding: bool,
}

impl Standing {
    fn of(status: &Field<'_>) -> Self {
        Standing {
            complete: is_true(status, "Complete"),
            failed: is_true(status, "Failed"),
            failing: is_true(status, "FailureTarget"),
            succeeding: is_true(status, "SuccessCriteriaMet"),
        }
    }

    fn finished(self) -> bool {
        self.complete || self.failed
    }
}

/// An update of the status, with what most rules ask about.
struct Update<'a> {
    spec: &'a Field<'a>,
    status: &'a Field<'a>,
    old: &'a Field<'a>,
    now: Standing,
    before: Standing,
}

impl Update<'_> {
    fn changes(&self, member: &str) -> bool {
        !self.status.at(member).same(&self.old.at(member))
    }

    fn changes_completion(&self) -> bool {
        self.now.complete != self.before.complete
    }

    fn changes_finish(&self) -> bool {
        self.now.finished() != self.before.finished()
    }

    fn conditions(&self, detail: &str, errors: &mut Errors) {
        self.status.at("conditions").invalid_as(BadValue::Omitted, detail, errors);
    }
}

/// The status of jobs.
pub(super) fn job(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, status, old) = (new.at("spec"), new.at("status"), old.at("status"));
    let (now, before) = (Standing::of(&status), Standing::of(&old));
    let update = Update { spec: &spec, status: &status, old: &old, now, before };
    status.none_negative(&["active", "succeeded", "failed", "ready", "terminating"], errors);
    uncounted_pods(&status, errors);
    completion(&update, errors);
    finish(&update, errors);
    index_sets(&update, errors);
    running_pods(&update, errors);
    success(&update, errors);
    transitions(&update, errors);
}

fn uncounted_pods(status: &Field<'_>, errors: &mut Errors) {
    let pods = status.at("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for list in ["succeeded", "failed"] {
        let uids = pods.at(list);
        for (i, uid) in uids.items().iter().filter_map(|uid| uid.as_str()).enumerate() {
            if uid.is_empty() {
                uids.index(i).invalid("must not be empty", errors);
            } else if !seen.insert(uid) {
                uids.index(i).duplicate(errors);
            }
        }
    }
}

fn completion(update: &Update<'_>, errors: &mut Errors) {
    let Update { status, now, before, .. } = *update;
    let failed_changes = now.failed != before.failed;
    if (update.changes_completion() || failed_changes) && now.complete && now.failed {
        update.conditions("cannot set Complete=True and Failed=true conditions", errors);
    }
    if (update.changes_completion() || now.failing != before.failing) && now.complete && now.failing {
        update.conditions("cannot set Complete=True and FailureTarget=true conditions", errors);
    }
    let (started, completed) = (status.at("startTime"), status.at("completionTime"));
    if update.changes_completion() || update.changes("completionTime") {
        if completed.is_set() && !now.complete {
            completed.invalid("cannot set completionTime when there is no Complete=True condition", errors);
        }
        if !completed.is_set() && now.complete {
            completed.required("completionTime is required for Complete jobs", errors);
        }
    }
    let times_change = update.changes("startTime") || update.changes("completionTime");
    // Both are written in the same form, so that the texts compare as the times do.
    if times_change && started.is_set() && completed.is_set() && completed.text() < started.text() {
        completed.invalid("must be equal to or after `startTime`", errors);
    }
    if (failed_changes || update.changes("failedIndexes")) && now.failed && !now.failing {
        update.conditions("cannot set Failed=True condition without the FailureTarget=true condition", errors);
    }
    if (update.changes_completion() || now.succeeding != before.succeeding) && now.complete && !now.succeeding {
        update.conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition", errors);
    }
}

fn finish(update: &Update<'_>, errors: &mut Errors) {
    if !update.now.finished() {
        return;
    }
    let Update { spec, status, .. } = *update;
    let active = status.at("active");
    if (update.changes_finish() || update.changes("active")) && active.int_or_zero() > 0 {
        active.invalid("active>0 is invalid for finished job", errors);
    }
    let never_runs = spec.at("suspend").is_true() && spec.at("completions").int() == Some(0);
    let started = status.at("startTime");
    if (update.changes_finish() || update.changes("startTime")) && !never_runs && !started.is_set() {
        started.required("startTime is required for finished job", errors);
    }
    let uncounted = status.at("uncountedTerminatedPods");
    let some = !uncounted.at("failed").is_empty() || !uncounted.at("succeeded").is_empty();
    if (update.changes_finish() || update.changes("uncountedTerminatedPods")) && some {
        let shown = shown(uncounted.value(), UNCOUNTED);
        uncounted.invalid_as(shown, "uncountedTerminatedPods needs to be empty for finished job", errors);
    }
}

fn index_sets(update: &Update<'_>, errors: &mut Errors) {
    let Update { spec, status, .. } = *update;
    let (completed, failed) = (status.at("completedIndexes"), status.at("failedIndexes"));
    let (completed_changes, failed_changes) = (update.changes("completedIndexes"), update.changes("failedIndexes"));
    let completions = spec.at("completions").int();
    let per_index = spec.at("backoffLimitPerIndex").is_set();
    if completed_changes && let Some(Err(why)) = completions.map(|all| indexes::count(completed.text(), all)) {
        completed.invalid(format!("error parsing completedIndexes: {why}"), errors);
    }
    if failed_changes
        && per_index
        && failed.is_set()
        && let Some(Err(why)) = completions.map(|all| indexes::count(failed.text(), all))
    {
        failed.invalid(format!("error parsing failedIndexes: {why}"), errors);
    }
    let indexed = spec.at("completionMode").text() == "Indexed";
    if completed_changes && !completed.is_empty() && !indexed {
        completed.invalid("cannot set non-empty completedIndexes when non-indexed completion mode", errors);
    }
    if failed_changes && failed.is_set() && !per_index {
        failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null", errors);
    }
    if completed_changes || failed_changes {
        let both = completions.and_then(|all| indexes::overlap(completed.text(), failed.text(), all));
        if let Some(index) = both {
            failed.invalid(format!("failedIndexes and completedIndexes overlap at index: {index}"), errors);
        }
    }
}

fn running_pods(update: &Update<'_>, errors: &mut Errors) {
    let status = update.status;
    let terminating = status.at("terminating");
    let changes = update.changes_finish() || update.changes("terminating");
    if changes && update.now.finished() && terminating.int_or_zero() > 0 {
        terminating.invalid("terminating>0 is invalid for finished job", errors);
    }
    if update.changes("ready") || update.changes("active") {
        let active = status.at("active").int_or_zero();
        status.at("ready").at_most_if_set(active, "cannot set more ready pods than active", errors);
    }
}

fn success(update: &Update<'_>, errors: &mut Errors) {
    let now = update.now;
    if now.succeeding && now.failed {
        update.conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
    }
    if now.succeeding && now.failing {
        update.conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
    }
    if update.spec.at("successPolicy").is_set() && !now.succeeding && now.complete {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        update.conditions(detail, errors);
    }
}

/// From what the status was.
fn transitions(update: &Update<'_>, errors: &mut Errors) {
    let Update { spec, status, old, now, before } = *update;
    let terminal = [
        ("Failed", before.failed, now.failed),
        ("Complete", before.complete, now.complete),
        ("FailureTarget", before.failing, now.failing),
    ];
    for (name, before, now) in terminal {
        if before && !now {
            update.conditions(&format!("cannot disable the terminal {name}=True condition"), errors);
        }
    }
    let failed = status.at("failed");
    if failed.int_or_zero() < old.at("failed").int_or_zero() {
        failed.invalid_as(failed.int_or_zero(), "cannot decrease the failed counter", errors);
    }
    let resizable =
        spec.at("completionMode").text() == "Indexed" && spec.at("completions").int() == spec.at("parallelism").int();
    let succeeded = status.at("succeeded");
    if !resizable && succeeded.int_or_zero() < old.at("succeeded").int_or_zero() {
        succeeded.invalid_as(succeeded.int_or_zero(), "cannot decrease the succeeded counter", errors);
    }
    let completed = status.at("completionTime");
    if completed.is_set() && old.at("completionTime").is_set() {
        completed.immutable(&old.at("completionTime"), errors);
    }
    let started = status.at("startTime");
    let resumes = is_true(old, "Suspended") && has(status, "Suspended", "False");
    if old.at("startTime").is_set() && update.changes("startTime") && !resumes && !spec.at("suspend").is_true() {
        started.invalid("field is immutable for unsuspended job once set", errors);
    }
    if before.succeeding && !now.succeeding {
        update.conditions("cannot disable the SuccessCriteriaMet=True condition", errors);
    }
    if before.complete && !before.succeeding && now.succeeding {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        update.conditions(detail, errors);
    }
}
