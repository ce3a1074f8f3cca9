//! Objects of an aggregated server own and are owned; while it is down nothing is concluded from what cannot be seen, and who waits is told.

use integration_tests::{Aggregated, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BOXES: &str = "/apis/boxes.test/v1/namespaces/default/boxes";

/// A server with its controllers, and another one behind it.
fn servers() -> (Server, Aggregated) {
    let mut server = Server::prepare();
    server.set_arguments(&["--controllers=*"]);
    server.run();
    let other = Aggregated::start("boxes.default.svc");
    let service = json!({"metadata": {"name": "boxes"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    server.made("/api/v1/namespaces/default/services", service);
    let spec = json!({"group": "boxes.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "caBundle": other.bundle(), "service": {"namespace": "default", "name": "boxes", "port": other.port()}});
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    server.made(services, json!({"metadata": {"name": "v1.boxes.test"}, "spec": spec}));
    server.in_the_end("its objects are served", || server.request("GET", BOXES, None).status == 200);
    (server, other)
}

/// An object of either server that the others own.
fn object(name: &str, owners: &[&Value]) -> Value {
    let owner = |owner: &&Value| {
        let (kind, version) = (&owner["kind"], &owner["apiVersion"]);
        let metadata = &owner["metadata"];
        json!({"apiVersion": version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
            "blockOwnerDeletion": true})
    };
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    json!({"metadata": {"name": name, "ownerReferences": owners}})
}

fn map(server: &Server, name: &str, owners: &[&Value]) -> Value {
    let mut made = server.made(MAPS, object(name, owners));
    made["kind"] = json!("ConfigMap");
    made["apiVersion"] = json!("v1");
    made
}

fn code(server: &Server, path: &str) -> u16 {
    server.request("GET", path, None).status
}

fn is_gone(server: &Server, path: &str) {
    server.in_the_end(&format!("{path} is still there"), || code(server, path) == 404);
}

fn delete(server: &Server, path: &str, propagation: &str) {
    let reply = server.request("DELETE", path, Some(&json!({"propagationPolicy": propagation})));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// Waits for an event about an object, and gives its message.
fn told(server: &Server, name: &str, reason: &str) -> String {
    let found = || {
        let events = server.request("GET", "/api/v1/namespaces/default/events", None).json();
        let events = events["items"].as_array().cloned().unwrap_or_default();
        events.into_iter().find(|event| event["involvedObject"]["name"] == name && event["reason"] == reason)
    };
    server.in_the_end(&format!("{reason} of {name}"), || found().is_some());
    found().expect("it was there")["message"].as_str().expect("a text").to_owned()
}

#[test]
fn objects_of_other_servers_own_and_are_owned() {
    let (server, other) = servers();
    let path = |name: &str| format!("{MAPS}/{name}");

    let owner = map(&server, "background", &[]);
    server.made(BOXES, object("of-map", &[&owner]));
    delete(&server, &path("background"), "Background");
    is_gone(&server, &format!("{BOXES}/of-map"));

    let owner = server.made(BOXES, object("owner", &[]));
    map(&server, "of-box", &[&owner]);
    server.made(BOXES, object("box-of-box", &[&owner]));
    delete(&server, &format!("{BOXES}/owner"), "Background");
    is_gone(&server, &path("of-box"));
    is_gone(&server, &format!("{BOXES}/box-of-box"));

    let owner = map(&server, "foreground", &[]);
    let mut held = object("held", &[&owner]);
    held["metadata"]["finalizers"] = json!(["boxes.test/hold"]);
    server.made(BOXES, held);
    delete(&server, &path("foreground"), "Foreground");
    let is_marked =
        || server.request("GET", &format!("{BOXES}/held"), None).json()["metadata"]["deletionTimestamp"].is_string();
    server.in_the_end("the dependent is deleted", is_marked);
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(server.request("PATCH", &format!("{BOXES}/held"), Some(&free)).status, 200);
    is_gone(&server, &path("foreground"));
    assert_eq!(other.names(), [""; 0]);
}

#[test]
fn while_a_server_is_down_all_that_may_be_its_concern_stays_and_tells() {
    let (server, other) = servers();
    server.made("/api/v1/namespaces", json!({"metadata": {"name": "doomed"}}));
    server.made("/apis/boxes.test/v1/namespaces/doomed/boxes", object("content", &[]));
    let owner = map(&server, "orphaned", &[]);
    server.made(BOXES, object("orphan", &[&owner]));
    let box_owner = server.made(BOXES, object("owner", &[]));
    other.set_down(true);

    map(&server, "of-box", &[&box_owner]);
    let message = told(&server, "of-box", "OwnerRefUnreachable");
    assert!(message.starts_with("ownerRef [boxes.test/v1/Box, namespace: default, name: owner"), "{message}");
    delete(&server, &format!("{MAPS}/orphaned"), "Orphan");
    let message = told(&server, "orphaned", "DependentsUnknown");
    assert!(message.starts_with("dependents in other API servers are not known, they are waited for: "), "{message}");
    assert_eq!(server.request("DELETE", "/api/v1/namespaces/doomed", None).status, 200);
    let condition = |kind: &str| {
        let namespace = server.request("GET", "/api/v1/namespaces/doomed", None).json();
        let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    };
    server.in_the_end("the namespace tells that it waits", || {
        condition("NamespaceDeletionDiscoveryFailure")["status"] == "True"
    });
    let failure = condition("NamespaceDeletionDiscoveryFailure");
    let expect = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                  boxes.test/v1: stale GroupVersion discovery: boxes.test/v1";
    assert_eq!((&failure["reason"], &failure["message"]), (&json!("DiscoveryFailed"), &json!(expect)));
    let stay = [format!("{MAPS}/orphaned"), format!("{MAPS}/of-box"), "/api/v1/namespaces/doomed".to_owned()];
    assert_eq!(stay.map(|path| code(&server, &path)), [200; 3]);
    assert_eq!(other.names(), ["orphan", "owner", "content"]);

    other.set_down(false);
    is_gone(&server, &format!("{MAPS}/orphaned"));
    is_gone(&server, "/api/v1/namespaces/doomed");
    assert_eq!(other.names(), ["orphan", "owner"]);
    let orphan = server.request("GET", &format!("{BOXES}/orphan"), None).json();
    assert_eq!(orphan["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(code(&server, &format!("{MAPS}/of-box")), 200);
}

#[test]
fn dependents_of_a_kind_that_is_gone_stay_and_tell() {
    let mut server = Server::prepare();
    server.set_arguments(&["--controllers=*"]);
    server.run();
    let owner = json!({"kind": "Widget", "apiVersion": "gone.test/v1", "metadata": {"name": "w", "uid": "u"}});
    map(&server, "left", &[&owner]);
    assert_eq!(
        told(&server, "left", "OwnerRefUnknownKind"),
        "ownerRef [gone.test/v1/Widget, namespace: default, name: w, uid: u] is of a kind that is not served: the object stays"
    );
    assert_eq!(code(&server, &format!("{MAPS}/left")), 200);
}
