//! Clients that speak CBOR, where its gate is on. Requests are written, and answers are looked at, without the server's own
//! codec.

use integration_tests::{Etcd, Reply, Server, raw};
use serde_json::json;

const GATE: &str = "--feature-gates=CBORServingAndStorage=true";
const CBOR: &str = "application/cbor";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
/// What documents begin with.
const SELF_DESCRIBED: &[u8] = &[0xd9, 0xd9, 0xf7];

/// A byte string that is short.
fn text(text: &str) -> Vec<u8> {
    [&[0x40 | u8::try_from(text.len()).expect("short")], text.as_bytes()].concat()
}

/// A map of a few members.
fn map(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let count = 0xa0 | u8::try_from(members.len()).expect("a few");
    let members = members.iter().flat_map(|(name, value)| [text(name), value.clone()].concat());
    std::iter::once(count).chain(members).collect()
}

fn widget(name: &str, size: u8) -> Vec<u8> {
    let document = map(&[
        ("apiVersion", text("example.com/v1")),
        ("kind", text("Widget")),
        ("metadata", map(&[("name", text(name))])),
        ("spec", map(&[("size", vec![size])])),
    ]);
    [SELF_DESCRIBED, &document].concat()
}

fn ask(port: u16, method: &str, path: &str, accept: &str, body: &[u8]) -> Reply {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n\
         Accept: {accept}\r\nContent-Type: {CBOR}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    raw(port, &[head.as_bytes(), body].concat()).expect("an answer")
}

fn define_widgets(server: &Server) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string", "default": "red"}},
                }},
            }}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(server.request("POST", path, Some(&definition)).status, 201);
    while server.request("GET", WIDGETS, None).status != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn custom_resources_are_stored_as_cbor_and_read_without_the_gate() {
    let etcd = Etcd::start();
    let mut server = Server::prepare();
    server.set_arguments(&["--etcd-servers", &etcd.url(), GATE]);
    server.run();
    define_widgets(&server);
    let made = ask(server.port(), "POST", WIDGETS, CBOR, &widget("w", 3));
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(made.body.starts_with(SELF_DESCRIBED));
    let key = "/registry/example.com/widgets/default/w";
    let stored = etcd.get(key).expect("it is stored");
    // Members stand in the order of deterministic encoding: by length, then by their bytes.
    let spec = map(&[("size", vec![3]), ("color", text("red"))]);
    let begin =
        [SELF_DESCRIBED, &[0xa4], &text("kind"), &text("Widget"), &text("spec"), &spec, &text("metadata")].concat();
    assert!(stored.starts_with(&begin), "{stored:02x?}");
    let name = server.request("GET", &format!("{WIDGETS}/w"), None).json();
    assert_eq!((&name["spec"]["size"], &name["spec"]["color"]), (&json!(3), &json!("red")));

    server.terminate();
    server.set_arguments(&["--etcd-servers", &etcd.url()]);
    server.run();
    let mut found = server.request("GET", &format!("{WIDGETS}/w"), None).json();
    assert_eq!(found["spec"]["size"], json!(3));
    assert_eq!(ask(server.port(), "GET", WIDGETS, CBOR, b"").status, 406);
    assert_eq!(ask(server.port(), "POST", WIDGETS, "application/json", &widget("v", 3)).status, 415);
    found["spec"]["size"] = json!(4);
    assert_eq!(server.request("PUT", &format!("{WIDGETS}/w"), Some(&found)).status, 200);
    assert!(etcd.get(key).expect("it is stored").starts_with(b"{"));
}

#[test]
fn the_gate_is_shown_in_openapi() {
    let mut server = Server::prepare();
    server.set_arguments(&[GATE]);
    server.run();
    let document = server.request("GET", "/openapi/v3/api/v1", None).json();
    let config_maps = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"];
    let patch = config_maps["patch"]["requestBody"]["content"].as_object().expect("media types");
    assert!(patch.contains_key("application/apply-patch+cbor"));
    let swagger = server.request("GET", "/openapi/v2", None).json();
    let list = &swagger["paths"]["/api/v1/namespaces/{namespace}/configmaps"]["get"]["produces"];
    let expect = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        CBOR,
        "application/json;stream=watch",
        "application/vnd.kubernetes.protobuf;stream=watch",
        "application/cbor-seq",
    ];
    assert_eq!(*list, json!(expect));
}
