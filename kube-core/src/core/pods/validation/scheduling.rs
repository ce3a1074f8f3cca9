//! Validates what decides where a pod runs: node selectors, affinity, tolerations, topology spread constraints.

use std::collections::HashMap;

use machinery::{
    Value,
    meta::{
        field_error::FieldError,
        names,
        selector::{LabelSelectorRules, validate_label_selector},
    },
};

use super::scope::{Scope, list, name, text};
use crate::validation::{Errors, Field, Seen, not_an_int64};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What draws a pod to nodes and to other pods, and away from them.
pub(super) fn affinity(affinity: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let node = affinity.at("nodeAffinity");
    let required = node.at(REQUIRED);
    if required.is_set() {
        let any_values = || scope.tolerates(has_odd_node_values);
        node_selector(&required, &any_values, errors);
    }
    node.at(PREFERRED).each(|term| {
        weight(&term.at("weight"), errors);
        // Values have always been free here.
        node_selector_term(&term.at("preference"), &|| true, errors);
    });
    for side in ["podAffinity", "podAntiAffinity"] {
        let side = affinity.at(side);
        side.at(REQUIRED).each(|term| pod_term(&term, scope, errors));
        side.at(PREFERRED).each(|term| {
            weight(&term.at("weight"), errors);
            pod_term(&term.at("podAffinityTerm"), scope, errors);
        });
    }
}

fn weight(weight: &Field<'_>, errors: &mut Errors) {
    if !(1..=100).contains(&weight.int_or_zero()) {
        weight.invalid_as(weight.int_or_zero(), "must be in the range 1-100", errors);
    }
}

/// Terms of which a node must match one. `any_values` says whether odd values are let pass.
pub(crate) fn node_selector(selector: &Field<'_>, any_values: &dyn Fn() -> bool, errors: &mut Errors) {
    let terms = selector.at("nodeSelectorTerms");
    if terms.is_empty() {
        return terms.required("must have at least one node selector term", errors);
    }
    terms.each(|term| node_selector_term(&term, any_values, errors));
}

fn node_selector_term(term: &Field<'_>, any_values: &dyn Fn() -> bool, errors: &mut Errors) {
    term.at("matchExpressions").each(|requirement| node_labels(&requirement, any_values, errors));
    term.at("matchFields").each(|requirement| node_fields(&requirement, errors));
}

fn node_labels(requirement: &Field<'_>, any_values: &dyn Fn() -> bool, errors: &mut Errors) {
    let (operator, values) = (requirement.at("operator"), requirement.at("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'", errors);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'", errors);
        }
        "Gt" | "Lt" if values.len() != 1 => {
            values.required("must be specified single value when `operator` is 'Lt' or 'Gt'", errors);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => operator.invalid_text("not a valid selector operator", errors),
    }
    requirement.at("key").check(names::qualified_name, errors);
    let before = errors.len();
    values.each(|value| value.check(names::label_value, errors));
    if errors.len() > before && any_values() {
        errors.truncate(before);
    }
}

fn node_fields(requirement: &Field<'_>, errors: &mut Errors) {
    let (key, operator, values) = (requirement.at("key"), requirement.at("operator"), requirement.at("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            values.required(detail, errors);
        }
        "In" | "NotIn" => {}
        _ => operator.invalid_text("not a valid selector operator", errors),
    }
    match key.text() {
        "metadata.name" => values.each(|value| value.check(names::dns1123_subdomain, errors)),
        _ => key.invalid_text("not a valid field selector key", errors),
    }
}

fn has_odd_node_values(spec: &Value) -> bool {
    let required = spec.at(&["affinity", "nodeAffinity", REQUIRED]).unwrap_or(&Value::Null);
    let expressions = list(required, "nodeSelectorTerms").iter().flat_map(|term| list(term, "matchExpressions"));
    has_odd_values(expressions)
}

fn has_odd_values<'a>(mut expressions: impl Iterator<Item = &'a Value>) -> bool {
    let odd = |value: &Value| !names::label_value(value.as_str().unwrap_or_default()).is_empty();
    expressions.any(|expression| list(expression, "values").iter().any(odd))
}

fn pod_term(term: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    for member in ["labelSelector", "namespaceSelector"] {
        selector(&term.at(member), &|| scope.tolerates(has_odd_pod_values), errors);
    }
    let namespaces = term.at("namespaces");
    let place = term.at("namespace");
    namespaces.each(|namespace| place.with(namespace.value()).check(names::dns1123_label, errors));
    label_keys(term, errors);
    let key = term.at("topologyKey");
    if key.is_empty() {
        key.required("can not be empty", errors);
    }
    key.check(names::qualified_name, errors);
}

/// A label selector. `any_values` says whether odd values are let pass.
fn selector(selector: &Field<'_>, any_values: &dyn Fn() -> bool, errors: &mut Errors) {
    let found = validate_label_selector(selector.value(), LabelSelectorRules::default(), selector.path());
    if found.is_empty() {
        return;
    }
    let rules = LabelSelectorRules { any_values: any_values() };
    errors.extend(validate_label_selector(selector.value(), rules, selector.path()));
}

fn has_odd_pod_values(spec: &Value) -> bool {
    let Some(affinity) = spec.get("affinity") else { return false };
    ["podAffinity", "podAntiAffinity"].iter().filter_map(|side| affinity.get(side)).any(|side| {
        let required = list(side, REQUIRED).iter();
        let preferred = list(side, PREFERRED).iter().filter_map(|term| term.get("podAffinityTerm"));
        required.chain(preferred).any(|term| {
            let selectors = ["labelSelector", "namespaceSelector"].iter().filter_map(|member| term.get(member));
            selectors.into_iter().any(|selector| has_odd_values(list(selector, "matchExpressions").iter()))
        })
    })
}

/// Keys of the pod's own labels, in the term or constraint that they narrow.
fn label_keys(holder: &Field<'_>, errors: &mut Errors) {
    let selector = holder.value().get("labelSelector").filter(|s| !s.is_null());
    for member in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = holder.at(member);
        match selector {
            None if !keys.is_empty() => keys.forbidden("must not be specified when labelSelector is not set", errors),
            _ => keys.each(|key| key.check(names::qualified_name, errors)),
        }
    }
    let keys = list(holder.value(), "matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    if let Some(selector) = selector {
        // The keys have been written out as expressions by now: a second use of one is the client's own.
        let places: HashMap<&str, usize> = keys.iter().filter_map(Value::as_str).zip(0..).collect();
        let own = selector.get("matchLabels").and_then(Value::as_object);
        let mut used: Seen<&str> = own.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
        for expression in list(selector, "matchExpressions") {
            let key = text(expression, "key");
            if let Some(i) = places.get(key)
                && used.contains(key)
            {
                let detail = "exists in both matchLabelKeys and labelSelector";
                errors.push(FieldError::invalid(holder.path().index(*i), key, detail));
            }
            used.insert(key);
        }
    }
    let others: Seen<&str> = list(holder.value(), "mismatchLabelKeys").iter().filter_map(Value::as_str).collect();
    holder.at("matchLabelKeys").each(|key| {
        if others.contains(key.text()) {
            key.invalid("exists in both matchLabelKeys and mismatchLabelKeys", errors);
        }
    });
}

/// What a pod stands. `compares`: the operators that compare numbers are there.
pub(crate) fn tolerations(tolerations: &Field<'_>, compares: bool, errors: &mut Errors) {
    tolerations.each(|toleration| {
        let (key, operator) = (toleration.at("key"), toleration.at("operator"));
        let (value, effect) = (toleration.at("value"), toleration.at("effect"));
        key.check_some(names::qualified_name, errors);
        if key.is_empty() && operator.text() != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            operator.invalid_text(detail, errors);
        }
        if toleration.at("tolerationSeconds").is_set() && effect.text() != "NoExecute" {
            effect.invalid_text("effect must be 'NoExecute' when `tolerationSeconds` is set", errors);
        }
        match operator.text() {
            "Equal" | "" => {
                let messages = names::label_value(value.text());
                if !messages.is_empty() {
                    operator.invalid_as(value.text(), messages.join(";"), errors);
                }
            }
            "Exists" if !value.is_empty() => {
                operator.invalid_as(value.text(), "value must be empty when `operator` is 'Exists'", errors);
            }
            "Exists" => {}
            "Lt" | "Gt" if compares => compared_number(&value, errors),
            "Lt" | "Gt" => operator.not_supported(&["Equal", "Exists", "Lt", "Gt"], errors),
            _ => operator.not_supported(&["Equal", "Exists"], errors),
        }
        if !effect.is_empty() {
            effect.one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
    });
}

/// A number to compare a taint's with: 64 bits, as people write it.
fn compared_number(value: &Field<'_>, errors: &mut Errors) {
    let text = value.text();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_canonical = text == "0"
        || (digits.starts_with(|c: char| ('1'..='9').contains(&c)) && digits.bytes().all(|b| b.is_ascii_digit()));
    if text.is_empty() {
        value.invalid_as(text, "must be non-empty", errors);
    } else if !is_canonical {
        value.invalid_as(text, "must be a valid decimal integer in canonical form", errors);
    }
    if let Some(why) = not_an_int64(text) {
        value.invalid_as(text, why, errors);
    }
}

/// Whether tolerations may compare numbers: the feature is on, or some did before.
pub(super) fn may_compare(scope: &Scope<'_>, errors: &Errors) -> bool {
    let compares = |old: &Value| list(old, "tolerations").iter().any(|t| matches!(text(t, "operator"), "Lt" | "Gt"));
    errors.has("TaintTolerationComparisonOperators") || scope.tolerates(compares)
}

/// What must be gone before a pod is scheduled.
pub(super) fn gates(gates: &Field<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    gates.each_item(|gate, value| {
        let place = gate.with(&Value::Null);
        for message in names::qualified_name(name(value)) {
            place.invalid_as(name(value), message, errors);
        }
        if !seen.insert(name(value)) {
            errors.push(FieldError::duplicate(place, name(value)));
        }
    });
}

/// How pods of one kind spread.
pub(super) fn spread(constraints: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if constraints.is_empty() {
        return;
    }
    let last: HashMap<_, _> = constraints.items().iter().map(pair).zip(0_usize..).collect();
    let mut position = 0;
    constraints.each_item(|constraint, value| {
        positive(&constraint.at("maxSkew"), errors);
        let (key, action) = (constraint.at("topologyKey"), constraint.at("whenUnsatisfiable"));
        if key.is_empty() {
            key.required("can not be empty", errors);
        }
        action.one_of(&["DoNotSchedule", "ScheduleAnyway"], errors);
        // Each pair once; upstream names all but the last.
        if last.get(&pair(value)).is_some_and(|last| *last > position) {
            let place = constraint.at("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(place, format!("{{{}, {}}}", key.text(), action.text())));
        }
        let domains = constraint.at("minDomains");
        if domains.is_set() {
            positive(&domains, errors);
            if action.text() != "DoNotSchedule" {
                let action = action.text();
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                domains.invalid(detail, errors);
            }
        }
        constraint.at("nodeAffinityPolicy").some_one_of(&["Honor", "Ignore"], errors);
        constraint.at("nodeTaintsPolicy").some_one_of(&["Honor", "Ignore"], errors);
        spread_keys(&constraint, scope, errors);
        spread_selector(&constraint.at("labelSelector"), scope, errors);
        position += 1;
    });
}

/// What tells constraints apart.
fn pair(constraint: &Value) -> (&str, &str) {
    (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"))
}

fn positive(number: &Field<'_>, errors: &mut Errors) {
    if number.int_or_zero() <= 0 {
        number.invalid_as(number.int_or_zero(), "must be greater than zero", errors);
    }
}

fn spread_keys(constraint: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let before = errors.len();
    if !errors.has("MatchLabelKeysInPodTopologySpreadSelectorMerge") {
        old_spread_keys(constraint, errors);
        if errors.len() > before && scope.tolerates(|old| has_odd_spread_keys(old, old_spread_keys)) {
            errors.truncate(before);
            label_keys(constraint, errors);
        }
        return;
    }
    label_keys(constraint, errors);
    if errors.len() > before && scope.tolerates(|old| has_odd_spread_keys(old, label_keys)) {
        errors.truncate(before);
        old_spread_keys(constraint, errors);
    }
}

/// The rule of versions before 1.34, which knew nothing of keys written out.
fn old_spread_keys(constraint: &Field<'_>, errors: &mut Errors) {
    let keys = constraint.at("matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let selector = constraint.at("labelSelector");
    if !selector.is_set() {
        keys.forbidden("must not be specified when labelSelector is not set", errors);
    }
    let labels = selector.value().get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let expressions = list(selector.value(), "matchExpressions").iter().map(|e| text(e, "key"));
    let used: Seen<&str> = labels.map(|(key, _)| key.as_str()).chain(expressions).collect();
    keys.each(|key| {
        key.check(names::qualified_name, errors);
        if used.contains(key.text()) {
            key.invalid("exists in both matchLabelKeys and labelSelector", errors);
        }
    });
}

fn has_odd_spread_keys(spec: &Value, rule: fn(&Field<'_>, &mut Errors)) -> bool {
    list(spec, "topologySpreadConstraints").iter().any(|constraint| {
        let mut errors = Errors::default();
        rule(&Field::root(constraint), &mut errors);
        errors.len() > 0
    })
}

fn spread_selector(selector: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let check = |selector: &Value, path| validate_label_selector(selector, LabelSelectorRules::default(), path);
    let found = check(selector.value(), selector.path());
    let had = |spec: &Value| {
        let mut selectors = list(spec, "topologySpreadConstraints").iter().filter_map(|c| c.get("labelSelector"));
        selectors.any(|selector| !check(selector, &machinery::value::Path::ROOT).is_empty())
    };
    if !found.is_empty() && !scope.tolerates(had) {
        errors.extend(found);
    }
}
