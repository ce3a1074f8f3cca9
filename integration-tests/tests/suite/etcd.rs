//! On etcd: kubectl, a restart of etcd under the server, and what upstream's server has stored.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine, engine::general_purpose::STANDARD};
use integration_tests::{Etcd, Server};
use serde_json::{Value, json};

/// Leases of servers among each other and allocators' bitmaps are no API objects. APIServices of definitions and addresses of
/// services that were not recorded are taken away, as upstream's controllers do.
const NOT_EXPECTED: [&str; 5] = [
    "/registry/masterleases/",
    "/registry/peerserverleases/",
    "/registry/ranges/",
    "/registry/apiregistration.k8s.io/apiservices/",
    "/registry/ipaddresses/",
];
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server_on(etcd: &Etcd) -> Server {
    let mut server = Server::prepare();
    server.set_arguments(&[&format!("--etcd-servers={}", etcd.url())]);
    server.run();
    server
}

#[test]
fn kubectl_works_and_etcd_may_be_away_for_a_while() {
    let mut etcd = Etcd::start();
    let mut server = server_on(&etcd);
    server.kubectl(&["create", "configmap", "kept", "--from-literal=k=v"]);
    let stored: Value = serde_json::from_slice(&etcd.get("/registry/configmaps/default/kept").expect("upstream's key"))
        .expect("JSON, which upstream reads");
    assert_eq!((&stored["kind"], &stored["data"]["k"]), (&json!("ConfigMap"), &json!("v")));
    assert_eq!(stored["metadata"]["resourceVersion"], Value::Null);
    server.kubectl(&["label", "configmap", "kept", "a=b"]);
    assert_eq!(server.kubectl(&["get", "configmap", "-l", "a=b", "-o", "name"]).trim(), "configmap/kept");
    // Another writer's change reaches this server's cache.
    let changed = String::from_utf8(etcd.get("/registry/configmaps/default/kept").expect("there")).expect("text");
    etcd.put("/registry/configmaps/default/kept", changed.replace("\"v\"", "\"w\"").as_bytes());
    assert_eq!(server.request("GET", &format!("{CONFIGMAPS}/kept"), None).json()["data"]["k"], "w");
    etcd.kill();
    let readyz = server.request("GET", "/readyz", None);
    assert!(readyz.status == 500 && readyz.text().contains("[-]etcd failed"), "{}", readyz.text());
    let any = server.request("GET", &format!("{CONFIGMAPS}?resourceVersion=0"), None);
    assert_eq!(any.status, 200, "reads of any state need no etcd");
    let created = server.request("POST", CONFIGMAPS, Some(&json!({"metadata": {"name": "lost"}})));
    assert!(created.status >= 500, "{}", created.text());
    etcd.run();
    server.in_the_end("ready again", || server.request("GET", "/readyz", None).status == 200);
    server.kubectl(&["delete", "configmap", "kept"]);
    assert_eq!(etcd.get("/registry/configmaps/default/kept"), None);
    server.kill();
}

#[test]
fn an_etcd_that_cannot_be_reached_is_said_once_and_does_not_hold_up_the_end() {
    let mut etcd = Etcd::start();
    etcd.kill();
    let mut server = Server::prepare();
    server.set_arguments(&[&format!("--etcd-servers={}", etcd.url())]);
    let lost = "etcd cannot be reached";
    server.run_until(|line| line.contains(lost));
    for _ in 0..2 {
        assert_eq!(server.request("GET", "/readyz", None).status, 500);
    }
    server.terminate();
    let log = server.log();
    let warnings: Vec<&str> = log.lines().filter(|l| l.contains(" WARN ") && !l.contains("no effect yet")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!([lost, &etcd.url(), "refused"].iter().all(|part| warnings[0].contains(part)), "{log}");
    // It is there, goes away, and comes back.
    etcd.run();
    server.run();
    etcd.kill();
    server.in_the_end("said", || {
        server.request("GET", &format!("{CONFIGMAPS}/any"), None);
        server.log().contains(lost)
    });
    etcd.run();
    server.in_the_end("said", || server.log().contains("etcd answers again"));
    server.terminate();
}

/// A recorded value's apiVersion and kind.
fn kind_of(value: &[u8]) -> (String, String) {
    if let Some(raw) = value.strip_prefix(b"k8s\0") {
        // Unknown.typeMeta: apiVersion and kind, each short.
        let text = |at: usize| String::from_utf8_lossy(&raw[at + 2..at + 2 + usize::from(raw[at + 1])]).into_owned();
        let api_version = text(2);
        let kind = text(4 + api_version.len());
        return (api_version, kind);
    }
    let object: Value = serde_json::from_slice(value).expect("JSON");
    let text = |member: &str| object[member].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

/// `apps Deployment`, whatever the version: objects may be stored in another one than they are served in.
fn group_kind(api_version: &str, kind: &str) -> String {
    format!("{} {kind}", api_version.rsplit_once('/').map_or("", |(group, _)| group))
}

/// All objects that are served, by group and kind.
fn everything(server: &Server) -> BTreeMap<String, Vec<Value>> {
    let mut versions = vec!["/api/v1".to_owned()];
    for group in server.request("GET", "/apis", None).json()["groups"].as_array().expect("groups") {
        let all = group["versions"].as_array().expect("versions");
        versions.extend(all.iter().filter_map(|v| Some(format!("/apis/{}", v["groupVersion"].as_str()?))));
    }
    let mut found = BTreeMap::new();
    for path in versions {
        let listed = server.request("GET", &path, None).json();
        let api_version = listed["groupVersion"].as_str().expect("a version").to_owned();
        for resource in listed["resources"].as_array().expect("resources") {
            let (name, verbs) = (resource["name"].as_str().expect("a name"), &resource["verbs"]);
            if name.contains('/') || !verbs.as_array().is_some_and(|verbs| verbs.contains(&json!("watch"))) {
                continue;
            }
            let reply = server.request("GET", &format!("{path}/{name}"), None);
            assert_eq!(reply.status, 200, "{path}/{name}: {}", reply.text());
            let items = reply.json()["items"].as_array().cloned().unwrap_or_default();
            found.insert(group_kind(&api_version, resource["kind"].as_str().expect("a kind")), items);
        }
    }
    found
}

#[test]
fn what_upstreams_server_has_stored_is_served() {
    let Some(folder) = std::env::var_os("KUBE_REFERENCE_DIR") else {
        eprintln!("skipped: no recorded values (KUBE_REFERENCE_DIR)");
        return;
    };
    let text = std::fs::read(std::path::Path::new(&folder).join("etcd.json")).expect("recorded values");
    let recorded: Vec<Value> = serde_json::from_slice(&text).expect("JSON");
    let etcd = Etcd::start();
    let mut expected = BTreeSet::new();
    for entry in &recorded {
        let key = entry["key"].as_str().expect("a key");
        let value = STANDARD.decode(entry["value"].as_str().expect("a value")).expect("base64");
        etcd.put(key, &value);
        if !NOT_EXPECTED.iter().any(|prefix| key.starts_with(prefix)) {
            let (api_version, kind) = kind_of(&value);
            expected.insert((group_kind(&api_version, &kind), key.rsplit('/').next().unwrap_or_default().to_owned()));
        }
    }
    let server = server_on(&etcd);
    let found = everything(&server);
    let definitions = &found["apiextensions.k8s.io CustomResourceDefinition"];
    for (kind, name) in &expected {
        let served =
            |kind: &str| found.get(kind).is_some_and(|items| items.iter().any(|i| i["metadata"]["name"] == **name));
        let group = kind.split(' ').next().unwrap_or_default();
        // Of some recorded custom resources the definition was not recorded.
        let known = found.contains_key(kind) || !group.contains("example.dev") && !group.contains("crdapproval");
        assert!(served(kind) || !known, "{kind} {name}");
    }
    assert!(expected.len() > 100 && definitions.len() >= 3, "{} {}", expected.len(), definitions.len());
    let schema = &definitions[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema["type"], "object", "a schema that all versions shared is each one's: {}", definitions[0]);
    let pods = &found[" Pod"];
    assert!(pods.iter().any(|pod| pod["spec"]["containers"][0]["name"].is_string()), "protobuf is read in full");
}
