//! What is handed on to a kubelet: logs, streams, and its own paths. The kubelet here is a TLS server that says what it was
//! asked.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::Arc,
};

use integration_tests::{Server, own_address, raw};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::json;

/// Starts the kubelet; answers its port. It answers every request with its first line, and an upgrade with a greeting in
/// the other protocol.
fn kubelet() -> u16 {
    let key = rcgen::KeyPair::generate().expect("a key");
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a certificate and its key");
    let (config, listener) = (Arc::new(config), TcpListener::bind("0.0.0.0:0").expect("a port"));
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for tcp in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).expect("a session");
            let mut stream = StreamOwned::new(session, tcp);
            let mut lines =
                BufReader::new(&mut stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let Some(asked) = lines.next() else { continue };
            let upgrades = lines.any(|line| line.eq_ignore_ascii_case("upgrade: SPDY/3.1"));
            let answer = if upgrades {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nhello".to_owned()
            } else {
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{asked}", asked.len())
            };
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    port
}

/// A server with a node that the kubelet is of, and a pod on it.
fn server(port: u16) -> Server {
    with_node(Server::start(), &own_address(), port)
}

fn with_node(server: Server, address: &str, port: u16) -> Server {
    server.kubectl(&["create", "serviceaccount", "default"]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(server.request("POST", "/api/v1/nodes", Some(&node)).status, 201);
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/pods", Some(&pod)).status, 201);
    server
}

#[test]
fn logs_and_paths_of_a_node_come_from_its_kubelet() {
    let server = server(kubelet());
    let check = |path: &str, asked: &str| {
        let reply = server.request("GET", path, None);
        assert_eq!((reply.status, reply.text()), (200, format!("GET {asked} HTTP/1.1")), "{path}");
    };
    check("/api/v1/namespaces/default/pods/p/log", "/containerLogs/default/p/c");
    check(
        "/api/v1/namespaces/default/pods/p/log?tailLines=5&previous=true",
        "/containerLogs/default/p/c?previous=true&tailLines=5",
    );
    check("/api/v1/nodes/node-1/proxy/pods?limit=5", "/pods?limit=5");
    check("/api/v1/nodes/node-1/proxy/a%2Fb/", "/a/b/");
    check("/api/v1/nodes/node-1/proxy/a/..//./b", "/b");
    assert_eq!(server.kubectl(&["logs", "p", "--tail=5"]), "GET /containerLogs/default/p/c?tailLines=5 HTTP/1.1");
    let root = server.request("GET", "/api/v1/nodes/node-1/proxy", None);
    assert_eq!(root.status, 301);
    let location = root.headers.iter().find(|(name, _)| name == "location").map(|(_, value)| value.as_str());
    assert_eq!(location, Some("/api/v1/nodes/node-1/proxy/"));
}

#[test]
fn streams_reach_the_kubelet_and_come_back() {
    let server = server(kubelet());
    let exec = "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true";
    let refused = server.request("POST", exec, None);
    assert_eq!((refused.status, refused.json()["message"].as_str()), (400, Some("Upgrade request required")));
    let request = format!(
        "POST {exec} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: Upgrade\r\n\
         Upgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
    );
    let reply = raw(server.port(), request.as_bytes()).expect("an answer");
    assert_eq!((reply.status, reply.text().as_str()), (101, "hello"));
}

#[test]
fn a_kubelet_that_is_not_there_harms_only_who_asks_for_it() {
    let server = server(integration_tests::free_port());
    let log = server.request("GET", "/api/v1/namespaces/default/pods/p/log", None);
    assert_eq!(log.status, 500);
    assert!(log.text().contains("connect: connection refused"), "{}", log.text());
    let proxy = server.request("GET", "/api/v1/nodes/node-1/proxy/healthz", None);
    assert_eq!((proxy.status, proxy.json()["reason"].as_str()), (503, Some("ServiceUnavailable")));
    let message = proxy.json()["message"].to_string();
    assert!(message.starts_with("\"error trying to reach service: dial tcp "), "{message}");
}

#[test]
fn a_node_is_not_this_machine_and_none_of_its_links() {
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254"] {
        let server = with_node(Server::start(), address, kubelet());
        for path in ["/api/v1/nodes/node-1/proxy/pods", "/api/v1/nodes/node-1:80/proxy/"] {
            let reply = server.request("GET", path, None);
            let message = reply.json()["message"].to_string();
            assert_eq!((reply.status, message.as_str()), (400, "\"address not allowed\""), "{address} {path}");
        }
    }
}

#[test]
fn who_may_only_read_runs_no_commands() {
    let port = kubelet();
    let upgrade = |server: &Server, method: &str| {
        let request = format!(
            "{method} /api/v1/namespaces/default/pods/p/exec?command=ls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \
             bobtoken\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
        );
        raw(server.port(), request.as_bytes()).expect("an answer")
    };
    let allow = |server: &Server, verb: &str| {
        server.kubectl(&["create", "role", verb, &format!("--verb={verb}"), "--resource=pods,pods/exec"]);
        server.kubectl(&["create", "rolebinding", verb, &format!("--role={verb}"), "--user=bob"]);
    };
    let strict = server(port);
    allow(&strict, "get");
    let reply = upgrade(&strict, "GET");
    assert_eq!((reply.status, reply.json()["message"].as_str()), (403, Some("pods \"p\" is forbidden: ")));
    allow(&strict, "create");
    assert_eq!(["GET", "POST"].map(|method| upgrade(&strict, method).status), [101, 101]);

    let mut lax = Server::prepare();
    lax.set_arguments(&["--feature-gates=AuthorizePodWebsocketUpgradeCreatePermission=false"]);
    lax.run();
    let lax = with_node(lax, &own_address(), port);
    allow(&lax, "get");
    assert_eq!(["GET", "POST"].map(|method| upgrade(&lax, method).status), [101, 403]);
    assert!(!lax.log().contains("feature-gates"), "a gate that works is no reason for a warning: {}", lax.log());
}
