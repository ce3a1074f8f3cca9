//! One flow floods the server at fifty times what it can do. What others get is counted in requests, not in seconds: how many of
//! the flood's come before theirs.

use std::{collections::VecDeque, sync::mpsc, thread};

use integration_tests::{Answer, Reply, Server, Webhook};
use serde_json::{Value, json};
use tokio::sync::oneshot;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REQUESTS: &str = "/debug/api_priority_and_fairness/dump_requests";

/// How many times the flood is what the level can do.
const TIMES: usize = 50;

/// A request that holds its seat until it is let go: who makes it, and what lets it go.
struct Call {
    user: String,
    uid: Value,
    answer: oneshot::Sender<Value>,
}

impl Call {
    fn let_go(self) {
        let response = json!({"uid": self.uid, "allowed": true});
        // Its client may have given up.
        let _ = self.answer.send(json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        }));
    }
}

/// A webhook that says who is being served.
fn holding() -> (Webhook, mpsc::Receiver<Call>) {
    let (tell, calls) = mpsc::channel();
    let webhook = Webhook::start(&["127.0.0.1"], move |review| {
        let (answer, later) = oneshot::channel();
        let request = &review["request"];
        let user = request["userInfo"]["username"].as_str().unwrap_or_default().to_owned();
        tell.send(Call { user, uid: request["uid"].clone(), answer }).expect("the test waits");
        Answer::Later(later)
    });
    (webhook, calls)
}

fn server(hook: &Webhook) -> Server {
    let mut server = Server::prepare();
    server.add_tokens(
        "alicetoken,alice,alice,\nmanagertoken,system:kube-controller-manager,manager,\n\
         nodetoken,system:node:n1,node,\"system:nodes\"\n",
    );
    let limits = ["--max-requests-inflight=20", "--max-mutating-requests-inflight=10"];
    server.set_arguments(&[limits[0], limits[1], "--request-timeout=240s"]);
    server.run();
    let subject = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let binding = json!({
        "metadata": {"name": "all"},
        "roleRef": subject("ClusterRole", "cluster-admin"),
        "subjects": [subject("User", "bob"), subject("User", "alice"), subject("Group", "system:nodes")],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(server.request("POST", path, Some(&binding)).status, 201);
    let configuration = json!({"metadata": {"name": "slow"}, "webhooks": [{
        "name": "slow.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 30,
        "failurePolicy": "Ignore",
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", hook.port()), "caBundle": hook.bundle()},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "objectSelector": {"matchLabels": {"slow": "yes"}},
    }]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.request("POST", path, Some(&configuration)).status, 201);
    server
}

/// The seats of the level that users share.
fn seats(server: &Server) -> usize {
    let metric = "apiserver_flowcontrol_current_limit_seats{priority_level=\"global-default\"}";
    server.metric(metric) as usize
}

/// How many requests of a user wait.
fn waiting(server: &Server, user: &str) -> usize {
    let dump = server.request("GET", &format!("{REQUESTS}?includeRequestDetails=1"), None).text();
    let is_waiting = |line: &&str| {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        cells.get(3).is_some_and(|place| *place != "-1") && cells.contains(&user)
    };
    dump.lines().filter(is_waiting).count()
}

fn slow(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"slow": "yes"}}})
}

fn lease(namespace: &str, name: &str) -> Value {
    let spec = json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2024-01-01T00:00:00.000000Z"});
    json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec})
}

/// Makes a lease and renews it, as those do who live by it.
fn renew(server: &Server, token: &str, namespace: &str, name: &str) {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let made = server.ask(token, "POST", &leases, Some(&lease(namespace, name)));
    assert_eq!(made.status, 201, "{}", made.text());
    for renewed in 0..5 {
        let patch = json!({"spec": {"renewTime": format!("2024-01-01T00:00:0{renewed}.000000Z")}});
        let reply: Reply = match token {
            // Its role has no patch.
            "managertoken" => {
                let mut new = server.ask(token, "GET", &format!("{leases}/{name}"), None).json();
                new["spec"]["renewTime"] = patch["spec"]["renewTime"].clone();
                server.ask(token, "PUT", &format!("{leases}/{name}"), Some(&new))
            }
            _ => server.ask(token, "PATCH", &format!("{leases}/{name}"), Some(&patch)),
        };
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}

#[test]
fn a_flood_of_one_flow_leaves_others_their_turns() {
    let (hook, calls) = holding();
    let server = server(&hook);
    let capacity = seats(&server);
    assert!((1..10).contains(&capacity), "{capacity} seats");
    thread::scope(|scope| {
        let mut flood = Vec::new();
        for number in 0..TIMES * capacity {
            let server = &server;
            flood
                .push(scope.spawn(move || server.ask("bobtoken", "POST", MAPS, Some(&slow(&format!("bob-{number}"))))));
        }
        let mut held: VecDeque<Call> = VecDeque::new();
        for _ in 0..capacity {
            held.push_back(calls.recv().expect("seats are taken"));
        }
        while waiting(&server, "bob") < (TIMES - 5) * capacity {
            thread::yield_now();
        }

        // Nothing of the flood is done meanwhile, and these are served: they share no seats with it.
        renew(&server, "managertoken", "kube-system", "kube-controller-manager");
        renew(&server, "nodetoken", "kube-node-lease", "n1");
        assert_eq!(server.request("POST", MAPS, Some(&json!({"metadata": {"name": "exempt"}}))).status, 201);

        // Another tenant comes last and is not last: queues that have waited longer take their turns, and then it is hers.
        let alice = {
            let server = &server;
            scope.spawn(move || server.ask("alicetoken", "POST", MAPS, Some(&slow("alice"))))
        };
        while waiting(&server, "alice") == 0 {
            assert!(!alice.is_finished(), "she waits for a seat");
            thread::yield_now();
        }
        loop {
            if let Some(call) = held.pop_front() {
                call.let_go();
            }
            let next = calls.recv().expect("somebody is next");
            if next.user == "alice" {
                assert!(waiting(&server, "bob") > 0, "the flood went first");
                next.let_go();
                break;
            }
            held.push_back(next);
        }
        assert_eq!(alice.join().expect("no panic").status, 201);

        // The flood itself ends: each of its requests is served or refused.
        let (mut served, mut refused) = (0, 0);
        while let Some(one) = flood.pop() {
            while !one.is_finished() {
                held.drain(..).chain(calls.try_iter()).for_each(Call::let_go);
                thread::yield_now();
            }
            match one.join().expect("no panic").status {
                201 => served += 1,
                429 => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert!(served > capacity, "{served} served, {refused} refused");
    });
}
