//! A write as policies see it: which kind of document it brings, and the request as a value.

use std::cell::OnceCell;
#[cfg(test)]
use std::sync::LazyLock;

use auth::User;
use cel::Question;
use generic_server::{
    admission::{Attributes, Operation},
    resource::Resource,
};
use machinery::{
    Str, Value,
    meta::gvk::{GroupVersionKind, GroupVersionResource},
    object,
};

/// What is the same for all policies about one write.
pub(crate) struct WriteAttributes<'a> {
    pub(crate) a: &'a Attributes<'a>,
    /// The kind of the document that the request brings.
    pub(crate) kind: GroupVersionKind,
    pub(crate) resource: GroupVersionResource,
    /// The namespace; of a namespace that is there already, its own name.
    pub(crate) namespace: &'a str,
    /// The object's name, as far as it is known.
    pub(crate) name: &'a str,
}

impl<'a> WriteAttributes<'a> {
    pub(crate) fn of(a: &'a Attributes<'a>) -> Self {
        let row = a.row;
        let namespace = match a.operation {
            Operation::Create => a.namespace,
            _ if is_namespaces(row) => a.name,
            _ => a.namespace,
        };
        WriteAttributes {
            a,
            kind: kind_through(row, a.subresource),
            resource: resource_of(row),
            namespace,
            name: a.name,
        }
    }

    /// Whether it is about a namespace itself.
    pub(crate) fn is_of_namespaces(&self) -> bool {
        is_namespaces(self.a.row)
    }
}

fn is_namespaces(row: &Resource) -> bool {
    row.group.is_empty() && row.plural == "namespaces"
}

/// The resource of a row.
pub(crate) fn resource_of(row: &Resource) -> GroupVersionResource {
    GroupVersionResource { group: row.group.clone(), version: row.version.clone(), resource: row.plural.clone() }
}

/// The kind of the documents of a subresource, or of the row itself.
pub(crate) fn kind_through(row: &Resource, subresource: &str) -> GroupVersionKind {
    row.subresource(subresource).map_or_else(|| row.gvk().to_owned(), |found| found.response_kind.clone())
}

/// The request, made a value when an expression names it.
pub(crate) struct Request<'a> {
    subject: Option<&'a WriteAttributes<'a>>,
    /// What the policy has matched, which may be another version than that of the request.
    kind: &'a GroupVersionKind,
    resource: &'a GroupVersionResource,
    value: OnceCell<Value>,
}

#[cfg(test)]
static NO_KIND: LazyLock<GroupVersionKind> = LazyLock::new(GroupVersionKind::default);
#[cfg(test)]
static NO_RESOURCE: LazyLock<GroupVersionResource> = LazyLock::new(GroupVersionResource::default);

impl<'a> Request<'a> {
    pub(crate) fn new(
        subject: &'a WriteAttributes<'a>,
        kind: &'a GroupVersionKind,
        resource: &'a GroupVersionResource,
    ) -> Self {
        Request { subject: Some(subject), kind, resource, value: OnceCell::new() }
    }

    /// No request at all.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Request { subject: None, kind: &NO_KIND, resource: &NO_RESOURCE, value: OnceCell::new() }
    }

    /// As upstream writes it down: what is empty is left out.
    pub(crate) fn value(&self) -> &Value {
        self.value.get_or_init(|| self.subject.map_or_else(Value::object, |subject| self.describe(subject)))
    }

    /// The question whether the user may do something with the resource of the request.
    pub(crate) fn question(&self) -> Question {
        let Some(subject) = self.subject else { return Question::default() };
        Question {
            group: subject.resource.group.clone(),
            resource: subject.resource.resource.clone(),
            subresource: subject.a.subresource.into(),
            namespace: subject.namespace.into(),
            name: subject.name.into(),
            ..Question::default()
        }
    }

    fn describe(&self, subject: &WriteAttributes<'_>) -> Value {
        let a = subject.a;
        let mut request = object! {
            "uid" => "",
            "kind" => kind_value(self.kind),
            "resource" => resource_value(self.resource),
            "requestKind" => kind_value(&subject.kind),
            "requestResource" => resource_value(&subject.resource),
            "operation" => a.operation.name(),
            "userInfo" => user_value(a.user),
            "dryRun" => a.dry_run,
            "options" => a.options_document(),
            "object" => Value::Null,
            "oldObject" => Value::Null,
        };
        let texts = [
            ("subResource", a.subresource),
            ("requestSubResource", a.subresource),
            ("name", subject.name),
            ("namespace", subject.namespace),
        ];
        for (key, text) in texts {
            if !text.is_empty() {
                request.set(&[key], text);
            }
        }
        request
    }
}

fn kind_value(kind: &GroupVersionKind) -> Value {
    object! { "group" => kind.group.clone(), "version" => kind.version.clone(), "kind" => kind.kind.clone() }
}

fn resource_value(resource: &GroupVersionResource) -> Value {
    object! {
        "group" => resource.group.clone(),
        "version" => resource.version.clone(),
        "resource" => resource.resource.clone(),
    }
}

fn user_value(user: &User) -> Value {
    let mut value = Value::object();
    for (key, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            value.set(&[key], text.clone());
        }
    }
    let list = |texts: &[Str]| texts.iter().cloned().map(Value::from).collect::<Value>();
    if !user.groups.is_empty() {
        value.set(&["groups"], list(&user.groups));
    }
    for (key, values) in &user.extra {
        value.set(&["extra", key], list(values));
    }
    value
}
