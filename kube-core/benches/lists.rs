//! Lists of pods in every form: whole, and in pages. The throughput is that of the bytes that are sent.

#[path = "../tests/served/mod.rs"]
mod served;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use machinery::{Value, array, object};
use served::Served;
use tokio::runtime::Runtime;

const PODS: usize = 2000;
const PATH: &str = "/api/v1/namespaces/default/pods";

fn pod(i: usize) -> Value {
    let variables: Vec<Value> =
        (0..8).map(|j| object! { "name" => format!("E{j}"), "value" => format!("v{j}") }).collect();
    object! {
        "kind" => "Pod", "apiVersion" => "v1",
        "metadata" => object! {
            "name" => format!("pod-{i:05}"), "namespace" => "default", "uid" => i.to_string(),
            "creationTimestamp" => "2024-01-01T00:00:00Z",
            "labels" => object! { "app" => format!("a{}", i % 500), "tier" => "web" },
            "annotations" => object! { "note" => "x".repeat(600) },
        },
        "spec" => object! {
            "nodeName" => format!("node-{:04}", i % 1000),
            "containers" => array![object! {
                "name" => "c", "image" => "registry.example/app:1", "env" => variables,
                "ports" => array![object! { "containerPort" => 80, "protocol" => "TCP" }],
                "resources" => object! { "requests" => object! { "cpu" => "100m", "memory" => "64Mi" } },
            }],
        },
        "status" => object! { "phase" => "Running", "podIP" => "10.1.2.3" },
    }
}

fn lists(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let pods: Vec<Value> = (0..PODS).map(pod).collect();
    let served = runtime.block_on(Served::start("", "pods", &pods));
    let mut group = c.benchmark_group("list of 2000 pods");
    group.sample_size(10);
    for (name, accept) in [
        ("json", "application/json"),
        ("pretty", "application/json;pretty=1"),
        ("yaml", "application/yaml"),
        ("protobuf", "application/vnd.kubernetes.protobuf"),
        ("table", "application/json;as=Table;g=meta.k8s.io;v=v1"),
        ("metadata", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        ("metadata protobuf", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
    ] {
        for (part, query) in [("whole", ""), ("page", "?limit=500")] {
            let path = format!("{PATH}{query}");
            let list = || runtime.block_on(async { served::bytes(served.get(&path, accept).await).await });
            group.throughput(Throughput::Bytes(list().len() as u64));
            group.bench_function(format!("{name} {part}"), |b| b.iter(list));
        }
    }
    group.finish();
}

criterion_group!(benches, lists);
criterion_main!(benches);
