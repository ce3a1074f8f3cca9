//! What a write costs before it is stored: decoding and defaulting a pod, reading and validating a custom resource.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use machinery::codec::json;
use machinery::schema::{apply_defaults, builtin, decode, read_custom, structural, validate};
use machinery::value::Path;
use machinery::{Map, Str, Value, object};

fn builtins(c: &mut Criterion) {
    let pod = builtin::schema_of("", "v1", "Pod").expect("Pod");
    let bytes = include_bytes!("pod.json");
    let value = || json::decode(bytes).expect("a pod");
    decode(pod, value()).expect("a pod"); // reads the definitions
    c.bench_function("pod, decode against the schema", |b| {
        b.iter_batched(value, |v| decode(black_box(pod), v), BatchSize::SmallInput);
    });
    c.bench_function("pod, static defaults", |b| {
        let apply = |mut v: Value| {
            apply_defaults(black_box(pod), &mut v);
            v
        };
        b.iter_batched(value, apply, BatchSize::SmallInput);
    });
}

/// A schema of 300 members, and a resource that has all of them.
fn customs(c: &mut Criterion) {
    let groups = (0..30).map(|g| {
        let members = (0..10).map(|m| {
            let member = match m % 4 {
                0 => object! { "type" => "string", "maxLength" => 64, "pattern" => "^[a-z0-9-]+$" },
                1 => object! { "type" => "integer", "minimum" => 0, "maximum" => 1000 },
                2 => object! { "type" => "string", "enum" => vec!["on", "off"], "default" => "on" },
                _ => object! { "type" => "boolean" },
            };
            (Str::from(format!("m{m}")), member)
        });
        let group = object! { "type" => "object", "required" => vec!["m0"], "properties" => members.collect::<Map>() };
        (Str::from(format!("g{g}")), group)
    });
    let spec = object! { "type" => "object", "properties" => groups.collect::<Map>() };
    let props = object! { "type" => "object", "properties" => object! { "spec" => spec } };
    let schema = structural::parse(&props);
    let members = (0..10).map(|m| {
        let value: Value = match m % 4 {
            0 => "a-name".into(),
            1 => 7.into(),
            2 => "off".into(),
            _ => true.into(),
        };
        (Str::from(format!("m{m}")), value)
    });
    let group = Value::Object(members.collect());
    let spec: Map = (0..30).map(|g| (Str::from(format!("g{g}")), group.clone())).collect();
    let resource =
        object! { "apiVersion" => "x.dev/v1", "kind" => "X", "metadata" => object! { "name" => "x" }, "spec" => spec };
    assert!(validate(&schema, &resource, &Path::ROOT).is_empty());
    c.bench_function("custom resource of 300 members, read", |b| {
        b.iter_batched(|| resource.clone(), |mut v| read_custom(black_box(&schema), &mut v), BatchSize::SmallInput);
    });
    c.bench_function("custom resource of 300 members, validate", |b| {
        b.iter(|| validate(black_box(&schema), black_box(&resource), &Path::ROOT));
    });
    c.bench_function("schema of 300 members, parse", |b| b.iter(|| structural::parse(black_box(&props))));
    c.bench_function("schema of 300 members, check", |b| {
        b.iter(|| {
            structural::check(black_box(&props), &Path::ROOT.field("schema"), structural::CheckOptions::default())
        });
    });
}

criterion_group!(benches, builtins, customs);
criterion_main!(benches);
