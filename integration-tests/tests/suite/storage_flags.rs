//! Flags of the storage and of watches, seen from outside.

use std::time::{Duration, Instant};

use integration_tests::Server;
use serde_json::{Value, json};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn start(arguments: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.set_arguments(arguments);
    server.run();
    server
}

#[test]
fn events_are_forgotten_after_their_time_and_watchers_hear_of_it() {
    let server = start(&["--event-ttl=2s"]);
    let event = json!({
        "metadata": {"name": "e", "namespace": "default"}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    let since = Instant::now();
    let created = server.request("POST", EVENTS, Some(&event));
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(server.request("POST", CONFIGMAPS, Some(&json!({"metadata": {"name": "stays"}}))).status, 201);
    let version = created.json()["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    while server.request("GET", &format!("{EVENTS}/e"), None).status != 404 {
        assert!(since.elapsed() < Duration::from_secs(120), "it expires");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(since.elapsed() > Duration::from_millis(1500), "{:?}", since.elapsed());
    let watch = server.request("GET", &format!("{EVENTS}?watch=1&timeoutSeconds=1&resourceVersion={version}"), None);
    let seen: Value = serde_json::from_str(watch.text().lines().next().expect("an event")).expect("JSON");
    assert_eq!((&seen["type"], &seen["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("e")));
    assert_eq!(server.request("GET", &format!("{CONFIGMAPS}/stays"), None).status, 200);
}

#[test]
fn a_watch_without_a_time_lasts_as_long_as_the_flag_says() {
    let server = start(&["--min-request-timeout=1"]);
    let since = Instant::now();
    assert_eq!(server.request("GET", &format!("{CONFIGMAPS}?watch=1"), None).status, 200);
    let lasted = since.elapsed();
    assert!(lasted >= Duration::from_secs(1) && lasted < Duration::from_secs(60), "{lasted:?}");
}

#[test]
fn objects_are_counted_and_the_database_is_measured() {
    let server = start(&["--etcd-count-metric-poll-period=100ms", "--etcd-db-metric-poll-interval=100ms"]);
    for name in ["a", "b", "c"] {
        assert_eq!(
            server
                .request(
                    "POST",
                    EVENTS.replace("events", "secrets").as_str(),
                    Some(&json!({"metadata": {"name": name}}))
                )
                .status,
            201
        );
    }
    let since = Instant::now();
    loop {
        let metrics = server.request("GET", "/metrics", None).text();
        let measured =
            metrics.lines().any(|l| l.starts_with("apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} "));
        if metrics.contains("apiserver_storage_objects{resource=\"secrets\"} 3\n") && measured {
            return;
        }
        assert!(since.elapsed() < Duration::from_secs(120), "{metrics}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn large_answers_are_compressed_and_small_ones_are_not() {
    let server = start(&[]);
    let object = json!({"metadata": {"name": "big"}, "data": {"k": "x".repeat(200_000)}});
    assert_eq!(server.request("POST", CONFIGMAPS, Some(&object)).status, 201);
    let get = |path: &str, accepts: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nAccept-Encoding: {accepts}\r\n\
             Connection: close\r\n\r\n"
        );
        integration_tests::raw(server.port(), request.as_bytes()).expect("an answer")
    };
    let check = |path: &str, accepts: &str, compressed: bool| {
        let reply = get(path, accepts);
        let encoding =
            reply.headers.iter().find(|(name, _)| name == "content-encoding").map(|(_, value)| value.as_str());
        assert_eq!((reply.status, encoding == Some("gzip")), (200, compressed), "{path} {accepts}");
        assert_eq!(reply.body.starts_with(&[0x1f, 0x8b]), compressed);
        assert!(!compressed || reply.body.len() < 20_000);
    };
    check(CONFIGMAPS, "deflate, gzip", true);
    check(&format!("{CONFIGMAPS}/big"), "gzip", true);
    check(&format!("{CONFIGMAPS}/big"), "identity", false);
    check("/api/v1/namespaces/default", "gzip", false);
    check(&format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1&resourceVersion=0"), "gzip", false);
}
