//! Validates batch/v1 Jobs and CronJobs.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{BadValue, FieldError, domains::domain_prefixed_path, names},
};

use super::{failure_policy, indexes, schedule};
use crate::{
    core::pods::template::template,
    core::pods::validation::internal::{shown_spec, shown_template},
    validation::{Errors, Field, Go, MISMATCH, Member, selects, shown},
};

type Cx<'a> = WriteContext<'a>;

const SUCCESS_RULE: &[Member] =
    &[Member("SucceededIndexes", "succeededIndexes", Go::Plain), Member("SucceededCount", "succeededCount", Go::Plain)];
const SUCCESS_POLICY: &[Member] = &[Member("Rules", "rules", Go::List(SUCCESS_RULE))];

const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_WITH_MANY_COMPLETIONS: i64 = 10_000;
const MAX_MANAGED_BY: usize = 63;
const MAX_SUCCESS_RULES: usize = 20;
const MAX_INDEXES_TEXT: usize = 64 * 1024;

/// Jobs.
pub(super) fn job(_cx: &Cx<'_>, job: &Field<'_>, errors: &mut Errors) {
    whole_job(job, None, errors);
}

fn whole_job(job: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let spec = job.at("spec");
    generated_selector(job, old.is_none(), errors);
    job_spec(&spec, old.map(|old| old.at("spec")).as_ref(), errors);
    let completions = spec.at("completions").int_or_zero();
    if is_indexed(&spec) && completions > 0 {
        let metadata = job.at("metadata");
        let name = metadata.at("name");
        // The last pod's hostname has its index behind the job's name.
        let last = format!("{}-{}", name.text(), completions - 1);
        if !names::dns1123_label(&last).is_empty() {
            name.invalid_text(format!("will not able to create pod with invalid DNS label: {last}"), errors);
        }
    }
}

/// Unless the client selects pods itself, the template has the labels that were made for it.
fn generated_selector(job: &Field<'_>, prefixed: bool, errors: &mut Errors) {
    let spec = job.at("spec");
    let selector = spec.at("selector");
    if spec.at("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let (metadata, pods) = (job.at("metadata"), spec.at("template"));
    let (uid, name) = (metadata.at("uid"), metadata.at("name"));
    uid.is_given(errors);
    let pod_metadata = pods.at("metadata");
    let labels = pod_metadata.at("labels");
    let mut expected = Value::object();
    let all = [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ];
    for (key, value) in &all[..if prefixed { 4 } else { 2 }] {
        has_label(&labels, key, value.text(), errors);
    }
    for (key, value) in all {
        expected.set(&[key], value.text());
    }
    if selects(selector.value(), &expected) == Some(false) {
        selector.invalid_selector("`selector` not auto-generated", errors);
    }
}

fn has_label(labels: &Field<'_>, key: &str, expected: &str, errors: &mut Errors) {
    let label = labels.key(key);
    if !label.is_set() {
        label.required(format!("must be '{expected}'"), errors);
    } else if label.text() != expected {
        label.invalid_as(labels.value(), format!("must be '{expected}'"), errors);
    }
}

fn is_indexed(spec: &Field<'_>) -> bool {
    spec.at("completionMode").text() == "Indexed"
}

fn job_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    job_spec_but_selector(spec, old, errors);
    let selector = spec.at("selector");
    if selector.is_set() {
        selector.label_selector_as_before(old.map(|old| old.at("selector")).as_ref(), errors);
    } else {
        selector.required("", errors);
    }
    let pods = spec.at("template");
    let metadata = pods.at("metadata");
    let labels = metadata.at("labels");
    if selects(selector.value(), labels.value()) == Some(false) {
        labels.invalid(MISMATCH, errors);
    }
}

fn job_spec_but_selector(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    spec.none_negative(&counts, errors);
    let per_index = spec.at("backoffLimitPerIndex");
    if spec.at("maxFailedIndexes").is_set() && !per_index.is_set() {
        per_index.required("when maxFailedIndexes is specified", errors);
    }
    let manager = spec.at("managedBy");
    if manager.is_set() {
        errors.extend(domain_prefixed_path(manager.text(), manager));
        if manager.text().len() > MAX_MANAGED_BY {
            errors.push(FieldError::too_long(manager, MAX_MANAGED_BY));
        }
    }
    completion_mode(spec, errors);
    if spec.at("podFailurePolicy").is_set() {
        failure_policy::check(spec, errors);
    }
    success_policy(spec, errors);
    replacement_policy(spec, errors);
    template(&spec.at("template"), old.map(|old| old.at("template")).as_ref(), errors);
    restart_policy(spec, errors);
}

fn completion_mode(spec: &Field<'_>, errors: &mut Errors) {
    let mode = spec.at("completionMode");
    if mode.is_set() {
        mode.one_of(&["NonIndexed", "Indexed"], errors);
    }
    match mode.text() {
        "Indexed" => indexed(spec, errors),
        kind if kind == "NonIndexed" || !mode.is_set() => {
            for member in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if spec.at(member).is_set() {
                    spec.at(member).invalid("requires indexed completion mode", errors);
                }
            }
        }
        _ => {}
    }
}

fn indexed(spec: &Field<'_>, errors: &mut Errors) {
    let (completions, parallelism) = (spec.at("completions"), spec.at("parallelism"));
    let max_failed = spec.at("maxFailedIndexes");
    if !completions.is_set() {
        completions.required("when completion mode is Indexed", errors);
    }
    let limit = format!("must be less than or equal to {MAX_PARALLELISM} when completion mode is Indexed");
    parallelism.at_most(MAX_PARALLELISM, &limit, errors);
    if let Some(completions) = completions.int() {
        max_failed.at_most_if_set(completions, "must be less than or equal to completions", errors);
    }
    max_failed.at_most(MAX_FAILED_INDEXES, &format!("must be less than or equal to {MAX_FAILED_INDEXES}"), errors);
    if completions.int_or_zero() > MANY_COMPLETIONS && spec.at("backoffLimitPerIndex").is_set() {
        if !max_failed.is_set() {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            max_failed.required(detail, errors);
        }
        let limit = format!(
            "must be less than or equal to {MAX_WITH_MANY_COMPLETIONS} when completions are above {MANY_COMPLETIONS} and used \
             with backoff limit per index"
        );
        parallelism.at_most(MAX_WITH_MANY_COMPLETIONS, &limit, errors);
        max_failed.at_most(MAX_WITH_MANY_COMPLETIONS, &limit, errors);
    }
}

fn success_policy(spec: &Field<'_>, errors: &mut Errors) {
    let policy = spec.at("successPolicy");
    if !policy.is_set() {
        return;
    }
    if !is_indexed(spec) {
        policy.invalid_as(shown(policy.value(), SUCCESS_POLICY), "requires indexed completion mode", errors);
        return;
    }
    let rules = policy.at("rules");
    if rules.is_empty() {
        rules.required("at least one rules must be specified when the successPolicy is specified", errors);
    }
    if rules.len() > MAX_SUCCESS_RULES {
        errors.push(FieldError::too_many(rules, rules.len(), MAX_SUCCESS_RULES));
    }
    let completions = spec.at("completions").int_or_zero();
    rules.each(|rule| success_rule(&rule, completions, errors));
}

fn success_rule(rule: &Field<'_>, completions: i64, errors: &mut Errors) {
    let (count, indexes) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
    if !count.is_set() && !indexes.is_set() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified", errors);
    }
    let mut total = 0;
    if indexes.is_set() {
        if indexes.text().len() > MAX_INDEXES_TEXT {
            errors.push(FieldError::too_long(indexes, MAX_INDEXES_TEXT));
        }
        match indexes::count(indexes.text(), completions) {
            Ok(found) => total = found,
            Err(why) => indexes.invalid(format!("error parsing succeededIndexes: {why}"), errors),
        }
    }
    count.non_negative(errors);
    let all = format!("must be less than or equal to {completions} (the number of specified completions)");
    count.at_most_if_set(completions, &all, errors);
    if indexes.is_set() {
        let named = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        count.at_most_if_set(total, &named, errors);
    }
}

fn replacement_policy(spec: &Field<'_>, errors: &mut Errors) {
    let policy = spec.at("podReplacementPolicy");
    if policy.is_set() {
        let has_failure_policy = spec.at("podFailurePolicy").is_set();
        policy.one_of(if has_failure_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] }, errors);
    }
}

fn restart_policy(spec: &Field<'_>, errors: &mut Errors) {
    let pods = spec.at("template");
    let pod = pods.at("spec");
    let policy = pod.at("restartPolicy");
    match policy.text() {
        "" | "Always" => policy.required(r#"valid values: "OnFailure", "Never""#, errors),
        "Never" => {}
        "OnFailure" if spec.at("podFailurePolicy").is_set() => {
            policy.invalid(r#"only "Never" is supported when podFailurePolicy is specified"#, errors);
        }
        _ => policy.one_of(&["OnFailure", "Never"], errors),
    }
}

/// Upstream looks at the whole job and then once more at its spec, and clients see both.
/// What is wrong with the new object of an update, of its own.
pub(super) fn job_again(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    whole_job(new, Some(old), errors);
}

pub(super) fn job_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    job_spec(&spec, Some(&old_spec), errors);
    completions_change(&spec, &old_spec, errors);
    spec.at("selector").immutable_selector(&old_spec.at("selector"), errors);
    template_change(new, old, errors);
    spec.at("completionMode").immutable(&old_spec.at("completionMode"), errors);
    let failure = spec.at("podFailurePolicy");
    // An empty policy is another one than none.
    if !failure.same(&old_spec.at("podFailurePolicy")) || failure.is_set() != old_spec.at("podFailurePolicy").is_set() {
        failure.invalid_as(failure_policy::shown_policy(failure.value()), IMMUTABLE, errors);
    }
    for member in ["backoffLimitPerIndex", "managedBy"] {
        spec.at(member).immutable(&old_spec.at(member), errors);
    }
    let success = spec.at("successPolicy");
    if !success.same(&old_spec.at("successPolicy")) {
        let text = if success.is_set() { shown(success.value(), SUCCESS_POLICY) } else { BadValue::from(Value::Null) };
        success.invalid_as(text, IMMUTABLE, errors);
    }
}

const IMMUTABLE: &str = "field is immutable";

/// An indexed job grows and shrinks in both numbers at once.
fn completions_change(spec: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let completions = spec.at("completions");
    if completions.same(&old.at("completions")) {
        return;
    }
    if !is_indexed(spec) {
        completions.immutable(&old.at("completions"), errors);
    } else if completions.is_set() && completions.int() != spec.at("parallelism").int() {
        completions.invalid("can only be modified in tandem with spec.parallelism", errors);
    }
}

/// What a job in suspension may change of its pods, beside labels and annotations of the template.
const SCHEDULING: &[&str] = &["nodeSelector", "tolerations", "schedulingGates"];

/// The template stays, but for where its pods are to run and what they ask for, while none of them has run.
fn template_change(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let (pods, old_pods) = (spec.at("template"), old_spec.at("template"));
    let changed = |errors: &mut Errors| {
        pods.invalid_as(shown_template("PodSpec", pods.value()), "field is immutable", errors);
    };
    let idle = may_be_rescheduled(old);
    let moves = if errors.has("MutableSchedulingDirectivesForSuspendedJobs") { idle } else { never_started(old) };
    let mut template = old_pods.value().clone();
    if moves {
        let members = SCHEDULING.iter().map(|member| vec!["spec", member]);
        let others =
            [vec!["spec", "affinity", "nodeAffinity"], vec!["metadata", "labels"], vec!["metadata", "annotations"]];
        members.chain(others).for_each(|path| crate::strategy::restore(&mut template, pods.value(), &path));
    }
    if !(idle && errors.has("MutablePodResourcesForSuspendedJobs")) {
        if !pods.same(&pods.with(&template)) {
            changed(errors);
        }
        return;
    }
    let pod = pods.at("spec");
    let mut before = template.get("spec").cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let asks = pod.at(list).items().iter().map(|container| container.get("resources").cloned());
        let containers = before.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, resources) in containers.zip(asks) {
            match resources {
                Some(resources) => container.set(&["resources"], resources),
                None => drop(container.remove_at(&["resources"])),
            }
        }
    }
    if !pod.same(&pod.with(&before)) {
        pod.invalid_as(shown_spec(pod.value()), "field is immutable", errors);
    }
}

/// Whether a job waits that never had a pod.
fn never_started(old: &Field<'_>) -> bool {
    old.at("spec").at("suspend").is_true() && !old.at("status").at("startTime").is_set()
}

/// Whether a job waits that has no pods.
fn may_be_rescheduled(old: &Field<'_>) -> bool {
    let (spec, status) = (old.at("spec"), old.at("status"));
    let suspended = super::status::is_true(&status, "Suspended");
    spec.at("suspend").is_true()
        && (!status.at("startTime").is_set() || (suspended && status.at("active").int_or_zero() == 0))
}

/// Cron jobs.
pub(super) fn cron_job(_cx: &Cx<'_>, job: &Field<'_>, errors: &mut Errors) {
    cron_job_spec(&job.at("spec"), None, errors);
    let metadata = job.at("metadata");
    let name = metadata.at("name");
    // Jobs that are made of it have the time in eleven letters behind its name.
    if name.text().len() > 52 {
        name.invalid("must be no more than 52 characters", errors);
    }
}

pub(super) fn cron_job_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    cron_job_spec(&new.at("spec"), Some(&old.at("spec")), errors);
}

fn cron_job_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let (when, zone) = (spec.at("schedule"), spec.at("timeZone"));
    if when.is_given(errors) {
        let had_zone = old.is_some_and(|old| old.at("schedule").text().contains("TZ"));
        schedule_format(&when, &zone, had_zone, errors);
    }
    spec.at("startingDeadlineSeconds").non_negative(errors);
    if !old.is_some_and(|old| old.at("timeZone").value() == zone.value()) {
        time_zone(&zone, errors);
    }
    spec.at("concurrencyPolicy").required_one_of(&["Allow", "Forbid", "Replace"], errors);
    let job = spec.at("jobTemplate");
    let old_job = old.map(|old| old.at("jobTemplate"));
    job_template(&job.at("spec"), old_job.as_ref().map(|job| job.at("spec")).as_ref(), errors);
    spec.none_negative(&["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], errors);
}

fn schedule_format(when: &Field<'_>, zone: &Field<'_>, had_zone: bool, errors: &mut Errors) {
    if let Err(why) = schedule::check(when.text()) {
        when.invalid(why, errors);
    }
    match (when.text().contains("TZ"), had_zone) {
        (true, false) => when.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead", errors),
        (true, true) if zone.is_set() => {
            when.invalid("cannot use both timeZone field and TZ or CRON_TZ in schedule", errors);
        }
        _ => {}
    }
}

fn time_zone(zone: &Field<'_>, errors: &mut Errors) {
    if !zone.is_set() {
        return;
    }
    let name = zone.text();
    if name.is_empty() {
        zone.invalid("timeZone must be nil or non-empty string", errors);
        return;
    }
    let is_part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && !part.starts_with('-')
            && part.len() <= 14
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if !name.split('/').all(is_part) {
        zone.invalid(format!("unknown time zone {name}"), errors);
        return;
    }
    if name.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.invalid(detail, errors);
    }
    if let Err(why) = schedule::zone_is_known(name) {
        zone.invalid(why, errors);
    }
}

/// A job that is made of the template gets its selector then.
fn job_template(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    job_spec_but_selector(spec, old, errors);
    let selector = spec.at("selector");
    if selector.is_set() {
        selector.invalid_selector("`selector` will be auto-generated", errors);
    }
    if spec.at("manualSelector").is_true() {
        spec.at("manualSelector").not_supported(&["nil", "false"], errors);
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(rule: impl Fn(&Field<'_>, &mut Errors), text: &str, expect: &[&str]) {
        let value = json::decode(text.as_bytes()).expect("valid JSON");
        let mut errors = Errors::default();
        rule(&Field::root(&value), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{text}");
    }

    #[test]
    fn an_indexed_job_has_limits() {
        check(
            completion_mode,
            r#"{"completionMode":"Indexed","parallelism":100001,"maxFailedIndexes":3,"completions":2}"#,
            &[
                "parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
                "maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
            ],
        );
        check(
            completion_mode,
            r#"{"backoffLimitPerIndex":1}"#,
            &["backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        );
    }

    #[test]
    fn a_success_policy_counts_within_the_completions() {
        check(
            success_policy,
            r#"{"completionMode":"Indexed","completions":5,"successPolicy":{"rules":[{},{"succeededIndexes":"1-2","succeededCount":3}]}}"#,
            &[
                "successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                "successPolicy.rules[1].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
            ],
        );
    }

    #[test]
    fn time_zones_have_plain_names() {
        let zone = |f: &Field<'_>, e: &mut Errors| time_zone(&f.at("z"), e);
        check(zone, r#"{"z":"Europe/Paris"}"#, &[]);
        check(zone, r#"{"z":"../UTC"}"#, &[r#"z: Invalid value: "../UTC": unknown time zone ../UTC"#]);
        check(zone, r#"{"z":""}"#, &[r#"z: Invalid value: "": timeZone must be nil or non-empty string"#]);
    }
}
