//! What kubelets, service accounts and plugins that are off by default keep from happening, asked of a real server.

use integration_tests::{Reply, Server, raw};
use serde_json::{Value, json};

/// A request of the admin, who acts as `user` in `groups` if there is one.
fn send(server: &Server, (user, groups): (&str, &[&str]), method: &str, path: &str, body: &Value) -> Reply {
    let content_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nContent-Type: {content_type}\r\n\
         Connection: close\r\n"
    );
    if !user.is_empty() {
        head += &format!("Impersonate-User: {user}\r\n");
    }
    for group in groups {
        head += &format!("Impersonate-Group: {group}\r\n");
    }
    let body = body.to_string();
    head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    raw(server.port(), head.as_bytes()).expect("an answer")
}

const ADMIN: (&str, &[&str]) = ("", &[]);
/// A kubelet that RBAC lets do everything but what has a verb of its own.
const NODE: (&str, &[&str]) = ("system:node:n1", &["system:nodes", "writers"]);

const PODS: &str = "/api/v1/namespaces/default/pods";

fn made(server: &Server, path: &str, body: Value) -> Value {
    let reply = send(server, ADMIN, "POST", path, &body);
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

/// The code, and the message behind the last `forbidden: `.
fn told(reply: &Reply) -> (u16, String) {
    let status = reply.json();
    let message = status["message"].as_str().unwrap_or_default();
    (reply.status, message.rsplit(" is forbidden: ").next().unwrap_or_default().to_owned())
}

fn pod(name: &str, mut spec: Value) -> Value {
    spec["containers"] = json!([{"name": "c", "image": "i"}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

fn account(server: &Server) {
    let annotations = json!({"kubernetes.io/enforce-mountable-secrets": "1"});
    let account = json!({"metadata": {"name": "default", "annotations": annotations}, "secrets": [{"name": "listed"}]});
    made(server, "/api/v1/namespaces/default/serviceaccounts", account);
}

/// Whoever is in the group may write everything.
fn writers(server: &Server) {
    let group = "rbac.authorization.k8s.io";
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create", "update", "patch"]});
    let role = json!({"metadata": {"name": "writers"}, "rules": [rule]});
    made(server, &format!("/apis/{group}/v1/clusterroles"), role);
    let binding = json!({
        "metadata": {"name": "writers"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "writers"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "writers"}],
    });
    made(server, &format!("/apis/{group}/v1/clusterrolebindings"), binding);
}

#[test]
fn a_kubelet_writes_about_its_own_node_alone() {
    let mut server = Server::prepare();
    server.set_arguments(&["--enable-admission-plugins=NodeRestriction"]);
    server.run();
    account(&server);
    writers(&server);
    let node = made(&server, "/api/v1/nodes", json!({"metadata": {"name": "n1"}}));

    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    for path in ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status"] {
        let reply = send(&server, NODE, "PATCH", path, &json!({"metadata": {"ownerReferences": [owner]}}));
        assert_eq!(told(&reply), (403, "node \"n1\" is not allowed to modify ownerReferences".to_owned()));
    }

    let uid = &node["metadata"]["uid"];
    let mut mirror = pod("mirror", json!({"nodeName": "n1", "volumes": [{"name": "v", "csi": {"driver": "d"}}]}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true}]);
    let why = "node \"n1\" can not create pods that reference csidrivers (via CSI volumes)";
    assert_eq!(told(&send(&server, NODE, "POST", PODS, &mirror)), (403, why.to_owned()));

    let sources = json!([{"serviceAccountToken": {"path": "p", "audience": "vault"}}]);
    let spec = json!({"nodeName": "n1", "volumes": [{"name": "v", "projected": {"sources": sources}}]});
    let pod = made(&server, PODS, pod("p", spec));
    let request = |audiences: &[&str]| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"]});
        let request = json!({"spec": {"audiences": audiences, "boundObjectRef": bound}});
        send(&server, NODE, "POST", "/api/v1/namespaces/default/serviceaccounts/default/token", &request)
    };
    assert_eq!(request(&["vault"]).status, 201);
    assert_eq!(request(&[]).status, 201, "the volume that every pod has");
    let why = "audience \"other\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this \
               audience";
    assert_eq!(told(&request(&["other"])), (403, why.to_owned()));
}

#[test]
fn ephemeral_containers_use_only_secrets_that_the_account_lists() {
    let server = Server::start();
    account(&server);
    made(&server, PODS, pod("p", json!({})));
    let with = |secret: &str| {
        let container = json!({"name": "e", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]});
        let change = json!({"spec": {"ephemeralContainers": [container]}});
        send(&server, ADMIN, "PATCH", &format!("{PODS}/p/ephemeralcontainers"), &change)
    };
    let why = "ephemeral container e with envFrom referencing secret.secretName=\"other\" is not allowed because service account \
               default does not reference that secret";
    assert_eq!(told(&with("other")), (500, why.to_owned()));
    assert_eq!(with("listed").status, 200);
}

#[test]
fn plugins_that_are_asked_for_do_what_they_are_for() {
    let mut server = Server::prepare();
    let config = server.dir().join("admission.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  \
                configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: \
                User, qps: 1, burst: 1}]}\n- name: PodNodeSelector\n  configuration: {podNodeSelectorPluginConfig: \
                {clusterDefaultNodeSelector: 'pool=a'}}\n";
    std::fs::write(&config, text).expect("written");
    let config = format!("--admission-control-config-file={}", config.display());
    let plugins = "--enable-admission-plugins=AlwaysPullImages,DenyServiceExternalIPs,EventRateLimit,\
                   LimitPodHardAntiAffinityTopology,NamespaceAutoProvision,OwnerReferencesPermissionEnforcement,PodNodeSelector";
    server.set_arguments(&[plugins, &config]);
    server.run();
    account(&server);

    let made_pod = made(&server, PODS, pod("p", json!({})));
    assert_eq!(made_pod["spec"]["nodeSelector"], json!({"pool": "a"}));
    assert_eq!(made_pod["spec"]["containers"][0]["imagePullPolicy"], "Always");
    made(&server, "/api/v1/namespaces/new/configmaps", json!({"metadata": {"name": "c"}}));

    let told = |path: &str, body: &Value| told(&send(&server, ADMIN, "POST", path, body));
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["1.2.3.4"]}});
    let denied = "Use of external IPs is denied by admission control";
    assert_eq!(told("/api/v1/namespaces/default/services", &service), (403, denied.to_owned()));
    let terms = json!([{"topologyKey": "zone", "labelSelector": {}}]);
    let spec = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}});
    let why = "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is \
               allowed";
    assert_eq!(told(PODS, &pod("anti", spec)), (403, why.to_owned()));

    let about = json!({"namespace": "default", "kind": "Pod", "name": "p"});
    let event = json!({"metadata": {"generateName": "e"}, "involvedObject": about});
    let limited = (0..100).map(|_| told("/api/v1/namespaces/default/events", &event)).find(|(code, _)| *code != 201);
    let why = "Too many requests: limit reached on type User for key admin";
    assert_eq!(limited, Some((429, why.to_owned())));
}

#[test]
fn what_operators_turn_off_is_off() {
    let mut server = Server::prepare();
    server.set_arguments(&[
        "--allow-privileged=false",
        "--enable-garbage-collector=false",
        "--disabled-metrics=apiserver_request_total",
        "--allow-metric-labels=apiserver_request_duration_seconds,verb=LIST",
    ]);
    server.run();
    made(&server, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}));
    let pod = |privileged: bool| {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "c", "image": "i", "securityContext": {"privileged": privileged}}]}})
    };
    let refused = send(&server, ADMIN, "POST", PODS, &pod(true));
    let expect =
        "Pod \"p\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";
    assert_eq!((refused.status, refused.json()["message"].as_str()), (422, Some(expect)), "{}", refused.text());
    made(&server, PODS, pod(false));
    // Nobody would take the finalizer away.
    made(&server, "/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "c"}}));
    let path = "/api/v1/namespaces/default/configmaps/c?propagationPolicy=Foreground";
    let deleted = send(&server, ADMIN, "DELETE", path, &json!({}));
    assert_eq!((deleted.status, deleted.json()["kind"].as_str()), (200, Some("Status")), "{}", deleted.text());
    let metrics = server.request("GET", "/metrics", None).text();
    assert!(!metrics.contains("apiserver_request_total"), "{metrics}");
    assert!(metrics.contains("verb=\"unexpected\"") && !metrics.contains("apiserver_request_duration_seconds_count{component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"resource\",subresource=\"\",verb=\"POST\""));
}
