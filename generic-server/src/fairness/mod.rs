//! Priority and fairness: which flow schema a request belongs to. The schemas are read once when they change, and requests
//! look at that snapshot alone.

mod schema;

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue};
use machinery::Value;

use crate::{auth::User, request::RequestInfo};
use schema::Rule;

const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The flow schemas as they are now.
#[derive(Default)]
pub struct Flows(ArcSwap<Vec<Arc<Flow>>>);

/// A flow schema whose priority level exists.
#[derive(Debug)]
pub struct Flow {
    precedence: i64,
    name: String,
    uid: HeaderValue,
    level_uid: HeaderValue,
    rules: Vec<Rule>,
}

impl Flow {
    /// Of a FlowSchema, and the uid of its priority level. `None` of one that has no uid.
    fn new(schema: &Value, level_uid: &str) -> Option<Self> {
        let rules = schema.at(&["spec", "rules"]).and_then(Value::as_array).unwrap_or_default();
        Some(Flow {
            precedence: schema.at(&["spec", "matchingPrecedence"]).and_then(Value::as_i64).unwrap_or(0),
            name: schema.str_at(&["metadata", "name"])?.to_owned(),
            uid: HeaderValue::from_str(schema.str_at(&["metadata", "uid"])?).ok()?,
            level_uid: HeaderValue::from_str(level_uid).ok()?,
            rules: rules.iter().map(Rule::new).collect(),
        })
    }

    /// Says in an answer's headers which flow its request belonged to.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        headers.insert(FLOW_SCHEMA, self.uid.clone());
        headers.insert(PRIORITY_LEVEL, self.level_uid.clone());
    }
}

impl Flows {
    /// Exchanges the schemas: FlowSchemas, each with the uid of the priority level that it names.
    pub fn set(&self, schemas: impl IntoIterator<Item = (Value, String)>) {
        let flows = schemas.into_iter().filter_map(|(schema, level)| Flow::new(&schema, &level).map(Arc::new));
        let mut flows: Vec<Arc<Flow>> = flows.collect();
        flows.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        self.0.store(Arc::new(flows));
    }

    /// The schema of a request: the first that matches.
    pub(crate) fn classify(&self, user: &User, info: &RequestInfo) -> Option<Arc<Flow>> {
        self.0.load().iter().find(|flow| flow.rules.iter().any(|rule| rule.matches(user, info))).cloned()
    }
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;
    use crate::pipeline::resolve::resource_info;

    fn schema(name: &str, precedence: i64, subject: Value, more: Value) -> (Value, String) {
        let mut rule = more;
        rule.set(&["subjects"], array![subject]);
        let schema = object! {
            "metadata" => object! { "name" => name, "uid" => name },
            "spec" => object! { "matchingPrecedence" => precedence, "rules" => array![rule] },
        };
        (schema, "level".to_owned())
    }

    #[test]
    fn a_request_belongs_to_the_first_schema_that_matches() {
        let everything = || {
            object! {
                "resourceRules" => array![object! {
                    "verbs" => array!["*"], "apiGroups" => array!["*"], "resources" => array!["*"],
                    "namespaces" => array!["*"], "clusterScope" => true,
                }],
                "nonResourceRules" => array![object! { "verbs" => array!["*"], "nonResourceURLs" => array!["*"] }],
            }
        };
        let group = |name: &str| object! { "kind" => "Group", "group" => object! { "name" => name } };
        let account = object! {
            "kind" => "ServiceAccount", "serviceAccount" => object! { "namespace" => "kube-system", "name" => "*" },
        };
        let leases = object! {
            "resourceRules" => array![object! {
                "verbs" => array!["get"], "apiGroups" => array!["coordination.k8s.io"], "resources" => array!["leases"],
                "namespaces" => array!["*"],
            }],
        };
        let flows = Flows::default();
        flows.set([
            schema("rest", 9000, group("all"), everything()),
            schema("masters", 1, group("system:masters"), everything()),
            schema("leases", 100, account, leases),
        ]);
        let user = |name: &str, groups: &[&str]| User {
            name: name.into(),
            groups: groups.iter().map(|g| (*g).into()).collect(),
            ..User::default()
        };
        let check = |user: &User, info: &RequestInfo, expect: Option<&str>| {
            assert_eq!(flows.classify(user, info).map(|f| f.name.clone()).as_deref(), expect, "{info:?}");
        };
        let lease =
            RequestInfo { namespace: "default".into(), ..resource_info("get", "coordination.k8s.io", "v1", "leases") };
        let everywhere = RequestInfo { namespace: "".into(), ..lease.clone() };
        let path = RequestInfo { path: "/version".into(), method: "get".into(), ..RequestInfo::default() };
        check(&user("root", &["all", "system:masters"]), &lease, Some("masters"));
        let controller = user("system:serviceaccount:kube-system:x", &["all"]);
        check(&controller, &lease, Some("leases"));
        check(&controller, &everywhere, Some("rest"));
        check(&controller, &path, Some("rest"));
        check(&user("system:serviceaccount:other:x", &[]), &lease, None);
    }
}
