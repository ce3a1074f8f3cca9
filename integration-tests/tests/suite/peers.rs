//! Two API servers on one etcd that do not serve the same: what one does not have the other is asked for.

use integration_tests::{Etcd, Server, raw};
use serde_json::{Value, json};

const ONLY_THERE: &str = "/apis/networking.k8s.io/v1beta1/servicecidrs";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const ADDRESS: &str = "/registry/peerserverleases/apiserver-peer";

/// The versions of a group that `/apis` tells of, in the aggregated form.
fn versions(server: &Server, group: &str, profile: &str) -> Vec<String> {
    let request = format!(
        "GET /apis HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n\
         Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList{profile}\r\n\r\n"
    );
    let list = raw(server.port(), request.as_bytes()).expect("an answer").json();
    let groups = list["items"].as_array().expect("groups").clone();
    let found = groups.into_iter().find(|g| g["metadata"]["name"] == group).expect("the group");
    let versions = found["versions"].as_array().expect("versions").clone();
    versions.iter().filter_map(|version| version["version"].as_str()).map(str::to_owned).collect()
}

#[test]
fn what_only_a_peer_serves_is_asked_of_it() {
    let etcd = Etcd::start();
    let store = format!("--etcd-servers={}", etcd.url());
    let mut server = Server::prepare();
    server.set_arguments(&[&store]);
    server.run(); // for its authorities
    server.terminate();
    let (mut peer, pki) = (Server::prepare(), server.data().join("pki"));
    let proxies = format!("--requestheader-client-ca-file={}", pki.join("front-proxy-ca.crt").display());
    peer.set_arguments(&[&store, &proxies, "--runtime-config=networking.k8s.io/v1beta1=true"]);
    peer.run();
    let authority = format!("--peer-ca-file={}", peer.data().join("pki/ca.crt").display());
    server.set_arguments(&[&store, &authority, "--peer-advertise-ip=192.0.2.7", "--peer-advertise-port=7443"]);
    server.run();
    let get = |server: &Server, header: &str| {
        let request = format!(
            "GET {ONLY_THERE} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admintoken\r\nConnection: close\r\n{header}\r\n"
        );
        raw(server.port(), request.as_bytes()).expect("an answer")
    };
    assert_eq!((get(&peer, "").status, get(&server, "").status), (200, 404));

    // Both run on one host, so both have one name and lease; another one stands for the peer.
    let lease = json!({"metadata": {"name": "apiserver-peer", "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}},
        "spec": {"holderIdentity": "apiserver-peer_1", "leaseDurationSeconds": 3600, "renewTime": "2090-01-01T00:00:00.000000Z"}});
    assert_eq!(server.request("POST", LEASES, Some(&lease)).status, 201);
    let address = json!({"kind": "Endpoints", "apiVersion": "v1",
        "metadata": {"labels": {"apiserverIdentity": "apiserver-peer"}},
        "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": peer.port()}]}]});
    etcd.put(ADDRESS, address.to_string().as_bytes());
    server.in_the_end("the peer is asked", || get(&server, "").status == 200);
    let answer = get(&server, "").json();
    assert_eq!(
        (&answer["kind"], &answer["items"][0]["metadata"]["name"]),
        (&json!("ServiceCIDRList"), &json!("kubernetes"))
    );
    let made = json!({"metadata": {"name": "c"}, "spec": {"cidrs": ["10.77.0.0/24"]}});
    assert_eq!(server.request("POST", ONLY_THERE, Some(&made)).status, 201);
    assert_eq!(server.request("GET", "/apis/networking.k8s.io/v1/servicecidrs/c", None).status, 200);
    let stranger = server.ask("bobtoken", "GET", ONLY_THERE, None);
    assert_eq!(stranger.status, 403, "who asks is judged here: {}", stranger.text());
    assert_eq!(get(&server, "X-Kubernetes-Peer-Proxied: true\r\n").status, 404, "nobody hands on what was handed on");
    let series = r#"apiserver_rerouted_request_total{code="201",group="networking.k8s.io",resource="servicecidrs",version="v1beta1"}"#;
    assert_eq!(server.metric(series) as u64, 1);

    let group = "networking.k8s.io";
    assert_eq!(versions(&server, group, ""), ["v1", "v1beta1"]);
    assert_eq!(versions(&server, group, ";profile=nopeer"), ["v1"]);
    let own: Vec<Value> = server.request("GET", LEASES, None).json()["items"].as_array().expect("leases").clone();
    let name =
        own.iter().filter_map(|l| l["metadata"]["name"].as_str()).find(|n| *n != "apiserver-peer").expect("its own");
    let told = etcd.get(&format!("/registry/peerserverleases/{name}")).expect("it says where it is");
    assert!(String::from_utf8_lossy(&told).contains(name), "{told:?}");

    peer.kill();
    assert_eq!(get(&server, "").status, 503, "it does not answer");
    etcd.delete(ADDRESS);
    let lost = get(&server, "");
    let why = "Error getting ip and port info of the remote server while proxying";
    assert!(
        lost.status == 503 && lost.json()["message"] == why || lost.status == 404,
        "{} {}",
        lost.status,
        lost.text()
    );
    server.in_the_end("it is forgotten", || get(&server, "").status == 404);
}
