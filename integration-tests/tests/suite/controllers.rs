//! A server with its controllers (`--controllers`): an API that is whole by itself.

use integration_tests::{Etcd, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> Server {
    let mut server = Server::prepare();
    server.set_arguments(&["--controllers=*"]);
    server.run();
    server
}

fn code(server: &Server, path: &str) -> u16 {
    server.request("GET", path, None).status
}

fn is_gone(server: &Server, path: &str) {
    server.in_the_end(&format!("{path} is still there"), || code(server, path) == 404);
}

/// A config map, with these owners: uid, name, and whether it blocks their deletion.
fn map(server: &Server, name: &str, owners: &[(&Value, bool)]) -> Value {
    let owner = |(owner, blocks): &(&Value, bool)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks})
    };
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    server.made(MAPS, json!({"metadata": {"name": name, "ownerReferences": owners}}))
}

fn delete(server: &Server, path: &str, propagation: &str) {
    let reply = server.request("DELETE", path, Some(&json!({"propagationPolicy": propagation})));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn widgets(server: &Server) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    server.made(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({"metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}}),
    );
}

#[test]
fn a_namespace_is_whole_and_goes_with_all_that_is_in_it() {
    let server = server();
    widgets(&server);
    server.made("/api/v1/namespaces", json!({"metadata": {"name": "team"}}));
    let path = |rest: &str| format!("/api/v1/namespaces/team{rest}");
    let root_ca = path("/configmaps/kube-root-ca.crt");
    server.in_the_end("it is whole", || {
        code(&server, &path("/serviceaccounts/default")) == 200 && code(&server, &root_ca) == 200
    });
    let authority = server.request("GET", &root_ca, None).json()["data"]["ca.crt"].clone();
    assert_eq!(authority, json!(std::fs::read_to_string(server.data().join("pki/ca.crt")).expect("a file")));
    let changed = server.request("PATCH", &root_ca, Some(&json!({"data": {"ca.crt": "mine"}})));
    assert_eq!(changed.status, 200);
    server.in_the_end("it is mended", || server.request("GET", &root_ca, None).json()["data"]["ca.crt"] == authority);

    let widgets = "/apis/example.com/v1/namespaces/team/widgets";
    server.made(
        widgets,
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}),
    );
    for i in 0..100 {
        server.made(&path("/secrets"), json!({"metadata": {"name": format!("s{i}")}}));
    }
    assert_eq!(server.request("DELETE", "/api/v1/namespaces/team", None).status, 200);
    let message = |kind: &str| {
        let namespace = server.request("GET", "/api/v1/namespaces/team", None).json();
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        found.map(|c| format!("{} {} {}", c["status"], c["reason"], c["message"]).replace('"', "")).unwrap_or_default()
    };
    server.in_the_end("its conditions tell what is left", || {
        message("NamespaceContentRemaining")
            == "True SomeResourcesRemain Some resources are remaining: widgets.example.com has 1 resource instances"
    });
    assert_eq!(
        message("NamespaceFinalizersRemaining"),
        "True SomeFinalizersRemain Some content in the namespace has finalizers remaining: example.com/hold in 1 resource \
         instances"
    );
    assert_eq!(
        message("NamespaceDeletionContentFailure"),
        "False ContentDeleted All content successfully deleted, may be waiting on finalization"
    );
    assert_eq!(
        message("NamespaceDeletionDiscoveryFailure"),
        "False ResourcesDiscovered All resources successfully discovered"
    );
    let secrets = server.request("GET", &path("/secrets"), None).json();
    assert_eq!(secrets["items"], json!([]));
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.request("PATCH", &format!("{widgets}/held"), Some(&free)).status, 200);
    is_gone(&server, "/api/v1/namespaces/team");
    assert_eq!(server.request("GET", widgets, None).json()["items"], json!([]));
}

#[test]
fn dependents_go_before_their_owner_after_it_or_not_at_all() {
    let server = server();
    let path = |name: &str| format!("{MAPS}/{name}");

    let owner = map(&server, "background", &[]);
    map(&server, "b1", &[(&owner, true)]);
    let child = map(&server, "b2", &[(&owner, false)]);
    map(&server, "b3", &[(&child, false)]);
    delete(&server, &path("background"), "Background");
    assert_eq!(code(&server, &path("background")), 404);
    ["b1", "b2", "b3"].iter().for_each(|name| is_gone(&server, &path(name)));

    let owner = map(&server, "foreground", &[]);
    let blocking = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    map(&server, "f1", &[(&owner, true)]);
    map(&server, "f2", &[(&owner, false)]);
    assert_eq!(server.request("PATCH", &path("f1"), Some(&blocking)).status, 200);
    delete(&server, &path("foreground"), "Foreground");
    is_gone(&server, &path("f2"));
    server.in_the_end("f1 is marked", || {
        server.request("GET", &path("f1"), None).json()["metadata"]["deletionTimestamp"].is_string()
    });
    assert_eq!(code(&server, &path("foreground")), 200, "it waits");
    assert_eq!(server.request("PATCH", &path("f1"), Some(&json!({"metadata": {"finalizers": null}}))).status, 200);
    is_gone(&server, &path("foreground"));

    let (owner, other) = (map(&server, "orphan", &[]), map(&server, "other", &[]));
    map(&server, "o1", &[(&owner, true)]);
    map(&server, "o2", &[(&owner, true), (&other, false)]);
    delete(&server, &path("orphan"), "Orphan");
    is_gone(&server, &path("orphan"));
    let owners = |name: &str| server.request("GET", &path(name), None).json()["metadata"]["ownerReferences"].clone();
    assert_eq!(owners("o1"), Value::Null);
    assert_eq!(
        owners("o2"),
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other",
        "uid": other["metadata"]["uid"], "blockOwnerDeletion": false}])
    );

    // Of two owners one goes: the dependent stays with the other.
    let (first, second) = (map(&server, "first", &[]), map(&server, "second", &[]));
    map(&server, "shared", &[(&first, true), (&second, false)]);
    delete(&server, &path("first"), "Background");
    server.in_the_end("it has one owner left", || owners("shared").as_array().is_some_and(|o| o.len() == 1));
    assert_eq!(owners("shared")[0]["name"], "second");
}

#[test]
fn owners_that_wait_for_each_other_go() {
    let server = server();
    let path = |name: &str| format!("{MAPS}/{name}");
    let a = map(&server, "a", &[]);
    let b = map(&server, "b", &[(&a, true)]);
    let c = map(&server, "c", &[(&b, true)]);
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": c["metadata"]["uid"],
        "blockOwnerDeletion": true}]);
    let closed = server.request("PATCH", &path("a"), Some(&json!({"metadata": {"ownerReferences": owners}})));
    assert_eq!(closed.status, 200, "{}", closed.text());
    delete(&server, &path("a"), "Foreground");
    ["a", "b", "c"].iter().for_each(|name| is_gone(&server, &path(name)));
}

#[test]
fn owners_must_exist_in_the_namespace_of_their_dependents() {
    let server = server();
    widgets(&server);
    server.made("/api/v1/namespaces", json!({"metadata": {"name": "elsewhere"}}));
    let owner = server.made("/api/v1/namespaces/elsewhere/configmaps", json!({"metadata": {"name": "owner"}}));
    map(&server, "misplaced", &[(&owner, false)]);
    is_gone(&server, &format!("{MAPS}/misplaced"));
    let events = || server.request("GET", "/api/v1/namespaces/default/events", None).json()["items"].clone();
    let uid = owner["metadata"]["uid"].as_str().expect("a uid");
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: default, name: owner, uid: {uid}] does not exist in namespace \"default\""
    );
    server.in_the_end("an event tells it", || {
        let events = events();
        let is_told =
            |event: &Value| event["reason"] == "OwnerRefInvalidNamespace" && event["message"] == message.as_str();
        events.as_array().is_some_and(|events| events.iter().any(is_told))
    });
    assert_eq!(code(&server, "/api/v1/namespaces/elsewhere/configmaps/owner"), 200);

    // Custom resources own and are owned, from the moment that their definition is there.
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        server.made(widgets, json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}));
    let owners =
        json!([{"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": widget["metadata"]["uid"]}]);
    server.made(MAPS, json!({"metadata": {"name": "of-widget", "ownerReferences": owners}}));
    let owner = map(&server, "of-map", &[]);
    let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "of-map", "uid": owner["metadata"]["uid"]}]);
    server.made(
        widgets,
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "owned", "ownerReferences": owners}}),
    );
    delete(&server, &format!("{widgets}/w"), "Background");
    delete(&server, &format!("{MAPS}/of-map"), "Background");
    is_gone(&server, &format!("{MAPS}/of-widget"));
    is_gone(&server, &format!("{widgets}/owned"));
}

#[test]
fn what_a_kill_interrupts_is_finished_after_the_next_start() {
    let mut server = server();
    server.made("/api/v1/namespaces", json!({"metadata": {"name": "doomed"}}));
    let owner = map(&server, "owner", &[]);
    for i in 0..150 {
        map(&server, &format!("d{i}"), &[(&owner, true)]);
        server.made("/api/v1/namespaces/doomed/secrets", json!({"metadata": {"name": format!("s{i}")}}));
    }
    assert_eq!(server.request("DELETE", "/api/v1/namespaces/doomed", None).status, 200);
    delete(&server, &format!("{MAPS}/owner"), "Foreground");
    server.kill();
    server.run();
    is_gone(&server, "/api/v1/namespaces/doomed");
    is_gone(&server, &format!("{MAPS}/owner"));
    let left = server.request("GET", MAPS, None).json();
    let names: Vec<_> = left["items"].as_array().expect("items").iter().map(|map| &map["metadata"]["name"]).collect();
    assert_eq!(names, ["kube-root-ca.crt"]);
    assert_eq!(server.request("GET", "/api/v1/namespaces/doomed/secrets", None).json()["items"], json!([]));
}

#[test]
fn they_stand_down_while_a_controller_manager_holds_its_lease() {
    let server = server();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let lease = json!({"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "other",
        "leaseDurationSeconds": 3600, "renewTime": "2100-01-01T00:00:00.000000Z"}});
    server.made(leases, lease);
    server.in_the_end("they stand down", || server.log().contains("stand down"));
    server.made("/api/v1/namespaces", json!({"metadata": {"name": "kept"}}));
    assert_eq!(server.request("DELETE", "/api/v1/namespaces/kept", None).status, 200);
    assert_eq!(
        server.request("GET", "/api/v1/namespaces/kept", None).json()["status"],
        json!({"phase": "Terminating"})
    );
    let ready = server.request("GET", "/readyz?verbose", None).text();
    assert!(ready.contains("[+]poststarthook/namespace-controller ok"), "{ready}");
    let released = json!({"spec": {"holderIdentity": ""}});
    assert_eq!(server.request("PATCH", &format!("{leases}/kube-controller-manager"), Some(&released)).status, 200);
    is_gone(&server, "/api/v1/namespaces/kept");
}

#[test]
fn of_several_servers_one_works_and_another_takes_over() {
    let etcd = Etcd::start();
    let start = || {
        let mut server = Server::prepare();
        let store = format!("--etcd-servers={}", etcd.url());
        server.set_arguments(&[store.as_str(), "--controllers=*"]);
        server.run();
        server
    };
    let mut first = start();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-apiserver-controllers";
    let holder = |server: &Server| server.request("GET", lease, None).json()["spec"]["holderIdentity"].clone();
    let held = holder(&first);
    assert!(held.is_string(), "{held}");
    let second = start();
    assert!(second.log().contains("stand down"), "{}", second.log());
    second.made("/api/v1/namespaces", json!({"metadata": {"name": "one"}}));
    let account = |name: &str| format!("/api/v1/namespaces/{name}/serviceaccounts/default");
    second.in_the_end("the first one works", || code(&second, &account("one")) == 200);
    first.kill();
    second.made("/api/v1/namespaces", json!({"metadata": {"name": "two"}}));
    second.in_the_end("the second one takes over", || code(&second, &account("two")) == 200);
    assert_ne!(holder(&second), held);
}

#[test]
fn they_are_counted_and_chosen_by_name() {
    let server = server();
    let metrics = server.request("GET", "/metrics", None).text();
    for family in [
        "workqueue_adds_total",
        "workqueue_depth",
        "workqueue_longest_running_processor_seconds",
        "workqueue_queue_duration_seconds_bucket",
        "workqueue_retries_total",
        "workqueue_unfinished_work_seconds",
        "workqueue_work_duration_seconds_count",
    ] {
        assert!(metrics.contains(&format!("{family}{{")), "{family} is not there");
        assert!(metrics.contains("name=\"namespace\""));
    }
    let mut other = Server::prepare();
    other.set_arguments(&["--controllers=*,nosuch"]);
    assert!(other.run_in_vain().contains("\"nosuch\" is not in the list of known controllers"));
}
