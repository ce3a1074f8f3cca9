//! Validates admissionregistration.k8s.io/v1 webhook configurations.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{
        domains::fully_qualified_name,
        names,
        selector::{LabelSelectorRules, validate_label_selector},
        webhook::validate_client_config,
    },
    value::Path,
};

use super::matching::{FAILURE_POLICIES, MATCH_POLICIES, match_conditions, rule};
use crate::validation::{Errors, Field};

type Cx<'a> = WriteContext<'a>;

const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const ALL_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];

/// What is not asked of an update because the old configuration does not have it.
#[derive(Clone, Copy, Default)]
struct Lenience {
    any_side_effects: bool,
    any_review_version: bool,
    any_names: bool,
    any_label_values: bool,
    any_conditions: bool,
}

impl Lenience {
    fn of(new: &Field<'_>, old: &Field<'_>) -> Self {
        let hooks = old.at("webhooks").items();
        let effects = |hook: &Value| hook.str_at(&["sideEffects"]).is_some_and(|e| SIDE_EFFECTS.contains(&e));
        let knows_version = |hook: &Value| {
            let versions = hook.get("admissionReviewVersions").and_then(Value::as_array).unwrap_or_default();
            versions.is_empty() || versions.iter().filter_map(Value::as_str).any(|v| REVIEW_VERSIONS.contains(&v))
        };
        let mut seen = HashSet::new();
        let selector_is_valid = |hook: &Value, member: &str| {
            let selector = hook.get(member).unwrap_or(&Value::Null);
            validate_label_selector(selector, LabelSelectorRules::default(), &Path::ROOT).is_empty()
        };
        let conditions = |configuration: &Field<'_>| -> Vec<Option<Value>> {
            configuration.at("webhooks").items().iter().map(|hook| hook.get("matchConditions").cloned()).collect()
        };
        Lenience {
            any_side_effects: !hooks.iter().all(effects),
            any_review_version: !hooks.iter().all(knows_version),
            any_names: !hooks.iter().all(|hook| seen.insert(hook.str_at(&["name"]))),
            any_label_values: !hooks
                .iter()
                .all(|h| selector_is_valid(h, "namespaceSelector") && selector_is_valid(h, "objectSelector")),
            any_conditions: conditions(new) == conditions(old),
        }
    }
}

pub(super) fn configuration(_cx: &Cx<'_>, configuration: &Field<'_>, errors: &mut Errors) {
    check(configuration, Lenience::default(), errors);
}

pub(super) fn configuration_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    check(new, Lenience::of(new, old), errors);
}

fn check(configuration: &Field<'_>, lenience: Lenience, errors: &mut Errors) {
    let hooks = configuration.at("webhooks");
    let mut seen = HashSet::new();
    for (i, item) in hooks.items().iter().enumerate() {
        let hook = hooks.index(i);
        check_hook(&hook, lenience, errors);
        review_versions(&hook.at("admissionReviewVersions"), lenience, errors);
        let name = item.str_at(&["name"]).unwrap_or_default();
        if !lenience.any_names && !name.is_empty() && !seen.insert(name) {
            hook.at("name").duplicate(errors);
        }
    }
}

fn check_hook(hook: &Field<'_>, lenience: Lenience, errors: &mut Errors) {
    let name = hook.at("name");
    errors.extend(fully_qualified_name(name.text(), name));
    hook.at("rules").each(|item| rule(&item, errors));
    for (member, supported) in [("failurePolicy", FAILURE_POLICIES), ("matchPolicy", MATCH_POLICIES)] {
        let member = hook.at(member);
        if member.is_set() {
            member.one_of(supported, errors);
        }
    }
    let effects = hook.at("sideEffects");
    let allowed = if lenience.any_side_effects { ALL_SIDE_EFFECTS } else { SIDE_EFFECTS };
    if effects.is_set() {
        effects.one_of(allowed, errors);
    } else {
        effects.required(format!("must specify one of {}", allowed.join(", ")), errors);
    }
    let timeout = hook.at("timeoutSeconds");
    if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        timeout.invalid("the timeout value must be between 1 and 30 seconds", errors);
    }
    let rules = LabelSelectorRules { any_values: lenience.any_label_values };
    for selector in ["namespaceSelector", "objectSelector"] {
        let selector = hook.at(selector);
        errors.extend(validate_label_selector(selector.value(), rules, selector.path()));
    }
    // Hooks that only look have no such policy.
    let again = hook.at("reinvocationPolicy");
    if again.is_set() {
        again.one_of(&["IfNeeded", "Never"], errors);
    }
    let client = hook.at("clientConfig");
    errors.extend(validate_client_config(client.value(), client.path()));
    if !lenience.any_conditions {
        match_conditions(&hook.at("matchConditions"), false, errors);
    }
}

fn review_versions(versions: &Field<'_>, lenience: Lenience, errors: &mut Errors) {
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        versions.required(format!("must specify one of {known}"), errors);
        return;
    }
    let mut seen = HashSet::new();
    for (i, version) in versions.items().iter().enumerate() {
        if seen.insert(version.as_str()) {
            versions.index(i).check(names::dns1035_label, errors);
        } else {
            versions.index(i).invalid("duplicate version", errors);
        }
    }
    if !lenience.any_review_version && !REVIEW_VERSIONS.iter().any(|known| seen.contains(&Some(*known))) {
        versions.invalid(format!("must include at least one of {known}"), errors);
    }
}
