//! What is stored of custom resources that are served in several versions, or whose schema changes.

use integration_tests::Server;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "kept.test";

/// v1 is stored and has a default of its own; v2 knows one field that v1 does not, with a default too.
fn definition() -> Value {
    let version = |name: &str, storage: bool, spec: Value| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}},
        })
    };
    let text = json!({"type": "string"});
    let number = |default: i64| json!({"type": "integer", "default": default});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("maps.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"kind": "Map", "plural": "maps"},
            "versions": [
                version("v1", true, json!({"title": text, "scale": number(100)})),
                version("v2", false, json!({"title": text, "zoom": number(3)})),
            ],
        },
    })
}

fn path(version: &str, name: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/maps{}{name}", if name.is_empty() { "" } else { "/" })
}

fn create(server: &Server, version: &str, name: &str, spec: Value) -> Value {
    let body = json!({
        "apiVersion": format!("{GROUP}/{version}"), "kind": "Map", "metadata": {"name": name}, "spec": spec,
    });
    let reply = server.request("POST", &path(version, ""), Some(&body));
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// A patch; answers the object and whether it was written.
fn patch(server: &Server, version: &str, name: &str, patch: &Value) -> (Value, bool) {
    let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
    let before = server.request("GET", &path(version, name), None).json();
    let reply = server.request("PATCH", &path(version, name), Some(patch));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let after = reply.json();
    let written = revision(&before) != revision(&after);
    (after, written)
}

#[test]
fn what_one_version_alone_knows_is_not_stored_by_another() {
    let mut server = Server::start();
    assert_eq!(server.request("POST", DEFINITIONS, Some(&definition())).status, 201);
    let spec = |server: &Server, version: &str, name: &str| {
        server.request("GET", &path(version, name), None).json()["spec"].clone()
    };
    // Each version's defaults are set on objects that come or are stored in it, and on no others.
    let made = create(&server, "v2", "b", json!({"title": "world", "zoom": 9}));
    assert_eq!(made["spec"], json!({"title": "world"}));
    assert_eq!(spec(&server, "v1", "b"), json!({"title": "world", "scale": 100}));
    create(&server, "v1", "a", json!({"title": "atlas", "scale": 5}));
    assert_eq!(spec(&server, "v2", "a"), json!({"title": "atlas"}));
    // What v2 has not seen is gone after a write through it, and v1 reads its default again.
    let (patched, written) = patch(&server, "v2", "a", &json!({"spec": {"title": "atlas 2"}}));
    assert!(written);
    assert_eq!(patched["spec"], json!({"title": "atlas 2"}));
    assert_eq!(spec(&server, "v1", "a"), json!({"title": "atlas 2", "scale": 100}));
    server.kill();
    server.run();
    assert_eq!(spec(&server, "v1", "a"), json!({"title": "atlas 2", "scale": 100}));
    assert_eq!(spec(&server, "v2", "b"), json!({"title": "world"}));
    let dry = server.request(
        "POST",
        &format!("{}?dryRun=All", path("v2", "")),
        Some(&json!({"apiVersion": format!("{GROUP}/v2"), "kind": "Map", "metadata": {"name": "dry"}, "spec": {"zoom": 1}})),
    );
    assert_eq!((dry.status, dry.json()["spec"].clone()), (201, json!({})));
}

#[test]
fn a_write_that_changes_nothing_is_spared_only_if_the_store_has_the_same() {
    let server = Server::start();
    let mut definition = definition();
    let v2 = &mut definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    v2["zoom"] = json!({"type": "integer"});
    assert_eq!(server.request("POST", DEFINITIONS, Some(&definition)).status, 201);
    let check = |version: &str, name: &str, written: bool, why: &str| {
        assert_eq!(patch(&server, version, name, &json!({"spec": {"title": "t"}})).1, written, "{why}");
    };
    create(&server, "v2", "a", json!({"title": "t"}));
    check("v1", "a", true, "v1's default was not stored yet");
    check("v1", "a", false, "now it is");
    check("v2", "a", true, "v2 does not know what is stored");
    check("v2", "a", false, "now it knows all of it");
    check("v1", "a", true, "the default again");

    create(&server, "v1", "b", json!({"title": "t"}));
    check("v1", "b", false, "stored with its default");
    let added = json!([{
        "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/unit",
        "value": {"type": "string", "default": "km"},
    }]);
    let changed = server.kubectl(&["patch", "crd", &format!("maps.{GROUP}"), "--type=json", "-p", &added.to_string()]);
    assert!(changed.contains("patched"), "{changed}");
    let (patched, written) = patch(&server, "v1", "b", &json!({"spec": {"title": "t"}}));
    assert!(written, "a default that came later is stored with the next write");
    assert_eq!(patched["spec"]["unit"], "km");
    check("v1", "b", false, "and then it is there");
}

#[test]
fn versions_without_a_status_subresource_own_the_status_they_set() {
    let server = Server::start();
    let mut definition = definition();
    for version in definition["spec"]["versions"].as_array_mut().expect("a list") {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({"title": {"type": "string"}});
        let status = json!({"type": "object", "properties": {"seen": {"type": "integer"}}});
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    }
    definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    assert_eq!(server.request("POST", DEFINITIONS, Some(&definition)).status, 201);
    create(&server, "v1", "a", json!({}));
    let owned = |version: &str| {
        let query = format!("{}?fieldManager={version}", path(version, "a"));
        let reply = server.request("PATCH", &query, Some(&json!({"status": {"seen": 1}, "spec": {"title": version}})));
        let object = reply.json();
        let managers = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let entry =
            managers.into_iter().find(|m| m["manager"] == version).unwrap_or_else(|| panic!("{}", reply.text()));
        entry["fieldsV1"].get("f:status").is_some()
    };
    assert!(!owned("v1"), "its status is written through the subresource alone");
    assert!(owned("v2"));
}
