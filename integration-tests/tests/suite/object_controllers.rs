//! Controllers (`--controllers`) that look after objects of one kind: quotas, budgets, roles, claims, jobs, requests.

use integration_tests::Server;
use serde_json::{Value, json};

fn server() -> Server {
    let mut server = Server::prepare();
    server.set_arguments(&["--controllers=*,token-cleaner-controller"]);
    server.run();
    server
}

fn got(server: &Server, path: &str) -> Value {
    server.request("GET", path, None).json()
}

fn patched(server: &Server, path: &str, patch: Value) {
    let reply = server.request("PATCH", path, Some(&patch));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

fn is_gone(server: &Server, path: &str) {
    server.in_the_end(&format!("{path} is still there"), || server.request("GET", path, None).status == 404);
}

fn pod(name: &str, labels: Value) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m"}}});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}})
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[test]
fn quotas_tell_what_is_used() {
    let server = server();
    server.in_the_end("pods find an account", || {
        server.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", None).status == 200
    });
    server.made(PODS, pod("before", json!({})));
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({"pods": "3", "requests.cpu": "1", "count/secrets": "2"});
    server.made(quotas, json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}));
    let status = |expect: Value| {
        server.in_the_end(&format!("used is {expect}"), || {
            got(&server, &format!("{quotas}/q"))["status"]["used"] == expect
        });
    };
    status(json!({"pods": "1", "requests.cpu": "200m", "count/secrets": "0"}));
    server.made(PODS, pod("after", json!({})));
    server.made("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}}));
    status(json!({"pods": "2", "requests.cpu": "400m", "count/secrets": "1"}));
    assert_eq!(server.request("DELETE", &format!("{PODS}/before"), None).status, 200);
    assert_eq!(server.request("DELETE", "/api/v1/namespaces/default/secrets/s", None).status, 200);
    status(json!({"pods": "1", "requests.cpu": "200m", "count/secrets": "0"}));
    patched(&server, &format!("{quotas}/q"), json!({"spec": {"hard": {"requests.cpu": null}}}));
    status(json!({"pods": "1", "count/secrets": "0"}));
}

#[test]
fn what_is_made_while_a_quota_is_counted_first_is_counted_too() {
    let server = server();
    let namespaces: Vec<String> = (0..20).map(|i| format!("n{i}")).collect();
    for namespace in &namespaces {
        server.made("/api/v1/namespaces", json!({"metadata": {"name": namespace}}));
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "10"}}});
        server.made(&format!("/api/v1/namespaces/{namespace}/resourcequotas"), quota);
        for name in ["a", "b", "c"] {
            server.made(&format!("/api/v1/namespaces/{namespace}/secrets"), json!({"metadata": {"name": name}}));
        }
    }
    for namespace in &namespaces {
        server.in_the_end(&format!("{namespace} has three"), || {
            let quota = got(&server, &format!("/api/v1/namespaces/{namespace}/resourcequotas/q"));
            quota["status"]["used"] == json!({"count/secrets": "3"})
        });
    }
}

#[test]
fn evictions_go_by_the_status_of_budgets() {
    let server = server();
    server.in_the_end("pods find an account", || {
        server.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", None).status == 200
    });
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    server.made(budgets, json!({"metadata": {"name": "b"}, "spec": spec}));
    for name in ["a", "b"] {
        server.made(PODS, pod(name, json!({"app": "web"})));
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        patched(&server, &format!("{PODS}/{name}/status"), ready);
    }
    let status = || got(&server, &format!("{budgets}/b"))["status"].clone();
    server.in_the_end("one may go", || status()["disruptionsAllowed"] == 1);
    let found = status();
    assert_eq!(
        (&found["currentHealthy"], &found["desiredHealthy"], &found["expectedPods"]),
        (&json!(2), &json!(1), &json!(2))
    );
    assert_eq!(found["conditions"][0]["reason"], "SufficientPods");
    let evict = |name: &str| {
        let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}});
        server.request("POST", &format!("{PODS}/{name}/eviction"), Some(&eviction)).status
    };
    assert_eq!(evict("a"), 201);
    server.in_the_end("none may go", || status()["disruptionsAllowed"] == 0 && status()["expectedPods"] == 1);
    assert_eq!(evict("b"), 429);
}

#[test]
fn cluster_roles_have_the_rules_of_those_that_they_choose() {
    let server = server();
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    server.in_the_end("the bootstrap roles have theirs", || {
        got(&server, &format!("{roles}/admin"))["rules"].as_array().is_some_and(|rules| rules.len() > 10)
    });
    let rule = json!({"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get"]});
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    server.made(roles, json!({"metadata": {"name": "widgets", "labels": label}, "rules": [rule]}));
    let has = |name: &str| {
        let role = got(&server, &format!("{roles}/{name}"));
        role["rules"].as_array().is_some_and(|rules| rules.contains(&rule))
    };
    server.in_the_end("they have it", || has("view") && has("edit") && has("admin"));
    assert_eq!(server.request("DELETE", &format!("{roles}/widgets"), None).status, 200);
    server.in_the_end("they have it no more", || !has("view") && !has("edit") && !has("admin"));
}

#[test]
fn claims_and_volumes_stay_while_they_are_used() {
    let server = server();
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str| {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    server.in_the_end("pods find an account", || {
        server.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", None).status == 200
    });
    server.made(claims, claim("free"));
    server.made(claims, claim("used"));
    let mut user = pod("user", json!({}));
    user["spec"]["nodeName"] = json!("n1");
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]);
    server.made(PODS, user);
    for name in ["free", "used"] {
        assert_eq!(server.request("DELETE", &format!("{claims}/{name}"), None).status, 200);
    }
    is_gone(&server, &format!("{claims}/free"));
    let used = got(&server, &format!("{claims}/used"));
    assert!(used["metadata"]["deletionTimestamp"].is_string(), "{used}");
    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(server.request("DELETE", &format!("{PODS}/user"), Some(&now)).status, 200);
    is_gone(&server, &format!("{claims}/used"));

    let volumes = "/api/v1/persistentvolumes";
    let spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    server.made(volumes, json!({"metadata": {"name": "v"}, "spec": spec}));
    patched(&server, &format!("{volumes}/v/status"), json!({"status": {"phase": "Bound"}}));
    assert_eq!(server.request("DELETE", &format!("{volumes}/v"), None).status, 200);
    assert_eq!(server.request("GET", &format!("{volumes}/v"), None).status, 200);
    patched(&server, &format!("{volumes}/v/status"), json!({"status": {"phase": "Released"}}));
    is_gone(&server, &format!("{volumes}/v"));
}

#[test]
fn what_has_had_its_time_goes() {
    let server = server();
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": template, "ttlSecondsAfterFinished": 0}});
    server.made(jobs, job);
    let done = json!([
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
        {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}]);
    let times =
        json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z", "conditions": done});
    patched(&server, &format!("{jobs}/j/status"), json!({"status": times}));
    is_gone(&server, &format!("{jobs}/j"));

    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let token = |name: &str, expiration: &str| {
        let data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": expiration});
        json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "stringData": data})
    };
    server.made(secrets, token("old", "2020-01-01T00:00:00Z"));
    server.made(secrets, token("young", "2200-01-01T00:00:00Z"));
    is_gone(&server, &format!("{secrets}/old"));
    assert_eq!(server.request("GET", &format!("{secrets}/young"), None).status, 200);
}

#[test]
fn storage_versions_forget_servers_that_are_gone() {
    let mut server = Server::prepare();
    server.set_arguments(&[
        "--controllers=*",
        "--feature-gates=StorageVersionAPI=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
    ]);
    server.run();
    let versions = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
    let own = got(&server, &format!("{versions}/core.configmaps"))["status"]["storageVersions"].clone();
    assert_eq!(own.as_array().map(Vec::len), Some(1), "{own}");
    let says = |server: &str, version: &str| json!({"apiServerID": server, "encodingVersion": version, "decodableVersions": [version, "v1"]});
    let status = |servers: Value, common: Value| json!({"status": {"storageVersions": servers, "commonEncodingVersion": common}});
    patched(
        &server,
        &format!("{versions}/core.configmaps/status"),
        status(json!([own[0], says("gone", "v2")]), Value::Null),
    );
    server.in_the_end("one is left", || {
        let status = got(&server, &format!("{versions}/core.configmaps"))["status"].clone();
        status["storageVersions"] == own && status["commonEncodingVersion"] == own[0]["encodingVersion"]
    });
    server.made(versions, json!({"metadata": {"name": "old.things"}, "spec": {}}));
    patched(&server, &format!("{versions}/old.things/status"), status(json!([says("gone", "v1")]), json!("v1")));
    is_gone(&server, &format!("{versions}/old.things"));
}
