//! The shape of the workspace: dependencies point one way, and building needs no protoc.

use std::process::Command;

use serde_json::Value;

/// The crates, from the bottom up. Each depends on crates of lower layers alone.
const LAYERS: [&[&str]; 8] = [
    &["machinery", "flowcontrol"],
    &["cel", "storage", "x509"],
    &["outbound"],
    &["auth"],
    &["generic-server"],
    &["policies"],
    &["kube-core", "apiextensions", "aggregator"],
    &["kube-apiserver", "integration-tests", "linear"],
];

fn layer_of(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&name))
}

#[test]
fn crates_depend_only_downwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let layer = layer_of(name).unwrap_or_else(|| panic!("{name} has no place in the order yet"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().expect("a name");
            let below = layer_of(on).is_some_and(|other| other < layer);
            assert!(!dependency["path"].is_string() || below, "{name} must not depend on {on}");
        }
    }
}

#[test]
fn the_shim_finds_a_protoc_where_there_is_none() {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/protoc"))
        .arg("--version")
        .env("PATH", "/usr/bin:/bin")
        .output()
        .expect("the shim runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("libprotoc"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
