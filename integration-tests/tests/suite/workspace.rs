//! The shape of the workspace: dependencies point one way, and building needs no protoc.

use std::{collections::HashMap, process::Command};

use serde_json::Value;

#[test]
fn crates_depend_only_downwards() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let allowed: HashMap<&str, &[&str]> = HashMap::from([
        ("machinery", &[][..]),
        ("cel", &["machinery"]),
        ("flowcontrol", &[]),
        ("storage", &["machinery"]),
        ("generic-server", &["machinery", "storage", "flowcontrol", "cel"]),
        ("policies", &["machinery", "storage", "cel", "generic-server"]),
        ("kube-core", &["machinery", "storage", "flowcontrol", "cel", "generic-server", "policies"]),
        ("apiextensions", &["machinery", "storage", "cel", "generic-server"]),
        ("aggregator", &["machinery", "storage", "cel", "generic-server"]),
        (
            "kube-apiserver",
            &[
                "machinery",
                "storage",
                "flowcontrol",
                "cel",
                "generic-server",
                "policies",
                "kube-core",
                "apiextensions",
                "aggregator",
            ],
        ),
        ("integration-tests", &[]),
        ("linear", &["machinery", "storage", "cel", "generic-server", "policies", "kube-core", "apiextensions"]),
    ]);
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let allowed = allowed.get(name).unwrap_or_else(|| panic!("{name} has no place in the order yet"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let of_workspace = dependency["path"].is_string();
            let on = dependency["name"].as_str().expect("a name");
            assert!(!of_workspace || allowed.contains(&on), "{name} must not depend on {on}");
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
