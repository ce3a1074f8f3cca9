//! The flow schemas and priority levels that are there from the start, as upstream has them.

use machinery::{Value, array, object};

/// A priority level: name, shares, lendable percent, and queues, hand size where it queues.
type Level = (&'static str, i64, i64, Option<(i64, i64)>);

/// Limited levels. The first is mandatory.
const LEVELS: [Level; 7] = [
    ("catch-all", 5, 0, None),
    ("system", 30, 33, Some((64, 6))),
    ("node-high", 40, 25, Some((64, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
    ("global-default", 20, 50, Some((128, 6))),
];

const MANDATORY: [&str; 2] = ["exempt", "catch-all"];
const QUEUE_LENGTH: i64 = 50;

/// Who a schema is about.
enum Who {
    Group(&'static str),
    User(&'static str),
    /// An account of kube-system.
    Account(&'static str),
}

/// Which requests it is about.
enum What {
    Everything,
    Paths(&'static [&'static str]),
    /// Verbs, and (group, resources, of the cluster too).
    Resources(&'static [&'static str], &'static [(&'static str, &'static [&'static str], bool)]),
}

struct Schema {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: Option<&'static str>,
    who: &'static [Who],
    what: What,
}

const fn schema(
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: Option<&'static str>,
    who: &'static [Who],
    what: What,
) -> Schema {
    Schema { name, level, precedence, distinguisher, who, what }
}

const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");
const EVERYBODY: &[Who] = &[Who::Group("system:unauthenticated"), Who::Group("system:authenticated")];
const HOLD: &[&str] = &["get", "create", "update"];
const LEASES: (&str, &[&str], bool) = ("coordination.k8s.io", &["leases"], false);

const SCHEMAS: &[Schema] = &[
    schema("exempt", "exempt", 1, None, &[Who::Group("system:masters")], What::Everything),
    schema("catch-all", "catch-all", 10000, BY_USER, EVERYBODY, What::Everything),
    schema("system-nodes", "system", 500, BY_USER, &[Who::Group("system:nodes")], What::Everything),
    schema(
        "system-node-high",
        "node-high",
        400,
        BY_USER,
        &[Who::Group("system:nodes")],
        What::Resources(&["*"], &[("", &["nodes", "nodes/status"], true), LEASES]),
    ),
    schema("probes", "exempt", 2, None, EVERYBODY, What::Paths(&["/healthz", "/readyz", "/livez"])),
    schema(
        "system-leader-election",
        "leader-election",
        100,
        BY_USER,
        &[Who::User("system:kube-controller-manager"), Who::User("system:kube-scheduler"), Who::Account("*")],
        What::Resources(HOLD, &[LEASES]),
    ),
    schema(
        "workload-leader-election",
        "leader-election",
        200,
        BY_USER,
        &[Who::Account("*")],
        What::Resources(HOLD, &[("", &["endpoints", "configmaps"], false), LEASES]),
    ),
    schema(
        "endpoint-controller",
        "workload-high",
        150,
        BY_USER,
        &[
            Who::User("system:kube-controller-manager"),
            Who::Account("endpoint-controller"),
            Who::Account("endpointslicemirroring-controller"),
        ],
        What::Resources(HOLD, &[("", &["endpoints"], false)]),
    ),
    schema(
        "kube-controller-manager",
        "workload-high",
        800,
        BY_NAMESPACE,
        &[Who::User("system:kube-controller-manager")],
        What::Everything,
    ),
    schema(
        "kube-scheduler",
        "workload-high",
        800,
        BY_NAMESPACE,
        &[Who::User("system:kube-scheduler")],
        What::Everything,
    ),
    schema("kube-system-service-accounts", "workload-high", 900, BY_NAMESPACE, &[Who::Account("*")], What::Everything),
    schema(
        "service-accounts",
        "workload-low",
        9000,
        BY_USER,
        &[Who::Group("system:serviceaccounts")],
        What::Everything,
    ),
    schema("global-default", "global-default", 9900, BY_USER, EVERYBODY, What::Everything),
];

/// Whether the server always keeps the object as it should be.
pub(super) fn is_mandatory(name: &str) -> bool {
    MANDATORY.contains(&name)
}

/// All priority levels: (name, spec).
pub(super) fn levels() -> impl Iterator<Item = (&'static str, Value)> {
    let exempt = object! {
        "type" => "Exempt",
        "exempt" => object! { "nominalConcurrencyShares" => 0, "lendablePercent" => 0 },
    };
    let limited = LEVELS.iter().map(|&(name, shares, lendable, queue)| {
        let response = match queue {
            None => object! { "type" => "Reject" },
            Some((queues, hand)) => object! {
                "type" => "Queue",
                "queuing" => object! {
                    "queues" => queues, "handSize" => hand, "queueLengthLimit" => QUEUE_LENGTH,
                },
            },
        };
        let limited = object! {
            "nominalConcurrencyShares" => shares, "lendablePercent" => lendable, "limitResponse" => response,
        };
        (name, object! { "type" => "Limited", "limited" => limited })
    });
    std::iter::once(("exempt", exempt)).chain(limited)
}

/// All flow schemas: (name, spec).
pub(super) fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    SCHEMAS.iter().map(|schema| {
        let mut rule = rule(&schema.what);
        rule.set(&["subjects"], schema.who.iter().map(subject).collect::<Value>());
        let mut spec = object! {
            "priorityLevelConfiguration" => object! { "name" => schema.level },
            "matchingPrecedence" => schema.precedence,
            "rules" => array![rule],
        };
        if let Some(kind) = schema.distinguisher {
            spec.set(&["distinguisherMethod", "type"], kind);
        }
        (schema.name, spec)
    })
}

fn subject(who: &Who) -> Value {
    match who {
        Who::Group(name) => object! { "kind" => "Group", "group" => object! { "name" => *name } },
        Who::User(name) => object! { "kind" => "User", "user" => object! { "name" => *name } },
        Who::Account(name) => object! {
            "kind" => "ServiceAccount",
            "serviceAccount" => object! { "namespace" => "kube-system", "name" => *name },
        },
    }
}

fn rule(what: &What) -> Value {
    let paths = |verbs: &[&str], paths: &[&str]| {
        array![object! {
            "verbs" => verbs.to_vec(), "nonResourceURLs" => paths.to_vec(),
        }]
    };
    let resources = |verbs: &[&str], group: &str, resources: &[&str], of_cluster: bool| {
        let mut rule = object! {
            "verbs" => verbs.to_vec(), "apiGroups" => array![group], "resources" => resources.to_vec(),
            "namespaces" => array!["*"],
        };
        if of_cluster {
            rule.set(&["clusterScope"], true);
        }
        rule
    };
    match what {
        What::Everything => object! {
            "resourceRules" => array![resources(&["*"], "*", &["*"], true)],
            "nonResourceRules" => paths(&["*"], &["*"]),
        },
        What::Paths(named) => object! { "nonResourceRules" => paths(&["get"], named) },
        What::Resources(verbs, rules) => {
            let rules = rules.iter().map(|(group, names, of_cluster)| resources(verbs, group, names, *of_cluster));
            object! { "resourceRules" => rules.collect::<Value>() }
        }
    }
}
