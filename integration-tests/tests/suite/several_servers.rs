//! Several servers on one etcd: what they share is given out once, what one of them leaves behind the others clear away.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use integration_tests::{Etcd, Server, send};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGE: &str = "--service-cluster-ip-range=10.9.0.0/24";
const PORTS: &str = "--service-node-port-range=30000-30199";

fn server_on(etcd: &Etcd, address: &str) -> Server {
    server_with(etcd, address, &[])
}

fn server_with(etcd: &Etcd, address: &str, more: &[&str]) -> Server {
    let mut server = Server::prepare();
    let arguments = [format!("--etcd-servers={}", etcd.url()), format!("--advertise-address={address}")];
    server.set_arguments(&[&[&*arguments[0], &*arguments[1], RANGE, PORTS], more].concat());
    server.run();
    server
}

fn items(server: &Server, path: &str) -> Vec<Value> {
    server.request("GET", path, None).json()["items"].as_array().cloned().unwrap_or_default()
}

fn texts<'a>(items: &'a [Value], pointer: &str) -> Vec<&'a str> {
    items.iter().filter_map(|item| item.pointer(pointer)?.as_str()).collect()
}

/// Makes services, and removes every third of them again, until told to stop or until the server is gone.
fn keep_making(port: u16, name: &str, made: &AtomicUsize, stop: &AtomicBool) {
    for i in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let service = json!({"metadata": {"name": format!("{name}-{i}")},
            "spec": {"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
        let body = service.to_string();
        match send(port, "POST", SERVICES, "application/json", body.as_bytes()) {
            Ok(reply) if reply.status == 201 => drop(made.fetch_add(1, Ordering::Relaxed)),
            Ok(reply) => {
                assert!(reply.text().contains("range is full") || reply.status >= 500, "{}", reply.text());
                break;
            }
            Err(_) => break,
        }
        if i % 3 == 0 && send(port, "DELETE", &format!("{SERVICES}/{name}-{i}"), "", b"").is_err() {
            break;
        }
    }
}

/// No address and no node port belongs to two services, and each address is noted for its service.
fn check_pools(server: &Server) -> usize {
    let services = items(server, "/api/v1/services");
    let mut addresses = BTreeMap::new();
    let mut ports = BTreeSet::new();
    for service in &services {
        let name = service["metadata"]["name"].as_str().expect("a name");
        let ip = service["spec"]["clusterIP"].as_str().expect("an address");
        assert_eq!(addresses.insert(ip.to_owned(), name.to_owned()), None, "{ip} belongs to one service");
        for port in service["spec"]["ports"].as_array().expect("ports") {
            if let Some(port) = port["nodePort"].as_i64() {
                assert!(ports.insert(port), "{port} belongs to one service");
            }
        }
    }
    let noted: BTreeMap<String, String> = items(server, ADDRESSES)
        .iter()
        .map(|address| {
            let text = |pointer: &str| address.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("/metadata/name"), text("/spec/parentRef/name"))
        })
        .collect();
    for (ip, name) in &addresses {
        assert_eq!(noted.get(ip), Some(name), "{ip}");
    }
    services.len()
}

#[test]
fn an_address_or_port_is_given_out_once_even_if_a_server_dies() {
    let etcd = Etcd::start();
    let mut first = server_on(&etcd, "192.0.2.1");
    let second = server_on(&etcd, "192.0.2.2");
    let (made, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (ports, made, stop) = ([first.port(), second.port()], &made, &stop);
        for (i, port) in (0..4).flat_map(|i| ports.map(|port| (i, port))) {
            scope.spawn(move || keep_making(port, &format!("s{i}-{port}"), made, stop));
        }
        let wait_for = |count| second.in_the_end("services", || made.load(Ordering::Relaxed) >= count);
        wait_for(40);
        first.kill();
        wait_for(80);
        stop.store(true, Ordering::Relaxed);
    });
    let left = check_pools(&second);
    assert!(left > 40, "{left} left");
    // The server that died comes back, finds the same, and goes on.
    first.run();
    assert_eq!(check_pools(&first), left);
    for (i, server) in [&first, &second].into_iter().enumerate() {
        let service = json!({"metadata": {"name": format!("later{i}")}, "spec": {"ports": [{"port": 80}]}});
        assert_eq!(server.request("POST", SERVICES, Some(&service)).status, 201);
    }
    check_pools(&second);
}

/// The object in etcd, as if it had been made long ago.
fn make_old(etcd: &Etcd, key: &str) {
    let mut object: Value = serde_json::from_slice(&etcd.get(key).expect("there")).expect("JSON");
    object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    etcd.put(key, object.to_string().as_bytes());
}

#[test]
fn addresses_are_brought_into_line_with_services() {
    let etcd = Etcd::start();
    let server = server_on(&etcd, "192.0.2.1");
    let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.9.0.77", "ports": [{"port": 80}]}});
    assert_eq!(server.request("POST", SERVICES, Some(&service)).status, 201);
    let of = |ip: &str| server.request("GET", &format!("{ADDRESSES}/{ip}"), None);
    let belongs_to = |ip: &str, name: &str| of(ip).json()["spec"]["parentRef"]["name"] == name;
    assert!(belongs_to("10.9.0.77", "s"));
    // Somebody removes the note: it is written again, and an event says so.
    assert_eq!(server.request("DELETE", &format!("{ADDRESSES}/10.9.0.77"), None).status, 200);
    server.in_the_end("noted again", || of("10.9.0.77").status == 200 && belongs_to("10.9.0.77", "s"));
    server.in_the_end("an event", || {
        let events = items(&server, "/api/v1/namespaces/default/events");
        texts(&events, "/message").contains(&"Cluster IP [IPv4]: 10.9.0.77 is not allocated; repairing")
    });
    // An address whose service never came about is free again when it is old enough; a fresh one stays.
    let stray = |ip: &str, labels: Value| {
        json!({"metadata": {"name": ip, "labels": labels},
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "never"}}})
    };
    let ours = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"});
    for (ip, labels) in [("10.9.0.78", &ours), ("10.9.0.79", &ours), ("10.9.0.80", &json!({}))] {
        let reply = server.request("POST", ADDRESSES, Some(&stray(ip, labels.clone())));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    make_old(&etcd, "/registry/ipaddresses/10.9.0.78");
    make_old(&etcd, "/registry/ipaddresses/10.9.0.80");
    server.in_the_end("the old stray is gone", || of("10.9.0.78").status == 404);
    assert_eq!((of("10.9.0.79").status, of("10.9.0.80").status), (200, 200), "fresh, and somebody else's");
    // One that names another owner than the service that holds it is replaced.
    let key = "/registry/ipaddresses/10.9.0.77";
    let text = String::from_utf8(etcd.get(key).expect("there")).expect("text");
    etcd.put(key, text.replace("\"name\":\"s\"", "\"name\":\"other\"").as_bytes());
    server.in_the_end("the owner is right again", || belongs_to("10.9.0.77", "s"));
}

#[test]
fn the_map_of_node_ports_is_made_anew_from_the_services() {
    let etcd = Etcd::start();
    let mut server = server_on(&etcd, "192.0.2.1");
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30150}]}});
    assert_eq!(server.request("POST", SERVICES, Some(&service("s"))).status, 201);
    server.terminate();
    etcd.delete("/registry/ranges/servicenodeports");
    server.run();
    let refused = server.request("POST", SERVICES, Some(&service("t")));
    assert!(
        refused.status == 422 && refused.text().contains("provided port is already allocated"),
        "{}",
        refused.text()
    );
    let events = items(&server, "/api/v1/namespaces/default/events");
    assert!(texts(&events, "/message").contains(&"Port 30150 is not allocated; repairing"), "{events:?}");
    assert_eq!(server.request("DELETE", &format!("{SERVICES}/s"), None).status, 200);
    assert_eq!(server.request("POST", SERVICES, Some(&service("t"))).status, 201);
}

fn endpoints_of(server: &Server) -> Vec<String> {
    let endpoints = server.request("GET", "/api/v1/namespaces/default/endpoints/kubernetes", None).json();
    let slice =
        server.request("GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", None).json();
    let ips = |list: &Value, pointer: &str| -> Vec<String> {
        texts(list.as_array().map_or(&[], Vec::as_slice), pointer).into_iter().map(str::to_owned).collect()
    };
    let found = ips(&endpoints["subsets"][0]["addresses"], "/ip");
    if found == ips(&slice["endpoints"], "/addresses/0") { found } else { Vec::new() } // they are written one after the other
}

#[test]
fn the_service_called_kubernetes_leads_to_the_servers_that_run() {
    let etcd = Etcd::start();
    let first = server_on(&etcd, "192.0.2.1");
    let mut second = server_on(&etcd, "192.0.2.2");
    first.in_the_end("both", || endpoints_of(&first) == ["192.0.2.1", "192.0.2.2"]);
    let services = items(&first, "/api/v1/services");
    assert_eq!(texts(&services, "/spec/clusterIP"), ["10.9.0.1"], "one service, whoever made it");
    let ranges = items(&first, "/apis/networking.k8s.io/v1/servicecidrs");
    assert_eq!((texts(&ranges, "/metadata/name"), ranges.len()), (vec!["kubernetes"], 1));
    second.terminate();
    first.in_the_end("who leaves is not among them", || endpoints_of(&first) == ["192.0.2.1"]);
    second.run();
    first.in_the_end("who is back is", || endpoints_of(&first) == ["192.0.2.1", "192.0.2.2"]);
    second.kill();
    first.in_the_end("who died is not for long", || endpoints_of(&first) == ["192.0.2.1"]);
}

#[test]
fn a_server_has_a_lease_and_removes_those_of_servers_that_are_gone() {
    let etcd = Etcd::start();
    let stale = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "apiserver-gone", "namespace": "kube-system", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z",
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}},
        "spec": {"holderIdentity": "gone", "leaseDurationSeconds": 3600, "renewTime": "2020-01-01T00:00:00.000000Z"}});
    etcd.put("/registry/leases/kube-system/apiserver-gone", stale.to_string().as_bytes());
    let server = server_on(&etcd, "192.0.2.1");
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let leases =
        || items(&server, &format!("{path}?labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver"));
    server.in_the_end("one lease", || {
        leases().len() == 1 && !texts(&leases(), "/metadata/name").contains(&"apiserver-gone")
    });
    let lease = leases().remove(0);
    let annotation = &lease["metadata"]["annotations"]["kubernetes.io/peer-advertise-address"];
    assert_eq!(*annotation, format!("192.0.2.1:{}", server.port()));
    let renewed = lease["spec"]["renewTime"].clone();
    server.in_the_end("it is renewed", || leases()[0]["spec"]["renewTime"] != renewed);
}

#[test]
fn of_two_servers_one_compacts() {
    const INTERVAL: Duration = Duration::from_millis(500);
    let etcd = Etcd::start();
    let flag = format!("--etcd-compaction-interval={}ms", INTERVAL.as_millis());
    let servers = ["192.0.2.1", "192.0.2.2"].map(|address| server_with(&etcd, address, &[&flag]));
    let (began, before) = (Instant::now(), etcd.version_of("compact_rev_key"));
    let map = |name: String| {
        let reply = servers[0].request("POST", CONFIGMAPS, Some(&json!({"metadata": {"name": name}})));
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|version| version.parse().ok())
            .expect("a version")
    };
    let (first, made): (u64, _) = (map("first".into()), AtomicUsize::new(0));
    servers[1].in_the_end("some ticks", || {
        let _: u64 = map(format!("m{}", made.fetch_add(1, Ordering::Relaxed)));
        etcd.version_of("compact_rev_key") >= before + 8
    });
    // Each tick writes the key once; had both compacted, there would be two in each interval.
    let (ticks, took) = (etcd.version_of("compact_rev_key") - before, began.elapsed());
    let alone = took.as_millis() / INTERVAL.as_millis();
    assert!(u128::from(ticks) <= alone + 2, "{ticks} ticks in {took:?}");
    servers[1].in_the_end("history is dropped", || !etcd.remembers(first));
    let noted: u64 =
        String::from_utf8(etcd.get("compact_rev_key").expect("the key")).expect("text").parse().expect("a revision");
    assert!(noted >= first, "upstream's servers find how far it was compacted");
    // When one is gone, the other goes on.
    let [mut gone, second] = servers;
    gone.kill();
    let before = etcd.version_of("compact_rev_key");
    second.in_the_end("it goes on", || etcd.version_of("compact_rev_key") >= before + 2);
}
