//! What the rules of pods cost a write: those of a new pod, of a changed one, and of one with many parts.

use std::hint::black_box;

use auth::User;
use criterion::{Criterion, criterion_group, criterion_main};
use generic_server::resource::{Resource, WriteContext};
use machinery::{Value, array, codec::json, object, schema::apply_defaults};

fn row() -> Resource {
    let rows = kube_core::resources();
    rows.into_iter().find(|row| row.group.is_empty() && row.plural == "pods").expect("pods have a row")
}

fn defaulted(row: &Resource, mut pod: Value) -> Value {
    apply_defaults(&row.schema, &mut pod);
    row.strategy.default(&mut pod);
    pod
}

/// A pod with so many containers, each with variables, ports and mounts of volumes.
fn large(containers: usize) -> Value {
    let volumes: Value =
        (0..containers).map(|i| object! { "name" => format!("v{i}"), "emptyDir" => object! {} }).collect();
    let variables: Value = (0..20).map(|i| object! { "name" => format!("V{i}"), "value" => "x" }).collect();
    let containers: Value = (0..containers)
        .map(|i| {
            object! {
                "name" => format!("c{i}"), "image" => "registry.example.com/web:1", "env" => variables.clone(),
                "ports" => array![object! { "containerPort" => 8080, "name" => "http" }],
                "resources" => object! {
                    "requests" => object! { "cpu" => "100m", "memory" => "64Mi" },
                    "limits" => object! { "cpu" => "1", "memory" => "128Mi" },
                },
                "volumeMounts" => array![object! { "name" => format!("v{i}"), "mountPath" => "/data" }],
            }
        })
        .collect();
    object! {
        "metadata" => object! { "name" => "large", "namespace" => "default" },
        "spec" => object! { "containers" => containers, "volumes" => volumes },
    }
}

fn pods(c: &mut Criterion) {
    let (row, user) = (row(), User::default());
    let cx = WriteContext {
        group: "",
        version: "v1",
        namespace: "default",
        subresource: "",
        user: &user,
        features: &Default::default(),
    };
    let typical = json::decode(include_bytes!("../../generic-server/machinery/benches/pod.json")).expect("a pod");
    let typical = defaulted(&row, typical);
    assert_eq!(row.strategy.validate(&cx, &typical), []);
    c.bench_function("pod, validate a new one", |b| b.iter(|| row.strategy.validate(&cx, black_box(&typical))));
    let mut labelled = typical.clone();
    labelled.set(&["metadata", "labels", "more"], "x");
    c.bench_function("pod, validate an update", |b| {
        b.iter(|| row.strategy.validate_update(&cx, black_box(&labelled), &typical));
    });
    c.bench_function("pod, warnings", |b| b.iter(|| row.strategy.warnings_on_create(black_box(&typical))));
    let large = defaulted(&row, large(100));
    assert_eq!(row.strategy.validate(&cx, &large), []);
    c.bench_function("pod of 100 containers, validate", |b| b.iter(|| row.strategy.validate(&cx, black_box(&large))));
}

criterion_group!(benches, pods);
criterion_main!(benches);
