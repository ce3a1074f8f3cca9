//! Reading manifests: YAML or JSON, several documents a file, lists of objects. They are decoded strictly, defaulted and judged
//! like what clients create; and they may name nothing that is in the cluster, for they count before anything there does.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    path::Path,
};

use auth::{User, reload::Directory};
use generic_server::{
    features::Features,
    registry::{defaulted, findings_of_new},
    resource::{Resource, WriteContext},
};
use machinery::{
    Value,
    codec::json,
    config::{ConfigError, Untyped},
    meta::Meta,
    schema::{
        Schema,
        builtin::{self, Scheme},
    },
};

use super::{
    SUFFIX,
    error::{ClientFault, ManifestFault, ObjectFault},
};

/// The kinds that a plugin reads.
pub(super) struct Kinds {
    rows: Vec<Resource>,
    /// Where upstream has its registry of kinds, as its errors say.
    registry: &'static str,
}

/// The objects that a directory holds, by name.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// Policies, or configurations of webhooks.
    pub(crate) objects: Vec<Value>,
    /// Bindings of policies.
    pub(crate) bindings: Vec<Value>,
}

/// What a document is.
enum Decoded<'a> {
    /// Objects of a row.
    Objects(&'a Resource, Vec<Value>),
    /// A list of anything.
    List(Value),
    /// Something that the plugin does not read, as Go calls it.
    Unsupported(String),
}

/// An object, of its row.
struct Read<'a> {
    row: &'a Resource,
    object: Value,
}

impl Kinds {
    pub(super) fn of(plugin: &str, rows: &[Resource]) -> Self {
        let (kinds, registry): (&[&str], _) = match plugin {
            "ValidatingAdmissionPolicy" => (
                &["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"],
                "pkg/admission/plugin/policy/manifest/loader/validating_loader.go:35",
            ),
            "MutatingAdmissionPolicy" => (
                &["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"],
                "pkg/admission/plugin/policy/manifest/loader/validating_loader.go:35",
            ),
            "MutatingAdmissionWebhook" => {
                (&["MutatingWebhookConfiguration"], "pkg/admission/plugin/webhook/manifest/loader/loader.go:41")
            }
            _ => (&["ValidatingWebhookConfiguration"], "pkg/admission/plugin/webhook/manifest/loader/loader.go:41"),
        };
        let rows = rows.iter().filter(|row| kinds.contains(&row.kind.as_str())).cloned().collect();
        Kinds { rows, registry }
    }

    /// The objects in files.
    ///
    /// # Errors
    /// What is wrong with the first one that is wrong, and in which file it stands.
    pub(super) fn load(&self, files: &Directory) -> Result<Loaded, ManifestFault> {
        let mut loaded = Loaded::default();
        let mut seen: HashMap<(&str, String), &Path> = HashMap::new();
        for (path, text) in files.files() {
            let file = || path.display().to_string();
            let documents = documents(text)
                .map_err(|separator| ManifestFault::Separator { file: file(), separator: separator.into_owned() })?;
            for document in documents {
                let read = self.objects(document).and_then(|objects| {
                    for Read { row, object } in objects {
                        check_name(row, &object, path, &mut seen)?;
                        check_constraints(row, &object, path)?;
                        let is_binding = row.kind.ends_with("Binding");
                        if is_binding { &mut loaded.bindings } else { &mut loaded.objects }.push(object);
                    }
                    Ok(())
                });
                read.map_err(|fault| ManifestFault::Object { file: file(), fault })?;
            }
        }
        check_references(&loaded)?;
        for objects in [&mut loaded.objects, &mut loaded.bindings] {
            objects.sort_by(|a, b| Meta::of(a).name().cmp(Meta::of(b).name()));
        }
        Ok(loaded)
    }

    /// The objects of a document: itself, or the items of a list.
    fn objects(&self, text: &[u8]) -> Result<Vec<Read<'_>>, ObjectFault> {
        self.accepted(self.decoded(text)?)
    }

    fn decoded(&self, text: &[u8]) -> Result<Decoded<'_>, ObjectFault> {
        let untyped = Untyped::read(text)?;
        if untyped.kind == "List" {
            return Ok(Decoded::List(untyped.document));
        }
        let (kind, of_list) = match untyped.kind.strip_suffix("List") {
            Some(kind) => (kind, true),
            None => (untyped.kind.as_str(), false),
        };
        let row = self.rows.iter().find(|row| row.kind == kind && row.api_version() == untyped.api_version);
        let Some((row, shape)) = row.and_then(|row| Some((row, shape(&untyped)?))) else {
            return Ok(self.unsupported(untyped)?);
        };
        let document = untyped.shaped(shape)?;
        let objects = match of_list {
            true => document.get("items").and_then(Value::as_array).unwrap_or_default().to_vec(),
            false => vec![document],
        };
        Ok(Decoded::Objects(row, objects))
    }

    fn accepted<'a>(&'a self, decoded: Decoded<'a>) -> Result<Vec<Read<'a>>, ObjectFault> {
        match decoded {
            Decoded::Objects(row, objects) => objects.into_iter().map(|object| self.judged(row, object)).collect(),
            Decoded::Unsupported(go_type) => Err(ObjectFault::Unsupported(go_type)),
            Decoded::List(list) => {
                let mut objects = Vec::new();
                for item in list.get("items").and_then(Value::as_array).unwrap_or_default() {
                    let decoded = self.decoded(&json::encode(item));
                    let decoded = decoded.map_err(|fault| ObjectFault::Item(Box::new(fault)))?;
                    objects.extend(self.accepted(decoded)?);
                }
                Ok(objects)
            }
        }
    }

    fn judged<'a>(&self, row: &'a Resource, object: Value) -> Result<Read<'a>, ObjectFault> {
        let object = defaulted(row, object);
        let user = User::loopback();
        let cx = WriteContext {
            group: &row.group,
            version: &row.version,
            namespace: "",
            subresource: "",
            user: &user,
            // That such names are kept for files is no rule of files.
            features: &Features::default(),
        };
        let errors = findings_of_new(row, &cx, &object);
        if errors.is_empty() {
            return Ok(Read { row, object });
        }
        let name = Meta::of(&object).name().to_owned();
        Err(ObjectFault::Invalid { kind: row.kind.clone(), name, errors })
    }

    fn unsupported(&self, untyped: Untyped) -> Result<Decoded<'_>, ConfigError> {
        match untyped.api_version.rsplit_once('/') {
            _ if untyped.kind == "Status" => Ok(Decoded::Unsupported("v1.Status".to_owned())),
            Some(("admissionregistration.k8s.io", version))
                if Scheme::of_group("admissionregistration.k8s.io").knows(
                    "admissionregistration.k8s.io",
                    version,
                    &untyped.kind,
                ) =>
            {
                Ok(Decoded::Unsupported(format!("{version}.{}", untyped.kind)))
            }
            _ => Err(untyped.unregistered(self.registry).into()),
        }
    }
}

fn shape(untyped: &Untyped) -> Option<&'static Schema> {
    let (group, version) = untyped.api_version.rsplit_once('/')?;
    builtin::schema_of(group, version, &untyped.kind)
}

/// The documents of a file, one after the other.
///
/// # Errors
/// What stands where they are parted and does not belong there.
fn documents(text: &[u8]) -> Result<Vec<&[u8]>, Cow<'_, str>> {
    let (mut documents, mut start, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = rest.trim_ascii();
            if !rest.is_empty() && rest[0] != b'#' {
                return Err(String::from_utf8_lossy(rest));
            }
            if start < at {
                documents.push(&text[start..at]);
                start = end;
            }
        }
        at = end;
    }
    documents.push(&text[start..]);
    documents.iter_mut().for_each(|document| *document = document.trim_ascii());
    documents.retain(|document| !document.is_empty());
    Ok(documents)
}

fn check_name<'a, 'f>(
    row: &'a Resource,
    object: &Value,
    path: &'f Path,
    seen: &mut HashMap<(&'a str, String), &'f Path>,
) -> Result<(), ObjectFault> {
    let (name, file) = (Meta::of(object).name().to_owned(), path.display().to_string());
    if name.is_empty() {
        return Err(ObjectFault::NoName { file });
    }
    if !name.ends_with(SUFFIX) {
        return Err(ObjectFault::NameSuffix { name, file });
    }
    match seen.insert((&row.kind, name.clone()), path) {
        None => Ok(()),
        Some(before) => Err(ObjectFault::Duplicate { name, file, before: before.display().to_string() }),
    }
}

/// What would have to be looked for in the cluster is no part of a manifest.
fn check_constraints(row: &Resource, object: &Value, path: &Path) -> Result<(), ObjectFault> {
    let (kind, name) = (&row.kind, Meta::of(object).name());
    let has = |member: &str| object.at(&["spec", member]).is_some_and(|value| !value.is_null());
    if kind.ends_with("Configuration") {
        let webhooks = object.get("webhooks").and_then(Value::as_array).unwrap_or_default();
        return webhooks.iter().try_for_each(|webhook| check_client(webhook, name, path));
    }
    if !kind.ends_with("Binding") {
        return match has("paramKind") {
            true => Err(ObjectFault::ParamKind { kind: kind.clone(), name: name.to_owned() }),
            false => Ok(()),
        };
    }
    let policy = object.str_at(&["spec", "policyName"]).unwrap_or_default();
    if policy.is_empty() {
        return Err(ObjectFault::NoPolicyName(name.to_owned()));
    }
    if !policy.ends_with(SUFFIX) {
        return Err(ObjectFault::PolicySuffix { binding: name.to_owned(), policy: policy.to_owned() });
    }
    match has("paramRef") {
        true => Err(ObjectFault::ParamRef(name.to_owned())),
        false => Ok(()),
    }
}

fn check_client(webhook: &Value, configuration: &str, path: &Path) -> Result<(), ObjectFault> {
    let client = |member: &str| webhook.at(&["clientConfig", member]).filter(|value| !value.is_null());
    let fault = match client("url").and_then(Value::as_str) {
        _ if client("service").is_some() => ClientFault::Service,
        None | Some("") => ClientFault::NoUrl,
        Some(_) => return Ok(()),
    };
    Err(ObjectFault::Client {
        webhook: webhook.str_at(&["name"]).unwrap_or_default().to_owned(),
        configuration: configuration.to_owned(),
        file: path.display().to_string(),
        fault,
    })
}

fn check_references(loaded: &Loaded) -> Result<(), ManifestFault> {
    let policies: HashSet<&str> = loaded.objects.iter().map(|policy| Meta::of(policy).name()).collect();
    for binding in &loaded.bindings {
        let (name, policy) = (Meta::of(binding).name(), binding.str_at(&["spec", "policyName"]).unwrap_or_default());
        if !policies.contains(policy) {
            return Err(ManifestFault::NoPolicy { binding: name.to_owned(), policy: policy.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_apart_by_lines_of_three_dashes() {
        let check = |text: &str, expect: Result<&[&str], &str>| {
            let found = documents(text.as_bytes());
            let found = found.map(|all| all.into_iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect());
            let expect: Result<Vec<String>, String> =
                expect.map(|all| all.iter().map(|one| (*one).to_owned()).collect()).map_err(str::to_owned);
            assert_eq!(found.map_err(|separator| separator.into_owned()), expect, "{text:?}");
        };
        check("", Ok(&[]));
        check("a: 1\n", Ok(&["a: 1"]));
        check("a: 1\n---\nb: 2", Ok(&["a: 1", "b: 2"]));
        check("a: 1\n--- # next\n\n---\nb: |\n  ---\n", Ok(&["a: 1", "b: |\n  ---"]));
        check("---\na: 1\n", Ok(&["---\na: 1"]));
        check("a: 1\n---b\n", Err("b"));
    }
}
