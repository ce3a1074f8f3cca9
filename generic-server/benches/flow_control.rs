//! What flow control costs a request that finds a seat: sorted into one of thirteen flows, of which the last but one is
//! its own, estimated, and given its seat.

use std::{sync::Arc, time::Duration};

use ::flowcontrol::{LevelConfig, Levels, LimitResponse, Metrics, Queuing};
use auth::{SystemMasters, User};
use criterion::{Criterion, criterion_group, criterion_main};
use generic_server::{
    flow_control::FlowControl,
    request::{Request, RequestParts},
};
use machinery::{Str, Value, array, object};

const LEVELS: [&str; 6] = ["exempt", "system", "node-high", "leader-election", "workload-high", "global-default"];

fn subject(kind: &str, name: &str) -> Value {
    match kind {
        "User" => object! { "kind" => kind, "user" => object! { "name" => name } },
        "Group" => object! { "kind" => kind, "group" => object! { "name" => name } },
        _ => object! {
            "kind" => kind, "serviceAccount" => object! { "namespace" => "kube-system", "name" => name },
        },
    }
}

fn schema(name: &str, precedence: i64, level: &str, subjects: &[(&str, &str)], resources: &[&str]) -> (Value, String) {
    let texts = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
    let rule = object! {
        "subjects" => subjects.iter().map(|(kind, name)| subject(kind, name)).collect::<Vec<_>>(),
        "resourceRules" => array![object! {
            "verbs" => array!["*"], "apiGroups" => array!["*"], "resources" => texts(resources),
            "namespaces" => array!["*"], "clusterScope" => true,
        }],
        "nonResourceRules" => array![object! { "verbs" => array!["*"], "nonResourceURLs" => array!["*"] }],
    };
    let schema = object! {
        "metadata" => object! { "name" => name, "uid" => name },
        "spec" => object! {
            "matchingPrecedence" => precedence, "distinguisherMethod" => object! { "type" => "ByUser" },
            "priorityLevelConfiguration" => object! { "name" => level }, "rules" => array![rule],
        },
    };
    (schema, level.to_owned())
}

/// As many flows as a server has at the beginning, for the same users.
fn flow_control() -> FlowControl {
    let control = FlowControl::new(Levels::new(600, Metrics::new(&prometheus::Registry::new())));
    let queuing = Queuing { queues: 128, hand_size: 6, length_limit: 50 };
    let levels = LEVELS.map(|name| LevelConfig {
        name: name.to_owned(),
        response: LimitResponse::Queue(queuing),
        shares: 20,
        lendable_percent: 50,
        borrowing_percent: None,
    });
    let (manager, scheduler) = (("User", "system:kube-controller-manager"), ("User", "system:kube-scheduler"));
    let (nodes, authenticated) = (("Group", "system:nodes"), ("Group", "system:authenticated"));
    let account = |name| ("ServiceAccount", name);
    control.configure(
        levels,
        [
            schema("exempt", 1, "exempt", &[("Group", "system:masters")], &["*"]),
            schema("probes", 2, "exempt", &[authenticated], &["probes"]),
            schema("system-leader-election", 100, "leader-election", &[manager, scheduler, account("*")], &["leases"]),
            schema(
                "endpoint-controller",
                150,
                "workload-high",
                &[manager, account("endpoint-controller")],
                &["endpoints"],
            ),
            schema("workload-leader-election", 200, "leader-election", &[account("*")], &["leases"]),
            schema("system-node-high", 400, "node-high", &[nodes], &["nodes", "nodes/status"]),
            schema("system-nodes", 500, "system", &[nodes], &["*"]),
            schema("kube-controller-manager", 800, "workload-high", &[manager], &["*"]),
            schema("kube-scheduler", 800, "workload-high", &[scheduler], &["*"]),
            schema("kube-system-service-accounts", 900, "workload-high", &[account("*")], &["*"]),
            schema("service-accounts", 9000, "workload-high", &[("Group", "system:serviceaccounts")], &["*"]),
            schema("global-default", 9900, "global-default", &[authenticated], &["*"]),
            schema("catch-all", 10_000, "global-default", &[("Group", "system:unauthenticated")], &["*"]),
        ],
    );
    control
}

fn request() -> Request {
    let uri = "/api/v1/namespaces/n/configmaps/one".parse().expect("a URI");
    let groups = ["dev", "qa", "system:authenticated"].map(Str::from).to_vec();
    Request::from(RequestParts {
        user: Arc::new(User { name: "alice".into(), groups, ..User::default() }),
        ..RequestParts::new(http::Method::GET, uri, http::HeaderMap::new(), Arc::new(SystemMasters(Vec::new())))
    })
}

fn admit(c: &mut Criterion) {
    let (control, request) = (flow_control(), request());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let classify = || control.classify(&request.user, &request.info).expect("a flow");
    c.bench_function("classify", |b| b.iter(classify));
    c.bench_function("classify, estimate, admit and finish, no contention", |b| {
        b.iter(|| {
            let flow = classify();
            let work = flow.estimate(&request, &[]);
            runtime.block_on(flow.admit(&request, work, Duration::from_secs(1))).is_ok()
        });
    });
}

criterion_group!(benches, admit);
criterion_main!(benches);
