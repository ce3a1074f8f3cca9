//! A question as a webhook is asked it: a SubjectAccessReview.

use machinery::{
    Str, Value,
    meta::selector::{Operator, Requirement, Term},
    object,
};

use crate::{Attributes, User};

/// The versions of the group authorization.k8s.io that webhooks speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`, which calls the user's groups `group`.
    V1Beta1,
}

impl ReviewVersion {
    /// The version of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1Beta1),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        }
    }
}

/// The group and kind of reviews.
pub(crate) const GROUP: &str = "authorization.k8s.io";
pub(crate) const KIND: &str = "SubjectAccessReview";

/// The document around a spec.
pub(crate) fn review(version: ReviewVersion, spec: Value) -> Value {
    let spec = match version {
        ReviewVersion::V1 => spec,
        ReviewVersion::V1Beta1 => with_group(spec),
    };
    object! {
        "kind" => KIND, "apiVersion" => format!("{GROUP}/{}", version.name()), "metadata" => Value::object(),
        "spec" => spec, "status" => object! { "allowed" => false },
    }
}

/// The spec in v1beta1.
fn with_group(spec: Value) -> Value {
    let mut renamed = Value::object();
    for (key, value) in spec.as_object().into_iter().flatten() {
        let key = if key == "groups" { "group" } else { key.as_str() };
        renamed.set(&[key], value.clone());
    }
    renamed
}

/// The spec of a v1 review: what is empty is not in it.
pub(crate) fn spec(attributes: &Attributes<'_>) -> Value {
    let info = attributes.info;
    let mut spec = Value::object();
    if info.is_resource {
        let mut resource = texts(&[
            ("namespace", &info.namespace),
            ("verb", info.verb_name()),
            ("group", &info.group),
            ("version", &info.version),
            ("resource", &info.resource),
            ("subresource", &info.subresource),
            ("name", &info.name),
        ]);
        let mut select = |key: &str, requirements: Vec<Value>| {
            if !requirements.is_empty() {
                resource.set(&[key], object! { "requirements" => requirements });
            }
        };
        select("fieldSelector", info.field_selector.iter().map(field).collect());
        select("labelSelector", info.label_selector.iter().filter_map(label).collect());
        spec.set(&["resourceAttributes"], resource);
    } else {
        spec.set(&["nonResourceAttributes"], texts(&[("path", &info.path), ("verb", info.verb_name())]));
    }
    add_user(&mut spec, attributes.user);
    spec
}

fn texts(members: &[(&str, &str)]) -> Value {
    let mut object = Value::object();
    for (key, text) in members.iter().filter(|(_, text)| !text.is_empty()) {
        object.set(&[key], *text);
    }
    object
}

fn add_user(spec: &mut Value, user: &User) {
    if !user.name.is_empty() {
        spec.set(&["user"], &user.name);
    }
    if !user.groups.is_empty() {
        spec.set(&["groups"], user.groups.clone());
    }
    if !user.extra.is_empty() {
        let mut sorted: Vec<&(Str, Vec<Str>)> = user.extra.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut extra = Value::object();
        for (key, values) in sorted {
            extra.set(&[key], values.clone());
        }
        spec.set(&["extra"], extra);
    }
    if !user.uid.is_empty() {
        spec.set(&["uid"], &user.uid);
    }
}

fn field(term: &Term) -> Value {
    let operator = if term.equal { "In" } else { "NotIn" };
    object! { "key" => &term.field, "operator" => operator, "values" => vec![term.value.clone()] }
}

/// Comparisons of numbers are not told: the question is a wider one then.
fn label(requirement: &Requirement) -> Option<Value> {
    let operator = match requirement.operator() {
        Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
        Operator::NotIn | Operator::NotEquals => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::GreaterThan | Operator::LessThan => return None,
    };
    let mut document = object! { "key" => requirement.key(), "operator" => operator };
    if !requirement.values().is_empty() {
        document.set(&["values"], requirement.values().to_vec());
    }
    Some(document)
}

#[cfg(test)]
mod tests {
    use machinery::{
        codec::json,
        request::{Query, resolve},
    };

    use super::*;

    fn check(user: &User, request: &str, version: ReviewVersion, expect: &str) {
        let (method, target) = request.split_once(' ').expect("a request line");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = resolve(method, path, &Query::parse(query));
        let review = review(version, spec(&Attributes { user, info: &info }));
        assert_eq!(review, json::decode(expect.as_bytes()).expect("JSON"), "{request}");
    }

    #[test]
    fn a_review_asks_what_the_request_asks() {
        let alice = User {
            name: "alice".into(),
            uid: "1".into(),
            groups: vec!["dev".into(), "qa".into()],
            extra: vec![("z".into(), vec!["1".into()]), ("a".into(), Vec::new())],
        };
        check(
            &alice,
            "GET /apis/apps/v1/namespaces/n/deployments?labelSelector=a%3Db,c+in+(e,d),!f,g,h>1&fieldSelector=x!%3Dy,metadata.name%3Dm",
            ReviewVersion::V1,
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{
"namespace":"n","verb":"list","group":"apps","version":"v1","resource":"deployments","name":"m",
"fieldSelector":{"requirements":[{"key":"metadata.name","operator":"In","values":["m"]},
{"key":"x","operator":"NotIn","values":["y"]}]},
"labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"In","values":["d","e"]},
{"key":"f","operator":"DoesNotExist"},{"key":"g","operator":"Exists"}]}},
"user":"alice","groups":["dev","qa"],"extra":{"a":[],"z":["1"]},"uid":"1"},"status":{"allowed":false}}"#,
        );
        check(
            &alice,
            "GET /api/v1/namespaces/n/pods/p/log",
            ReviewVersion::V1Beta1,
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","metadata":{},"spec":{"resourceAttributes":{
"namespace":"n","verb":"get","version":"v1","resource":"pods","subresource":"log","name":"p"},
"user":"alice","group":["dev","qa"],"extra":{"a":[],"z":["1"]},"uid":"1"},"status":{"allowed":false}}"#,
        );
        check(
            &User::default(),
            "POST /healthz",
            ReviewVersion::V1,
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{
"nonResourceAttributes":{"path":"/healthz","verb":"post"}},"status":{"allowed":false}}"#,
        );
    }
}
