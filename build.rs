//! Finds out what is being built: the commit, whether the tree differs from it, and when. A packager, whose sources lie in
//! no checkout, says it in `KUBE_GIT_COMMIT`, `KUBE_GIT_TREE_STATE` and `SOURCE_DATE_EPOCH`. And it tells the linker of a
//! release to keep one of functions that are the same.

use std::{
    env,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// What the server is made of: what changes here can make the tree differ from its commit.
const SOURCES: [&str; 13] = [
    "build.rs",
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "generic-server/src",
    "generic-server/build.rs",
    "generic-server/machinery/src",
    "generic-server/storage/src",
    "generic-server/cel/src",
    "policies/src",
    "kube-core/src",
    "apiextensions/src",
    "aggregator/src",
];

fn main() {
    for name in ["KUBE_GIT_COMMIT", "KUBE_GIT_TREE_STATE", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(head) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={head}");
    }
    let commit = given("KUBE_GIT_COMMIT").or_else(|| git(&["rev-parse", "HEAD"])).unwrap_or_default();
    let state = given("KUBE_GIT_TREE_STATE").or_else(|| {
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        Some(if changes.is_empty() { "clean" } else { "dirty" }.to_owned())
    });
    let state = state.unwrap_or_default();
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_TREE_STATE={state}");
    println!("cargo::rustc-env=BUILD_SECONDS={}", seconds(&state));
    // Generic code is compiled once for each type, and much of it is the same then. For this target rustc brings a linker
    // (lld) that knows the option; Rust promises nobody that functions have different addresses.
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|it| it == value);
    if is("PROFILE", "release") && is("TARGET", "x86_64-unknown-linux-gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

fn given(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// When it is built; a clean checkout as of its commit, so that whoever builds it again gets the same.
fn seconds(state: &str) -> i64 {
    let given = given("SOURCE_DATE_EPOCH").and_then(|text| text.parse().ok());
    let of_commit = || (state == "clean").then(|| git(&["log", "-1", "--format=%ct"])?.parse().ok()).flatten();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed());
    given.or_else(of_commit).unwrap_or_else(now)
}

/// What git says of the checkout, if this is one.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
