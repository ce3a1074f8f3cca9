//! The codecs on a pod of 3 kB.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use machinery::codec::{json, protobuf, yaml};
use machinery::schema::{self, builtin};

const POD: &str = include_str!("pod.json");

fn text(c: &mut Criterion) {
    let value = json::decode(POD.as_bytes()).expect("JSON");
    let compact = json::encode(&value);
    let yaml_text = yaml::encode(&value);
    let mut group = c.benchmark_group("pod");
    group.throughput(Throughput::Bytes(compact.len() as u64));
    group.bench_function("json decode", |b| b.iter_with_large_drop(|| json::decode(black_box(&compact))));
    group.bench_function("json decode strict", |b| b.iter_with_large_drop(|| json::decode_strict(black_box(&compact))));
    group.bench_function("json encode", |b| b.iter(|| json::encode(black_box(&value))));
    group.bench_function("serde_json decode", |b| {
        b.iter_with_large_drop(|| serde_json::from_slice::<serde_json::Value>(black_box(&compact)));
    });
    group.bench_function("yaml decode", |b| b.iter_with_large_drop(|| yaml::decode(black_box(&yaml_text))));
    group.bench_function("yaml encode", |b| b.iter(|| yaml::encode(black_box(&value))));
    group.bench_function("scan metadata", |b| b.iter(|| json::scan::metadata(black_box(&compact))));
    group.bench_function("scan field", |b| b.iter(|| json::scan::text(black_box(&compact), &["spec", "nodeName"])));
    group.finish();
}

fn typed(c: &mut Criterion) {
    let value = json::decode(POD.as_bytes()).expect("JSON");
    let message = protobuf::encode(&value).expect("a pod");
    let pod = builtin::schema_of("", "v1", "Pod").expect("a definition");
    let mut group = c.benchmark_group("pod");
    group.throughput(Throughput::Bytes(message.len() as u64));
    group.bench_function("protobuf encode", |b| b.iter(|| protobuf::encode(black_box(&value))));
    group.bench_function("protobuf decode", |b| b.iter_with_large_drop(|| protobuf::decode(black_box(&message))));
    group
        .bench_function("schema decode", |b| b.iter_with_large_drop(|| schema::decode(pod, black_box(&value).clone())));
    group.finish();
}

criterion_group!(benches, text, typed);
criterion_main!(benches);
