//! Requests take turns: whoever belongs to a level without seats waits, is refused, and harms nobody else.

use std::sync::{Mutex, mpsc};

use integration_tests::{Answer, Reply, Server, Webhook, raw};
use serde_json::json;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

fn ask(server: &Server, token: &str, method: &str, path: &str, body: &str) -> Reply {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    raw(server.port(), request.as_bytes()).expect("an answer")
}

fn get(server: &Server, token: &str, path: &str) -> Reply {
    ask(server, token, "GET", path, "")
}

/// Bob may do everything, but is no master.
fn let_bob(server: &Server) {
    let binding = json!({
        "metadata": {"name": "bob"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(server.request("POST", path, Some(&binding)).status, 201);
}

#[test]
fn a_flow_without_seats_waits_and_is_refused_while_others_go_on() {
    let server = Server::start();
    let_bob(&server);
    let queuing = json!({"queues": 1, "handSize": 1, "queueLengthLimit": 50});
    let jail = json!({
        "metadata": {"name": "jail"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Queue", "queuing": queuing},
        }},
    });
    let schema = json!({
        "metadata": {"name": "bob"},
        "spec": {
            "matchingPrecedence": 5, "priorityLevelConfiguration": {"name": "jail"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "bob"}}],
                "resourceRules": [
                    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true},
                ],
            }],
        },
    });
    let namespaces = "/api/v1/namespaces?timeout=1s";
    assert_eq!(get(&server, "bobtoken", namespaces).status, 200);
    let level = server.request("POST", &format!("{GROUP}/prioritylevelconfigurations"), Some(&jail));
    let schema = server.request("POST", &format!("{GROUP}/flowschemas"), Some(&schema));
    assert_eq!((level.status, schema.status), (201, 201));
    // The level counts once the objects have been digested, which the schema's condition tells.
    let digested = || {
        let schema = server.request("GET", &format!("{GROUP}/flowschemas/bob"), None).json();
        schema["status"]["conditions"][0]["status"] == "False"
    };
    while !digested() {
        std::thread::yield_now();
    }
    let refused = get(&server, "bobtoken", namespaces);
    assert_eq!((refused.status, refused.text().as_str()), (429, "Too many requests, please try again later.\n"));
    let header = |name: &str| refused.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    assert_eq!(header("retry-after").as_deref(), Some("1"));
    assert_eq!(header("x-kubernetes-pf-flowschema-uid"), schema.json()["metadata"]["uid"].as_str().map(str::to_owned));
    assert_eq!(get(&server, "bobtoken", "/version").status, 200, "the schema is about resources");
    assert_eq!(get(&server, "admintoken", namespaces).status, 200, "and about bob");
    let dump = server.request("GET", "/debug/api_priority_and_fairness/dump_priority_levels", None).text();
    let line = dump.lines().find(|line| line.starts_with("jail,")).expect("the level");
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    assert_eq!(cells, ["jail", "0", "true", "false", "0", "0", "0", "1", "1", "0"]);
    let metrics = server.request("GET", "/metrics", None).text();
    let rejected =
        r#"apiserver_flowcontrol_rejected_requests_total{flow_schema="bob",priority_level="jail",reason="time-out"} 1"#;
    assert!(metrics.contains(rejected), "{metrics}");

    server.request("DELETE", &format!("{GROUP}/flowschemas/bob"), None);
    while get(&server, "bobtoken", namespaces).status != 200 {}
}

#[test]
fn without_priority_levels_writes_at_once_are_limited_but_for_masters() {
    let mut server = Server::prepare();
    server.set_arguments(&["--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1"]);
    server.run();
    let_bob(&server);
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let (arrived, arrival) = mpsc::channel();
    let slow = Webhook::start(&["127.0.0.1"], move |review| {
        arrived.send(()).expect("the test waits");
        wait.lock().expect("not poisoned").recv().expect("the test lets go");
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        Answer::Json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))
    });
    let configuration = json!({"metadata": {"name": "slow"}, "webhooks": [{
        "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", slow.port()), "caBundle": slow.bundle()},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "objectSelector": {"matchLabels": {"slow": "yes"}},
    }]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.request("POST", path, Some(&configuration)).status, 201);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, slow: &str| json!({"metadata": {"name": name, "labels": {"slow": slow}}}).to_string();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| ask(&server, "bobtoken", "POST", maps, &map("first", "yes")));
        while arrival.try_recv().is_err() {
            assert!(!first.is_finished(), "the first waits for the webhook");
            std::thread::yield_now();
        }
        let second = ask(&server, "bobtoken", "POST", maps, &map("second", "no"));
        assert_eq!(second.status, 429);
        assert!(second.headers.contains(&("retry-after".to_owned(), "1".to_owned())));
        assert!(!second.headers.iter().any(|(name, _)| name.starts_with("x-kubernetes-pf-")));
        assert_eq!(get(&server, "bobtoken", maps).status, 200, "reads have a limit of their own");
        assert_eq!(ask(&server, "admintoken", "POST", maps, &map("masters", "no")).status, 201);
        release.send(()).expect("the webhook waits");
        assert_eq!(first.join().expect("no panic").status, 201);
    });
    assert_eq!(ask(&server, "bobtoken", "POST", maps, &map("second", "no")).status, 201);
    assert_eq!(get(&server, "admintoken", "/debug/api_priority_and_fairness/dump_queues").status, 404);
}
