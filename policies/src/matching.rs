//! Matches writes with policies and bindings: rules and selectors.

use std::sync::Arc;

use generic_server::{admission::Operation, resource::Resource, table::TableEntry};
use machinery::{
    Map, Str, Value,
    meta::{
        Meta,
        gvk::{GroupVersionKind, GroupVersionResource},
        selector::LabelSelector,
    },
};

use crate::{
    tables::Tables,
    write::{WriteAttributes, kind_through, resource_of},
};

/// `matchConstraints` of a policy, `matchResources` of a binding.
#[derive(Clone, Debug)]
pub(crate) struct Matches {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    /// Only the version that the request names counts.
    exact: bool,
}

/// Operations on resources, perhaps only of some names. `*` stands for all.
#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<Str>,
    groups: Vec<Str>,
    versions: Vec<Str>,
    /// Resource and subresource.
    resources: Vec<(Str, Str)>,
    names: Vec<Str>,
    scope: Str,
}

/// What has matched: the request's own resource, or another one that its objects are served as.
#[derive(Clone)]
pub(crate) struct Matched {
    pub(crate) kind: GroupVersionKind,
    pub(crate) resource: GroupVersionResource,
    /// What objects are converted to; `None`: they stay what they are in the request.
    pub(crate) entry: Option<Arc<TableEntry>>,
}

/// What is known of a write beside its request.
#[derive(Clone, Copy)]
pub(crate) struct Labelled<'a> {
    /// Null where there is none.
    pub(crate) object: &'a Value,
    /// Null where there is none.
    pub(crate) old: &'a Value,
    /// The labels of the namespace; for a namespace that is written, its own. Upstream's text of why they are not known.
    pub(crate) namespace: Result<Option<&'a Map>, &'a str>,
}

fn texts(rule: &Value, key: &str) -> Vec<Str> {
    let items = rule.get(key).and_then(Value::as_array).unwrap_or_default();
    items.iter().filter_map(Value::as_shared_str).cloned().collect()
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let split = |text: &Str| match text.split_once('/') {
            Some((resource, subresource)) => (Str::from(resource), Str::from(subresource)),
            None => (text.clone(), Str::default()),
        };
        Rule {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources").iter().map(split).collect(),
            names: texts(rule, "resourceNames"),
            scope: rule.str_at(&["scope"]).unwrap_or("*").into(),
        }
    }

    /// Whether it can be about a write in some version of the resource, all of which have the same plural.
    fn may_be_about(&self, subject: &WriteAttributes<'_>) -> bool {
        let resource = &subject.resource.resource;
        self.operations.iter().any(|o| o == "*" || o == subject.a.operation.name())
            && self.resources.iter().any(|(r, _)| r == "*" || r == resource)
    }

    fn is_about(&self, subject: &WriteAttributes<'_>, resource: &GroupVersionResource) -> bool {
        let has = |list: &[Str], item: &str| list.iter().any(|i| i == "*" || i == item);
        let is = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        // What has no namespace, and namespaces themselves, are in the cluster's scope.
        let is_core_namespaces =
            resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces";
        let in_cluster = is_core_namespaces || subject.namespace.is_empty();
        let scope = match self.scope.as_str() {
            "Namespaced" => !in_cluster,
            "Cluster" => in_cluster,
            _ => true,
        };
        scope
            && has(&self.operations, subject.a.operation.name())
            && has(&self.groups, &resource.group)
            && has(&self.versions, &resource.version)
            && self.resources.iter().any(|(r, s)| is(r, &resource.resource) && is(s, subject.a.subresource))
    }

    fn names(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|known| known == name)
    }
}

impl Matches {
    /// Reads a `MatchResources`. Selectors were validated when it was written; one that cannot be read matches nothing.
    pub(crate) fn of(resources: &Value) -> Self {
        Self::with(resources, &["resourceRules", "excludeResourceRules"])
    }

    /// Reads the rules and selectors of a webhook.
    pub(crate) fn of_webhook(webhook: &Value) -> Self {
        Self::with(webhook, &["rules", ""])
    }

    /// `keys`: where the rules are, and those that exclude.
    fn with(resources: &Value, keys: &[&str; 2]) -> Self {
        let selector = |key: &str| match resources.get(key).filter(|s| !s.is_null()) {
            None => LabelSelector::everything(),
            Some(selector) => LabelSelector::from_value(selector).unwrap_or_else(|_| LabelSelector::nothing()),
        };
        let rules = |key: &str| -> Vec<Rule> {
            resources.get(key).and_then(Value::as_array).unwrap_or_default().iter().map(Rule::of).collect()
        };
        Matches {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: rules(keys[0]),
            excluded: rules(keys[1]),
            exact: resources.str_at(&["matchPolicy"]) != Some("Equivalent"),
        }
    }

    /// Whether the namespace's labels matter, so that they are to be looked up.
    pub(crate) fn asks_namespaces(&self) -> bool {
        !self.namespaces.is_everything()
    }

    /// Whether any rule can be about the write, whatever its labels are: cheap.
    pub(crate) fn may_match(&self, subject: &WriteAttributes<'_>) -> bool {
        self.rules.is_empty() || self.rules.iter().any(|rule| rule.may_be_about(subject))
    }

    /// Whether it is about a write, and as what.
    ///
    /// # Errors
    /// What cannot be found out about the namespace, where all else matches.
    pub(crate) fn matched(
        &self,
        subject: &WriteAttributes<'_>,
        labelled: &Labelled<'_>,
        tables: &Tables,
    ) -> Result<Option<Matched>, String> {
        let namespace = self.in_namespace(subject, labelled);
        if namespace == Ok(false) || !self.selects(labelled) {
            return Ok(None);
        }
        let mut equivalents = None;
        let mut find = |rules: &[Rule]| self.through(rules, subject, tables, &mut equivalents);
        if find(&self.excluded).is_some() {
            return Ok(None);
        }
        let matched = match self.rules.is_empty() {
            true => Some(Matched { kind: subject.kind.clone(), resource: subject.resource.clone(), entry: None }),
            false => find(&self.rules),
        };
        match matched {
            Some(matched) => namespace.map(|_| Some(matched)),
            None => Ok(None),
        }
    }

    fn in_namespace(&self, subject: &WriteAttributes<'_>, labelled: &Labelled<'_>) -> Result<bool, String> {
        // What is in no namespace is exempt from nothing; namespaces are known by their own labels.
        if !self.asks_namespaces() || (subject.namespace.is_empty() && !subject.is_of_namespaces()) {
            return Ok(true);
        }
        labelled.namespace.map(|labels| self.namespaces.matches(labels)).map_err(str::to_owned)
    }

    fn selects(&self, labelled: &Labelled<'_>) -> bool {
        let selects = |object: &Value| !object.is_null() && self.objects.matches(Meta::of(object).labels());
        self.objects.is_everything() || selects(labelled.object) || selects(labelled.old)
    }

    fn through(
        &self,
        rules: &[Rule],
        subject: &WriteAttributes<'_>,
        tables: &Tables,
        equivalents: &mut Option<Vec<Arc<TableEntry>>>,
    ) -> Option<Matched> {
        let named = |rule: &&Rule| rule.names(subject.name);
        if rules.iter().filter(named).any(|rule| rule.is_about(subject, &subject.resource)) {
            return Some(Matched { kind: subject.kind.clone(), resource: subject.resource.clone(), entry: None });
        }
        if self.exact {
            return None;
        }
        let sub = subject.a.subresource;
        let equivalents = equivalents.get_or_insert_with(|| tables.equivalents(subject.a.row, sub));
        rules.iter().filter(named).find_map(|rule| {
            let found = equivalents.iter().find(|entry| rule.is_about(subject, &resource_of(&entry.row)))?;
            Some(Matched {
                kind: kind_through(&found.row, sub),
                resource: resource_of(&found.row),
                entry: Some(found.clone()),
            })
        })
    }
}

/// Whether a row is of what configures admission.
pub(crate) fn is_configuration(row: &Resource) -> bool {
    let is_webhooks = |row: &Resource| {
        matches!(row.plural.as_str(), "mutatingwebhookconfigurations" | "validatingwebhookconfigurations")
    };
    is_of_policies(row) || (row.group == "admissionregistration.k8s.io" && is_webhooks(row))
}

/// Whether a row is of policies or their bindings.
pub(crate) fn is_of_policies(row: &Resource) -> bool {
    const POLICIES: [&str; 4] = [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    row.group == "admissionregistration.k8s.io" && POLICIES.contains(&row.plural.as_str())
}

/// Whether policies have no say in a write, wherever they stand: it only asks.
pub(crate) fn is_exempt(subject: &WriteAttributes<'_>) -> bool {
    const REVIEWS: [(&str, &str); 6] = [
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ];
    let resource = &subject.resource;
    REVIEWS.contains(&(resource.group.as_str(), resource.resource.as_str()))
}

/// Whether a namespace that is written is known by the labels that it is written with.
pub(crate) fn brings_namespace(subject: &WriteAttributes<'_>) -> bool {
    subject.is_of_namespaces()
        && subject.a.subresource.is_empty()
        && matches!(subject.a.operation, Operation::Create | Operation::Update)
}
