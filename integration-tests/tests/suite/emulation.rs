//! Flags that choose what there is: an emulated version, gates, and where objects are kept.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use integration_tests::{Etcd, Server};
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

fn start(arguments: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.set_arguments(arguments);
    server.run();
    server
}

#[test]
fn an_emulated_version_says_so_and_serves_what_it_had() {
    let server = start(&["--emulated-version=1.33", "--runtime-config=api/beta=true"]);
    let version = server.request("GET", "/version", None).json();
    let told = ["minor", "emulationMinor", "minCompatibilityMinor"].map(|member| version[member].clone());
    assert_eq!(told, [json!("36"), json!("33"), json!("33")]);
    assert_eq!(server.request("GET", "/openapi/v2", None).json()["info"]["version"], "1.33");
    assert!(server.request("GET", "/statusz", None).status == 404, "a page that it did not have");
    let metrics = server.request("GET", "/metrics", None).text();
    assert!(
        metrics.contains("kubernetes_feature_enabled{name=\"ClusterTrustBundle\",stage=\"BETA\"} 0\n"),
        "{metrics}"
    );
    assert!(
        metrics
            .contains("version_info{binary=\"1.36.2\",component=\"kube\",emulation=\"1.33\",min_compat=\"1.33\"} 1\n")
    );
    assert_eq!(server.request("GET", "/apis/resource.k8s.io/v1", None).status, 404);
    // What is kept is kept in a version that a server of 1.33 reads.
    let class =
        json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "c"}, "spec": {}});
    let classes = "/apis/resource.k8s.io/v1beta1/deviceclasses";
    let created = server.request("POST", classes, Some(&class));
    assert_eq!(created.status, 201, "{}", created.text());
    let listed = server.request("GET", "/apis/resource.k8s.io/v1beta2/deviceclasses/c", None).json();
    assert_eq!(listed["apiVersion"], "resource.k8s.io/v1beta2");
    let hash = |version: &str| {
        let list = server.request("GET", &format!("/apis/resource.k8s.io/{version}"), None).json();
        let resources = list["resources"].as_array().expect("resources").clone();
        resources.into_iter().find(|r| r["name"] == "deviceclasses").expect("served")["storageVersionHash"].clone()
    };
    assert_eq!(hash("v1beta1"), hash("v1beta2"));
}

#[test]
fn a_shard_of_a_list_is_the_part_that_is_asked_for() {
    let server = start(&["--feature-gates=ShardedListAndWatch=true"]);
    for i in 0..8 {
        let object = json!({"metadata": {"name": format!("c{i}")}});
        assert_eq!(server.request("POST", CONFIGMAPS, Some(&object)).status, 201);
    }
    let part = |start: &str, end: &str| {
        let selector = format!("shardRange(object.metadata.uid, '{start}', '{end}')");
        let query = selector.replace(' ', "%20").replace('\'', "%27");
        let list = server.request("GET", &format!("{CONFIGMAPS}?shardSelector={query}"), None).json();
        assert_eq!(list["metadata"]["shardInfo"]["selector"], selector.as_str());
        list["items"].as_array().expect("items").iter().map(|item| item["metadata"]["uid"].clone()).collect::<Vec<_>>()
    };
    let first = part("0x0000000000000000", "0x8000000000000000");
    let second = part("0x8000000000000000", "0x10000000000000000");
    let all = server.request("GET", CONFIGMAPS, None).json()["items"].as_array().map(Vec::len).expect("items");
    assert_eq!(first.len() + second.len(), all);
    assert!(first.iter().all(|uid| !second.contains(uid)));
    let refused = server.request("GET", &format!("{CONFIGMAPS}?shardSelector=true"), None);
    assert_eq!(refused.status, 500, "{}", refused.text());
    let why = "invalid shard selector: unexpected expression kind 5; expected shardRange() call or || operator";
    assert_eq!(refused.json()["message"], why);
}

#[test]
fn a_lease_goes_to_the_candidate_of_the_oldest_version() {
    let server =
        start(&["--feature-gates=CoordinatedLeaderElection=true", "--runtime-config=coordination.k8s.io/v1beta1=true"]);
    let candidates = "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates";
    let path = |name: &str| format!("{candidates}/{name}");
    let candidate = |name: &str, version: &str| {
        json!({
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {
                "leaseName": "tested", "binaryVersion": version, "emulationVersion": version,
                "strategy": "OldestEmulationVersion", "renewTime": now(),
            },
        })
    };
    server.in_the_end("the namespace", || server.request("GET", "/api/v1/namespaces/kube-system", None).status == 200);
    for (name, version) in [("new", "1.36.0"), ("old", "1.35.0")] {
        let created = server.request("POST", candidates, Some(&candidate(name, version)));
        assert_eq!(created.status, 201, "{}", created.text());
    }
    // Candidates answer when they are asked whether they are there.
    let lease = || server.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tested", None);
    let answer = |name: &str| {
        let found = server.request("GET", &path(name), None).json();
        let (asked, renewed) = (found["spec"]["pingTime"].as_str(), found["spec"]["renewTime"].as_str());
        if asked > renewed {
            let mut found: Value = found.clone();
            found["spec"]["renewTime"] = json!(now());
            let _ = server.request("PUT", &path(name), Some(&found));
        }
    };
    server.in_the_end("a leader", || {
        ["new", "old"].into_iter().for_each(answer);
        let spec = &lease().json()["spec"];
        spec["holderIdentity"] == "old" || spec["preferredHolder"] == "old"
    });
    assert_eq!(lease().json()["spec"]["strategy"], "OldestEmulationVersion");
}

/// The present, as leases write it.
fn now() -> String {
    let output =
        std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.%6NZ"]).output().expect("date runs");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn objects_are_kept_where_and_how_flags_say() {
    let (main, events) = (Etcd::start(), Etcd::start());
    let server = start(&[
        &format!("--etcd-servers={}", main.url()),
        &format!("--etcd-servers-overrides=/events#{}", events.url()),
        "--storage-media-type=application/vnd.kubernetes.protobuf",
    ]);
    let object = json!({"metadata": {"name": "c"}, "data": {"k": "v"}});
    assert_eq!(server.request("POST", CONFIGMAPS, Some(&object)).status, 201);
    let event = json!({
        "metadata": {"name": "e", "namespace": "default"}, "reason": "Tested", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
    });
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/events", Some(&event)).status, 201);
    let stored = main.get("/registry/configmaps/default/c").expect("it is there");
    assert!(stored.starts_with(b"k8s\0"), "{stored:?}");
    assert_eq!(server.request("GET", &format!("{CONFIGMAPS}/c"), None).json()["data"]["k"], "v");
    assert_eq!(main.get("/registry/events/default/e"), None);
    let stored = events.get("/registry/events/default/e").expect("it is with the others of its kind");
    assert!(stored.starts_with(b"k8s\0"), "{stored:?}");
    let listed = server.request("GET", "/api/v1/namespaces/default/events", None).json();
    assert_eq!(listed["items"][0]["metadata"]["name"], "e");
}

#[test]
fn profiles_are_on_a_socket_and_logs_are_split() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("debug.sock");
    let mut server = start(&[
        &format!("--debug-socket-path={}", socket.display()),
        "--enable-logs-handler=true",
        "--feature-gates=LoggingAlphaOptions=true",
        "--log-text-split-stream=true",
        "--log-text-info-buffer-size=4Ki",
    ]);
    let mut stream = UnixStream::connect(&socket).expect("somebody listens");
    stream.write_all(b"GET /debug/pprof/cmdline HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("--enable-logs-handler=true"), "{answer}");
    let page = server.request("GET", "/logs/", None);
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(server.request("GET", "/logs/no-such-file", None).status, 404);
    server.terminate();
    assert!(!socket.exists(), "the socket goes with the server");
}
