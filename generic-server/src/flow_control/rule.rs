//! The rules of one flow schema.

use machinery::{Str, Value, request::RequestInfo};

use auth::User;

/// Who, and which requests of theirs.
#[derive(Debug)]
pub(super) struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug)]
enum Subject {
    User(Str),
    Group(Str),
    ServiceAccount { namespace: Str, name: Str },
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Vec<Str>,
    groups: Vec<Str>,
    resources: Vec<Str>,
    namespaces: Vec<Str>,
    cluster_scope: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Vec<Str>,
    paths: Vec<Str>,
}

const ANY: &str = "*";

impl Rule {
    pub(super) fn new(rule: &Value) -> Self {
        Rule {
            subjects: items(rule, "subjects").iter().filter_map(Subject::new).collect(),
            resources: items(rule, "resourceRules").iter().map(ResourceRule::new).collect(),
            paths: items(rule, "nonResourceRules").iter().map(PathRule::new).collect(),
        }
    }

    pub(super) fn matches(&self, user: &User, info: &RequestInfo) -> bool {
        if !self.subjects.iter().any(|subject| subject.is(user)) {
            return false;
        }
        if info.is_resource {
            self.resources.iter().any(|rule| rule.matches(info))
        } else {
            self.paths.iter().any(|rule| rule.matches(info))
        }
    }
}

impl Subject {
    fn new(subject: &Value) -> Option<Self> {
        let text = |path: &[&str]| subject.at(path).and_then(Value::as_shared_str).cloned().unwrap_or_default();
        Some(match subject.str_at(&["kind"])? {
            "User" => Subject::User(text(&["user", "name"])),
            "Group" => Subject::Group(text(&["group", "name"])),
            "ServiceAccount" => Subject::ServiceAccount {
                namespace: text(&["serviceAccount", "namespace"]),
                name: text(&["serviceAccount", "name"]),
            },
            _ => return None,
        })
    }

    fn is(&self, user: &User) -> bool {
        match self {
            Subject::User(name) => *name == ANY || *name == user.name,
            Subject::Group(name) => *name == ANY || user.in_group(name),
            Subject::ServiceAccount { namespace, name } => user
                .name
                .strip_prefix("system:serviceaccount:")
                .and_then(|rest| rest.split_once(':'))
                .is_some_and(|(of, account)| *namespace == of && (*name == ANY || *name == account)),
        }
    }
}

impl ResourceRule {
    fn new(rule: &Value) -> Self {
        ResourceRule {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            namespaces: texts(rule, "namespaces"),
            cluster_scope: rule.get("clusterScope").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    fn matches(&self, info: &RequestInfo) -> bool {
        has(&self.verbs, info.verb_name()) && has(&self.groups, &info.group) && self.has_resource(info) && {
            if info.namespace.is_empty() { self.cluster_scope } else { has(&self.namespaces, &info.namespace) }
        }
    }

    fn has_resource(&self, info: &RequestInfo) -> bool {
        if info.subresource.is_empty() {
            return has(&self.resources, &info.resource);
        }
        self.resources.iter().any(|known| {
            let parts = known.split_once('/');
            *known == ANY || parts.is_some_and(|(of, sub)| info.resource == of && info.subresource == sub)
        })
    }
}

impl PathRule {
    fn new(rule: &Value) -> Self {
        PathRule { verbs: texts(rule, "verbs"), paths: texts(rule, "nonResourceURLs") }
    }

    fn matches(&self, info: &RequestInfo) -> bool {
        let path = |known: &Str| {
            let below = known.strip_suffix('*').filter(|start| start.ends_with('/'));
            *known == ANY || *known == info.path || below.is_some_and(|start| info.path.starts_with(start))
        };
        has(&self.verbs, info.verb_name()) && self.paths.iter().any(path)
    }
}

fn has(known: &[Str], one: &str) -> bool {
    known.iter().any(|k| k == ANY || k == one)
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<Str> {
    items(value, key).iter().filter_map(|item| item.as_shared_str().cloned()).collect()
}
