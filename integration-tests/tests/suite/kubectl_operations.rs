//! kubectl's commands for operators: draining nodes, tokens, certificates, rollouts, editing.

use integration_tests::with_each_kubectl;
use serde_json::json;

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec: {nodeName: node-1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: i}]}
---
";

#[test]
fn kubectl_drains_a_node_as_far_as_budgets_allow() {
    with_each_kubectl(|server| {
        // No controller makes the account that pods run as.
        server.kubectl(&["create", "serviceaccount", "default"]);
        let pods = ["free", "held"].map(|name| POD.replace("NAME", name)).concat();
        let budget = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: held}
spec: {minAvailable: 1, selector: {matchLabels: {app: held}}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1}
";
        server.kubectl_with(&["create", "-f", "-"], &format!("{pods}{budget}"));
        let patch = |resource: &str, status: &str| {
            server.kubectl(&["patch", resource, "held", "--subresource=status", "--type=merge", "-p", status]);
        };
        patch("pod", r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#);
        let counts = r#""observedGeneration":1,"currentHealthy":1,"desiredHealthy":1,"expectedPods":1"#;
        patch("pdb", &format!(r#"{{"status":{{"disruptionsAllowed":0,{counts}}}}}"#));

        let refused = server.try_kubectl(&["drain", "node-1", "--force", "--timeout=1s"], "");
        assert!(!refused.status.success());
        contains(&String::from_utf8_lossy(&refused.stderr), &["would violate the pod's disruption budget"]);
        assert_eq!(server.kubectl(&["get", "pods", "-o", "name"]), "pod/held\n");

        patch("pdb", &format!(r#"{{"status":{{"disruptionsAllowed":1,{counts}}}}}"#));
        contains(
            &server.kubectl(&["drain", "node-1", "--force", "--timeout=100s"]),
            &["pod/held evicted", "node-1 drained"],
        );
        assert_eq!(server.kubectl(&["get", "pods", "-o", "name"]), "");
        let allowed = server.kubectl(&["get", "pdb", "held", "-o", "jsonpath={.status.disruptionsAllowed}"]);
        assert_eq!(allowed, "0");
        assert_eq!(server.kubectl(&["get", "node", "node-1", "-o", "jsonpath={.spec.unschedulable}"]), "true");
    });
}

#[test]
fn a_service_accounts_token_is_good_until_the_account_goes() {
    with_each_kubectl(|server| {
        // No controller makes the account that pods run as.
        server.kubectl(&["create", "serviceaccount", "default"]);
        server.kubectl(&["create", "serviceaccount", "robot"]);
        let token = server.kubectl(&["create", "token", "robot", "--duration=20m"]);
        let url = format!("--server=https://127.0.0.1:{}", server.port());
        // The admin's certificate must not speak for the token: kubectl gets no kubeconfig.
        let token = format!("--token={}", token.trim());
        let arguments = ["get", "secrets", "--kubeconfig=/dev/null", &url, "--insecure-skip-tls-verify", &token];
        let answer = || String::from_utf8_lossy(&server.try_kubectl(&arguments, "").stderr).into_owned();
        contains(&answer(), &["User \"system:serviceaccount:default:robot\" cannot list resource \"secrets\""]);

        server.kubectl(&["delete", "serviceaccount", "robot"]);
        server.kubectl(&["create", "serviceaccount", "robot"]);
        contains(&answer(), &["Unauthorized"]); // it is another account of the same name

        let jwks = server.request("GET", "/openid/v1/jwks", None).json();
        assert_eq!(jwks["keys"][0]["alg"], "RS256");
        let discovery = server.request("GET", "/.well-known/openid-configuration", None).json();
        contains(discovery["jwks_uri"].as_str().unwrap_or_default(), &["https://", "/openid/v1/jwks"]);
    });
}

#[test]
fn kubectl_approves_a_certificate_once() {
    with_each_kubectl(|server| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "jane");
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = params.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, pem);
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "jane"},
            "spec": {"request": encoded, "signerName": "example.com/signer", "usages": ["client auth"], "username": "root"},
        });
        server.kubectl_with(&["create", "-f", "-"], &request.to_string());
        contains(&server.kubectl(&["get", "csr"]), &["example.com/signer", "admin", "Pending"]);
        contains(&server.kubectl(&["certificate", "approve", "jane"]), &["approved"]);
        contains(&server.kubectl(&["get", "csr"]), &["Approved"]);
        assert!(!server.try_kubectl(&["certificate", "deny", "jane"], "").status.success(), "a decision stays");
    });
}

#[test]
fn kubectl_rolls_out_and_back() {
    with_each_kubectl(|server| {
        server.kubectl(&["create", "deployment", "web", "--image=example.com/web:1", "--replicas=2"]);
        server.kubectl(&["scale", "deployment", "web", "--replicas=3", "--current-replicas=2"]);
        contains(&server.kubectl(&["rollout", "pause", "deployment/web"]), &["paused"]);
        assert_eq!(server.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.paused}"]), "true");
        contains(&server.kubectl(&["rollout", "resume", "deployment/web"]), &["resumed"]);
        contains(&server.kubectl(&["rollout", "restart", "deployment/web"]), &["restarted"]);
        let restarted = "jsonpath={.spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt}";
        assert!(!server.kubectl(&["get", "deployment", "web", "-o", restarted]).is_empty());

        // What the deployment's controller would do: a revision each for the old and the new image, and a status.
        let uid = server.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.metadata.uid}"]);
        for revision in ["1", "2"] {
            let image = format!("example.com/web:{revision}");
            let owner =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": true});
            let labels = json!({"app": "web", "pod-template-hash": revision});
            let set = json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {
                    "name": format!("web-{revision}"), "labels": labels, "ownerReferences": [owner],
                    "annotations": {"deployment.kubernetes.io/revision": revision},
                },
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}},
                },
            });
            server.kubectl_with(&["create", "-f", "-"], &set.to_string());
        }
        server.kubectl(&["set", "image", "deployment/web", "web=example.com/web:2"]);
        server.kubectl(&["annotate", "deployment", "web", "deployment.kubernetes.io/revision=2"]);
        contains(&server.kubectl(&["rollout", "history", "deployment/web"]), &["REVISION", "1", "2"]);
        contains(&server.kubectl(&["rollout", "undo", "deployment/web"]), &["rolled back"]);
        let image =
            server.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0].image}"]);
        assert_eq!(image, "example.com/web:1");

        let generation = server.kubectl(&["get", "deployment", "web", "-o", "jsonpath={.metadata.generation}"]);
        let status = format!(
            r#"{{"status":{{"observedGeneration":{generation},"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}}}}"#
        );
        server.kubectl(&["patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", &status]);
        contains(
            &server.kubectl(&["rollout", "status", "deployment/web", "--timeout=100s"]),
            &["successfully rolled out"],
        );
    });
}

#[test]
fn kubectl_replaces_and_edits() {
    with_each_kubectl(|server| {
        server.kubectl(&["create", "configmap", "app", "--from-literal=colour=blue"]);
        let written = server.kubectl(&["get", "configmap", "app", "-o", "yaml"]);
        server.kubectl_with(&["replace", "-f", "-"], &written.replace("blue", "green"));
        let colour = || server.kubectl(&["get", "configmap", "app", "-o", "jsonpath={.data.colour}"]);
        assert_eq!(colour(), "green");
        let stale = server.try_kubectl(&["replace", "-f", "-"], &written);
        contains(&String::from_utf8_lossy(&stale.stderr), &["the object has been modified"]);
        let editor = server.dir().join("editor");
        std::fs::write(&editor, "#!/bin/sh\nsed -i s/green/red/ \"$1\"\n").expect("written");
        std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let edited = server.kubectl_command(&["edit", "configmap", "app"]).env("KUBE_EDITOR", editor).output();
        assert!(edited.expect("kubectl ends").status.success());
        assert_eq!(colour(), "red");
    });
}
