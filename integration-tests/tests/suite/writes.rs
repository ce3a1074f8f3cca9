//! Writes at the limits: objects that are too large for their managers, patches that are small and ask for much.

use std::time::{Duration, Instant};

use integration_tests::{Reply, Server, send};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn patch(server: &Server, name: &str, kind: &str, body: &[u8]) -> Reply {
    let path = format!("{CONFIGMAPS}/{name}?fieldManager=test");
    send(server.port(), "PATCH", &path, &format!("application/{kind}"), body).expect("an answer")
}

#[test]
fn an_object_that_is_too_large_with_its_managers_is_stored_without() {
    let server = Server::start();
    let data = |count: usize| (0..count).map(|i| (format!("k{i:05}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let managers = |reply: &Reply| reply.json()["metadata"]["managedFields"].clone();
    let object = |name: &str, count| json!({"metadata": {"name": name}, "data": data(count)});
    let large = server.request("POST", CONFIGMAPS, Some(&object("large", 62_000)));
    assert_eq!((large.status, managers(&large)), (201, Value::Null));
    let grown = server.request("POST", CONFIGMAPS, Some(&object("grown", 40_000)));
    assert_eq!((grown.status, managers(&grown)[0]["operation"].as_str()), (201, Some("Update")));
    let grown = patch(&server, "grown", "merge-patch+json", json!({"data": data(62_000)}).to_string().as_bytes());
    assert_eq!((grown.status, managers(&grown)), (200, Value::Null));
    assert_eq!(grown.json()["data"].as_object().map(serde_json::Map::len), Some(62_000));
    // Who applies needs them.
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": data(62_000)});
    assert_eq!(patch(&server, "new", "apply-patch+yaml", applied.to_string().as_bytes()).status, 413);
}

#[test]
fn patches_that_ask_for_too_much_are_refused_soon_and_cost_little_memory() {
    let server = Server::start();
    let made = server.request("POST", CONFIGMAPS, Some(&json!({"metadata": {"name": "c"}, "data": {"a": "x"}})));
    assert_eq!(made.status, 201);
    let many = |operation: Value, count: usize| Value::from(vec![operation; count]).to_string();
    let long = "x".repeat(500_000);
    // Each copy doubles what the next one copies.
    let mut doubling = format!(r#"[{{"op":"add","path":"/data/a","value":"{long}"}}"#);
    for _ in 0..200 {
        doubling.push_str(r#",{"op":"copy","from":"/data","path":"/data/b"}"#);
    }
    doubling.push(']');
    let nested = |open: &str, middle: &str, close: &str| {
        format!("{{\"data\":{}{middle}{}}}", open.repeat(100_000), close.repeat(100_000))
    };
    let front = json!({"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/x"});
    let mut shifting = vec![json!({"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]})];
    shifting.extend(vec![front; 9_999]);
    let attacks = [
        ("json-patch+json", doubling, 422),
        ("json-patch+json", many(json!({"op": "test", "path": "/data/a", "value": "x"}), 10_001), 413),
        ("json-patch+json", many(json!({"op": "test", "path": "/data/a", "value": "x"}), 10_000), 200),
        ("json-patch+json", Value::from(shifting).to_string(), 200),
        ("merge-patch+json", nested("{\"a\":", "1", "}"), 400),
        ("strategic-merge-patch+json", nested("[", "1", "]"), 400),
        ("apply-patch+yaml", nested("[", "1", "]"), 400),
        ("merge-patch+json", format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(3 << 20)), 413),
        ("merge-patch+json", format!("{{\"metadata\":{{\"labels\":{{\"a\":\"{long}\"}}}}}}"), 422),
    ];
    let before = server.resident_kib();
    for (kind, body, status) in attacks {
        let since = Instant::now();
        let reply = patch(&server, "c", kind, body.as_bytes());
        let text = reply.text();
        assert_eq!(reply.status, status, "{kind} {}: {}", &body[..80], &text[..text.len().min(300)]);
        assert!(since.elapsed() < Duration::from_secs(60), "{kind} {}: {:?}", &body[..80], since.elapsed());
    }
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < 200 << 10, "{grown} KiB more");
    let left = server.request("GET", &format!("{CONFIGMAPS}/c"), None).json();
    assert_eq!(left["data"], json!({"a": "x"}));
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
