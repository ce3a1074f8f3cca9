//! The shape of the workspace: dependencies point one way, and building needs no protoc.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The crates, from the bottom up. Each depends on crates of lower layers alone.
const LAYERS: [&[&str]; 10] = [
    &["histograms"],
    &["machinery", "flowcontrol", "traces"],
    &["audit", "cel", "storage", "streaming", "x509"],
    &["outbound", "etcd-server"],
    &["auth"],
    &["generic-server"],
    &["policies"],
    &["kube-core", "apiextensions", "aggregator"],
    &["controllers"],
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

/// Modules of each crate, from its top folder down, import each other in one direction alone.
#[test]
fn modules_form_layers() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let members = manifest.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("members").0;
    for member in members.split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty()) {
        let source = root.join(member).join("src");
        let imports = imports_in(&source);
        for module in imports.keys() {
            let path = path_back(&imports, module);
            assert!(path.is_empty(), "modules of {} import each other: {}", source.display(), path.join(" -> "));
        }
    }
}

/// Of each module at the top of a crate those others that its files name.
fn imports_in(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    collect(source, &mut files);
    let module_of = |file: &Path| -> Vec<String> {
        let inner = file.strip_prefix(source).expect("it is below").with_extension("");
        let parts = inner.iter().map(|part| part.to_string_lossy().into_owned());
        parts.filter(|part| part != "mod").collect()
    };
    let modules: BTreeSet<String> = files.iter().filter_map(|file| module_of(file).into_iter().next()).collect();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in &files {
        let module = module_of(file);
        let [top, ..] = module.as_slice() else { continue };
        if matches!(top.as_str(), "lib" | "main") {
            continue;
        }
        let text = fs::read_to_string(file).expect("a source file");
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join(" ");
        let to_root = ["crate::".to_owned(), "super::".repeat(module.len())];
        let named = to_root.iter().flat_map(|prefix| named_after(&code, prefix));
        let others = named.filter(|name| name != top && modules.contains(name));
        imports.entry(top.clone()).or_default().extend(others);
    }
    imports
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            collect(&entry, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
}

/// The names that follow a prefix of paths: one, or those at the top of a list in braces.
fn named_after(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with([':', '_']) || code[..at].ends_with(|c: char| c.is_alphanumeric()) {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let word =
            |text: &str| text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        let Some(list) = rest.strip_prefix('{') else {
            names.extend(word(rest));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    names.extend(word(&list[start..i]));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.extend(word(&list[start..i]));
                    start = i + 1;
                }
                _ => {}
            }
        }
    }
    names
}

/// A way from a module over others back to itself; empty if there is none.
fn path_back(imports: &BTreeMap<String, BTreeSet<String>>, module: &str) -> Vec<String> {
    let mut open = vec![vec![module.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop() {
        for next in imports.get(path.last().expect("it begins with the module")).into_iter().flatten() {
            let mut longer = path.clone();
            longer.push(next.clone());
            if next == module {
                return longer;
            }
            if seen.insert(next.clone()) {
                open.push(longer);
            }
        }
    }
    Vec::new()
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
