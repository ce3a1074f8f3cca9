use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";

/// A webhook with one line that is another than usual.
fn webhook(kubeconfig: &Path, other: &str) -> String {
    let connection = format!("{{type: KubeConfigFile, kubeConfigFile: '{}'}}", kubeconfig.display());
    let lines = [
        "timeout: 3s",
        "authorizedTTL: 1s",
        "subjectAccessReviewVersion: v1",
        "matchConditionSubjectAccessReviewVersion: v1",
        "failurePolicy: Deny",
        &format!("connectionInfo: {connection}"),
    ];
    let key = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let kept = lines.iter().filter(|line| key(line) != key(other)).copied().chain([other]);
    let lines: String = kept.map(|line| format!("    {line}\n")).collect();
    format!("{HEAD}authorizers:\n- type: Webhook\n  name: w\n  webhook:\n{lines}")
}

fn wrong(content: &str) -> String {
    read(content.as_bytes(), &[]).map(|_| ()).expect_err(content).to_string()
}

#[test]
fn authorizers_have_types_and_names() {
    let check = |authorizers: &str, expect: &str| {
        assert_eq!(wrong(&format!("{HEAD}authorizers:\n{authorizers}")), expect, "{authorizers}");
    };
    let none = "authorizers: Required value: at least one authorization mode must be defined";
    assert_eq!(wrong(""), none);
    assert_eq!(wrong(HEAD), none);
    check("- {name: a}", "authorizers[0].type: Required value");
    check(
        "- {type: Foo, name: foo}",
        "authorizers[0].type: Unsupported value: \"Foo\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \
         \"Node\", \"RBAC\", \"Webhook\"",
    );
    check("- {type: RBAC, name: rbac}\n- {type: RBAC, name: b}", "authorizers[1].type: Duplicate value: \"RBAC\"");
    check("- {type: RBAC}", "authorizers[0].name: Required value");
    check("- {type: RBAC, name: roles}", "expected name rbac for authorizer RBAC instead of roles");
    check(
        "- {type: RBAC, name: rbac, webhook: {}}",
        "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook",
    );
    check("- {type: Webhook, name: w}", "authorizers[0].webhook: Required value: required when type=Webhook");
    check(
        "- {type: Webhook, name: w, webhook: {}}",
        "[authorizers[0].timeout: Required value, authorizers[0].subjectAccessReviewVersion: Required value, \
         authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Required value]",
    );
    check(
        "- {type: RBAC, name: rbac, foo: 1}",
        "failed to load AuthorizationConfiguration from file: strict decoding error: unknown field \"authorizers[0].foo\"",
    );
}

#[test]
fn what_a_server_began_with_stays() {
    let content = format!("{HEAD}authorizers: [{{type: Node, name: node}}]");
    let types = [AuthorizerType::Node, AuthorizerType::Rbac];
    let why = read(content.as_bytes(), &types).map(|_| ()).expect_err("RBAC is missing");
    assert_eq!(why.to_string(), "missing required types: [RBAC]");
    assert!(matches!(why, AuthorizationConfigError::Selection { missing, .. } if missing == [AuthorizerType::Rbac]));
    assert!(read(content.as_bytes(), &types[..1]).is_ok());
}

#[test]
fn webhooks_are_checked_in_full() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("k");
    std::fs::write(&file, "").expect("written");
    let check = |line: &str, expect: &str| {
        assert_eq!(wrong(&webhook(&file, line)), format!("authorizers[0].{expect}"), "{line}");
    };
    check("timeout: 31s", "timeout: Invalid value: \"31s\": must be > 0s and <= 30s");
    check("timeout: -1s", "timeout: Invalid value: \"-1s\": must be > 0s and <= 30s");
    check("timeout: 0s", "timeout: Required value");
    check("authorizedTTL: -1s", "authorizedTTL: Invalid value: \"-1s\": must be > 0s");
    check(
        "subjectAccessReviewVersion: v2",
        "subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\"",
    );
    check(
        "failurePolicy: Ignore",
        "failurePolicy: Unsupported value: \"Ignore\": supported values: \"NoOpinion\", \"Deny\"",
    );
    check(
        "matchConditionSubjectAccessReviewVersion: v1beta1",
        "matchConditionSubjectAccessReviewVersion: Unsupported value: \"v1beta1\": supported values: \"v1\"",
    );
    check("connectionInfo: {type: KubeConfigFile}", "connectionInfo.kubeConfigFile: Required value");
    check(
        "connectionInfo: {type: KubeConfigFile, kubeConfigFile: a}",
        "connectionInfo.kubeConfigFile: Invalid value: \"a\": must be an absolute path",
    );
    check(
        "connectionInfo: {type: KubeConfigFile, kubeConfigFile: /}",
        "connectionInfo.kubeConfigFile: Invalid value: \"/\": must be a regular file",
    );
    check(
        "connectionInfo: {type: KubeConfigFile, kubeConfigFile: /no/where}",
        "connectionInfo.kubeConfigFile: Invalid value: \"/no/where\": error loading file: stat /no/where: no such file or \
         directory",
    );
    check(
        "connectionInfo: {type: Foo}",
        "connectionInfo.type: Unsupported value: {\"Type\":\"Foo\",\"KubeConfigFile\":null}: supported values: \
         \"InClusterConfig\", \"KubeConfigFile\"",
    );
    check("matchConditions: [{expression: ''}]", "matchConditions[0].expression: Required value");
    let load = "failed to load AuthorizationConfiguration from file: ";
    assert_eq!(wrong(&webhook(&file, "timeout: abc")), format!("{load}time: invalid duration \"abc\""));
    assert_eq!(
        wrong(&webhook(&file, "timeout: 5")),
        format!(
            "{load}json: cannot unmarshal number into Go struct field WebhookConfiguration.authorizers.webhook.timeout of type string"
        )
    );
}

#[test]
fn what_is_not_said_has_defaults_and_caches_can_be_off() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("k");
    std::fs::write(&file, "").expect("written");
    let settings = |line: &str| {
        let found = read(webhook(&file, line).replace("config.k8s.io/v1\n", "config.k8s.io/v1beta1\n").as_bytes(), &[]);
        found.expect("valid").remove(0).webhook.expect("a webhook").0
    };
    let usual = settings("authorizedTTL: 0s");
    let seconds = Duration::from_secs;
    assert_eq!((usual.authorized_ttl, usual.unauthorized_ttl, usual.timeout), (seconds(300), seconds(30), seconds(3)));
    assert_eq!((usual.on_failure, usual.version), (Verdict::Deny, ReviewVersion::V1));
    assert_eq!(settings("cacheAuthorizedRequests: false").authorized_ttl, Duration::ZERO);
    assert_eq!(settings("cacheUnauthorizedRequests: false").unauthorized_ttl, Duration::ZERO);
}
