//! Priority and fairness: which flow schema a request belongs to, what it will need, and the level on which it waits for
//! its turn. The schemas are read once when they change, and requests look at that snapshot alone.

mod dumps;
mod rule;

use std::{sync::Arc, time::Duration};

use ::flowcontrol::{
    Arriving, Describe, FlowMetrics, Level, LevelConfig, Levels, ListRequest, Rejected, Seat, Work, estimate_list,
    estimate_mutation, flow_hash,
};
use arc_swap::ArcSwap;
use audit::Layer;
use http::{HeaderMap, HeaderName, HeaderValue};
use machinery::{Str, Value};

use crate::{request::Request, table::ResourceTable};
use auth::User;
pub use dumps::Dumps;
use machinery::request::{RequestInfo, Verb};
use rule::Rule;

const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The flow schemas as they are now, and the priority levels that they name.
pub struct FlowControl {
    flows: ArcSwap<Vec<Arc<Flow>>>,
    levels: Levels,
}

/// A flow schema whose priority level exists.
pub struct Flow {
    precedence: i64,
    name: Str,
    uid: HeaderValue,
    level_uid: HeaderValue,
    distinguisher: Distinguisher,
    rules: Vec<Rule>,
    level: Arc<Level>,
    max_seats: u64,
    metrics: Arc<FlowMetrics>,
}

/// What tells flows of one schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distinguisher {
    Nothing,
    User,
    Namespace,
}

impl Flow {
    /// Of a FlowSchema; the level's uid and the level. An object that is only imagined has no uid.
    fn new(schema: &Value, level_uid: &str, levels: &Levels) -> Option<Self> {
        let rules = schema.at(&["spec", "rules"]).and_then(Value::as_array).unwrap_or_default();
        let name = schema.str_at(&["metadata", "name"])?;
        let (level, max_seats) = levels.get(schema.str_at(&["spec", "priorityLevelConfiguration", "name"])?)?;
        let distinguisher = match schema.str_at(&["spec", "distinguisherMethod", "type"]) {
            Some("ByUser") => Distinguisher::User,
            Some("ByNamespace") => Distinguisher::Namespace,
            _ => Distinguisher::Nothing,
        };
        Some(Flow {
            precedence: schema.at(&["spec", "matchingPrecedence"]).and_then(Value::as_i64).unwrap_or(0),
            name: name.into(),
            uid: HeaderValue::from_str(schema.str_at(&["metadata", "uid"]).unwrap_or("")).ok()?,
            level_uid: HeaderValue::from_str(level_uid).ok()?,
            distinguisher,
            rules: rules.iter().map(Rule::new).collect(),
            metrics: levels.metrics().flow(level.name(), name),
            level,
            max_seats,
        })
    }

    /// Says in an answer's headers which flow its request belonged to.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        headers.insert(FLOW_SCHEMA, self.uid.clone());
        headers.insert(PRIORITY_LEVEL, self.level_uid.clone());
    }

    /// Waits for the request's turn, `patience` at most.
    ///
    /// # Errors
    /// There is no turn for it.
    pub async fn admit(&self, request: &Request, work: Work, patience: Duration) -> Result<Seat, Rejected> {
        let info = &request.info;
        let distinguisher = match self.distinguisher {
            Distinguisher::Nothing => Str::default(),
            Distinguisher::User => request.user.name.clone(),
            Distinguisher::Namespace => info.namespace.clone(),
        };
        let arriving = Arriving {
            metrics: self.metrics.clone(),
            hash: flow_hash(&self.name, &distinguisher),
            work,
            mutating: is_mutating(info),
            watch: info.verb == Verb::Watch,
            description: Arc::new(Description { user: request.user.clone(), info: info.clone(), distinguisher }),
        };
        let admitted = self.level.admit(arriving, patience).await;
        let waited = admitted.as_ref().map_or_else(|rejected| rejected.waited, Seat::waited);
        request.audit.took(Layer::QueueWait, waited);
        admitted
    }

    /// What a request will need, by what is stored and watched of its resource.
    pub fn estimate(&self, request: &Request, tables: &[Arc<ArcSwap<ResourceTable>>]) -> Work {
        let info = &request.info;
        let registry = || {
            let entry = tables.iter().find_map(|t| t.load().get(&info.group, &info.version, &info.resource).cloned());
            entry.and_then(|entry| entry.registry.clone())
        };
        match info.verb {
            Verb::List | Verb::Watch if info.is_resource => {
                if info.verb == Verb::Watch && !begins_with_state(request) {
                    return Work::seats(1);
                }
                let limit = request.query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(0);
                let list = ListRequest { single: !info.name.is_empty(), limit };
                estimate_list(list, registry().map(|registry| registry.stored()), self.max_seats)
            }
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete if info.is_resource => {
                if info.resource == "serviceaccounts" && info.subresource == "token" {
                    return Work::seats(1); // changes nothing that is watched
                }
                let watchers = registry().map_or(0, |registry| registry.watchers_of(&info.namespace, &info.name));
                self.metrics.watchers(watchers);
                estimate_mutation(watchers, self.max_seats)
            }
            _ => Work::seats(1),
        }
    }
}

/// Whether a watch sends what there is before it sends changes.
fn begins_with_state(request: &Request) -> bool {
    let asked = request.query.get("sendInitialEvents").is_some_and(|value| value == "true" || value == "1");
    asked || matches!(request.query.get("resourceVersion").unwrap_or(""), "" | "0")
}

/// Whether a request counts as a write.
pub(crate) fn is_mutating(info: &RequestInfo) -> bool {
    !matches!(info.verb_name(), "get" | "list" | "watch")
}

/// What dumps show of a request.
struct Description {
    user: Arc<User>,
    info: RequestInfo,
    distinguisher: Str,
}

impl Describe for Description {
    fn distinguisher(&self) -> &str {
        &self.distinguisher
    }

    fn details(&self) -> [String; 8] {
        let info = &self.info;
        let version =
            if info.group.is_empty() { info.version.to_string() } else { format!("{}/{}", info.group, info.version) };
        let texts = [&info.path, &info.namespace, &info.name].map(|text| text.to_string());
        let [path, namespace, name] = texts;
        let (resource, subresource) = (info.resource.to_string(), info.subresource.to_string());
        let verb = info.verb_name().to_owned();
        [self.user.name.to_string(), verb, path, namespace, name, version, resource, subresource]
    }
}

impl FlowControl {
    /// For a server of so many levels' seats. There are no flows yet, and what belongs to none is not limited.
    pub fn new(levels: Levels) -> Self {
        FlowControl { flows: ArcSwap::default(), levels }
    }

    /// The levels.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Exchanges what is configured: the levels; and FlowSchemas, each with the uid of the level that it names.
    pub fn configure(
        &self,
        levels: impl IntoIterator<Item = LevelConfig>,
        schemas: impl IntoIterator<Item = (Value, String)>,
    ) {
        self.levels.configure(levels);
        let schemas = schemas.into_iter();
        let flows = schemas.filter_map(|(schema, level)| Flow::new(&schema, &level, &self.levels).map(Arc::new));
        let mut flows: Vec<Arc<Flow>> = flows.collect();
        flows.sort_by(|a, b| (a.precedence, &a.name).cmp(&(b.precedence, &b.name)));
        self.flows.store(Arc::new(flows));
    }

    /// The schema of a request: the first that matches.
    pub fn classify(&self, user: &User, info: &RequestInfo) -> Option<Arc<Flow>> {
        self.flows.load().iter().find(|flow| flow.rules.iter().any(|rule| rule.matches(user, info))).cloned()
    }
}

#[cfg(test)]
mod tests {
    use ::flowcontrol::{LimitResponse, Metrics};
    use machinery::{array, object, request::resource_info};

    use super::*;

    fn schema(name: &str, precedence: i64, subject: Value, more: Value) -> (Value, String) {
        let mut rule = more;
        rule.set(&["subjects"], array![subject]);
        let schema = object! {
            "metadata" => object! { "name" => name, "uid" => name },
            "spec" => object! {
                "matchingPrecedence" => precedence, "rules" => array![rule],
                "priorityLevelConfiguration" => object! { "name" => "level" },
            },
        };
        (schema, "uid".to_owned())
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
        let flows = FlowControl::new(Levels::new(10, Metrics::new(&prometheus::Registry::new())));
        let level = LevelConfig {
            name: "level".to_owned(),
            response: LimitResponse::Reject,
            shares: 1,
            lendable_percent: 0,
            borrowing_percent: None,
        };
        let mut dangling = schema("dangling", 0, group("system:masters"), everything());
        dangling.0.set(&["spec", "priorityLevelConfiguration", "name"], Value::from("nosuch"));
        flows.configure(
            [level],
            [
                schema("rest", 9000, group("all"), everything()),
                schema("masters", 1, group("system:masters"), everything()),
                schema("leases", 100, account, leases),
                dangling,
            ],
        );
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
