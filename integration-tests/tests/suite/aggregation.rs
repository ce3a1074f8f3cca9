//! A real aggregated server behind the chain: proxied, discovered, and missed by nobody when it is down.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use integration_tests::{Server, raw, switched};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

/// The sample server as a process, and the authority of its certificate as base64 of PEM.
struct Sample {
    child: Child,
    port: u16,
    bundle: String,
}

impl Sample {
    fn start(dir: PathBuf) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority =
            CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        let key = KeyPair::generate().expect("a key");
        let names = vec!["sample.default.svc".to_owned()];
        let certificate =
            CertificateParams::new(names).and_then(|p| p.signed_by(&key, &authority)).expect("a certificate");
        let (cert_file, key_file) = (dir.join("sample.crt"), dir.join("sample.key"));
        std::fs::write(&cert_file, certificate.pem()).expect("written");
        std::fs::write(&key_file, key.serialize_pem()).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_sample-apiserver"))
            .args([cert_file, key_file])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the sample starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a port");
        Sample { child, port: line.trim().parse().expect("a port"), bundle: base64(authority.pem().as_bytes()) }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = self.child.kill(); // perhaps it is gone already
        let _ = self.child.wait();
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|chunk| {
            let n = chunk.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
            (0..4).map(
                move |i| if i <= chunk.len() { char::from(DIGITS[(n >> (18 - 6 * i)) as usize & 63]) } else { '=' },
            )
        })
        .collect()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_aggregated_server_is_part_of_the_api() {
    let server = Server::start();
    let mut sample = Sample::start(server.dir().to_owned());
    let service = json!({
        "metadata": {"name": "sample"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    });
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/services", Some(&service)).status, 201);
    let api_service = json!({
        "metadata": {"name": "v1.sample.test"},
        "spec": {
            "group": "sample.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "caBundle": sample.bundle, "service": {"namespace": "default", "name": "sample", "port": sample.port},
        },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(server.request("POST", path, Some(&api_service)).status, 201);
    let condition =
        || server.request("GET", &format!("{path}/v1.sample.test"), None).json()["status"]["conditions"][0].clone();
    wait_for("available", || condition()["reason"] == "Passed");
    assert_eq!(condition()["status"], "True");

    let get = |path: &str| server.request("GET", path, None);
    assert_eq!(get("/apis/sample.test/v1/widgets").json()["items"][0]["metadata"]["name"], "one");
    let groups = get("/apis").json();
    assert!(groups["groups"].as_array().expect("groups").iter().any(|g| g["name"] == "sample.test"));
    assert!(server.kubectl(&["api-resources", "--api-group=sample.test"]).contains("widgets"));
    identity_goes_along(&server);
    streams_and_upgrades_pass(&server);

    sample.child.kill().expect("killed");
    wait_for("unavailable", || condition()["status"] == "False");
    assert_eq!(condition()["reason"], "FailedDiscoveryCheck");
    assert_eq!(get("/apis/sample.test/v1/widgets").status, 503);
    assert_eq!(get("/apis").status, 200);
    assert_eq!(get("/api/v1/namespaces").status, 200);
}

#[test]
fn a_name_is_no_endpoint() {
    let mut server = Server::prepare();
    server.set_arguments(&["--enable-aggregator-routing=true"]);
    server.run();
    let service = json!({
        "metadata": {"name": "sample"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"},
    });
    assert_eq!(server.request("POST", "/api/v1/namespaces/default/services", Some(&service)).status, 201);
    let api_service = json!({
        "metadata": {"name": "v1.sample.test"},
        "spec": {
            "group": "sample.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "sample", "port": server.port()},
        },
    });
    let path = "/apis/apiregistration.k8s.io/v1/apiservices";
    assert_eq!(server.request("POST", path, Some(&api_service)).status, 201);
    let condition =
        || server.request("GET", &format!("{path}/v1.sample.test"), None).json()["status"]["conditions"][0].clone();
    wait_for("checked", || condition()["reason"] == "FailedDiscoveryCheck");
    assert_eq!(condition()["message"], "unsupported service type \"ExternalName\"");
    assert_eq!(server.request("GET", "/apis/sample.test/v1/widgets", None).status, 503);
}

#[test]
fn aggregated_servers_are_told_whom_to_believe() {
    let server = Server::start();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = || server.request("GET", path, None).json()["data"].clone();
    let expect = json!({
        "client-ca-file": std::fs::read_to_string(server.data().join("pki/ca.crt")).expect("a file").replace('\r', ""),
        "requestheader-client-ca-file":
            std::fs::read_to_string(server.data().join("pki/front-proxy-ca.crt")).expect("a file").replace('\r', ""),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
    });
    wait_for("published", || data() == expect);
    assert_eq!(server.request("DELETE", path, None).status, 200);
    wait_for("published again", || data() == expect);
    let patch = json!({"data": {"requestheader-allowed-names": "[\"other\"]", "client-ca-file": null}});
    let file = server.dir().join("patch.json");
    std::fs::write(&file, patch.to_string()).expect("written");
    let name = file.to_str().expect("a name");
    server.kubectl(&["-n", "kube-system", "patch", "cm", "extension-apiserver-authentication", "--patch-file", name]);
    wait_for("joined with what others say", || {
        data()["requestheader-allowed-names"] == json!("[\"other\",\"front-proxy-client\"]")
            && data()["client-ca-file"] == expect["client-ca-file"]
    });
    let path = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    wait_for("tracked", || server.request("GET", path, None).status == 200);
}

fn identity_goes_along(server: &Server) {
    let request = b"POST /apis/sample.test/v1/echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admintoken\r\n\
        X-Remote-User: mallory\r\nX-Remote-Extra-A: b\r\nProxy-Authorization: Basic c2VjcmV0\r\nTE: trailers\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    let echo = raw(server.port(), request).expect("an answer").json();
    assert_eq!(echo["body"], "hello");
    let headers: Vec<&str> = echo["headers"].as_array().expect("headers").iter().filter_map(|h| h.as_str()).collect();
    assert!(headers.contains(&"x-remote-user: admin"), "{headers:?}");
    assert!(headers.contains(&"x-remote-group: system:masters"), "{headers:?}");
    assert!(headers.contains(&"te: trailers"), "{headers:?}");
    assert!(headers.iter().any(|h| h.starts_with("audit-id: ")), "{headers:?}");
    for secret in ["authorization", "mallory", "x-remote-extra-a"] {
        assert!(!headers.iter().any(|h| h.contains(secret)), "{headers:?}");
    }
}

fn streams_and_upgrades_pass(server: &Server) {
    assert_eq!(server.request("GET", "/apis/sample.test/v1/stream", None).text(), "first\nsecond\n");
    let request = b"GET /apis/sample.test/v1/upgrade HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admintoken\r\n\
        Connection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    let reply = switched(server.port(), request, b"hello\n").expect("an answer");
    assert_eq!((reply.status, reply.text().as_str()), (101, "hello\n"));
    assert!(reply.headers.contains(&("upgrade".to_owned(), "echo".to_owned())), "{:?}", reply.headers);
}
