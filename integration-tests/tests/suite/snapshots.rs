//! Snapshots of the embedded store: made and restored while the server serves.

use std::process::Output;

use integration_tests::{Server, send};
use serde_json::{Value, json};

const PATH: &str = "/debug/storage/snapshot";
const FORK: &str = "/debug/storage/fork";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn write(server: &Server, method: &str, name: &str, value: &str) -> u64 {
    let path = if method == "POST" { MAPS.to_owned() } else { format!("{MAPS}/{name}") };
    let object = json!({"metadata": {"name": name}, "data": {"k": value}});
    let reply = server.request(method, &path, Some(&object));
    assert!(reply.status < 300, "{}", reply.text());
    reply.json()["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).expect("a revision")
}

fn value(server: &Server, name: &str) -> Value {
    server.request("GET", &format!("{MAPS}/{name}"), None).json()["data"]["k"].clone()
}

#[test]
fn a_snapshot_brings_back_what_was_while_watchers_look_on() {
    let server = Server::start();
    for (name, text) in [("changed", "before"), ("deleted", "before"), ("same", "before")] {
        write(&server, "POST", name, text);
    }
    let file = server.dir().join("snapshot");
    let snapshot = send(server.port(), "GET", PATH, "", b"").expect("an answer");
    assert_eq!(snapshot.status, 200, "{}", snapshot.text());
    std::fs::write(&file, &snapshot.body).expect("written");

    write(&server, "PUT", "changed", "after");
    assert_eq!(server.request("DELETE", &format!("{MAPS}/deleted"), None).status, 200);
    let since = write(&server, "POST", "new", "after");
    let name = file.to_str().expect("a name");
    let restored = server.kubectl(&["replace", "--raw", PATH, "-f", name]);
    let restored: Value = serde_json::from_str(&restored).expect("JSON");
    assert!(restored["written"].as_u64() >= Some(2) && restored["deleted"].as_u64() >= Some(1), "{restored}");
    let values = ["changed", "deleted", "same", "new"].map(|name| value(&server, name));
    assert_eq!(values, [json!("before"), json!("before"), json!("before"), Value::Null]);

    let watch = format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={since}");
    let events = server.request("GET", &watch, None).text();
    let mut seen: Vec<(String, String)> = events
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|event| (event["type"].to_string(), event["object"]["metadata"]["name"].to_string()))
        .collect();
    seen.sort();
    let expect = [("ADDED", "deleted"), ("DELETED", "new"), ("MODIFIED", "changed")];
    assert_eq!(seen, expect.map(|(kind, name)| (format!("{kind:?}"), format!("{name:?}"))));
    assert!(write(&server, "POST", "later", "x") > since, "revisions go on rising");
}

#[test]
fn servers_begin_as_a_snapshot_of_another() {
    let first = Server::start();
    write(&first, "POST", "here", "before");
    let file = first.dir().join("snapshot");
    std::fs::write(&file, send(first.port(), "GET", PATH, "", b"").expect("an answer").body).expect("written");
    let flag = format!("--from-snapshot={}", file.display());
    for text in ["one", "two"] {
        let mut fork = Server::prepare();
        fork.set_arguments(&[&flag]);
        fork.run();
        assert_eq!(value(&fork, "here"), json!("before"));
        write(&fork, "PUT", "here", text);
        // A server that has a store goes on with it.
        fork.terminate();
        fork.run();
        assert_eq!(value(&fork, "here"), json!(text));
    }
    assert_eq!(value(&first, "here"), json!("before"));
    let bytes = std::fs::read(&file).expect("read");
    std::fs::write(&file, &bytes[..bytes.len() / 3]).expect("written");
    let mut refused = Server::prepare();
    refused.set_arguments(&[&flag]);
    let said = refused.run_in_vain();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("cannot start from the snapshot")).collect();
    assert!(lines.len() == 1 && lines[0].contains("it was cut short"), "{said}");
}

#[test]
fn a_fork_of_a_running_server_is_what_others_begin_as() {
    let first = Server::start();
    write(&first, "POST", "here", "before");
    let make = || {
        let reply = first.request("POST", FORK, None);
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()
    };
    let (fork, other) = (make(), make());
    assert_ne!(fork["path"], other["path"]);
    let revision = write(&first, "PUT", "here", "after");
    assert!(fork["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok()) < Some(revision), "{fork}");
    let path = fork["path"].as_str().expect("a path").to_owned();
    assert_eq!(std::fs::metadata(&path).expect("a file").len(), fork["bytes"].as_u64().expect("a number"));
    for text in ["one", "two"] {
        let mut begun = Server::prepare();
        begun.set_arguments(&[&format!("--from-snapshot={path}")]);
        begun.run();
        assert_eq!(value(&begun, "here"), json!("before"));
        write(&begun, "PUT", "here", text);
    }
    assert_eq!(value(&first, "here"), json!("after"));
    let remove = |name: &str| first.request("DELETE", &format!("{FORK}/{name}"), None).status;
    let name = fork["name"].as_str().expect("a name");
    assert_eq!(remove("..%2Fadmin.kubeconfig"), 404);
    assert_eq!(remove("fork-..%2f..%2Fadmin.kubeconfig"), 404);
    assert_eq!(remove(name), 200);
    assert!(!std::path::Path::new(&path).exists());
    assert_eq!(remove(name), 404);
    assert_eq!(first.request("GET", FORK, None).status, 405);
    assert!(first.data().join("admin.kubeconfig").exists());
}

#[test]
fn what_is_no_snapshot_changes_nothing_and_nobody_gets_one_who_may_not() {
    let server = Server::start();
    write(&server, "POST", "here", "x");
    let snapshot = send(server.port(), "GET", PATH, "", b"").expect("an answer").body;
    let refused = |body: &[u8]| {
        let reply = send(server.port(), "PUT", PATH, "application/octet-stream", body).expect("an answer");
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert!(reply.text().contains("no snapshot of a store"), "{}", reply.text());
    };
    refused(b"");
    refused(b"something else");
    for part in [1, 2, 3] {
        refused(&snapshot[..snapshot.len() * part / 4]);
    }
    refused(&snapshot[..snapshot.len() - 1]);
    assert_eq!(value(&server, "here"), "x");
    assert_eq!(server.request("POST", PATH, None).status, 405);
    let left = std::fs::read_dir(server.data()).expect("a folder").flatten();
    let left: Vec<_> = left.filter(|e| e.file_name().to_string_lossy().starts_with("snapshot")).collect();
    assert!(left.is_empty(), "{left:?}");
    let Output { status, stderr, .. } = server.try_kubectl(&["get", "--raw", PATH, "--as=alice"], "");
    assert!(!status.success());
    let message = String::from_utf8_lossy(&stderr).into_owned();
    assert!(message.contains("cannot get path \"/debug/storage/snapshot\""), "{message}");
}

#[test]
fn readers_of_everything_get_no_snapshot_without_its_own_verb() {
    let server = Server::start();
    let grant = |name: &str, rules: Value| {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        assert_eq!(server.request("POST", path, Some(&role)).status, 201);
        server.kubectl(&["create", "clusterrolebinding", name, &format!("--clusterrole={name}"), "--user=bob"]);
    };
    let snapshot = || server.try_kubectl(&["get", "--raw", PATH, "--as=bob"], "");
    let refusal = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let read = ["get", "list", "watch"];
    grant(
        "reader",
        json!([
            {"verbs": read, "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["get", "put"], "nonResourceURLs": ["*"]},
        ]),
    );
    let output = snapshot();
    assert!(!output.status.success());
    let message = refusal(&output);
    let expect = "User \"bob\" cannot snapshot resource \"embeddedstores\" in API group \"internal.apiserver.k8s.io\"";
    assert!(message.contains(expect), "{message}");
    let own = |verb: &str| json!([{"verbs": [verb], "apiGroups": ["internal.apiserver.k8s.io"], "resources": ["embeddedstores"]}]);
    grant("saver", own("snapshot"));
    let output = snapshot();
    assert!(output.status.success(), "{}", refusal(&output));
    let file = server.dir().join("snapshot");
    std::fs::write(&file, &output.stdout).expect("written");
    let restore =
        || server.try_kubectl(&["replace", "--raw", PATH, "--as=bob", "-f", file.to_str().expect("a name")], "");
    let message = refusal(&restore());
    assert!(message.contains("cannot restore resource \"embeddedstores\""), "{message}");
    grant("restorer", own("restore"));
    let output = restore();
    assert!(output.status.success(), "{}", refusal(&output));
}
