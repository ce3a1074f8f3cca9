//! Validates apps/v1 DaemonSets, Deployments, ReplicaSets, StatefulSets and ControllerRevisions.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::meta::{
    BadValue, FieldError,
    int_or_percent::{validate_at_most_100_percent, validate_int_or_percent},
    names,
};
use machinery::{Value, object};

use crate::core::pods::template::{is_selected, lasting_template, runs_on, template};
use crate::core::pods::validation::claim_spec;
use crate::validation::{Errors, Field, Go, Member, shown};

type Cx<'a> = WriteContext<'a>;

const ROLLING: &[Member] =
    &[Member("MaxUnavailable", "maxUnavailable", Go::Number), Member("MaxSurge", "maxSurge", Go::Number)];
const STRATEGY: &[Member] =
    &[Member("Type", "type", Go::Text), Member("RollingUpdate", "rollingUpdate", Go::Pointer(ROLLING))];
const SET_ROLLING: &[Member] =
    &[Member("Partition", "partition", Go::Number), Member("MaxUnavailable", "maxUnavailable", Go::Plain)];
const SET_STRATEGY: &[Member] =
    &[Member("Type", "type", Go::Text), Member("RollingUpdate", "rollingUpdate", Go::Pointer(SET_ROLLING))];

/// Deployments.
pub(super) fn deployment(_cx: &Cx<'_>, deployment: &Field<'_>, errors: &mut Errors) {
    deployment_spec(&deployment.at("spec"), None, errors);
}

pub(super) fn deployment_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    deployment_spec(&new.at("spec"), Some(&old.at("spec")), errors);
    keeps_selector(new, old, errors);
}

fn deployment_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    spec.at("replicas").non_negative(errors);
    replicated(spec, old, errors);
    deployment_strategy(&spec.at("strategy"), errors);
    spec.none_negative(&["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"], errors);
    let deadline = spec.at("progressDeadlineSeconds");
    if deadline.int().is_some_and(|seconds| seconds <= spec.at("minReadySeconds").int_or_zero()) {
        deadline.invalid("must be greater than minReadySeconds", errors);
    }
}

fn deployment_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" if rolling.is_set() => {
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'", errors);
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            rolling.required("this should be defaulted and never be nil", errors);
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            share(&unavailable, errors);
            share(&surge, errors);
            if amount(&unavailable) == 0 && amount(&surge) == 0 {
                unavailable.invalid("may not be 0 when `maxSurge` is 0", errors);
            }
            errors.extend(validate_at_most_100_percent(unavailable.value(), unavailable));
        }
        _ => unknown_strategy(strategy, &["Recreate", "RollingUpdate"], errors),
    }
}

fn unknown_strategy(strategy: &Field<'_>, supported: &[&str], errors: &mut Errors) {
    errors.push(FieldError::not_supported(strategy, shown(strategy.value(), STRATEGY), supported));
}

/// A number or a percentage, not negative.
fn share(field: &Field<'_>, errors: &mut Errors) {
    errors.extend(validate_int_or_percent(field.value(), field));
}

/// The number, or the digits of a percentage.
fn amount(field: &Field<'_>) -> i64 {
    field.int().unwrap_or_else(|| {
        let text = field.text();
        let digits = if names::percent(text).is_empty() { text.trim_end_matches('%') } else { text };
        digits.parse().unwrap_or(0)
    })
}

/// A selector, strictly checked, and the template that it finds.
fn replicated(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let selector = spec.at("selector");
    required_selector(&selector, "deployment", errors);
    let pods = spec.at("template");
    if selector.selects_everything() || is_selected(&pods, &selector, errors) {
        lasting_template(&pods, old.map(|old| old.at("template")).as_ref(), "ReplicaSet", errors);
    } else {
        selector.invalid_selector("invalid label selector", errors);
    }
}

fn required_selector(selector: &Field<'_>, controller: &str, errors: &mut Errors) {
    if !selector.is_set() {
        selector.required("", errors);
        return;
    }
    selector.label_selector(errors);
    if selector.selects_everything() {
        selector.invalid_selector(&format!("empty selector is invalid for {controller}"), errors);
    }
}

fn keeps_selector(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (new, old) = (new.at("spec"), old.at("spec"));
    new.at("selector").immutable_selector(&old.at("selector"), errors);
}

const OVER_REPLICAS: &str = "cannot be greater than status.replicas";

pub(super) fn deployment_status(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    status.none_negative(&counts, errors);
    within_replicas(&status, &["updatedReplicas", "readyReplicas", "availableReplicas"], errors);
    available_are_ready(&status, "cannot be greater than readyReplicas", errors);
    collisions_grow(&status, &old.at("status"), errors);
}

fn within_replicas(status: &Field<'_>, counts: &[&str], errors: &mut Errors) {
    let replicas = status.at("replicas").int_or_zero();
    for count in counts {
        status.at(count).at_most(replicas, OVER_REPLICAS, errors);
    }
}

fn available_are_ready(status: &Field<'_>, detail: &str, errors: &mut Errors) {
    status.at("availableReplicas").at_most(status.at("readyReplicas").int_or_zero(), detail, errors);
}

fn collisions_grow(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (count, before) = (new.at("collisionCount"), old.at("collisionCount"));
    // None is less than any.
    if before.int().is_some_and(|before| count.int().is_none_or(|count| count < before)) {
        count.invalid_as(count.int_or_zero(), "cannot be decremented", errors);
    }
}

/// Replica sets.
pub(super) fn replica_set(_cx: &Cx<'_>, set: &Field<'_>, errors: &mut Errors) {
    replica_set_spec(&set.at("spec"), None, errors);
}

pub(super) fn replica_set_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    replica_set_spec(&new.at("spec"), Some(&old.at("spec")), errors);
    keeps_selector(new, old, errors);
}

fn replica_set_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    spec.none_negative(&["replicas", "minReadySeconds"], errors);
    replicated(spec, old, errors);
}

pub(super) fn replica_set_status(_cx: &Cx<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "terminatingReplicas",
        "observedGeneration",
    ];
    status.none_negative(&counts, errors);
    within_replicas(&status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], errors);
    available_are_ready(&status, "cannot be greater than readyReplicas", errors);
}

/// Daemon sets.
pub(super) fn daemon_set(_cx: &Cx<'_>, set: &Field<'_>, errors: &mut Errors) {
    daemon_set_spec(&set.at("spec"), None, errors);
}

pub(super) fn daemon_set_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    keeps_selector(new, old, errors);
    daemon_set_spec(&new.at("spec"), Some(&old.at("spec")), errors);
}

fn daemon_set_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let selector = spec.at("selector");
    selector.label_selector_as_before(old.map(|old| old.at("selector")).as_ref(), errors);
    let pods = spec.at("template");
    is_selected(&pods, &selector, errors);
    if selector.selects_everything() {
        selector.invalid_selector("empty selector is invalid for daemonset", errors);
    }
    lasting_template(&pods, old.map(|old| old.at("template")).as_ref(), "DaemonSet", errors);
    spec.at("minReadySeconds").non_negative(errors);
    daemon_set_strategy(&spec.at("updateStrategy"), errors);
    spec.at("revisionHistoryLimit").non_negative(errors);
}

fn daemon_set_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.at("rollingUpdate");
            if !rolling.is_set() {
                rolling.required("", errors);
                return;
            }
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            share(&unavailable, errors);
            share(&surge, errors);
            errors.extend(validate_at_most_100_percent(unavailable.value(), unavailable));
            errors.extend(validate_at_most_100_percent(surge.value(), surge));
            match (amount(&unavailable) != 0, amount(&surge) != 0) {
                (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero", errors),
                (false, false) => unavailable.required("cannot be 0 when maxSurge is 0", errors),
                _ => {}
            }
        }
        _ => unknown_strategy(strategy, &["RollingUpdate", "OnDelete"], errors),
    }
}

pub(super) fn daemon_set_status(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    status.none_negative(&counts, errors);
    collisions_grow(&status, &old.at("status"), errors);
}

/// Stateful sets.
pub(super) fn stateful_set(_cx: &Cx<'_>, set: &Field<'_>, errors: &mut Errors) {
    stateful_set_spec(&set.at("spec"), None, errors);
}

/// What updates of a stateful set may change in its spec.
const SET_CHANGES: &[&str] = &[
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn stateful_set_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, old) = (new.at("spec"), old.at("spec"));
    stateful_set_spec(&spec, Some(&old), errors);
    let members = [spec.value(), old.value()].into_iter().filter_map(|v| v.as_object()).flat_map(|map| map.keys());
    let fixed = members.filter(|member| !SET_CHANGES.contains(&member.as_str()));
    if fixed.into_iter().any(|member| !spec.at(member).same(&old.at(member))) {
        spec.forbidden(
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            errors,
        );
    }
}

fn stateful_set_spec(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let management = spec.at("podManagementPolicy");
    if management.is_given(errors) && !["OrderedReady", "Parallel"].contains(&management.text()) {
        management.invalid("must be 'OrderedReady' or 'Parallel'", errors);
    }
    stateful_set_strategy(&spec.at("updateStrategy"), errors);
    let retention = spec.at("persistentVolumeClaimRetentionPolicy");
    if retention.is_set() {
        for when in ["whenDeleted", "whenScaled"] {
            retention.at(when).one_of(&["Retain", "Delete"], errors);
        }
    }
    // What cannot be changed is not looked at again.
    let is_new = old.is_none();
    if is_new {
        spec.at("volumeClaimTemplates").each(|claim| claim_spec(&claim.at("spec"), errors));
    }
    spec.none_negative(&["replicas", "minReadySeconds"], errors);
    let ordinals = spec.at("ordinals");
    ordinals.at("start").non_negative(errors);
    let service = spec.at("serviceName");
    if is_new && !service.is_empty() {
        service.check(names::dns1123_label, errors);
    }
    let selector = spec.at("selector");
    required_selector(&selector, "statefulset", errors);
    let pods = spec.at("template");
    if selector.selects_everything() || is_selected(&pods, &selector, errors) {
        claiming_template(spec, old, errors);
    } else {
        selector.invalid_selector("", errors);
    }
    runs_on(&pods, "StatefulSet", errors);
}

/// The template of pods whose claims are volumes too. What was never looked at in the past, and was wrong, may stay wrong.
fn claiming_template(spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let check = |spec: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors| {
        let (pods, claims) = (spec.at("template"), spec.at("volumeClaimTemplates"));
        let old_pods = old.map(|old| old.at("template"));
        let made = as_made(pods.value(), claims.items());
        template(&pods.with(&made), old_pods.as_ref(), errors);
    };
    let before = errors.len();
    check(spec, old, errors);
    if errors.len() > before
        && let Some(old) = old
    {
        let mut old_errors = errors.afresh();
        check(old, None, &mut old_errors);
        if old_errors.len() > 0 {
            errors.truncate(before);
        }
    }
}

/// The template as pods are made of it: the set names them, and each claim is a volume.
fn as_made(pods: &Value, claims: &[Value]) -> Value {
    let mut pods = pods.clone();
    for own in ["hostname", "subdomain"] {
        pods.remove_at(&["spec", own]);
    }
    if claims.is_empty() {
        return pods;
    }
    // Claims without a name are called by the empty one, and of those of one name there is one volume.
    let mut claimed = HashSet::new();
    let named = claims.iter().map(|claim| claim.str_at(&["metadata", "name"]).unwrap_or_default());
    let mut all: Vec<Value> = named
        .filter(|name| claimed.insert(*name))
        .map(|name| object! { "name" => name, "persistentVolumeClaim" => object! { "claimName" => name } })
        .collect();
    let volumes = pods.at(&["spec", "volumes"]).and_then(Value::as_array).unwrap_or_default();
    let is_claimed = |volume: &Value| claimed.contains(volume.str_at(&["name"]).unwrap_or_default());
    all.extend(volumes.iter().filter(|volume| !is_claimed(volume)).cloned());
    pods.set(&["spec", "volumes"], all);
    pods
}

fn stateful_set_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "" => strategy.required("", errors),
        "OnDelete" if rolling.is_set() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            rolling.invalid_as(shown(rolling.value(), SET_ROLLING), detail, errors);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.at("partition").non_negative(errors);
            let unavailable = rolling.at("maxUnavailable");
            if unavailable.is_set() {
                share(&unavailable, errors);
                if amount(&unavailable) == 0 {
                    unavailable.invalid("cannot be 0", errors);
                }
                errors.extend(validate_at_most_100_percent(unavailable.value(), unavailable));
            }
        }
        _ => {
            let shown: BadValue = shown(strategy.value(), SET_STRATEGY);
            strategy.invalid_as(shown, "must be 'RollingUpdate' or 'OnDelete'", errors);
        }
    }
}

pub(super) fn stateful_set_status(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let counts = ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    status.none_negative(&counts, errors);
    status.none_negative(&["observedGeneration", "collisionCount"], errors);
    within_replicas(&status, &counts[1..], errors);
    available_are_ready(&status, "cannot be greater than status.readyReplicas", errors);
    collisions_grow(&status, &old.at("status"), errors);
}

/// Controller revisions.
pub(super) fn controller_revision(_cx: &Cx<'_>, revision: &Field<'_>, errors: &mut Errors) {
    revision.at("revision").non_negative(errors);
    let data = revision.at("data");
    if !data.is_set() {
        data.required("data is mandatory", errors);
    } else if data.value().as_object().is_none() {
        data.required("data must be a valid JSON object", errors);
    }
}

/// Differs: upstream compares the bytes of the data, so that it refuses data that a patch merely wrote anew.
pub(super) fn controller_revision_update(cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    controller_revision(cx, new, errors);
    new.at("data").immutable(&old.at("data"), errors);
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    type Rule = fn(&Field<'_>, &mut Errors);

    fn check(rule: Rule, text: &str, expect: &[&str]) {
        let value = json::decode(text.as_bytes()).expect("valid JSON");
        let mut errors = Errors::default();
        rule(&Field::root(&value), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{text}");
    }

    #[test]
    fn a_deployment_replaces_its_pods_one_way() {
        let rule: Rule = deployment_strategy;
        check(rule, r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1,"maxUnavailable":"25%"}}"#, &[]);
        check(
            rule,
            r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"0%","maxUnavailable":0}}"#,
            &["rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        );
        check(
            rule,
            r#"{"type":"Recreate","rollingUpdate":{}}"#,
            &["rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        );
        check(
            rule,
            r#"{"type":"Canary"}"#,
            &[
                r#"<nil>: Unsupported value: {"Type":"Canary","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#,
            ],
        );
    }

    #[test]
    fn a_daemon_set_has_either_more_or_fewer_pods_during_an_update() {
        let rule: Rule = daemon_set_strategy;
        check(rule, r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}"#, &[]);
        check(
            rule,
            r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"10%","maxUnavailable":1}}"#,
            &[r#"rollingUpdate.maxSurge: Invalid value: "10%": may not be set when maxUnavailable is non-zero"#],
        );
        check(
            rule,
            r#"{"type":"RollingUpdate","rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}"#,
            &["rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        );
    }

    #[test]
    fn collisions_are_only_ever_more() {
        let rule: Rule = |both, errors| collisions_grow(&both.at("new"), &both.at("old"), errors);
        check(rule, r#"{"new":{"collisionCount":2},"old":{"collisionCount":1}}"#, &[]);
        check(rule, r#"{"new":{"collisionCount":-2},"old":{}}"#, &[]);
        let shrunk = "new.collisionCount: Invalid value: 0: cannot be decremented";
        check(rule, r#"{"new":{},"old":{"collisionCount":0}}"#, &[shrunk]);
    }

    #[test]
    fn a_stateful_set_names_its_pods_and_their_claims_are_volumes() {
        let text = r#"{"spec":{"hostname":"x","volumes":[{"name":"own"},{"name":"data","emptyDir":{}}]}}"#;
        let pods = json::decode(text.as_bytes()).expect("valid JSON");
        let made = as_made(&pods, &[object! { "metadata" => object! { "name" => "data" } }]);
        assert_eq!(made.at(&["spec", "hostname"]), None);
        let names: Vec<_> =
            made.at(&["spec", "volumes"]).and_then(Value::as_array).unwrap_or_default().iter().collect();
        assert_eq!(names.len(), 2);
        assert_eq!(names[0].str_at(&["persistentVolumeClaim", "claimName"]), Some("data"), "claims come first");
        assert_eq!(names[1].str_at(&["name"]), Some("own"));
    }
}
