//! Policies and webhooks that stand in files: they count without any object of the API, nobody who may do everything can get
//! round them, and they are followed.

use integration_tests::{Answer, Server, Webhook};
use serde_json::{Value, json};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RELOADS: &str = "apiserver_manifest_admission_config_controller_automatic_reloads_total";

/// A policy that refuses objects of this resource by this name, and its binding.
fn policy(name: &str, (group, resource): (&str, &str), refused: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec:\n  \
         matchConstraints: {{resourceRules: [{{apiGroups: ['{group}'], apiVersions: ['*'], operations: [CREATE, DELETE], \
         resources: ['{resource}']}}]}}\n  validations:\n  - {{expression: \"request.name != '{refused}'\", message: '{refused} is \
         kept'}}\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {{name: \
         b-{name}}}\nspec: {{policyName: {name}, validationActions: [Deny]}}\n"
    )
}

/// A server whose plugins read `policies` and `hooks`.
fn server(dir: &std::path::Path) -> Server {
    let mut server = Server::prepare();
    let plugin = |name: &str, kind: &str, directory: &str| {
        format!(
            "- name: {name}\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: {kind}, staticManifestsDir: \
             '{}'}}\n",
            dir.join(directory).display()
        )
    };
    let policies = plugin("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", "policies");
    let hooks = plugin("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration", "hooks");
    let config =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{policies}{hooks}");
    std::fs::write(dir.join("admission.yaml"), config).expect("written");
    let file = format!("--admission-control-config-file={}", dir.join("admission.yaml").display());
    server.set_arguments(&[&file, "--feature-gates=ManifestBasedAdmissionControlConfig=true"]);
    server
}

fn folders() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["policies", "hooks"] {
        std::fs::create_dir(dir.path().join(name)).expect("made");
    }
    dir
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[test]
fn policies_of_files_count_for_everybody_and_are_followed() {
    let dir = folders();
    let write = |text: &str| std::fs::write(dir.path().join("policies/all.yaml"), text).expect("written");
    let maps = policy("maps.static.k8s.io", ("", "configmaps"), "bad");
    let kept = policy("kept.static.k8s.io", ("admissionregistration.k8s.io", "validatingadmissionpolicies"), "other");
    write(&format!("{maps}---\n{kept}"));
    let mut server = server(dir.path());
    server.run();

    let refused = server.request("POST", MAPS, Some(&named("bad")));
    assert_eq!(refused.status, 422, "{}", refused.text());
    let why = "ValidatingAdmissionPolicy 'maps.static.k8s.io' with binding 'b-maps.static.k8s.io' denied request: bad is kept";
    assert!(refused.text().contains(why), "{}", refused.text());
    assert_eq!(server.request("POST", MAPS, Some(&named("good"))).status, 201);
    assert_eq!(server.request("GET", POLICIES, None).json()["items"], json!([]), "they are no objects");
    // They judge what configures admission, which policies of the API may not.
    let spec = json!({"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"],
    }]}});
    let policy_object = |name: &str| json!({"metadata": {"name": name}, "spec": spec});
    assert_eq!(server.request("POST", POLICIES, Some(&policy_object("other"))).status, 422);
    assert_eq!(server.request("POST", POLICIES, Some(&policy_object("another"))).status, 201);
    let own = server.request("POST", POLICIES, Some(&policy_object("own.static.k8s.io")));
    let why = "metadata.name: Invalid value: \\\"own.static.k8s.io\\\": names ending with \\\".static.k8s.io\\\" are reserved";
    assert!(own.status == 422 && own.text().contains(why), "{}", own.text());

    let counted = |status: &str, plugin: &str| {
        let text = server.request("GET", "/metrics", None).text();
        let is_it = |line: &&str| {
            line.starts_with(RELOADS)
                && line.contains(&format!("status=\"{status}\""))
                && line.contains(&format!("plugin=\"{plugin}\""))
        };
        text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).unwrap_or(0)
    };
    let count = |status: &str| counted(status, "ValidatingAdmissionPolicy");
    assert_eq!((count("success"), count("failure")), (1, 0));
    write("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nspec: {oops: 1}\n");
    while count("failure") == 0 {
        std::thread::yield_now();
    }
    assert_eq!(server.request("POST", MAPS, Some(&named("bad"))).status, 422, "the old ones count");
    assert!(server.log().contains("strict decoding error: unknown field"), "{}", server.log());
    write(&policy("maps.static.k8s.io", ("", "configmaps"), "worse"));
    while count("success") < 2 {
        std::thread::yield_now();
    }
    assert_eq!(server.request("POST", MAPS, Some(&named("worse"))).status, 422);
    assert_eq!(server.request("POST", MAPS, Some(&named("bad"))).status, 201);
    assert_eq!(counted("success", "ValidatingAdmissionWebhook"), 1);
}

#[test]
fn webhooks_of_files_are_called_first_and_about_configurations_too() {
    let dir = folders();
    let hook = Webhook::start(&["127.0.0.1"], |review| {
        let request = &review["request"];
        let allowed = !request["name"].as_str().unwrap_or_default().starts_with("bad");
        let response = json!({"uid": request["uid"], "allowed": allowed, "status": {"message": "by file"}});
        Answer::Json(json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}))
    });
    let client = json!({"url": format!("https://127.0.0.1:{}/", hook.port()), "caBundle": hook.bundle()});
    let rule = |groups: &str, resource: &str| {
        json!({
            "apiGroups": [groups], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [resource],
        })
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "own.static.k8s.io"},
        "webhooks": [{
            "name": "a.static.k8s.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client,
            "rules": [rule("", "configmaps"), rule("admissionregistration.k8s.io", "validatingwebhookconfigurations")],
        }],
    });
    std::fs::write(dir.path().join("hooks/a.json"), configuration.to_string()).expect("written");
    let mut server = server(dir.path());
    server.run();
    let why = "admission webhook \\\"a.static.k8s.io\\\" denied the request: by file";
    for (path, status) in [(MAPS, 201), (HOOKS, 201)] {
        let refused = server.request("POST", path, Some(&named("bad")));
        assert!(refused.status == 400 && refused.text().contains(why), "{path}: {}", refused.text());
        assert_eq!(server.request("POST", path, Some(&named("good"))).status, status, "{path}");
    }
    assert!(hook.calls() >= 4, "the server makes objects, too");
}

#[test]
fn wrong_files_are_refused_at_the_start_by_name() {
    let check = |text: &str, why: &str| {
        let dir = folders();
        let file = dir.path().join("policies/one.yaml");
        std::fs::write(&file, text).expect("written");
        let said = server(dir.path()).run_in_vain();
        let place = format!("error loading {}: ", file.display());
        assert!(said.contains(&place) && said.contains(why), "{said}");
    };
    let good = policy("a.static.k8s.io", ("", "configmaps"), "bad");
    check("kind: X\n", "Object 'apiVersion' is missing in 'kind: X'");
    check("apiVersion: v1\nkind: ConfigMap\n", "no kind \"ConfigMap\" is registered for version \"v1\" in scheme");
    check(
        &good.replace(
            "k8s.io/v1\nkind: ValidatingAdmissionPolicy\n",
            "k8s.io/v1beta1\nkind: ValidatingAdmissionPolicy\n",
        ),
        "unsupported resource type *v1beta1.ValidatingAdmissionPolicy",
    );
    check(&good.replace("a.static.k8s.io", "a"), "must have a name ending with \".static.k8s.io\"");
    check(&format!("{good}---\n{good}"), "duplicate name \"a.static.k8s.io\" found in file");
    check(&good.replace("request.name", "request.none"), "ValidatingAdmissionPolicy \"a.static.k8s.io\": ");
    check(
        &good.replace("spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n"),
        "ValidatingAdmissionPolicy \"a.static.k8s.io\": spec.paramKind is not supported for static manifests",
    );
}
