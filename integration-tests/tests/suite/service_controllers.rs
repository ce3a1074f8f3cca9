//! Controllers (`--controllers`) that say where services are, sign certificates and migrate what is stored.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use integration_tests::Server;
use serde_json::{Value, json};

fn server(arguments: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.set_arguments(&[&["--controllers=*"], arguments].concat());
    server.run();
    server
}

fn patched(server: &Server, path: &str, patch: Value) {
    let reply = server.request("PATCH", path, Some(&patch));
    assert_eq!(reply.status, 200, "{}", reply.text());
}

const PODS: &str = "/api/v1/namespaces/default/pods";

fn run_pod(server: &Server, name: &str, ip: &str, ready: bool) {
    let ports = json!([{"name": "web", "containerPort": 8080}]);
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i", "ports": ports}]});
    server.made(PODS, json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}));
    let ready = json!([{"type": "Ready", "status": if ready { "True" } else { "False" }}]);
    let status = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": ready});
    patched(server, &format!("{PODS}/{name}/status"), json!({"status": status}));
}

#[test]
fn a_service_is_where_its_pods_are() {
    let server = server(&[]);
    server.in_the_end("pods find an account", || {
        server.request("GET", "/api/v1/namespaces/default/serviceaccounts/default", None).status == 200
    });
    server.made("/api/v1/nodes", json!({"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z"}}}));
    server.kubectl(&["create", "service", "clusterip", "web", "--tcp=80:web"]);
    run_pod(&server, "a", "10.9.0.1", true);
    run_pod(&server, "b", "10.9.0.2", false);
    let endpoints = || server.kubectl(&["get", "endpoints", "web", "--ignore-not-found", "-o", "jsonpath={.subsets}"]);
    let subsets = || serde_json::from_str::<Value>(&endpoints()).unwrap_or_default();
    let ips = |list: &str| {
        let all = subsets()[0][list].as_array().cloned().unwrap_or_default();
        all.iter().map(|address| address["ip"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    server.in_the_end("one is ready", || ips("addresses") == ["10.9.0.1"] && ips("notReadyAddresses") == ["10.9.0.2"]);
    assert_eq!(subsets()[0]["ports"], json!([{"name": "80-web", "port": 8080, "protocol": "TCP"}]));
    let slices = || {
        let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";
        server.request("GET", path, None).json()["items"].as_array().cloned().unwrap_or_default()
    };
    let states = || {
        let slices = slices();
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
        let mut states: Vec<String> = endpoints
            .map(|endpoint| {
                let ready = endpoint["conditions"]["ready"] == true;
                format!("{} {} {ready}", endpoint["addresses"][0], endpoint["zone"]).replace('"', "")
            })
            .collect();
        states.sort();
        states
    };
    server.in_the_end("slices say so, too", || states() == ["10.9.0.1 z true", "10.9.0.2 z false"]);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    patched(&server, &format!("{PODS}/b/status"), json!({"status": {"conditions": ready}}));
    server.in_the_end("both are ready", || ips("addresses").len() == 2 && states()[1] == "10.9.0.2 z true");
    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(server.request("DELETE", &format!("{PODS}/a"), Some(&now)).status, 200);
    server.in_the_end("one is left", || ips("addresses") == ["10.9.0.2"] && states() == ["10.9.0.2 z true"]);
    let name = slices()[0]["metadata"]["name"].clone();
    assert_eq!((slices().len(), slices()[0]["metadata"]["ownerReferences"][0]["kind"].clone()), (1, json!("Service")));
    assert_eq!(server.metric("endpoint_slice_controller_num_endpoint_slices"), 1.0, "{name}");
    server.kubectl(&["delete", "service", "web"]);
    server.in_the_end("nothing is left", || slices().is_empty() && endpoints().is_empty());
}

#[test]
fn endpoints_made_by_hand_have_slices() {
    let server = server(&[]);
    server.kubectl_with(
        &["create", "-f", "-"],
        "kind: Service\napiVersion: v1\nmetadata: {name: db}\nspec: {ports: [{port: 5432}]}\n---\n\
         kind: Endpoints\napiVersion: v1\nmetadata: {name: db}\nsubsets:\n\
         - {addresses: [{ip: 10.8.0.1}, {ip: 'fd00::1'}], ports: [{port: 5432}]}\n",
    );
    let get = || {
        let path =
            "jsonpath={range .items[*]}{.addressType} {.endpoints[*].addresses[0]} {.ports[0].port}{\"\\n\"}{end}";
        let mut lines: Vec<String> = server
            .kubectl(&["get", "endpointslices", "-l", "kubernetes.io/service-name=db", "-o", path])
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    server.in_the_end("each family has one", || get() == ["IPv4 10.8.0.1 5432", "IPv6 fd00::1 5432"]);
    server.kubectl(&["delete", "endpoints", "db"]);
    server.in_the_end("they are gone", || get().is_empty());
}

/// A request for a certificate, and its key.
fn certificate_request(organizations: &[&str], common_name: &str) -> (String, String) {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for organization in organizations {
        params.distinguished_name.push(rcgen::DnType::OrganizationName, *organization);
    }
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = params.serialize_request(&key).expect("a request").pem().expect("PEM");
    (STANDARD.encode(request), key.serialize_pem())
}

#[test]
fn what_is_approved_is_signed_and_believed() {
    let server = server(&[]);
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let ask = |name: &str, request: &str, signer: &str, usage: &str| {
        let spec = json!({"request": request, "signerName": format!("kubernetes.io/{signer}"),
            "usages": ["digital signature", "key encipherment", usage]});
        server.made(requests, json!({"metadata": {"name": name}, "spec": spec}));
    };
    let certificate = |name: &str| {
        let text = server.kubectl(&["get", "csr", name, "-o", "jsonpath={.status.certificate}"]);
        STANDARD.decode(text).ok().filter(|pem| !pem.is_empty())
    };
    let (request, key) = certificate_request(&["dev"], "jane");
    ask("jane", &request, "kube-apiserver-client", "client auth");
    server.kubectl(&["certificate", "approve", "jane"]);
    server.in_the_end("it is signed", || certificate("jane").is_some());
    let (certificate_file, key_file) = (server.dir().join("jane.crt"), server.dir().join("jane.key"));
    std::fs::write(&certificate_file, certificate("jane").expect("it is there")).expect("a file");
    std::fs::write(&key_file, key).expect("a file");
    let url = format!("https://127.0.0.1:{}", server.port());
    let ca = server.data().join("pki/ca.crt");
    let output = server
        .kubectl_command(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username} {.status.userInfo.groups}"])
        .env("KUBECONFIG", "/dev/null")
        .args(["--server", &url, "--certificate-authority"])
        .arg(ca)
        .arg("--client-certificate")
        .arg(&certificate_file)
        .arg("--client-key")
        .arg(&key_file)
        .output()
        .expect("kubectl runs");
    let who = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(who, r#"jane ["dev","system:authenticated"]"#, "{}", String::from_utf8_lossy(&output.stderr));

    // A kubelet's certificate: nobody has to approve it whose author may have it.
    let (request, _) = certificate_request(&["system:nodes"], "system:node:n1");
    ask("node", &request, "kube-apiserver-client-kubelet", "client auth");
    server.in_the_end("it is approved and signed", || certificate("node").is_some());
    let reason = server.kubectl(&["get", "csr", "node", "-o", "jsonpath={.status.conditions[0].reason}"]);
    assert_eq!(reason, "AutoApproved");

    ask("odd", &request, "kubelet-serving", "server auth");
    server.kubectl(&["certificate", "approve", "odd"]);
    server.in_the_end("it has failed", || {
        let path = "jsonpath={.status.conditions[?(@.type==\"Failed\")].message}";
        server.kubectl(&["get", "csr", "odd", "-o", path]) == "DNS or IP subjectAltName is required"
    });
}

#[test]
fn the_authority_is_published_where_there_are_bundles() {
    let server =
        server(&["--feature-gates=ClusterTrustBundle=true", "--runtime-config=certificates.k8s.io/v1beta1=true"]);
    let bundle = || {
        let field = "--field-selector=spec.signerName=kubernetes.io/kube-apiserver-serving";
        server.kubectl(&["get", "clustertrustbundles", field, "-o", "jsonpath={.items[*].spec.trustBundle}"])
    };
    let authority = std::fs::read_to_string(server.data().join("pki/ca.crt")).expect("a file");
    server.in_the_end("it is there", || bundle() == authority);
    server.kubectl(&["delete", "clustertrustbundles", "--all"]);
    server.in_the_end("it is there again", || bundle() == authority);
}

#[test]
fn a_migration_leaves_one_version_stored() {
    let server = server(&[
        "--feature-gates=StorageVersionMigrator=true",
        "--runtime-config=storagemigration.k8s.io/v1beta1=true",
    ]);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions = |stored: &str| {
        let version = |name: &str| json!({"name": name, "served": true, "storage": name == stored, "schema": schema});
        json!([version("v1"), version("v2")])
    };
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let names = json!({"plural": "ws", "singular": "w", "kind": "W", "listKind": "WList"});
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions("v1")});
    server.made(definitions, json!({"metadata": {"name": "ws.example.com"}, "spec": spec}));
    let widgets = "/apis/example.com/v1/namespaces/default/ws";
    for name in ["a", "b"] {
        server.made(widgets, json!({"apiVersion": "example.com/v1", "kind": "W", "metadata": {"name": name}}));
    }
    let definition = format!("{definitions}/ws.example.com");
    patched(&server, &definition, json!({"spec": {"versions": versions("v2")}}));
    let version_of = |name: &str| {
        let widget = server.request("GET", &format!("{widgets}/{name}"), None).json();
        widget["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|version| version.parse::<u64>().ok())
            .expect("a version")
    };
    let before = version_of("a");
    let stored = || server.request("GET", &definition, None).json()["status"]["storedVersions"].clone();
    assert_eq!(stored(), json!(["v1", "v2"]));
    let migrations = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
    let migration =
        json!({"metadata": {"name": "m"}, "spec": {"resource": {"group": "example.com", "resource": "ws"}}});
    server.made(migrations, migration);
    let states = || {
        let migration = server.request("GET", &format!("{migrations}/m"), None).json();
        let conditions = migration["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().map(|c| format!("{} {}", c["type"], c["status"]).replace('"', "")).collect::<Vec<_>>()
    };
    server.in_the_end("it is done", || states() == ["Running False", "Succeeded True"]);
    server.in_the_end("one version is stored", || stored() == json!(["v2"]));
    assert!(version_of("a") > before && version_of("b") > before, "they have been written");
}
