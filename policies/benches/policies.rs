//! What admission policies cost a write: none at all, one whose rules are about other writes, and one that is evaluated.

use std::hint::black_box;

use auth::User;
use criterion::{Criterion, criterion_group, criterion_main};
use generic_server::admission::{Attributes, Operation, OperationOptions, Reinvocation};
use machinery::{Value, array, object};

#[path = "../tests/policed/mod.rs"]
mod policed;

fn policy(resource: &str) -> Value {
    object! {
        "apiVersion" => "admissionregistration.k8s.io/v1", "kind" => "ValidatingAdmissionPolicy",
        "metadata" => object! { "name" => "p", "uid" => "u", "generation" => 1 },
        "spec" => object! {
            "failurePolicy" => "Fail",
            "matchConstraints" => object! {
                "matchPolicy" => "Equivalent", "namespaceSelector" => object! {}, "objectSelector" => object! {},
                "resourceRules" => array![object! {
                    "apiGroups" => array![""], "apiVersions" => array!["v1"], "operations" => array!["CREATE", "UPDATE"],
                    "resources" => array![resource], "scope" => "*",
                }],
            },
            "validations" => array![object! {
                "expression" => "object.spec.containers.all(c, c.image.startsWith('registry.example/') && \
                                 has(c.resources.limits) && 'memory' in c.resources.limits)",
                "messageExpression" => "'not allowed in ' + object.metadata.namespace",
            }],
        },
    }
}

fn binding() -> Value {
    object! {
        "apiVersion" => "admissionregistration.k8s.io/v1", "kind" => "ValidatingAdmissionPolicyBinding",
        "metadata" => object! { "name" => "b" },
        "spec" => object! { "policyName" => "p", "validationActions" => array!["Deny"] },
    }
}

fn pod() -> Value {
    let container = |name: &str| {
        object! {
            "name" => name, "image" => "registry.example/app:1.2",
            "resources" => object! { "limits" => object! { "memory" => "1Gi", "cpu" => "1" } },
        }
    };
    object! {
        "apiVersion" => "v1", "kind" => "Pod",
        "metadata" => object! { "name" => "p", "namespace" => "default", "labels" => object! { "app" => "a" } },
        "spec" => object! { "containers" => array![container("a"), container("b"), container("c")] },
    }
}

fn policies(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let namespace = object! {
        "apiVersion" => "v1", "kind" => "Namespace", "metadata" => object! { "name" => "default" },
        "spec" => object! { "finalizers" => array!["kubernetes"] }, "status" => object! { "phase" => "Active" },
    };
    const GROUP: &str = "admissionregistration.k8s.io";
    let with = |resource: &str| {
        vec![
            ("", "namespaces", namespace.clone()),
            (GROUP, "validatingadmissionpolicies", policy(resource)),
            (GROUP, "validatingadmissionpolicybindings", binding()),
        ]
    };
    let cases =
        [("none", vec![("", "namespaces", namespace.clone())]), ("other", with("services")), ("pod", with("pods"))];
    let (pod, user) = (pod(), User::anonymous());
    for (name, objects) in cases {
        let (policies, rows) = runtime.block_on(policed::serving(&objects));
        let plugin = policed::plugin(&policies);
        let row = rows.iter().find(|row| row.group.is_empty() && row.plural == "pods").expect("pods have a row");
        c.bench_function(&format!("policy {name}"), |b| {
            b.iter(|| {
                let attributes = Attributes {
                    operation: Operation::Create,
                    row,
                    namespace: "default",
                    name: "p",
                    subresource: "",
                    user: &user,
                    audit: generic_server::audit::OFF,
                    dry_run: false,
                    options: OperationOptions::None,
                    old: None,
                    rounds: Reinvocation::default(),
                };
                let mut warnings = Vec::new();
                let judged = plugin.validate(&attributes, black_box(&pod), &mut warnings);
                runtime.block_on(judged).expect("the pod is as it should be");
            });
        });
    }
}

criterion_group!(benches, policies);
criterion_main!(benches);
