//! A real kubectl does what it does every day.

use integration_tests::with_each_kubectl;

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

#[test]
fn kubectl_looks_around() {
    with_each_kubectl(|server| {
        contains(&server.kubectl(&["version"]), &["Server Version: v1.36"]);
        contains(&server.kubectl(&["cluster-info"]), &["control plane", "is running at"]);
        contains(&server.kubectl(&["api-versions"]), &["apps/v1", "batch/v1", "apiregistration.k8s.io/v1", "\nv1\n"]);
        contains(&server.kubectl(&["api-resources"]), &["deployments", "deploy", "configmaps", "cm", "apiservices"]);
        contains(
            &server.kubectl(&["get", "namespaces", "-o", "name"]),
            &["namespace/default", "namespace/kube-system"],
        );
        assert_eq!(server.kubectl(&["auth", "can-i", "create", "pods"]).trim(), "yes");
        let nobody = server.try_kubectl(&["get", "pods", "--as=nobody"], "");
        contains(&String::from_utf8_lossy(&nobody.stderr), &["User \"nobody\" cannot list resource \"pods\""]);
        contains(&server.kubectl(&["get", "apiservices"]), &["v1.apps"]);
    });
}

#[test]
fn kubectl_works_with_objects() {
    with_each_kubectl(|server| {
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
        server.kubectl(&["wait", "--for=delete", "deployment/web", "--timeout=100s"]);
        assert!(!server.try_kubectl(&["get", "deployment", "web"], "").status.success());
        // No controller makes the account that every pod runs as.
        server.kubectl(&["create", "serviceaccount", "default"]);
        server.kubectl(&["run", "pod", "--image=busybox"]);
        contains(&server.kubectl(&["get", "pods", "--watch", "--request-timeout=3s", "-o", "name"]), &["pod/pod"]);
        assert!(!server.log().contains("panicked"), "{}", server.log());
    });
}

#[test]
fn kubectl_works_with_custom_resources() {
    with_each_kubectl(|server| {
        let manifest = include_str!("widgets.yaml");
        // kubectl looks up all kinds of a file before it sends anything: the first time it knows only the definition's, and
        // the second time, at once, the custom one too. Whether the server validates a kind that OpenAPI v3 does not know yet,
        // it finds out from OpenAPI v2, as protobuf.
        let first = server.try_kubectl(&["apply", "-f", "-"], manifest);
        contains(&String::from_utf8_lossy(&first.stdout), &["widgets.example.com created"]);
        contains(&String::from_utf8_lossy(&first.stderr), &["no matches for kind", "ensure CRDs are installed first"]);
        let misspelt = server.try_kubectl(&["apply", "-f", "-"], manifest);
        contains(&String::from_utf8_lossy(&misspelt.stdout), &["widgets.example.com unchanged"]);
        contains(&String::from_utf8_lossy(&misspelt.stderr), &["strict decoding error: unknown field \"spec.other\""]);
        let pruned = server.kubectl_with(&["apply", "--validate=false", "-f", "-"], manifest);
        contains(&pruned, &["widgets.example.com unchanged", "widget.example.com/one created"]);
        assert_eq!(
            server.kubectl(&["get", "wd", "one", "-o", "jsonpath={.spec.size} {.spec.colour} {.spec.other}"]),
            "3 blue "
        );
        contains(&server.kubectl(&["get", "widgets"]), &["NAME", "SIZE", "one", "3"]);
        let refused = server.try_kubectl(&["patch", "wd", "one", "--type=merge", "-p", "{\"spec\":{\"size\":0}}"], "");
        contains(&String::from_utf8_lossy(&refused.stderr), &["spec.size", "greater than or equal to 1"]);
        contains(&server.kubectl(&["api-resources", "--api-group=example.com"]), &["widgets", "wd", "Widget"]);
        let conditions = "jsonpath={.status.conditions[*].type}";
        contains(
            &server.kubectl(&["get", "crd", "widgets.example.com", "-o", conditions]),
            &["NamesAccepted", "Established"],
        );
        server.kubectl(&["delete", "crd", "widgets.example.com", "--timeout=100s"]);
        assert_eq!(server.request("GET", "/apis/example.com/v1/widgets", None).status, 404);
    });
}

#[test]
fn kubectl_applies_and_explains() {
    with_each_kubectl(|server| {
        let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {colour: blue}\n";
        contains(&server.kubectl_with(&["apply", "-f", "-"], manifest), &["configmap/app created"]);
        contains(&server.kubectl_with(&["apply", "-f", "-"], manifest), &["configmap/app unchanged"]);
        let changed = manifest.replace("blue", "green");
        contains(&server.kubectl_with(&["apply", "-f", "-"], &changed), &["configmap/app configured"]);
        let applied = server.kubectl_with(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifest);
        contains(&applied, &["configmap/app serverside-applied"]);
        assert_eq!(server.kubectl(&["get", "configmap", "app", "-o", "jsonpath={.data.colour}"]), "blue");
        let misspelt = server.try_kubectl(&["apply", "-f", "-"], &manifest.replace("\ndata:", "\ndada:"));
        contains(&String::from_utf8_lossy(&misspelt.stderr), &["unknown field \"dada\""]);

        contains(&server.kubectl(&["explain", "pods.spec.containers"]), &["FIELD: containers <[]Container>", "image"]);
        contains(&server.kubectl(&["explain", "deployment", "--recursive"]), &["GROUP:      apps", "replicas"]);
        server.kubectl(&["create", "deployment", "web", "--image=nginx"]);
        contains(&server.kubectl(&["get", "deployments"]), &["READY", "UP-TO-DATE", "0/1"]);
    });
}
