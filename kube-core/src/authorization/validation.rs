//! Validates authorization.k8s.io/v1 access reviews.

use machinery::{
    Str, Value,
    codec::json,
    meta::{BadValue, names},
    object,
};

use super::reviews::Subject;
use crate::validation::{Errors, Field};

/// Checks a review that was sent to `namespace` (empty for reviews of the whole cluster).
pub(super) fn validate(review: &Value, subject: Subject, namespace: &str, errors: &mut Errors) {
    let review = Field::root(review);
    let spec = review.at("spec");
    let (resource, other) = (spec.at("resourceAttributes"), spec.at("nonResourceAttributes"));
    if resource.is_set() && other.is_set() {
        let detail = "cannot be specified in combination with resourceAttributes";
        other.invalid_as(shown_path(&other), detail, errors);
    }
    if !resource.is_set() && !other.is_set() {
        resource.invalid("exactly one of nonResourceAttributes or resourceAttributes must be specified", errors);
    }
    if subject != Subject::Oneself && spec.at("user").is_empty() && spec.at("groups").is_empty() {
        spec.at("user").invalid_as("", "at least one of user or group must be specified", errors);
    }
    selector(&resource.at("fieldSelector"), field_requirement, errors);
    selector(&resource.at("labelSelector"), label_requirement, errors);
    let local = subject == Subject::InNamespace;
    metadata(&review.at("metadata"), local, errors);
    if local && resource.is_set() && resource.at("namespace").text() != namespace {
        let asked = resource.at("namespace");
        asked.invalid_as(asked.text(), "must match metadata.namespace", errors);
    }
    if local && other.is_set() {
        other.invalid_as(shown_path(&other), "disallowed on this kind of request", errors);
    }
}

/// A path and verb, with the names that upstream's type has in errors.
fn shown_path(attributes: &Field<'_>) -> Value {
    object! { "Path" => attributes.at("path").text(), "Verb" => attributes.at("verb").text() }
}

/// A selector is text or requirements, and one of them.
fn selector(selector: &Field<'_>, requirement: fn(&Field<'_>, &mut Errors), errors: &mut Errors) {
    if !selector.is_set() {
        return;
    }
    let (raw, requirements) = (selector.at("rawSelector"), selector.at("requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        raw.invalid("may not specified at the same time as requirements", errors);
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {selector} is specified, requirements or rawSelector is required");
        requirements.required(detail, errors);
    }
    requirements.each(|item| requirement(&item, errors));
}

fn field_requirement(requirement: &Field<'_>, errors: &mut Errors) {
    if requirement.at("key").is_empty() {
        requirement.at("key").required("must be specified", errors);
    }
    values(requirement, errors);
}

fn label_requirement(requirement: &Field<'_>, errors: &mut Errors) {
    values(requirement, errors);
    requirement.at("key").check(names::qualified_name, errors);
    requirement.at("values").each(|value| value.check(names::label_value, errors));
}

/// Operators that are not known may come from newer clients, and are let be.
fn values(requirement: &Field<'_>, errors: &mut Errors) {
    let values = requirement.at("values");
    match requirement.at("operator").text() {
        "In" | "NotIn" if values.is_empty() => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'", errors);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'", errors);
        }
        _ => {}
    }
}

/// A review has no metadata, but for its namespace if it is of one.
fn metadata(metadata: &Field<'_>, local: bool, errors: &mut Errors) {
    let allowed = |key: &str| key == "managedFields" || (local && key == "namespace");
    let members = metadata.value().as_object();
    if members.is_none_or(|members| members.keys().all(|key| allowed(key))) {
        return;
    }
    let detail = if local { "must be empty except for namespace" } else { "must be empty" };
    metadata.invalid_as(BadValue::verbatim(in_declared_order(metadata.value())), detail, errors);
}

/// The members of metadata in the order in which their type declares them.
const METADATA: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];
const MANAGED_FIELDS: [&str; 7] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"];

/// Metadata as JSON, with its members as they are declared.
fn in_declared_order(metadata: &Value) -> String {
    members(metadata, &METADATA, |key, value| match (key, value) {
        ("managedFields", Value::Array(entries)) => {
            let entries: Vec<String> = entries.iter().map(|e| members(e, &MANAGED_FIELDS, |_, v| plain(v))).collect();
            format!("[{}]", entries.join(","))
        }
        (_, value) => plain(value),
    })
}

fn members(object: &Value, order: &[&str], text: impl Fn(&str, &Value) -> String) -> String {
    let there = order.iter().filter_map(|key| object.get(key).map(|value| (key, value)));
    let parts: Vec<String> = there.map(|(key, value)| format!("\"{key}\":{}", text(key, value))).collect();
    format!("{{{}}}", parts.join(","))
}

fn plain(value: &Value) -> String {
    String::from_utf8_lossy(&json::encode(value)).into_owned()
}

/// The texts of a list.
pub(super) fn strings(value: Option<&Value>) -> Vec<Str> {
    value.and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_shared_str).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(review: &str, subject: Subject, expect: &[&str]) {
        let review = json::decode(review.as_bytes()).expect("JSON");
        let mut errors = Errors::default();
        validate(&review, subject, "n", &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{review:?}");
    }

    #[test]
    fn a_review_is_about_somebody_and_one_thing() {
        check(
            r#"{"spec": {}}"#,
            Subject::Anybody,
            &[
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be \
                 specified",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ],
        );
        check(r#"{"spec": {"nonResourceAttributes": {"path": "/x"}}}"#, Subject::Oneself, &[]);
        check(
            r#"{"spec": {"user": "u", "nonResourceAttributes": {"path": "/x", "verb": "get"}}}"#,
            Subject::InNamespace,
            &[
                "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"get\"}: disallowed on this kind of \
                 request",
            ],
        );
    }

    #[test]
    fn it_has_no_metadata() {
        check(
            r#"{"metadata": {"managedFields": [], "name": "x"}, "spec": {"resourceAttributes": {}}}"#,
            Subject::Oneself,
            &["metadata: Invalid value: {\"name\":\"x\",\"managedFields\":[]}: must be empty"],
        );
        check(
            r#"{"metadata": {"namespace": "n"}, "spec": {"user": "u", "resourceAttributes": {"namespace": "n"}}}"#,
            Subject::InNamespace,
            &[],
        );
    }

    #[test]
    fn selectors_are_text_or_requirements() {
        check(
            r#"{"spec": {"resourceAttributes": {"fieldSelector": {}, "labelSelector": {"requirements": [
                {"key": "a", "operator": "In"}, {"key": "a", "operator": "Near", "values": ["x"]}]}}}}"#,
            Subject::Oneself,
            &[
                "spec.resourceAttributes.fieldSelector.requirements: Required value: when \
                 spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
                "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when \
                 `operator` is 'In' or 'NotIn'",
            ],
        );
    }
}
