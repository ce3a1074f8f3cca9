//! The costs that every object of a list or watch may bear: label matches, quantities, names.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use machinery::meta::{LabelSelector, Meta, Quantity, names, validation};
use machinery::value::Path;
use machinery::{Map, Str, Value, array, object};

fn labels() -> Map {
    let pairs = [
        ("app.kubernetes.io/name", "web"),
        ("app.kubernetes.io/instance", "web-7"),
        ("app.kubernetes.io/version", "1.2.3"),
        ("app.kubernetes.io/managed-by", "Helm"),
        ("pod-template-hash", "7d4b9c8f6"),
        ("tier", "front"),
    ];
    pairs.into_iter().map(|(k, v)| (Str::from(k), Value::from(v))).collect()
}

fn selectors(c: &mut Criterion) {
    let labels = labels();
    let one = LabelSelector::parse("app.kubernetes.io/name=web").expect("a selector");
    c.bench_function("label match, one requirement", |b| b.iter(|| one.matches(Some(black_box(&labels)))));
    let text = "app.kubernetes.io/name=web,tier in (front,back),!canary,pod-template-hash";
    let four = LabelSelector::parse(text).expect("a selector");
    c.bench_function("label match, four requirements", |b| b.iter(|| four.matches(Some(black_box(&labels)))));
    c.bench_function("label selector, parse", |b| b.iter(|| LabelSelector::parse(black_box(text))));
}

fn quantities(c: &mut Criterion) {
    for text in ["100m", "1536Mi", "1.5Gi", "0.1", "1e3"] {
        c.bench_function(&format!("quantity {text}, parse and text"), |b| {
            b.iter(|| Quantity::parse(black_box(text)).map(|q| q.text()));
        });
    }
    let (a, b) = (Quantity::parse("1536Mi").expect("a quantity"), Quantity::parse("2G").expect("a quantity"));
    c.bench_function("quantity, compare", |bench| bench.iter(|| black_box(&a).cmp(black_box(&b))));
}

fn metadata(c: &mut Criterion) {
    c.bench_function("name, check", |b| b.iter(|| names::dns1123_subdomain(black_box("web-7d4b9c8f6-x2z9q"))));
    let object = object! { "metadata" => object! {
        "name" => "web-7d4b9c8f6-x2z9q",
        "namespace" => "default",
        "labels" => labels(),
        "annotations" => object! { "kubernetes.io/config.source" => "api" },
        "finalizers" => array!["example.dev/hold"],
    } };
    let path = Path::ROOT.field("metadata");
    c.bench_function("metadata, validate", |b| {
        b.iter(|| {
            let meta = Meta::of(black_box(&object));
            validation::validate_object_meta(meta, true, names::name_is_dns_subdomain, &path)
        });
    });
}

criterion_group!(benches, selectors, quantities, metadata);
criterion_main!(benches);
