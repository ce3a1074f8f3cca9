//! What is wrong with admission policies and their bindings. Expressions must be there; what they say is not looked at here.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::meta::{names, validation::validate_conditions};

use super::matching::{FAILURE_POLICIES, match_conditions, match_resources};
use crate::validation::{Errors, Field};

type Cx<'a> = WriteContext<'a>;

const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_EXPRESSION: usize = 5 * 1024;
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
const EITHER: &str = "validations or auditAnnotations must contain at least one item";

pub(super) fn validating(_cx: &Cx<'_>, policy: &Field<'_>, errors: &mut Errors) {
    validating_policy(policy, false, errors);
}

pub(super) fn validating_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    validating_policy(new, keeps_conditions(new, old), errors);
}

fn keeps_conditions(new: &Field<'_>, old: &Field<'_>) -> bool {
    let (new, old) = (new.at("spec"), old.at("spec"));
    ["paramKind", "matchConditions"].iter().all(|member| new.at(member).value() == old.at(member).value())
}

fn validating_policy(policy: &Field<'_>, any_conditions: bool, errors: &mut Errors) {
    let (metadata, spec) = (policy.at("metadata"), policy.at("spec"));
    policy_spec(&spec, any_conditions, errors);
    let (validations, annotations) = (spec.at("validations"), spec.at("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        validations.required(EITHER, errors);
        annotations.required(EITHER, errors);
        return;
    }
    validations.each(|item| validation(&item, errors));
    if annotations.len() > MAX_ANNOTATIONS {
        annotations.invalid(format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations"), errors);
    }
    let mut seen = HashSet::new();
    for (i, item) in annotations.items().iter().enumerate() {
        let annotation = annotations.index(i);
        audit_annotation(&annotation, metadata.at("name").text(), errors);
        if !seen.insert(item.str_at(&["key"]).unwrap_or_default()) {
            annotation.at("key").duplicate(errors);
        }
    }
}

/// What both kinds of policies have.
fn policy_spec(spec: &Field<'_>, any_conditions: bool, errors: &mut Errors) {
    let failure = spec.at("failurePolicy");
    if failure.is_set() {
        failure.one_of(FAILURE_POLICIES, errors);
    } else {
        failure.required("", errors);
    }
    let kind = spec.at("paramKind");
    if kind.is_set() {
        param_kind(&kind, errors);
    }
    let matches = spec.at("matchConstraints");
    if matches.is_set() {
        match_resources(&matches, errors);
        matches.at("resourceRules").is_given(errors);
    } else {
        matches.required("", errors);
    }
    if !any_conditions {
        match_conditions(&spec.at("matchConditions"), errors);
    }
    spec.at("variables").each(|item| variable(&item, errors));
}

fn param_kind(param: &Field<'_>, errors: &mut Errors) {
    let (version, kind) = (param.at("apiVersion"), param.at("kind"));
    if version.is_given(errors) {
        let text = version.text();
        let (group, name) = match text.split_once('/') {
            _ if text == "/" => ("", ""),
            None => ("", text),
            Some((group, name)) => (group, name),
        };
        if text.matches('/').count() > 1 {
            version.invalid(format!("unexpected GroupVersion string: {text}"), errors);
        } else {
            let problems = names::dns1123_subdomain(group);
            if !group.is_empty() && !problems.is_empty() {
                version.invalid_as(group, problems.join(","), errors);
            }
            let problems = names::dns1035_label(name);
            if name.is_empty() {
                version.invalid("version must be specified", errors);
            } else if !problems.is_empty() {
                version.invalid_as(name, problems.join(","), errors);
            }
        }
    }
    if kind.is_given(errors) {
        let problems = names::dns1035_label(&kind.text().to_lowercase());
        if !problems.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            kind.invalid(detail, errors);
        }
    }
}

fn variable(variable: &Field<'_>, errors: &mut Errors) {
    let (name, expression) = (variable.at("name"), variable.at("expression"));
    if name.text().trim().is_empty() {
        name.required("name is not specified", errors);
    } else if !is_identifier(name.text()) {
        name.invalid("must be a valid CEL identifier", errors);
    }
    is_specified(&expression, errors);
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |b: u8| b == b'_' || b.is_ascii_alphabetic();
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|b| is_letter(b) || b.is_ascii_digit())
        && !cel::syntax::is_reserved(text)
}

fn is_specified(expression: &Field<'_>, errors: &mut Errors) {
    if expression.text().trim().is_empty() {
        expression.required("expression is not specified", errors);
    }
}

fn validation(validation: &Field<'_>, errors: &mut Errors) {
    is_specified(&validation.at("expression"), errors);
    let (computed, message) = (validation.at("messageExpression"), validation.at("message"));
    let blank = |field: &Field<'_>| !field.is_empty() && field.text().trim().is_empty();
    if blank(&computed) {
        computed.invalid("must be non-empty if specified", errors);
    }
    if blank(&message) {
        message.invalid("must be non-empty if specified", errors);
    } else if message.text().trim().contains(['\n', '\r']) {
        message.invalid("must not contain line breaks", errors);
    }
    let reason = validation.at("reason");
    if reason.is_set() {
        reason.one_of(REASONS, errors);
    }
}

fn audit_annotation(annotation: &Field<'_>, policy: &str, errors: &mut Errors) {
    let (key, expression) = (annotation.at("key"), annotation.at("valueExpression"));
    // In the audit log the key stands behind the policy's name.
    let full = format!("{policy}/{}", key.text());
    for message in names::qualified_name(&full) {
        key.invalid_as(full.as_str(), message, errors);
    }
    let length = expression.text().trim().len();
    if length == 0 {
        expression.required("valueExpression is not specified", errors);
    } else if length > MAX_ANNOTATION_EXPRESSION {
        expression.required(format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length"), errors);
    }
}

pub(super) fn validating_status(_cx: &Cx<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let checking = status.at("typeChecking");
    checking.at("expressionWarnings").each(|warning| {
        warning.at("warning").is_given(errors);
        let reference = warning.at("fieldRef");
        if reference.text().trim().is_empty() {
            reference.required("", errors);
        }
    });
    let conditions = status.at("conditions");
    errors.extend(validate_conditions(conditions.items(), conditions.path()));
}

pub(super) fn mutating(_cx: &Cx<'_>, policy: &Field<'_>, errors: &mut Errors) {
    mutating_policy(policy, false, errors);
}

pub(super) fn mutating_update(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    mutating_policy(new, keeps_conditions(new, old), errors);
}

fn mutating_policy(policy: &Field<'_>, any_conditions: bool, errors: &mut Errors) {
    let spec = policy.at("spec");
    policy_spec(&spec, any_conditions, errors);
    let mutations = spec.at("mutations");
    if mutations.is_empty() {
        mutations.required("mutations must contain at least one item", errors);
    }
    mutations.each(|item| mutation(&item, errors));
    spec.at("reinvocationPolicy").required_one_of(&["IfNeeded", "Never"], errors);
}

/// Types of patches, with the member that holds each.
const PATCHES: &[(&str, &str)] = &[("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];

fn mutation(mutation: &Field<'_>, errors: &mut Errors) {
    let kind = mutation.at("patchType");
    let Some((name, member)) = PATCHES.iter().find(|(name, _)| *name == kind.text()) else {
        kind.required_one_of(&["ApplyConfiguration", "JSONPatch"], errors);
        return;
    };
    let patch = mutation.at(member);
    if patch.is_set() {
        is_specified(&patch.at("expression"), errors);
    } else {
        patch.required(format!("must be specified when patchType is {name}"), errors);
    }
    for (_, other) in PATCHES.iter().filter(|(_, other)| other != member) {
        if mutation.at(other).is_set() {
            let detail = format!("must not be specified when patchType is {name}");
            mutation.at(other).invalid_as(format!("{{{other}}}"), detail, errors);
        }
    }
}

pub(super) fn validating_binding(cx: &Cx<'_>, binding: &Field<'_>, errors: &mut Errors) {
    mutating_binding(cx, binding, errors);
    let spec = binding.at("spec");
    let actions = spec.at("validationActions");
    let mut seen = HashSet::new();
    for (i, action) in actions.items().iter().enumerate() {
        let at = actions.index(i);
        at.one_of(&["Audit", "Deny", "Warn"], errors);
        if !seen.insert(action.as_str().unwrap_or_default()) {
            at.duplicate(errors);
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                      response and headers serves no purpose)";
        actions.invalid(detail, errors);
    }
    if seen.is_empty() {
        actions.required("at least one validation action is required", errors);
    }
}

pub(super) fn mutating_binding(_cx: &Cx<'_>, binding: &Field<'_>, errors: &mut Errors) {
    let spec = binding.at("spec");
    let name = spec.at("policyName");
    if name.is_given(errors) {
        name.check(names::dns1123_subdomain, errors);
    }
    param_ref(&spec.at("paramRef"), errors);
    match_resources(&spec.at("matchResources"), errors);
}

fn param_ref(param: &Field<'_>, errors: &mut Errors) {
    if !param.is_set() {
        return;
    }
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (param.at("name"), param.at("selector"));
    if !name.is_empty() {
        name.check(names::path_segment_name, errors);
        if selector.is_set() {
            name.forbidden(EXCLUSIVE, errors);
        }
    }
    if selector.is_set() {
        selector.label_selector(errors);
        if !name.is_empty() {
            selector.forbidden(EXCLUSIVE, errors);
        }
    }
    if name.is_empty() && !selector.is_set() {
        param.required("one of name or selector must be specified", errors);
    }
    param.at("parameterNotFoundAction").required_one_of(&["Deny", "Allow"], errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_of_cel() {
        for name in ["a", "_", "a1_B"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["", "1x", "a-b", "in", "namespace", "ä"] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}
