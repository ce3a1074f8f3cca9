//! Validates admissionregistration.k8s.io admission policies and their bindings.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::meta::{names, validation::validate_conditions};
use policies::{Compiler, ExpectedType};

use super::{
    expressions::{expression, expression_as, variable},
    matching::{FAILURE_POLICIES, match_conditions, match_resources},
};
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
    let compiler = &mut policy_spec(&spec, any_conditions, false, errors);
    let (validations, annotations) = (spec.at("validations"), spec.at("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        validations.required(EITHER, errors);
        annotations.required(EITHER, errors);
        return;
    }
    validations.each(|item| validation(&item, compiler, errors));
    if annotations.len() > MAX_ANNOTATIONS {
        annotations.invalid(format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations"), errors);
    }
    let mut seen = HashSet::new();
    for (i, item) in annotations.items().iter().enumerate() {
        let annotation = annotations.index(i);
        audit_annotation(&annotation, metadata.at("name").text(), compiler, errors);
        if !seen.insert(item.str_at(&["key"]).unwrap_or_default()) {
            annotation.at("key").duplicate(errors);
        }
    }
}

/// What both kinds of policies have. `operations`: what else is asked of the rules. Answers what compiles the expressions
/// that come after the variables.
fn policy_spec(spec: &Field<'_>, any_conditions: bool, mutates: bool, errors: &mut Errors) -> Compiler {
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
        if mutates {
            mutable_operations(&matches.at("resourceRules"), errors);
        }
    } else {
        matches.required("", errors);
    }
    if !any_conditions {
        match_conditions(&spec.at("matchConditions"), kind.is_set(), errors);
    }
    let variables = spec.at("variables");
    // What mutates may name variables even where there are none.
    let mut compiler = Compiler::new(kind.is_set(), mutates || !variables.is_empty());
    variables.each(|item| variable(&item, &mut compiler, errors));
    compiler
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

fn validation(validation: &Field<'_>, compiler: &mut Compiler, errors: &mut Errors) {
    expression(&validation.at("expression"), ExpectedType::Condition, compiler, errors);
    let (computed, message) = (validation.at("messageExpression"), validation.at("message"));
    let blank = |field: &Field<'_>| !field.is_empty() && field.text().trim().is_empty();
    if blank(&computed) {
        computed.invalid("must be non-empty if specified", errors);
    } else if !computed.is_empty() {
        expression(&computed, ExpectedType::Message, compiler, errors);
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

fn audit_annotation(annotation: &Field<'_>, policy: &str, compiler: &mut Compiler, errors: &mut Errors) {
    let (key, value) = (annotation.at("key"), annotation.at("valueExpression"));
    // In the audit log the key stands behind the policy's name.
    let full = format!("{policy}/{}", key.text());
    if policy.is_empty() {
        key.invalid("requires metadata.name be non-empty", errors);
    } else {
        for message in names::qualified_name(&full) {
            key.invalid_as(full.as_str(), message, errors);
        }
    }
    let text = value.text().trim();
    if text.is_empty() {
        value.required("valueExpression is not specified", errors);
    } else if text.len() > MAX_ANNOTATION_EXPRESSION {
        value.required(format!("must not exceed {MAX_ANNOTATION_EXPRESSION} bytes in length"), errors);
    } else {
        expression_as(&value, value.text(), compiler.compile(text, ExpectedType::Annotation), errors);
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
    let compiler = &mut policy_spec(&spec, any_conditions, true, errors);
    let mutations = spec.at("mutations");
    if mutations.is_empty() {
        mutations.required("mutations must contain at least one item", errors);
    }
    mutations.each(|item| mutation(&item, compiler, errors));
    spec.at("reinvocationPolicy").required_one_of(&["IfNeeded", "Never"], errors);
}

/// What is deleted cannot be changed.
fn mutable_operations(rules: &Field<'_>, errors: &mut Errors) {
    let path = rules.at("operations");
    rules.each(|rule| {
        for operation in rule.at("operations").items() {
            path.with(operation).one_of(&["*", "CONNECT", "CREATE", "UPDATE"], errors);
        }
    });
}

/// Types of patches, with the member that holds each.
const PATCHES: &[(&str, &str, ExpectedType)] = &[
    ("ApplyConfiguration", "applyConfiguration", ExpectedType::Apply),
    ("JSONPatch", "jsonPatch", ExpectedType::JsonPatch),
];

fn mutation(mutation: &Field<'_>, compiler: &mut Compiler, errors: &mut Errors) {
    let kind = mutation.at("patchType");
    let Some((name, member, wanted)) = PATCHES.iter().find(|(name, ..)| *name == kind.text()) else {
        kind.required_one_of(&["ApplyConfiguration", "JSONPatch"], errors);
        return;
    };
    let patch = mutation.at(member);
    if patch.is_set() {
        let text = patch.at("expression");
        match text.text().trim().is_empty() {
            true => text.required("", errors),
            false => expression(&text, *wanted, compiler, errors),
        }
    } else {
        patch.required(format!("must be specified when patchType is {name}"), errors);
    }
    for (_, other, _) in PATCHES.iter().filter(|(_, other, _)| other != member) {
        if mutation.at(other).is_set() {
            let detail = format!("must not be specified when patchType is {name}");
            mutation.at(other).invalid_as(format!("{{{other}}}"), detail, errors);
        }
    }
}

pub(super) fn validating_binding(_cx: &Cx<'_>, binding: &Field<'_>, errors: &mut Errors) {
    any_binding(binding, errors);
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
    any_binding(binding, errors);
    let spec = binding.at("spec");
    let matches = spec.at("matchResources");
    mutable_operations(&matches.at("resourceRules"), errors);
}

/// What is wrong with a binding of either kind.
fn any_binding(binding: &Field<'_>, errors: &mut Errors) {
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
