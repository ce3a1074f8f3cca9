//! Connections that leave through proxies.

use integration_tests::{Answer, Etcd, Proxy, Server, Webhook};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Has the connections to a network leave through a proxy at a socket.
fn configure(server: &mut Server, network: &str, more: &[&str]) -> std::path::PathBuf {
    let (file, socket) = (server.dir().join("egress.yaml"), server.dir().join("proxy.sock"));
    let said = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: {network}\n  \
         connection: {{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: {}}}}}}}\n",
        socket.display()
    );
    std::fs::write(&file, said).expect("written");
    let own = format!("--egress-selector-config-file={}", file.display());
    server.set_arguments(&[more, &[own.as_str()]].concat());
    socket
}

fn webhook(server: &Server, webhook: &Webhook) {
    let hook = json!({
        "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": {"url": format!("https://127.0.0.1:{}/", webhook.port()), "caBundle": webhook.bundle()},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    });
    let configuration = json!({"metadata": {"name": "all"}, "webhooks": [hook]});
    let place = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.request("POST", place, Some(&configuration)).status, 201);
}

fn allowing() -> Webhook {
    Webhook::start(&["127.0.0.1"], |review| {
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        Answer::Json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))
    })
}

#[test]
fn webhooks_at_urls_are_reached_through_the_control_planes_proxy() {
    let mut server = Server::prepare();
    let socket = configure(&mut server, "controlplane", &[]);
    let (allowing, refusing) = (allowing(), allowing());
    let forbidden = format!("127.0.0.1:{}", refusing.port());
    let proxy = Proxy::serve(socket.clone(), move |address| Some(address.to_owned()).filter(|to| *to != forbidden));
    server.run();
    webhook(&server, &allowing);
    assert_eq!(server.request("POST", MAPS, Some(&json!({"metadata": {"name": "a"}}))).status, 201);
    assert_eq!(proxy.asked(), [format!("127.0.0.1:{}", allowing.port())]);
    let labels = "{protocol=\"http_connect\",transport=\"uds\"}";
    assert_eq!(server.metric(&format!("apiserver_egress_dialer_dial_start_total{labels}")), 1.0);

    let place = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all";
    assert_eq!(server.request("DELETE", place, None).status, 200);
    webhook(&server, &refusing);
    let refused = server.request("POST", MAPS, Some(&json!({"metadata": {"name": "b"}})));
    let expect = format!(
        "Internal error occurred: failed calling webhook \"a.b.c\": failed to call webhook: Post \
         \"https://127.0.0.1:{port}/?timeout=10s\": proxy error from {} while dialing 127.0.0.1:{port}, code 403: 403 Forbidden",
        socket.display(),
        port = refusing.port()
    );
    assert_eq!((refused.status, refused.json()["message"].as_str()), (500, Some(expect.as_str())));
    let failed = "{protocol=\"http_connect\",stage=\"proxy\",transport=\"uds\"}";
    assert_eq!(server.metric(&format!("apiserver_egress_dialer_dial_failure_count{failed}")), 1.0);
}

#[test]
fn what_is_in_the_cluster_has_a_proxy_of_its_own() {
    let mut server = Server::prepare();
    let socket = configure(&mut server, "cluster", &[]);
    let hook = allowing();
    // The node is at an address that nobody but the proxy can reach.
    let inside = format!("127.0.0.1:{}", hook.port());
    let proxy = Proxy::serve(socket, move |_| Some(inside.clone()));
    server.run();
    webhook(&server, &hook);
    assert_eq!(server.request("POST", MAPS, Some(&json!({"metadata": {"name": "a"}}))).status, 201);
    assert_eq!(proxy.asked(), Vec::<String>::new(), "a URL is none of the cluster's");
    let node = json!({
        "metadata": {"name": "n"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]},
    });
    assert_eq!(server.request("POST", "/api/v1/nodes", Some(&node)).status, 201);
    let answer = server.request("POST", "/api/v1/nodes/https:n:8443/proxy/", Some(&json!({"request": {"uid": "1"}})));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(proxy.asked(), ["192.0.2.7:8443"]);
}

#[test]
fn etcd_is_reached_through_its_proxy() {
    let etcd = Etcd::start();
    let mut server = Server::prepare();
    let servers = format!("--etcd-servers={}", etcd.url());
    let socket = configure(&mut server, "etcd", &[&servers]);
    let proxy = Proxy::start_at(socket);
    server.run();
    assert_eq!(server.request("POST", MAPS, Some(&json!({"metadata": {"name": "a"}}))).status, 201);
    assert_eq!(proxy.asked(), [etcd.url().trim_start_matches("http://").to_owned()]);
}

#[test]
fn a_configuration_that_is_wrong_stops_the_start() {
    let mut server = Server::prepare();
    configure(&mut server, "internet", &[]);
    let why = server.run_in_vain();
    let expect = "failed to validate egress selector configuration: service.connection: Unsupported value: \"internet\": \
                  supported values: \"cluster\", \"controlplane\", \"etcd\"";
    assert!(why.contains(expect), "{why}");
}
