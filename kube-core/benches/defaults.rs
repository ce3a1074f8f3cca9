//! What filling in defaults costs a write: the static ones of the type and the computed ones of the kind, as a request's
//! object gets them.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use generic_server::resource::Resource;
use machinery::{Value, array, codec::json, object, schema::apply_defaults};

fn row(group: &str, plural: &str) -> Resource {
    let mut rows = kube_core::resources().into_iter();
    rows.find(|row| row.group == group && row.plural == plural).expect("the kind has a row")
}

/// A pod as its author writes it.
fn bare() -> Value {
    object! {
        "apiVersion" => "v1", "kind" => "Pod",
        "metadata" => object! { "name" => "web", "labels" => object! { "app" => "web" } },
        "spec" => object! {
            "containers" => array![object! {
                "name" => "web", "image" => "registry.example.com/web:1.2.3",
                "env" => array![
                    object! { "name" => "NODE", "valueFrom" => object! { "fieldRef" => object! { "fieldPath" => "spec.nodeName" } } },
                ],
                "livenessProbe" => object! { "httpGet" => object! { "path" => "/healthz", "port" => 8080 } },
                "ports" => array![object! { "containerPort" => 8080 }],
                "resources" => object! { "limits" => object! { "cpu" => "500m", "memory" => "256Mi" } },
            }],
            "volumes" => array![object! { "name" => "config", "configMap" => object! { "name" => "web" } }],
        },
    }
}

fn defaults(c: &mut Criterion) {
    let pods = row("", "pods");
    let complete = || json::decode(include_bytes!("../../generic-server/machinery/benches/pod.json")).expect("a pod");
    let apply = |row: &Resource, mut object: Value| {
        apply_defaults(&row.schema, &mut object);
        row.strategy.default(&mut object);
        object
    };
    assert_eq!(apply(&pods, bare()).str_at(&["spec", "restartPolicy"]), Some("Always"));
    let mut bench = |name: &str, make: &dyn Fn() -> Value, row: &Resource| {
        c.bench_function(name, |b| b.iter_batched(make, |v| apply(black_box(row), v), BatchSize::SmallInput));
    };
    bench("pod as it is written, all defaults", &bare, &pods);
    bench("pod of 3 kB that has them, all defaults", &complete, &pods);
    let deployment = || {
        object! {
            "metadata" => object! { "name" => "web" },
            "spec" => object! {
                "selector" => object! { "matchLabels" => object! { "app" => "web" } },
                "template" => object! { "metadata" => object! { "labels" => object! { "app" => "web" } }, "spec" => bare().get("spec").cloned() },
            },
        }
    };
    bench("deployment as it is written, all defaults", &deployment, &row("apps", "deployments"));
}

criterion_group!(benches, defaults);
criterion_main!(benches);
