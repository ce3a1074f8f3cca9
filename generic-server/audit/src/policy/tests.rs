use super::*;

fn policy(text: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{text}");
    Policy::read(text.as_bytes()).expect("a policy").policy
}

fn resource<'a>(verb: &'a str, path: &'a str) -> Attributes<'a> {
    // group/namespace/resource/name/subresource
    let parts: Vec<&str> = path.split('|').collect();
    let [group, namespace, resource, name, subresource] = parts[..] else { panic!("{path}") };
    Attributes { verb, is_resource: true, group, namespace, resource, name, subresource, version: "v1", ..USER }
}

static GROUPS: [Str; 2] = [Str::new_static("humans"), Str::new_static("developers")];
const USER: Attributes<'static> = Attributes {
    user: Some(("tim", &GROUPS)),
    verb: "get",
    is_resource: false,
    path: "",
    group: "",
    version: "",
    resource: "",
    subresource: "",
    namespace: "",
    name: "",
};

fn level(rules: &str, attributes: &Attributes<'_>) -> Level {
    policy(&format!("rules: {rules}")).evaluate(attributes).level
}

#[test]
fn the_first_rule_that_matches_counts() {
    let pod = resource("get", "|default|pods|p|");
    let rules = "[{level: Request, verbs: [create]}, {level: Metadata, users: [tim]}, {level: RequestResponse}]";
    assert_eq!(level(rules, &pod), Level::Metadata);
    assert_eq!(level(rules, &Attributes { user: None, ..pod }), Level::RequestResponse);
    assert_eq!(level("[{level: Request, verbs: [create]}]", &pod), Level::None);
}

#[test]
fn rules_match_users_verbs_and_places() {
    let pod = resource("get", "|default|pods|p|");
    let log = resource("get", "|default|pods|p|log");
    let role = resource("update", "rbac.authorization.k8s.io||clusterroles|edit|");
    let path = Attributes { path: "/logs/kubelet.log", ..USER };
    let check = |rule: &str, matching: &[&Attributes<'_>], others: &[&Attributes<'_>]| {
        let rules = format!("[{{level: Metadata, {rule}}}]");
        matching.iter().for_each(|a| assert_eq!(level(&rules, a), Level::Metadata, "{rule} {a:?}"));
        others.iter().for_each(|a| assert_eq!(level(&rules, a), Level::None, "{rule} {a:?}"));
    };
    check("userGroups: [humans]", &[&pod, &path], &[&Attributes { user: None, ..pod }]);
    check("userGroups: [robots]", &[], &[&pod]);
    check("users: [tim, ann]", &[&pod], &[&Attributes { user: None, ..pod }]);
    check("namespaces: [default]", &[&pod, &log], &[&role, &path]);
    check("namespaces: ['']", &[&role], &[&pod, &path]);
    check("resources: [{group: ''}]", &[&pod, &log], &[&role, &path]);
    check("resources: [{group: '*'}]", &[&pod, &log, &role], &[&path]);
    check("resources: [{resources: [pods]}]", &[&pod], &[&log, &role, &path]);
    check("resources: [{resources: [pods/log]}]", &[&log], &[&pod, &role]);
    check("resources: [{resources: ['*']}]", &[&pod, &log], &[&role]);
    check("resources: [{resources: ['pods/*']}]", &[&pod, &log], &[&role]);
    check("resources: [{resources: ['*/log']}]", &[&log], &[&pod, &role]);
    check("resources: [{resources: ['*/*']}]", &[], &[&pod, &log]);
    check("resources: [{resources: [pods], resourceNames: [p]}]", &[&pod], &[&resource("get", "|default|pods|q|")]);
    check("nonResourceURLs: ['/logs*']", &[&path], &[&pod, &Attributes { path: "/log", ..USER }]);
    check("nonResourceURLs: ['*']", &[&path], &[&pod]);
    check("nonResourceURLs: [/logs/kubelet.log]", &[&path], &[&Attributes { path: "/logs", ..USER }]);
}

#[test]
fn what_a_rule_omits_is_added_to_what_the_policy_omits() {
    let policy = policy(
        "omitStages: [RequestReceived]\nomitManagedFields: true\n\
         rules: [{level: Metadata, verbs: [get], omitStages: [Panic], omitManagedFields: false}, {level: Metadata}]",
    );
    let omitted = |verb| {
        let verdict = policy.evaluate(&Attributes { verb, ..USER });
        let stages: Vec<_> = Stage::ALL.into_iter().filter(|s| verdict.omit.contains(*s)).map(Stage::name).collect();
        (stages, verdict.omit_managed_fields)
    };
    assert_eq!(omitted("get"), (vec!["RequestReceived", "Panic"], false));
    assert_eq!(omitted("put"), (vec!["RequestReceived"], true));
}

#[test]
fn what_is_wrong_is_told_as_upstream_does() {
    let check = |text: &str, expect: &str| {
        let why = Policy::read(text.as_bytes()).expect_err(text);
        assert_eq!(why.to_string(), expect, "{text}");
    };
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    check(head, "loaded illegal policy with 0 rules");
    check("", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy");
    check("rules: [{level: None}]", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy");
    check(
        "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n",
        "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \
         \"pkg/audit/scheme.go:30\"",
    );
    check(
        "apiVersion: audit.k8s.io/v1\nkind: Event\n",
        "failed decoding: converting (v1.Event) to (audit.Policy): unknown conversion",
    );
    check(
        &format!("{head}rules: [{{level: None, users: a, omitManagedFields: \"yes\"}}]"),
        "failed decoding: json: cannot unmarshal string into Go struct field PolicyRule.rules.omitManagedFields of type bool",
    );
    check(
        &format!("{head}rules: [{{level: 5}}]"),
        "failed decoding: json: cannot unmarshal number into Go struct field PolicyRule.rules.level of type v1.Level",
    );
    check(&format!("{head}rules: ["), "failed decoding: yaml: line 3: did not find expected node content");
    check(
        &format!(
            "{head}rules: [{{level: Metadatas, resources: [{{group: \"A/b\", resourceNames: [x]}}], \
             nonResourceURLs: [\"a*b\", \"*\", \"\"], omitStages: [Foo]}}, {{}}]\nomitStages: [Bar]\n"
        ),
        "[omitStages[0]: Invalid value: \"Bar\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, \
         rules[0].level: Unsupported value: \"Metadatas\": supported values: \"None\", \"Metadata\", \"Request\", \
         \"RequestResponse\", rules[0].nonResourceURLs[0]: Invalid value: \"a*b\": non-resource URL rules must begin with a \
         '/' character, rules[0].nonResourceURLs[0]: Invalid value: \"a*b\": non-resource URL wildcards '*' must be the final \
         character of the rule, rules[0].nonResourceURLs[2]: Invalid value: \"\": non-resource URL rules must begin with a \
         '/' character, rules[0].resources.group: Invalid value: \"A/b\": a lowercase RFC 1123 subdomain must consist of \
         lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
         'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), rules[0].resources.resourceNames: Invalid \
         value: [\"x\"]: using resourceNames requires at least one resource, rules[0].omitStages[0]: Invalid value: \"Foo\": \
         allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, rules[0].nonResourceURLs: Invalid value: \
         [\"a*b\",\"*\",\"\"]: rules cannot apply to both regular resources and non-resource URLs, rules[1].level: Required value]",
    );
}

#[test]
fn what_is_unknown_is_passed_over_with_a_warning() {
    let text =
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nfoo: 1\nrules: [{level: None, bar: 2, resources: [{baz: 3}]}]\n";
    let read = Policy::read(text.as_bytes()).expect("a policy");
    let expect = "strict decoding error: unknown field \"foo\", unknown field \"rules[0].bar\", \
                  unknown field \"rules[0].resources[0].baz\"";
    assert_eq!(read.warning.as_deref(), Some(expect));
}
