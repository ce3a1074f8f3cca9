//! Which writes admission policies are about, and what they make of them.

mod policed;

use auth::User;
use generic_server::admission::{Attributes, Operation, OperationOptions, Reinvocation};
use machinery::{Value, codec::json, object};

const GROUP: &str = "admissionregistration.k8s.io";

fn value(text: &str) -> Value {
    json::decode(text.as_bytes()).expect("JSON")
}

fn named(kind: &str, name: &str, spec: &Value) -> Value {
    object! {
        "apiVersion" => "admissionregistration.k8s.io/v1", "kind" => kind,
        "metadata" => object! { "name" => name, "uid" => "u", "generation" => 1 }, "spec" => spec.clone(),
    }
}

/// A write: operation, group, version and plural, and the objects.
struct Asked<'a> {
    operation: Operation,
    resource: (&'a str, &'a str, &'a str),
    name: &'a str,
    object: &'a str,
    old: Option<&'a str>,
}

const LABELLED: &str =
    r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n","labels":{"a":"b"}}}"#;
const PLAIN: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"}}"#;
const CREATE: Asked<'_> =
    Asked { operation: Operation::Create, resource: ("", "v1", "configmaps"), name: "c", object: LABELLED, old: None };

/// The text with which a policy with these constraints refuses a write, by an expression that never holds.
async fn refusal(constraints: &str, asked: &Asked<'_>) -> Option<String> {
    let spec = object! {
        "failurePolicy" => "Fail", "matchConstraints" => value(constraints),
        "validations" => vec![value(r#"{"expression":"false","messageExpression":"object == null ? 'no object' : string(object.apiVersion)"}"#)],
    };
    let binding = value(r#"{"policyName":"p","validationActions":["Deny"]}"#);
    let namespace = value(
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{"team":"x"}},"status":{"phase":"Active"}}"#,
    );
    let objects = [
        ("", "namespaces", namespace),
        (GROUP, "validatingadmissionpolicies", named("ValidatingAdmissionPolicy", "p", &spec)),
        (GROUP, "validatingadmissionpolicybindings", named("ValidatingAdmissionPolicyBinding", "b", &binding)),
    ];
    let (policies, rows) = policed::serving(&objects).await;
    let plugin = policed::plugin(&policies);
    let (group, version, plural) = asked.resource;
    let row = rows.iter().find(|row| (&*row.group, &*row.version, &*row.plural) == (group, version, plural));
    let row = row.expect("the resource is served");
    let old = asked.old.map(value);
    let attributes = Attributes {
        operation: asked.operation,
        row,
        namespace: if row.namespaced { "n" } else { "" },
        name: asked.name,
        subresource: "",
        user: &User::anonymous(),
        audit: generic_server::audit::OFF,
        dry_run: false,
        options: OperationOptions::None,
        old: old.as_ref(),
        rounds: Reinvocation::default(),
    };
    plugin.validate(&attributes, &value(asked.object), &mut Vec::new()).await.err().map(|status| status.message)
}

async fn check(constraints: &str, asked: &Asked<'_>, expect: Option<&str>) {
    let prefix = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    let is = refusal(constraints, asked).await;
    let is = is.as_deref().map(|text| text.split_once(prefix).map_or(text, |(_, why)| why));
    assert_eq!(is, expect, "{constraints}");
}

const RULES: &str =
    r#""resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["configmaps"]}]"#;

#[tokio::test]
async fn rules_and_selectors_say_which_writes_a_policy_is_about() {
    let with = |more: &str| format!("{{{RULES}{more}}}");
    check(&with(""), &CREATE, Some("v1")).await;
    check(&with(r#","objectSelector":{"matchLabels":{"a":"b"}}"#), &CREATE, Some("v1")).await;
    check(&with(r#","objectSelector":{"matchLabels":{"a":"c"}}"#), &CREATE, None).await;
    check(&with(r#","namespaceSelector":{"matchLabels":{"team":"x"}}"#), &CREATE, Some("v1")).await;
    check(&with(r#","namespaceSelector":{"matchLabels":{"team":"y"}}"#), &CREATE, None).await;
    let exclude = |names: &str| {
        with(&format!(
            r#","excludeResourceRules":[{{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE"],"resources":["*"]{names}}}]"#
        ))
    };
    check(&exclude(""), &CREATE, None).await;
    check(&exclude(r#","resourceNames":["other"]"#), &CREATE, Some("v1")).await;
    let scoped = |scope: &str| with("").replace(r#""operations""#, &format!(r#""scope":"{scope}","operations""#));
    check(&scoped("Namespaced"), &CREATE, Some("v1")).await;
    check(&scoped("Cluster"), &CREATE, None).await;
    check(&with("").replace(r#"["*"]"#, r#"["UPDATE"]"#), &CREATE, None).await;
    check(&with("").replace("configmaps", "*/status"), &CREATE, None).await;
}

#[tokio::test]
async fn a_selector_sees_the_old_object_too() {
    let selects = format!(r#"{{{RULES},"objectSelector":{{"matchLabels":{{"a":"b"}}}}}}"#);
    let update = Asked { operation: Operation::Update, object: PLAIN, old: Some(LABELLED), ..CREATE };
    check(&selects, &update, Some("v1")).await;
    check(&selects, &Asked { old: Some(PLAIN), ..update }, None).await;
    let delete = Asked { operation: Operation::Delete, object: "null", old: Some(LABELLED), ..CREATE };
    check(&selects, &delete, Some("no object")).await;
}

#[tokio::test]
async fn a_policy_about_one_version_sees_writes_through_another_in_its_own() {
    let rules =
        r#""resourceRules":[{"apiGroups":["autoscaling"],"apiVersions":["v1"],"operations":["*"],"resources":["*"]}]"#;
    let scaler = Asked {
        resource: ("autoscaling", "v2", "horizontalpodautoscalers"),
        object: r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"c","namespace":"n"},
            "spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}"#,
        ..CREATE
    };
    check(&format!(r#"{{{rules},"matchPolicy":"Equivalent"}}"#), &scaler, Some("autoscaling/v1")).await;
    check(&format!(r#"{{{rules},"matchPolicy":"Exact"}}"#), &scaler, None).await;
}

#[tokio::test]
async fn policies_have_no_say_about_themselves() {
    let all = r#"{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]}"#;
    check(all, &CREATE, Some("v1")).await;
    let policy = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"c"}}"#;
    check(all, &Asked { resource: (GROUP, "v1", "validatingadmissionpolicies"), object: policy, ..CREATE }, None).await;
}
