//! What rules cost: compiled once for each definition, evaluated for each write.

use std::hint::black_box;
use std::sync::Arc;

use cel::{Decl, Env, from_json};
use criterion::{Criterion, criterion_group, criterion_main};
use machinery::{Value, array, object, schema::structural};

const RULES: [(&str, &str); 3] = [
    ("comparison", "self.replicas >= 1 && self.replicas <= self.most"),
    ("list", "self.ports.all(p, p.port > 0 && (!has(p.name) || p.name.matches('^[a-z-]+$')))"),
    ("text", "self.image.startsWith('registry.example/') && !self.image.endsWith(':latest')"),
];

fn schema() -> Value {
    object! {
        "type" => "object",
        "properties" => object! {
            "replicas" => object! { "type" => "integer" },
            "most" => object! { "type" => "integer" },
            "image" => object! { "type" => "string", "maxLength" => 200 },
            "ports" => object! { "type" => "array", "maxItems" => 20, "items" => object! {
                "type" => "object",
                "properties" => object! { "port" => object! { "type" => "integer" }, "name" => object! { "type" => "string", "maxLength" => 15 } },
            } },
        },
    }
}

fn rules(c: &mut Criterion) {
    let decl = Decl::of_schema(&structural::parse(&schema()), false, "self").map(Arc::new).expect("it has a type");
    let env = Env::new().variable_with("self", &decl);
    let port = |n: i64| object! { "port" => n, "name" => "http-alt" };
    let ports: Vec<Value> = (1..11).map(port).collect();
    let object = object! { "replicas" => 3, "most" => 5, "image" => "registry.example/app:1.2", "ports" => Value::from(ports), "x" => array![] };
    for (name, text) in RULES {
        c.bench_function(&format!("compile {name}"), |b| b.iter(|| env.compile(black_box(text))));
        let program = env.compile(text).expect("it compiles");
        c.bench_function(&format!("evaluate {name}"), |b| {
            b.iter(|| {
                let variables = [from_json(&object, &decl).expect("it fits")];
                program.evaluate(black_box(&variables[..]), 1_000_000)
            });
        });
    }
}

criterion_group!(benches, rules);
criterion_main!(benches);
