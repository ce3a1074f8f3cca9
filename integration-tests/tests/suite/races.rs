//! Writers of one object at the same time: who names no version wins in the end, whatever it writes with.

use std::sync::{
    Barrier,
    atomic::{AtomicUsize, Ordering},
};

use integration_tests::{Etcd, Reply, Server, send};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

fn request(port: u16, method: &str, path: &str, content_type: &str, body: &Value) -> Reply {
    send(port, method, path, content_type, body.to_string().as_bytes()).expect("an answer")
}

fn get(port: u16, path: &str) -> Reply {
    send(port, "GET", path, "", b"").expect("an answer")
}

/// Runs `work` in so many threads that begin together.
fn at_once(threads: usize, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        for at in 0..threads {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(at);
            });
        }
    });
}

/// The n-th patch of a writer's own key, of the kind that is the writer's.
fn patch(writer: usize, n: usize) -> (&'static str, String, Value) {
    let (key, value) = (format!("k{writer}"), n.to_string());
    let path = format!("{CONFIGMAPS}/shared?fieldManager=w{writer}");
    match writer % 4 {
        0 => ("application/merge-patch+json", path, json!({"data": {key: value}})),
        1 => {
            let operations = json!([{"op": "add", "path": format!("/data/{key}"), "value": value}]);
            ("application/json-patch+json", path, operations)
        }
        2 => ("application/strategic-merge-patch+json", path, json!({"data": {key: value}})),
        _ => {
            let config =
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "shared"}, "data": {key: value}});
            (APPLY, path, config)
        }
    }
}

fn race(servers: &[Server]) {
    let port = |at: usize| servers[at % servers.len()].port();
    let made = request(port(0), "POST", CONFIGMAPS, JSON, &json!({"metadata": {"name": "shared"}, "data": {"k": "v"}}));
    assert_eq!(made.status, 201, "{}", made.text());
    at_once(8, |writer| {
        for n in 0..15 {
            let (content_type, path, body) = patch(writer, n);
            let reply = request(port(writer / 4), "PATCH", &path, content_type, &body);
            assert_eq!(reply.status, 200, "{content_type} {n}: {}", reply.text());
        }
    });
    let found = servers[0].request("GET", &format!("{CONFIGMAPS}/shared"), None).json();
    for writer in 0..8 {
        assert_eq!(found["data"][format!("k{writer}")], "14", "{found}");
    }
    at_once(32, |writer| {
        let object = json!({"metadata": {"name": "shared"}, "data": {"k": writer.to_string()}});
        let reply = request(port(writer), "PUT", &format!("{CONFIGMAPS}/shared"), JSON, &object);
        assert_eq!(reply.status, 200, "{}", reply.text());
    });
    for round in 0..5 {
        let (created, changed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        at_once(6, |writer| {
            let name = format!("new{round}");
            let path = format!("{CONFIGMAPS}/{name}?fieldManager=w{writer}");
            let config = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name},
                "data": {format!("k{writer}"): "v"}});
            let reply = request(port(writer), "PATCH", &path, APPLY, &config);
            match reply.status {
                201 => created.fetch_add(1, Ordering::Relaxed),
                200 => changed.fetch_add(1, Ordering::Relaxed),
                other => panic!("{other}: {}", reply.text()),
            };
        });
        assert_eq!((created.into_inner(), changed.into_inner()), (1, 5));
    }
    // A version that a patch names pins it.
    let stale = json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "v"}});
    let reply = request(port(0), "PATCH", &format!("{CONFIGMAPS}/shared"), "application/merge-patch+json", &stale);
    assert_eq!(reply.status, 409, "{}", reply.text());
}

#[test]
fn writers_of_one_object_win_their_races() {
    race(&[Server::start()]);
}

/// One client after each answer asks another server, while others write to the same prefixes.
fn sees_its_own_writes(servers: &[Server], client: usize) {
    let port = |at: usize| servers[at % servers.len()].port();
    for n in 0..30 {
        let path = format!("{CONFIGMAPS}/own{client}");
        let object = json!({"metadata": {"name": format!("own{client}")}, "data": {"n": n.to_string()}});
        let made = request(port(n), "POST", CONFIGMAPS, JSON, &object);
        assert_eq!(made.status, 201, "{}", made.text());
        let put = request(port(n + 1), "PUT", &path, JSON, &object);
        assert_eq!(put.status, 200, "{}", put.text());
        let mut pinned = put.json();
        pinned["data"]["more"] = json!("x");
        let put = request(port(n), "PUT", &path, JSON, &pinned);
        assert_eq!(put.status, 200, "{}", put.text());
        let got = get(port(n + 1), &path);
        assert_eq!((got.status, &got.json()["data"]["more"]), (200, &json!("x")));
        let patch = json!({"data": {"more": null}});
        let patched = request(port(n + 1), "PATCH", &path, "application/merge-patch+json", &patch);
        assert_eq!(patched.status, 200, "{}", patched.text());
        let version = &patched.json()["metadata"]["resourceVersion"];
        let options = json!({"preconditions": {"resourceVersion": version}});
        let gone = request(port(n), "DELETE", &path, JSON, &options);
        assert_eq!(gone.status, 200, "{}", gone.text());
        let got = get(port(n + 1), &path);
        assert_eq!(got.status, 404, "{}", got.text());
    }
}

#[test]
fn with_etcd_writers_win_and_clients_see_their_own_writes() {
    let etcd = Etcd::start();
    let servers: Vec<Server> = ["10.0.0.1", "10.0.0.2"]
        .iter()
        .map(|address| {
            let mut server = Server::prepare();
            server
                .set_arguments(&[&format!("--etcd-servers={}", etcd.url()), &format!("--advertise-address={address}")]);
            server.run();
            server
        })
        .collect();
    race(&servers);
    sees_its_own_writes(&servers[..1], 0);
    at_once(6, |client| sees_its_own_writes(&servers, client));
}
