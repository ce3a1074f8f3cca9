//! Validates rbac.authorization.k8s.io/v1 roles and bindings.

use generic_server::resource::WriteContext;
use machinery::meta::names;

use crate::validation::{Errors, Field, Go, Member, selects, shown};

type Cx<'a> = WriteContext<'a>;

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLE_REF: &[Member] =
    &[Member("APIGroup", "apiGroup", Go::Text), Member("Kind", "kind", Go::Text), Member("Name", "name", Go::Text)];

/// Roles in a namespace.
pub(super) fn role(_cx: &Cx<'_>, role: &Field<'_>, errors: &mut Errors) {
    role.at("rules").each(|rule| policy_rule(&rule, true, errors));
}

/// Roles of the cluster.
pub(super) fn cluster_role(_cx: &Cx<'_>, role: &Field<'_>, errors: &mut Errors) {
    role.at("rules").each(|rule| policy_rule(&rule, false, errors));
    let aggregation = role.at("aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.at("clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        selectors.required(detail, errors);
    }
    selectors.each(|selector| {
        selector.label_selector(errors);
        if selects(selector.value(), &machinery::Value::Null).is_none() {
            selector.invalid_as(machinery::Value::Null, "invalid label selector.", errors);
        }
    });
}

fn policy_rule(rule: &Field<'_>, namespaced: bool, errors: &mut Errors) {
    let parts = ["verbs", "nonResourceURLs", "apiGroups", "resources", "resourceNames"];
    let [verbs, urls, groups, resources, names] = parts.map(|part| rule.at(part));
    if verbs.is_empty() {
        verbs.required("verbs must contain at least one value", errors);
    }
    if !urls.is_empty() {
        if namespaced {
            urls.invalid("namespaced rules cannot apply to non-resource URLs", errors);
        }
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            urls.invalid("rules cannot apply to both regular resources and non-resource URLs", errors);
        }
        return;
    }
    if groups.is_empty() {
        groups.required("resource rules must supply at least one api group", errors);
    }
    if resources.is_empty() {
        resources.required("resource rules must supply at least one resource", errors);
    }
}

/// Bindings in a namespace.
pub(super) fn role_binding(_cx: &Cx<'_>, binding: &Field<'_>, errors: &mut Errors) {
    check_binding(binding, &["Role", "ClusterRole"], true, errors);
}

/// Bindings of the cluster.
pub(super) fn cluster_role_binding(_cx: &Cx<'_>, binding: &Field<'_>, errors: &mut Errors) {
    check_binding(binding, &["ClusterRole"], false, errors);
}

fn check_binding(binding: &Field<'_>, kinds: &[&str], namespaced: bool, errors: &mut Errors) {
    let role = binding.at("roleRef");
    role.at("apiGroup").one_of(&[GROUP], errors);
    role.at("kind").one_of(kinds, errors);
    let name = role.at("name");
    if name.is_given(errors) {
        name.check(names::path_segment_name, errors);
    }
    binding.at("subjects").each(|subject| check_subject(&subject, namespaced, errors));
}

fn check_subject(subject: &Field<'_>, namespaced: bool, errors: &mut Errors) {
    let (name, group, namespace) = (subject.at("name"), subject.at("apiGroup"), subject.at("namespace"));
    name.is_given(errors);
    match subject.at("kind").text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.check(names::dns1123_subdomain, errors);
            }
            if !group.is_empty() {
                group.not_supported(&[""], errors);
            }
            if !namespaced {
                namespace.is_given(errors);
            }
        }
        "User" | "Group" => group.one_of(&[GROUP], errors),
        _ => subject.at("kind").not_supported(&["ServiceAccount", "User", "Group"], errors),
    }
}

/// A binding is of one role for its life.
pub(super) fn keeps_role(_cx: &Cx<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let role = new.at("roleRef");
    if !role.same(&old.at("roleRef")) {
        role.invalid_as(shown(role.value(), ROLE_REF), "cannot change roleRef", errors);
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
    fn a_rule_is_about_resources_or_about_paths() {
        let rule = |f: &Field<'_>, e: &mut Errors| policy_rule(f, false, e);
        check(rule, r#"{"verbs":["get"],"nonResourceURLs":["/x"]}"#, &[]);
        check(rule, r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}"#, &[]);
        check(
            rule,
            r#"{"verbs":["get"],"nonResourceURLs":["/x"],"resourceNames":["n"]}"#,
            &[
                r#"nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#,
            ],
        );
        check(
            |f, e| policy_rule(f, true, e),
            r#"{"nonResourceURLs":["/x"]}"#,
            &[
                "verbs: Required value: verbs must contain at least one value",
                r#"nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#,
            ],
        );
    }

    #[test]
    fn a_subject_is_of_a_known_kind() {
        let subject = |f: &Field<'_>, e: &mut Errors| check_subject(f, false, e);
        check(subject, r#"{"kind":"User","name":"u","apiGroup":"rbac.authorization.k8s.io"}"#, &[]);
        check(subject, r#"{"kind":"ServiceAccount","name":"sa"}"#, &["namespace: Required value"]);
        check(
            subject,
            r#"{"kind":"Robot","name":"r"}"#,
            &[r#"kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#],
        );
    }
}
