//! kubectl's ways to bring objects into a state: apply on the client's side and on the server's, from one to the other,
//! diff, replace, scale, edit.

use integration_tests::{Server, with_each_kubectl};
use serde_json::Value;

fn contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: 'example.com/main:1', env: [{name: A, value: '1'}, {name: B, value: '2'}], ports: [{containerPort: 80}]}
      - {name: side, image: 'example.com/side:1'}
";

fn deployment(server: &Server) -> Value {
    let text = server.kubectl(&["get", "deployment", "web", "-o", "json", "--show-managed-fields"]);
    serde_json::from_str(&text).expect("JSON")
}

fn managers(object: &Value) -> Vec<(String, String)> {
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = object["metadata"]["managedFields"].as_array().expect("managed fields");
    let mut found: Vec<_> = entries.iter().map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect();
    found.sort();
    found
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn what_a_manifest_no_longer_says_goes_and_what_others_say_stays() {
    with_each_kubectl(|server| {
        contains(&server.kubectl_with(&["apply", "-f", "-"], DEPLOYMENT), &["deployment.apps/web created"]);
        server.kubectl(&["label", "deployment", "web", "by=hand"]);
        server.kubectl(&["set", "env", "deployment/web", "-c", "side", "MINE=1"]);
        let manifest = DEPLOYMENT
            .replace(", {name: B, value: '2'}", "")
            .replace("tier: front", "tier: back")
            .replace("  replicas: 2\n", "");
        let diff = server.try_kubectl(&["diff", "-f", "-"], &manifest);
        assert_eq!(diff.status.code(), Some(1), "there are differences");
        contains(&String::from_utf8_lossy(&diff.stdout), &["-        - name: B", "+    tier: back"]);
        contains(&server.kubectl_with(&["apply", "-f", "-"], &manifest), &["configured"]);
        let now = deployment(&server);
        let containers = &now["spec"]["template"]["spec"]["containers"];
        assert_eq!(now["metadata"]["labels"], serde_json::json!({"tier": "back", "by": "hand"}));
        assert_eq!(now["spec"]["replicas"], 1, "the default, where the manifest has stopped to say");
        assert_eq!(containers[0]["env"], serde_json::json!([{"name": "A", "value": "1"}]));
        assert_eq!(containers[1]["env"][0]["name"], "MINE");
        contains(&server.kubectl_with(&["apply", "-f", "-"], &manifest), &["unchanged"]);
        assert_eq!(server.try_kubectl(&["diff", "-f", "-"], &manifest).status.code(), Some(0));
        let last = server.kubectl(&["apply", "view-last-applied", "deployment", "web"]);
        contains(&last, &["tier: back", "containerPort: 80"]);
        contains(
            &server.kubectl_with(&["apply", "--dry-run=server", "-f", "-"], DEPLOYMENT),
            &["configured (server dry run)"],
        );
        assert_eq!(deployment(&server), now, "a dry run changes nothing");
    });
}

#[test]
fn apply_moves_to_the_server_and_owns_what_it_applies() {
    with_each_kubectl(|server| {
        server.kubectl_with(&["apply", "-f", "-"], DEPLOYMENT);
        let expected = pairs(&[("kubectl-client-side-apply", "Update")]);
        assert_eq!(managers(&deployment(&server)), expected);
        let apply = |manifest: &str, more: &[&str]| {
            let arguments = [&["apply", "--server-side", "-f", "-"], more].concat();
            server.try_kubectl(&arguments, manifest)
        };
        let said = |output: &std::process::Output| {
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        };
        // What client-side apply has set becomes the server-side applier's, without a conflict.
        let first = apply(&DEPLOYMENT.replace("main:1", "main:2"), &[]);
        assert!(first.status.success(), "{}", said(&first));
        let now = deployment(&server);
        // The annotation of client-side apply has an owner of its own from then on.
        let appliers = pairs(&[("kubectl", "Apply"), ("kubectl-last-applied", "Apply")]);
        assert_eq!(managers(&now), appliers);
        assert_eq!(now["spec"]["template"]["spec"]["containers"][0]["image"], "example.com/main:2");
        // Another's field is a conflict, unless it is taken over; what is no longer applied goes.
        server.kubectl(&["scale", "deployment", "web", "--replicas=5"]);
        let refused = apply(DEPLOYMENT, &[]);
        assert!(!refused.status.success());
        contains(&said(&refused), &["conflict with \"kubectl\" with subresource \"scale\"", ".spec.replicas"]);
        let without = DEPLOYMENT
            .replace("  replicas: 2\n", "")
            .replace("      - {name: side, image: 'example.com/side:1'}\n", "");
        assert!(apply(&without, &[]).status.success());
        let now = deployment(&server);
        assert_eq!(
            (&now["spec"]["replicas"], now["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len)),
            (&Value::from(5), Some(1))
        );
        let diff = server.try_kubectl(&["diff", "--server-side", "--force-conflicts", "-f", "-"], DEPLOYMENT);
        assert_eq!(diff.status.code(), Some(1), "{}", said(&diff));
        contains(&said(&diff), &["-  replicas: 5", "+  replicas: 2"]);
        assert!(apply(DEPLOYMENT, &["--force-conflicts", "--field-manager=pipeline"]).status.success());
        let now = deployment(&server);
        assert_eq!(now["spec"]["replicas"], 2);
        assert_eq!(managers(&now), [appliers, pairs(&[("pipeline", "Apply")])].concat());
    });
}

#[test]
fn everything_with_replicas_can_be_scaled() {
    with_each_kubectl(|server| {
        let template = "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}";
        let workloads = format!(
            "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: w}}
spec: {{selector: {{matchLabels: {{a: b}}}}, template: {template}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: w}}
spec: {{serviceName: w, selector: {{matchLabels: {{a: b}}}}, template: {template}}}
---
apiVersion: v1
kind: ReplicationController
metadata: {{name: w}}
spec: {{selector: {{a: b}}, template: {template}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: w}}
spec: {{selector: {{matchExpressions: [{{key: a, operator: In, values: [b, c]}}]}}, template: {template}}}
"
        );
        server.kubectl_with(&["create", "-f", "-"], &workloads);
        for (kind, selector) in [
            ("replicaset", "a=b"),
            ("statefulset", "a=b"),
            ("replicationcontroller", "a=b"),
            ("deployment", "a in (b,c)"),
        ] {
            server.kubectl(&["scale", kind, "w", "--replicas=3", "--current-replicas=1"]);
            let scale = server.kubectl(&[
                "get",
                kind,
                "w",
                "--subresource=scale",
                "-o",
                "jsonpath={.spec.replicas} {.status.selector}",
            ]);
            assert_eq!(scale, format!("3 {selector}"), "{kind}");
            let stale = server.try_kubectl(&["scale", kind, "w", "--replicas=4", "--current-replicas=1"], "");
            contains(&String::from_utf8_lossy(&stale.stderr), &["Expected replicas to be 1, was 3"]);
            server.kubectl(&[
                "patch",
                kind,
                "w",
                "--subresource=scale",
                "--type=merge",
                "-p",
                r#"{"spec":{"replicas":6}}"#,
            ]);
            assert_eq!(server.kubectl(&["get", kind, "w", "-o", "jsonpath={.spec.replicas}"]), "6", "{kind}");
        }
        server.kubectl(&["autoscale", "deployment", "w", "--min=1", "--max=4", "--name=h"]);
        assert_eq!(server.kubectl(&["get", "hpa", "h", "-o", "jsonpath={.spec.scaleTargetRef.name}"]), "w");
    });
}

#[test]
fn statuses_are_edited_apart_and_replacements_may_be_forced() {
    with_each_kubectl(|server| {
        server.kubectl_with(&["create", "-f", "-"], DEPLOYMENT);
        let editor = server.dir().join("editor");
        std::fs::write(&editor, "#!/bin/sh\nsed -i -e 's/replicas: 2/replicas: 9/' -e 's/^status: {}/status: {observedGeneration: 7}/' \"$1\"\n")
            .expect("written");
        std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let edit = ["edit", "deployment", "web", "--subresource=status"];
        let edited = server.kubectl_command(&edit).env("KUBE_EDITOR", &editor).output().expect("kubectl ends");
        assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
        let now = deployment(&server);
        assert_eq!(
            (&now["spec"]["replicas"], &now["status"]["observedGeneration"]),
            (&Value::from(2), &Value::from(7))
        );
        let immutable = DEPLOYMENT.replace("app: web", "app: other");
        let refused = server.try_kubectl(&["replace", "-f", "-"], &immutable);
        contains(&String::from_utf8_lossy(&refused.stderr), &["field is immutable"]);
        server.kubectl_with(&["replace", "--force", "-f", "-"], &immutable);
        let new = deployment(&server);
        assert_ne!(new["metadata"]["uid"], now["metadata"]["uid"]);
        assert_eq!(new["spec"]["selector"]["matchLabels"]["app"], "other");
    });
}
