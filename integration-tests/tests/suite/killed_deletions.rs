//! A server that is killed again and again while its controllers delete: in the end all that was to go is gone, and nothing else.
//!
//! With `SOAK` in the environment (`make soak`) it is killed many more times.

use std::time::{Duration, Instant};

use integration_tests::Server;
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";
const MAPS: &str = "/api/v1/namespaces/kept/configmaps";
/// Objects of each kind in a namespace, and dependents of each owner.
const MANY: usize = 30;

/// Numbers for where to kill: the same ones in every run.
struct Moments(u64);

impl Moments {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn names(server: &Server, path: &str) -> Vec<String> {
    let list = server.request("GET", path, None).json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items.iter().filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned)).collect()
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

/// A namespace that is full, and asked to go.
fn condemned(server: &Server, name: &str) {
    server.made(NAMESPACES, json!({"metadata": {"name": name}}));
    for n in 0..MANY {
        let metadata = json!({"metadata": {"name": format!("o{n}")}});
        server.made(&format!("{NAMESPACES}/{name}/secrets"), metadata.clone());
        let mut widget = metadata;
        (widget["apiVersion"], widget["kind"]) = (json!("example.com/v1"), json!("Widget"));
        server.made(&format!("/apis/example.com/v1/namespaces/{name}/widgets"), widget);
    }
    assert_eq!(server.request("DELETE", &format!("{NAMESPACES}/{name}"), None).status, 200);
}

/// An owner with dependents, which have dependents of their own, asked to go.
fn owner(server: &Server, name: &str, propagation: &str) {
    let owned = |owner: &Value, name: String| {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
        server.made(MAPS, json!({"metadata": {"name": name, "ownerReferences": [owner]}}))
    };
    let top = server.made(MAPS, json!({"metadata": {"name": name}}));
    for n in 0..MANY / 2 {
        let child = owned(&top, format!("{name}-{n}"));
        owned(&child, format!("{name}-{n}-child"));
    }
    let reply = server.request("DELETE", &format!("{MAPS}/{name}"), Some(&json!({"propagationPolicy": propagation})));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[test]
fn what_was_to_go_is_gone_and_nothing_else_however_often_the_server_is_killed() {
    let rounds = if std::env::var_os("SOAK").is_some() { 40 } else { 2 };
    let mut moments = Moments(20_261_129);
    let mut server = Server::prepare();
    server.set_arguments(&["--controllers=*"]);
    server.run();
    widgets(&server);
    server.made(NAMESPACES, json!({"metadata": {"name": "kept"}}));
    let alive = server.made(MAPS, json!({"metadata": {"name": "alive"}}));
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "alive", "uid": alive["metadata"]["uid"]});
    server.made(MAPS, json!({"metadata": {"name": "alive-child", "ownerReferences": [reference]}}));
    for round in 0..rounds {
        let namespace = format!("gone-{round}");
        condemned(&server, &namespace);
        let owners =
            ["Background", "Foreground", "Orphan"].map(|policy| (format!("{}{round}", policy.to_lowercase()), policy));
        owners.iter().for_each(|(name, policy)| owner(&server, name, policy));
        // Each time when so much is left, or after a while.
        let left = |server: &Server| {
            names(server, &format!("{NAMESPACES}/{namespace}/secrets")).len() + names(server, MAPS).len()
        };
        for _ in 0..3 {
            let (enough, since) = (moments.below(left(&server) + 1), Instant::now());
            while left(&server) > enough && since.elapsed() < Duration::from_secs(1) {}
            server.kill();
            server.run();
        }
        server.in_the_end("the namespace is there", || {
            server.request("GET", &format!("{NAMESPACES}/{namespace}"), None).status == 404
        });
        let ours = |prefix: &str| names(&server, MAPS).iter().filter(|name| name.starts_with(prefix)).count();
        server.in_the_end("dependents are there", || ours(&owners[0].0) + ours(&owners[1].0) == 0);
        let orphan = format!("{MAPS}/{}", owners[2].0);
        server.in_the_end("the owner of orphans is there", || server.request("GET", &orphan, None).status == 404);
        assert_eq!(ours(&owners[2].0), MANY / 2 * 2, "orphans stay, and their dependents");
        for n in 0..MANY / 2 {
            let orphan = server.request("GET", &format!("{orphan}-{n}"), None).json();
            assert_eq!(orphan["metadata"].get("ownerReferences"), None, "{orphan}");
        }
        for kind in ["secrets", "configmaps", "serviceaccounts"] {
            assert!(
                names(&server, &format!("{NAMESPACES}/{namespace}/{kind}")).is_empty(),
                "{kind} in a namespace that is gone"
            );
        }
        let left = names(&server, &format!("/apis/example.com/v1/namespaces/{namespace}/widgets"));
        assert!(left.is_empty(), "{left:?}");
    }
    let kept = names(&server, MAPS);
    for name in ["alive", "alive-child"] {
        assert!(kept.iter().any(|kept| kept == name), "{name} is to stay: {kept:?}");
    }
}
