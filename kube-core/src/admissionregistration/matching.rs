//! Validates rules and match conditions, which say which requests an admission hook or policy is about.

use std::collections::HashSet;

use machinery::meta::{FieldError, names};
use policies::{Compiler, ExpectedType};

use super::expressions::expression_as;
use crate::validation::{Errors, Field};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MAX_CONDITIONS: usize = 64;

/// What both hooks and policies can do when they fail.
pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
/// How rules are compared with requests.
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];

fn texts<'a>(list: &Field<'a>) -> Vec<&'a str> {
    list.items().iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

/// `*` stands alone.
fn wildcard_alone(list: &Field<'_>, what: &str, errors: &mut Errors) {
    let items = texts(list);
    if items.len() > 1 && items.contains(&"*") {
        list.invalid(format!("if '*' is present, must not specify other {what}"), errors);
    }
}

/// A rule: operations on resources.
pub(super) fn rule(rule: &Field<'_>, errors: &mut Errors) {
    let operations = rule.at("operations");
    operations.is_given(errors);
    wildcard_alone(&operations, "operations", errors);
    operations.each(|operation| operation.one_of(OPERATIONS, errors));
    let (groups, versions) = (rule.at("apiGroups"), rule.at("apiVersions"));
    groups.is_given(errors);
    wildcard_alone(&groups, "API groups", errors);
    versions.is_given(errors);
    wildcard_alone(&versions, "API versions", errors);
    versions.each(|version| {
        version.is_given(errors);
    });
    resources(&rule.at("resources"), errors);
    let scope = rule.at("scope");
    if scope.is_set() {
        scope.one_of(&["*", "Cluster", "Namespaced"], errors);
    }
}

/// Resources and subresources; none that a wildcard covers already.
fn resources(list: &Field<'_>, errors: &mut Errors) {
    list.is_given(errors);
    let items = texts(list);
    let mut covered_resources = HashSet::new(); // `name/*`
    let mut covered_subresources = HashSet::new(); // `*/name`
    let mut last_is_plain = false;
    for (i, item) in items.iter().enumerate() {
        let at = list.index(i);
        if !at.is_given(errors) {
            continue;
        }
        let Some((resource, subresource)) = item.split_once('/') else {
            last_is_plain = *item != "*";
            continue;
        };
        if covered_resources.contains(resource) {
            at.invalid(format!("if '{resource}/*' is present, must not specify {item}"), errors);
        }
        if covered_subresources.contains(subresource) {
            at.invalid(format!("if '*/{subresource}' is present, must not specify {item}"), errors);
        }
        if subresource == "*" {
            covered_resources.insert(resource);
        }
        if resource == "*" {
            covered_subresources.insert(subresource);
        }
    }
    if items.len() > 1 && items.contains(&"*/*") {
        list.invalid("if '*/*' is present, must not specify other resources", errors);
    }
    if items.contains(&"*") && last_is_plain {
        list.invalid("if '*' is present, must not specify other resources without subresources", errors);
    }
}

/// What a policy or binding matches; nothing if it is absent.
pub(super) fn match_resources(matches: &Field<'_>, errors: &mut Errors) {
    if !matches.is_set() {
        return;
    }
    let policy = matches.at("matchPolicy");
    if policy.is_set() {
        policy.one_of(MATCH_POLICIES, errors);
    } else {
        policy.required("", errors);
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        let selector = matches.at(selector);
        if selector.is_set() {
            selector.label_selector(errors);
        } else {
            selector.required("", errors);
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        matches.at(list).each(|named| {
            let names = named.at("resourceNames");
            let mut seen = HashSet::new();
            for (i, name) in texts(&names).into_iter().enumerate() {
                names.index(i).check(names::path_segment_name, errors);
                if !seen.insert(name) {
                    names.index(i).duplicate(errors);
                }
            }
            rule(&named, errors);
        });
    }
}

/// Conditions in CEL, each with a name of its own. `params`: they can name parameters.
pub(super) fn match_conditions(conditions: &Field<'_>, params: bool, errors: &mut Errors) {
    let mut compiler = Compiler::new(params, false);
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(conditions, conditions.len(), MAX_CONDITIONS));
    }
    let mut seen = HashSet::new();
    for (i, item) in conditions.items().iter().enumerate() {
        let condition = conditions.index(i);
        let (expression, name) = (condition.at("expression"), condition.at("name"));
        let text = expression.text().trim();
        if text.is_empty() {
            expression.required("", errors);
        } else {
            expression_as(&expression, text, compiler.compile(text, ExpectedType::Condition), errors);
        }
        if name.is_given(errors) {
            name.check(names::qualified_name, errors);
            if !seen.insert(item.str_at(&["name"]).unwrap_or_default()) {
                name.duplicate(errors);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use machinery::{Value, object};

    use super::*;

    #[test]
    fn resources_are_not_covered_twice() {
        let check = |items: &[&str], expect: &[&str]| {
            let value = object! { "r" => items.iter().copied().map(Value::from).collect::<Value>() };
            let mut errors = Errors::default();
            resources(&Field::root(&value).at("r"), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{items:?}");
        };
        check(&["pods", "pods/status", "*/scale"], &[]);
        check(&["*"], &[]);
        check(&[], &["r: Required value"]);
        check(
            &["", "a/b/c", "x/*", "x/y"],
            &["r[0]: Required value", r#"r[3]: Invalid value: "x/y": if 'x/*' is present, must not specify x/y"#],
        );
        check(
            &["*", "pods"],
            &[
                r#"r: Invalid value: ["*","pods"]: if '*' is present, must not specify other resources without subresources"#,
            ],
        );
        check(
            &["*/*", "*/status"],
            &[
                r#"r[1]: Invalid value: "*/status": if '*/*' is present, must not specify */status"#,
                r#"r: Invalid value: ["*/*","*/status"]: if '*/*' is present, must not specify other resources"#,
            ],
        );
    }
}
