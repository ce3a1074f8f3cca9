//! Validates `spec.podFailurePolicy` of batch/v1 Jobs.

use std::collections::HashSet;

use machinery::{
    Value,
    meta::{BadValue, FieldError, names},
};

use crate::validation::{Errors, Field, Go, Member, shown};

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_CONDITIONS: usize = 20;
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: &[&str] = &["False", "True", "Unknown"];

const EXIT_CODES: &[Member] = &[
    Member("ContainerName", "containerName", Go::Plain),
    Member("Operator", "operator", Go::Text),
    Member("Values", "values", Go::Plain),
];
const CONDITION: &[Member] = &[Member("Type", "type", Go::Text), Member("Status", "status", Go::Text)];
const RULE: &[Member] = &[
    Member("Action", "action", Go::Text),
    Member("OnExitCodes", "onExitCodes", Go::Pointer(EXIT_CODES)),
    Member("OnPodConditions", "onPodConditions", Go::List(CONDITION)),
];
const POLICY: &[Member] = &[Member("Rules", "rules", Go::List(RULE))];

/// The policy as Go shows it.
pub(super) fn shown_policy(policy: &Value) -> BadValue {
    if policy.is_null() { BadValue::from(Value::Null) } else { shown(policy, POLICY) }
}

/// The policy in this spec of a job.
pub(super) fn check(spec: &Field<'_>, errors: &mut Errors) {
    let policy = spec.at("podFailurePolicy");
    let rules = policy.at("rules");
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(rules, rules.len(), MAX_RULES));
    }
    let pods = spec.at("template");
    let pod = pods.at("spec");
    let containers: HashSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod.at(list).items())
        .filter_map(|container| container.str_at(&["name"]))
        .collect();
    let per_index = spec.at("backoffLimitPerIndex").is_set();
    rules.each(|rule| check_rule(&rule, &containers, per_index, errors));
}

fn quoted(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn check_rule(rule: &Field<'_>, containers: &HashSet<&str>, per_index: bool, errors: &mut Errors) {
    let action = rule.at("action");
    match action.text() {
        "" => action.required(quoted(ACTIONS), errors),
        "FailIndex" if !per_index => action.invalid("requires the backoffLimitPerIndex to be set", errors),
        _ => action.one_of(ACTIONS, errors),
    }
    let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
    if codes.is_set() {
        exit_codes(&codes, containers, errors);
    }
    pod_conditions(&conditions, errors);
    let detail = match (codes.is_set(), !conditions.is_empty()) {
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    rule.invalid_as(BadValue::Omitted, detail, errors);
}

fn pod_conditions(conditions: &Field<'_>, errors: &mut Errors) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(conditions, conditions.len(), MAX_CONDITIONS));
    }
    conditions.each(|pattern| {
        pattern.at("type").check(names::qualified_name, errors);
        let status = pattern.at("status");
        if status.is_empty() {
            status.required(quoted(STATUSES), errors);
        } else {
            status.one_of(STATUSES, errors);
        }
    });
}

fn exit_codes(codes: &Field<'_>, containers: &HashSet<&str>, errors: &mut Errors) {
    let operator = codes.at("operator");
    if operator.is_empty() {
        operator.required(quoted(&["In", "NotIn"]), errors);
    } else {
        operator.one_of(&["In", "NotIn"], errors);
    }
    let container = codes.at("containerName");
    if container.is_set() && !containers.contains(container.text()) {
        container.invalid("must be one of the container or initContainer names in the pod template", errors);
    }
    let values = codes.at("values");
    if values.is_empty() {
        values.invalid("at least one value is required", errors);
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(values, values.len(), MAX_EXIT_CODES));
    }
    let mut seen = HashSet::new();
    values.each(|value| {
        if operator.text() == "In" && value.int() == Some(0) {
            value.invalid("must not be 0 for the In operator", errors);
        }
        if !seen.insert(value.int_or_zero()) {
            value.duplicate(errors);
        }
    });
    if values.items().windows(2).any(|pair| pair[0].as_i64() > pair[1].as_i64()) {
        values.invalid("must be ordered", errors);
    }
}
