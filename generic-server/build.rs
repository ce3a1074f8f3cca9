//! Gathers the documentation of the built-in types from the sources of the k8s-openapi crate, so that the server can explain
//! them without a word of it in this repository. Where the sources are not found, types go without.
//!
//! The result is one text, `docs.txt`: a record per definition and member, sorted by bytes, each `definition US member US
//! text RS`. The member of a definition's own text is empty.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Ends a record; occurs in no text.
const RECORD: char = '\u{1e}';
/// Ends a part of a record.
const UNIT: char = '\u{1f}';
/// The Kubernetes version whose types are described.
const VERSION: &str = "v1_36";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut records = Vec::new();
    match sources() {
        Some(folder) => read_folder(&folder, &mut records),
        None => println!("cargo::warning=the sources of k8s-openapi were not found: types will have no documentation"),
    }
    records.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("docs.txt");
    fs::write(out, records.concat()).expect("OUT_DIR can be written");
}

/// The folder of the types: in cargo's registry, or wherever else cargo has the crate (vendored, a path).
fn sources() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten();
    let crates = registries.filter_map(|registry| fs::read_dir(registry.path()).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = crates
        .filter(|folder| folder.file_name().to_string_lossy().starts_with("k8s-openapi-"))
        .map(|folder| folder.path().join("src").join(VERSION))
        .filter(|types| types.is_dir())
        .collect();
    found.sort();
    found.pop().or_else(|| {
        let types = manifest_folder()?.join("src").join(VERSION);
        types.is_dir().then_some(types)
    })
}

/// Where cargo itself says that the crate is.
fn manifest_folder() -> Option<PathBuf> {
    let output = Command::new(env::var_os("CARGO")?)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .current_dir(env::var_os("CARGO_MANIFEST_DIR")?)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let path = text.split("\"manifest_path\":\"").skip(1).filter_map(|rest| rest.split('"').next());
    let path = path.filter(|path| path.contains("k8s-openapi")).last()?;
    Path::new(path).parent().map(Path::to_path_buf)
}

fn read_folder(folder: &Path, records: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_folder(&path, records);
        } else if let Ok(text) = fs::read_to_string(&path) {
            read_type(&text, records);
        }
    }
}

/// One file has one definition: a comment names it, `pub struct` and its members follow with their documentation.
fn read_type(text: &str, records: &mut Vec<String>) {
    let Some(definition) = text.lines().find_map(|line| line.strip_prefix("// Generated from definition ")) else {
        return;
    };
    let names = json_names(text);
    let mut docs: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.strip_prefix(' ').unwrap_or(doc));
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        if !docs.is_empty()
            && let Some(item) = line.strip_prefix("pub ")
        {
            let is_type = item.starts_with("struct ") || item.starts_with("enum ");
            let name = item.split(':').next().unwrap_or_default();
            let member = if is_type { Some("") } else { names.get(name).copied() };
            if let Some(member) = member {
                records.push(format!("{definition}{UNIT}{member}{UNIT}{}{RECORD}", plain(&docs.join("\n"))));
            }
        }
        if line == "}" && !docs.is_empty() {
            return;
        }
        docs.clear();
        if line.starts_with("impl ") {
            return; // what follows are implementations
        }
    }
}

/// The text without the backslashes that protect it from being read as Markdown.
fn plain(text: &str) -> String {
    let (mut out, mut letters) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => letters.next_if(|next| matches!(next, '\\' | '[' | ']' | '<' | '>')).unwrap_or(letter),
            _ => letter,
        });
    }
    out
}

/// JSON names of members by their Rust names: `"apiVersion" => Field::Key_api_version,`.
fn json_names(text: &str) -> HashMap<&str, &str> {
    let pairs = text.lines().filter_map(|line| {
        let (json, rust) = line.trim().strip_prefix('"')?.split_once("\" => Field::Key_")?;
        Some((rust.trim_end_matches(','), json))
    });
    pairs.collect()
}
