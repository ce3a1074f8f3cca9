//! A real kubectl does what it does every day.

use integration_tests::Server;

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn kubectl_looks_around() {
    let server = Server::start();
    contains(&server.kubectl(&["version"]), &["Server Version: v1.36"]);
    contains(&server.kubectl(&["cluster-info"]), &["control plane", "is running at"]);
    contains(&server.kubectl(&["api-versions"]), &["apps/v1", "batch/v1", "apiregistration.k8s.io/v1", "\nv1\n"]);
    contains(&server.kubectl(&["api-resources"]), &["deployments", "deploy", "configmaps", "cm", "apiservices"]);
    contains(&server.kubectl(&["get", "namespaces", "-o", "name"]), &["namespace/default", "namespace/kube-system"]);
    assert_eq!(server.kubectl(&["auth", "can-i", "create", "pods"]).trim(), "yes");
    let nobody = server.try_kubectl(&["get", "pods", "--as=nobody"], "");
    contains(&String::from_utf8_lossy(&nobody.stderr), &["User \"nobody\" cannot list resource \"pods\""]);
    contains(&server.kubectl(&["get", "apiservices"]), &["v1.apps"]);
}

#[test]
fn kubectl_works_with_objects() {
    let server = Server::start();
    server.kubectl(&["create", "configmap", "settings", "--from-literal=colour=blue"]);
    let get = |output: &str| server.kubectl(&["get", "configmap", "settings", "-o", output]);
    contains(&get("yaml"), &["colour: blue", "kind: ConfigMap"]);
    contains(&get("json"), &["\"colour\": \"blue\""]);
    assert_eq!(get("jsonpath={.data.colour}"), "blue");
    assert_eq!(get("name"), "configmap/settings\n");
    contains(&get("wide"), &["settings"]);
    server.kubectl(&["label", "configmap", "settings", "tier=front"]);
    server.kubectl(&["annotate", "configmap", "settings", "note=x"]);
    assert_eq!(server.kubectl(&["get", "configmap", "-l", "tier=front", "-o", "name"]), "configmap/settings\n");
    server.kubectl(&["patch", "configmap", "settings", "-p", "{\"data\":{\"colour\":\"red\"}}"]);
    assert_eq!(get("jsonpath={.data.colour}"), "red");
    contains(&server.kubectl(&["describe", "configmap", "settings"]), &["colour", "red", "tier=front"]);

    server.kubectl(&["create", "deployment", "web", "--image=nginx:1.27", "--replicas=2"]);
    server.kubectl(&["scale", "deployment", "web", "--replicas=5"]);
    assert_eq!(server.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"]), "5");
    server.kubectl(&["set", "image", "deployment/web", "nginx=nginx:1.28"]);
    contains(&server.kubectl(&["describe", "deployment", "web"]), &["nginx:1.28", "5 desired"]);
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n";
    let diff = server.try_kubectl(&["diff", "-f", "-"], manifest);
    contains(&String::from_utf8_lossy(&diff.stdout), &["-  colour: red", "+  colour: green"]);
    server.kubectl(&["delete", "deployment", "web"]);
    server.kubectl(&["wait", "--for=delete", "deployment/web", "--timeout=10s"]);
    assert!(!server.try_kubectl(&["get", "deployment", "web"], "").status.success());
    // No controller makes the account that every pod runs as.
    server.kubectl(&["create", "serviceaccount", "default"]);
    server.kubectl(&["run", "pod", "--image=busybox"]);
    contains(&server.kubectl(&["get", "pods", "--watch", "--request-timeout=1s", "-o", "name"]), &["pod/pod"]);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
