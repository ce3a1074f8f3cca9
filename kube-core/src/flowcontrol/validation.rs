//! Validates flowcontrol.apiserver.k8s.io FlowSchemas.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::meta::{FieldError, names};

use super::mandatory;
use crate::validation::{Errors, Field, Go, Member, shown};

type Cx<'a> = WriteContext<'a>;

const MAX_PRECEDENCE: i64 = 10_000;
const VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

const NAME: &[Member] = &[Member("Name", "name", Go::Text)];
const METHOD: &[Member] = &[Member("Type", "type", Go::Text)];
const ACCOUNT: &[Member] = &[Member("Namespace", "namespace", Go::Text), Member("Name", "name", Go::Text)];
const SUBJECT: &[Member] = &[
    Member("Kind", "kind", Go::Text),
    Member("User", "user", Go::Pointer(NAME)),
    Member("Group", "group", Go::Pointer(NAME)),
    Member("ServiceAccount", "serviceAccount", Go::Pointer(ACCOUNT)),
];
const RESOURCE_RULE: &[Member] = &[
    Member("Verbs", "verbs", Go::Plain),
    Member("APIGroups", "apiGroups", Go::Plain),
    Member("Resources", "resources", Go::Plain),
    Member("ClusterScope", "clusterScope", Go::Bool),
    Member("Namespaces", "namespaces", Go::Plain),
];
const PATH_RULE: &[Member] =
    &[Member("Verbs", "verbs", Go::Plain), Member("NonResourceURLs", "nonResourceURLs", Go::Plain)];
const RULE: &[Member] = &[
    Member("Subjects", "subjects", Go::List(SUBJECT)),
    Member("ResourceRules", "resourceRules", Go::List(RESOURCE_RULE)),
    Member("NonResourceRules", "nonResourceRules", Go::List(PATH_RULE)),
];
const SPEC: &[Member] = &[
    Member("PriorityLevelConfiguration", "priorityLevelConfiguration", Go::Struct(NAME)),
    Member("MatchingPrecedence", "matchingPrecedence", Go::Number),
    Member("DistinguisherMethod", "distinguisherMethod", Go::Pointer(METHOD)),
    Member("Rules", "rules", Go::List(RULE)),
];

/// Flow schemas.
pub(super) fn flow_schema(cx: &Cx<'_>, schema: &Field<'_>, errors: &mut Errors) {
    let (metadata, spec) = (schema.at("metadata"), schema.at("spec"));
    let name = metadata.at("name").text();
    flow_schema_spec(&spec, name, errors);
    if mandatory::flow_schema(name).is_some_and(|fixed| !fixed.semantic_eq(spec.value())) {
        let detail = format!("spec of '{name}' must equal the fixed value");
        spec.invalid_as(shown(spec.value(), SPEC), detail, errors);
    }
    conditions(cx, schema, schema, errors);
}

/// The status of flow schemas and priority levels.
pub(super) fn conditions(_cx: &Cx<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let conditions = status.at("conditions");
    let mut seen = HashSet::new();
    for (i, item) in conditions.items().iter().enumerate() {
        let condition = conditions.index(i);
        let kind = condition.at("type");
        if !seen.insert(item.str_at(&["type"]).unwrap_or_default()) {
            kind.duplicate_text(errors);
        }
        if kind.is_empty() {
            kind.required("", errors);
        }
    }
}

fn flow_schema_spec(spec: &Field<'_>, name: &str, errors: &mut Errors) {
    let precedence = spec.at("matchingPrecedence");
    let number = precedence.int_or_zero();
    if number <= 0 {
        precedence.invalid_as(number, "must be a positive value", errors);
    }
    precedence.at_most(MAX_PRECEDENCE, &format!("must not be greater than {MAX_PRECEDENCE}"), errors);
    if number == 1 && name != "exempt" {
        precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1", errors);
    }
    let method = spec.at("distinguisherMethod");
    let methods = ["ByNamespace", "ByUser"];
    if method.is_set() && !methods.contains(&method.at("type").text()) {
        let text = shown(method.value(), METHOD);
        errors.push(FieldError::not_supported(method.at("type"), text, methods));
    }
    let level = spec.at("priorityLevelConfiguration");
    let level = level.at("name");
    if level.is_empty() {
        level.required("must reference a priority level", errors);
    } else {
        level.check(names::dns1123_subdomain, errors);
    }
    spec.at("rules").each(|rule| policy_rule(&rule, errors));
}

fn policy_rule(rule: &Field<'_>, errors: &mut Errors) {
    let (subjects, resources, paths) = (rule.at("subjects"), rule.at("resourceRules"), rule.at("nonResourceRules"));
    if subjects.is_empty() {
        subjects.required("subjects must contain at least one value", errors);
    }
    subjects.each(|subject| check_subject(&subject, errors));
    if resources.is_empty() && paths.is_empty() {
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty", errors);
    }
    resources.each(|rule| resource_rule(&rule, errors));
    paths.each(|rule| path_rule(&rule, errors));
}

/// Kinds of subjects and the members that hold them, in the order in which upstream forbids them.
const SUBJECTS: &[(&str, &str)] = &[("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

fn check_subject(subject: &Field<'_>, errors: &mut Errors) {
    let kind = subject.at("kind");
    let Some((_, member)) = SUBJECTS.iter().find(|(name, _)| *name == kind.text()) else {
        kind.not_supported(&["Group", "ServiceAccount", "User"], errors);
        return;
    };
    let named = subject.at(member);
    if !named.is_set() {
        named.required(format!("{member} is required when subject kind is '{}'", kind.text()), errors);
    } else if *member == "serviceAccount" {
        service_account(&named, errors);
    } else {
        named.at("name").is_given(errors);
    }
    for (name, other) in SUBJECTS.iter().filter(|(_, other)| other != member) {
        if subject.at(other).is_set() {
            subject.at(other).forbidden(format!("{other} is forbidden when subject kind is not '{name}'"), errors);
        }
    }
}

fn service_account(account: &Field<'_>, errors: &mut Errors) {
    let (name, namespace) = (account.at("name"), account.at("namespace"));
    if name.is_given(errors) && name.text() != "*" {
        name.check(names::dns1123_subdomain, errors);
    }
    if namespace.is_empty() {
        namespace.required("must specify namespace for service account", errors);
    } else {
        namespace.check(names::dns1123_label, errors);
    }
}

fn has_wildcard(list: &Field<'_>) -> bool {
    list.items().iter().any(|item| item.as_str() == Some("*"))
}

/// `*` stands alone; answers whether it is there.
fn alone(list: &Field<'_>, what: &str, errors: &mut Errors) -> bool {
    let wild = has_wildcard(list);
    if wild && list.len() > 1 {
        list.invalid(format!("if '*' is present, must not specify other {what}"), errors);
    }
    wild
}

fn verbs(rule: &Field<'_>, errors: &mut Errors) {
    let verbs = rule.at("verbs");
    if verbs.is_empty() {
        verbs.required("verbs must contain at least one value", errors);
    } else if !alone(&verbs, "verbs", errors)
        && !verbs.items().iter().filter_map(|verb| verb.as_str()).all(|verb| VERBS.contains(&verb))
    {
        verbs.not_supported(VERBS, errors);
    }
}

fn resource_rule(rule: &Field<'_>, errors: &mut Errors) {
    verbs(rule, errors);
    for (member, one, others) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        let list = rule.at(member);
        if list.is_empty() {
            list.required(format!("resource rules must supply at least one {one}"), errors);
        } else {
            alone(&list, others, errors);
        }
    }
    let namespaces = rule.at("namespaces");
    if namespaces.is_empty() && !rule.at("clusterScope").is_true() {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        namespaces.required(detail, errors);
    } else if !alone(&namespaces, "namespaces", errors) {
        namespaces.each(|namespace| {
            for message in names::dns1123_label(namespace.text()) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                namespace.invalid(detail, errors);
            }
        });
    }
}

fn path_rule(rule: &Field<'_>, errors: &mut Errors) {
    verbs(rule, errors);
    let urls = rule.at("nonResourceURLs");
    if urls.is_empty() {
        urls.required("nonResourceURLs must contain at least one value", errors);
    } else if !alone(&urls, "non-resource URLs", errors) {
        urls.each(|url| {
            if let Some(why) = not_a_path(url.text()) {
                url.invalid(why, errors);
            }
        });
    }
}

fn not_a_path(path: &str) -> Option<&'static str> {
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        path if !path.starts_with('/') => Some("must start with slash"),
        path if path.contains(' ') => Some("must not contain white-space"),
        path if path.contains("//") => Some("must not contain double slash"),
        path => match path.matches('*').count() {
            0 => None,
            1 if path.ends_with("/*") => None,
            _ => Some("wildcard can only do suffix matching"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_in_a_wildcard_if_they_have_one() {
        let check = |path: &str, expect: Option<&str>| assert_eq!(not_a_path(path), expect, "{path}");
        for path in ["/", "/a", "/a/*"] {
            check(path, None);
        }
        check("", Some("must not be empty"));
        check("a", Some("must start with slash"));
        check("/a b", Some("must not contain white-space"));
        check("/a//b", Some("must not contain double slash"));
        for path in ["/a*", "/*/b", "/*/*"] {
            check(path, Some("wildcard can only do suffix matching"));
        }
    }
}
