//! The rules for metadata that all kinds share, and those for the options of requests.
//!
//! Errors come in upstream's order with upstream's paths and texts. Maps are walked by key, where upstream's order is
//! random.

mod conditions;
mod options;
mod owners;

pub use conditions::validate_conditions;
pub use options::{validate_dry_run, validate_field_manager, validate_field_validation, validate_propagation};

use std::collections::HashSet;

use owners::validate_owner_references;

use super::accessor::Meta;
use super::field_error::{FieldError, invalid_each};
use super::go_text::quote;
use super::names;
use super::selector::validate_labels;
use crate::value::Path;
use crate::{Map, Str, Value};

/// The finalizer of an Orphan deletion.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer of a Foreground deletion.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
/// What an update says of a field that it may not change.
pub const IMMUTABLE: &str = "field is immutable";

const MAX_ANNOTATIONS: usize = 256 * 1024; // bytes, keys and values together
const MAX_SUBRESOURCE: usize = 256;

/// The metadata of a new object, its name generated already.
pub fn validate_object_meta(
    meta: Meta<'_>,
    namespaced: bool,
    rule: impl Fn(&str, bool) -> Vec<String>,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let generate_name = meta.generate_name();
    let mut errors = match generate_name {
        "" => Vec::new(),
        prefix => invalid_each(path.field("generateName"), prefix, rule(prefix, true)),
    };
    match meta.name() {
        "" => errors.push(FieldError::required(path.field("name"), "name or generateName is required")),
        name => errors.extend(invalid_each(path.field("name"), name, rule(name, false))),
    }
    validate_namespace(meta, namespaced, path, &mut errors);
    if meta.generation() < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(path.field("generation"), meta.generation(), detail));
    }
    validate_maps_and_owners(meta, path, &mut errors);
    validate_finalizers(meta, &path.field("finalizers"), &mut errors);
    errors.extend(validate_managed_fields(meta.managed_fields(), &path.field("managedFields")));
    errors
}

/// The names of a new object, as parts of paths.
pub fn validate_path_names(meta: Meta<'_>) -> Vec<FieldError> {
    let (metadata, prefix, name) = (Path::ROOT.field("metadata"), meta.generate_name(), meta.name());
    let mut errors = Vec::new();
    if !prefix.is_empty() {
        errors.extend(invalid_each(metadata.field("generateName"), prefix, names::path_segment_prefix(prefix)));
    }
    errors.extend(invalid_each(metadata.field("name"), name, names::path_segment_name(name)));
    errors
}

fn validate_namespace(meta: Meta<'_>, namespaced: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let field = path.field("namespace");
    match (namespaced, meta.namespace()) {
        (true, "") => errors.push(FieldError::required(field, "")),
        (true, name) => errors.extend(invalid_each(field, name, names::dns1123_label(name))),
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(field, "not allowed on this type")),
    }
}

/// Labels, annotations, owners: what creations and updates check alike.
fn validate_maps_and_owners(meta: Meta<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(labels) = meta.labels() {
        errors.extend(validate_labels(labels, &path.field("labels")));
    }
    if let Some(annotations) = meta.annotations() {
        errors.extend(validate_annotations(annotations, &path.field("annotations")));
    }
    validate_owner_references(meta, &path.field("ownerReferences"), errors);
}

/// The metadata of a changed object. (That of an update begins with [`validate_common_update`], which has all of this.)
pub fn validate_object_meta_update(new: Meta<'_>, old: Meta<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_terminating() {
        let before: HashSet<&str> = old.finalizers().collect();
        let mut added: Vec<&str> = new.finalizers().filter(|f| !before.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let quoted: Vec<String> = added.into_iter().map(quote).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.push(FieldError::forbidden(path.field("finalizers"), detail));
        }
    }
    if new.resource_version().is_empty() {
        errors.push(FieldError::invalid(path.field("resourceVersion"), "", "must be specified for an update"));
    }
    if new.generation() < old.generation() {
        errors.push(FieldError::invalid(path.field("generation"), new.generation(), "must not be decremented"));
    }
    let mut immutable =
        |name: &str, new: Value, old: Value| errors.extend(validate_immutable(new, old, path.field(name)));
    immutable("name", new.name().into(), old.name().into());
    immutable("namespace", new.namespace().into(), old.namespace().into());
    immutable("uid", new.uid().into(), old.uid().into());
    immutable("creationTimestamp", new.creation_timestamp().into(), old.creation_timestamp().into());
    immutable("deletionTimestamp", new.deletion_timestamp().into(), old.deletion_timestamp().into());
    let grace = |meta: Meta<'_>| meta.deletion_grace_period_seconds().into();
    immutable("deletionGracePeriodSeconds", grace(new), grace(old));
    validate_maps_and_owners(new, path, &mut errors);
    errors.extend(validate_managed_fields(new.managed_fields(), &path.field("managedFields")));
    errors
}

/// What every update of every kind is checked for before its own rules: the metadata as if it were new, with names that
/// fit a path, and against the old.
pub fn validate_common_update(new: Meta<'_>, old: Meta<'_>, namespaced: bool) -> Vec<FieldError> {
    let path = Path::ROOT.field("metadata");
    let mut errors = validate_object_meta(new, namespaced, names::name_is_path_segment, &path);
    errors.extend(validate_object_meta_update(new, old, &path));
    errors
}

/// A field that an update may not change; absent and empty are the same.
pub fn validate_immutable(new: Value, old: Value, path: impl std::fmt::Display) -> Option<FieldError> {
    (!new.semantic_eq(&old)).then(|| FieldError::invalid(path, new, IMMUTABLE))
}

/// A map of annotations: keys as those of labels but in any case, and a limit for all together.
pub fn validate_annotations(annotations: &Map, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.as_str().map_or(0, str::len);
        // copied only if there is an upper case
        let messages = match key.bytes().any(|c| c.is_ascii_uppercase()) || !key.is_ascii() {
            true => names::qualified_name(&key.to_lowercase()),
            false => names::qualified_name(key),
        };
        errors.extend(invalid_each(path, key, messages));
    }
    if size > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS));
    }
    errors
}

fn validate_finalizers(meta: Meta<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    for finalizer in meta.finalizers() {
        errors.extend(invalid_each(path, finalizer, names::qualified_name(finalizer)));
    }
    if meta.has_finalizer(FINALIZER_ORPHAN) && meta.has_finalizer(FINALIZER_FOREGROUND) {
        let shown: Value = meta.finalizers().map(Value::from).collect();
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, shown, detail));
    }
}

/// What built-in kinds ask of finalizers beyond [`validate_object_meta`], on creation and on update: a domain, unless it is
/// one of Kubernetes' own.
pub fn validate_kube_finalizers(meta: Meta<'_>, path: &Path<'_>) -> Vec<FieldError> {
    let list = path.field("finalizers");
    let odd = |(i, finalizer): (usize, &str)| {
        let known = matches!(finalizer, "kubernetes" | FINALIZER_ORPHAN | FINALIZER_FOREGROUND);
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        (!known && !finalizer.contains('/')).then(|| FieldError::invalid(list.index(i), finalizer, detail))
    };
    meta.finalizers().enumerate().filter_map(odd).collect()
}

/// The entries of managedFields.
pub fn validate_managed_fields(entries: &[Value], path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or("");
        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            errors.push(FieldError::invalid(path.field("operation"), operation, "must be `Apply` or `Update`"));
        }
        let fields_type = text("fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(FieldError::invalid(path.field("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        errors.extend(validate_field_manager(text("manager"), path.field("manager")));
        if text("subresource").len() > MAX_SUBRESOURCE {
            errors.push(FieldError::too_long(path.field("subresource"), MAX_SUBRESOURCE));
        }
    }
    errors
}

/// The keys of a map, each of which must keep a rule of [`names`]: errors at `path[key]`.
pub fn validate_keys(map: &Map, path: &Path<'_>, rule: fn(&str) -> Vec<String>) -> Vec<FieldError> {
    map.keys().flat_map(|key: &Str| invalid_each(path.key(key), key, rule(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn create(mut metadata: Value, want: &[&str]) {
        metadata.set(&["namespace"], "ns");
        let path = Path::ROOT.field("metadata");
        let meta = Meta::new(&metadata);
        let mut errors = validate_object_meta(meta, true, names::name_is_dns_subdomain, &path);
        errors.extend(validate_kube_finalizers(meta, &path));
        assert_eq!(texts(errors), want);
    }

    fn update(old: Value, change: &[(&str, Value)], want: &[&str]) {
        let mut new = old.clone();
        for (key, value) in change {
            new.set(&[*key], value.clone());
        }
        let errors = validate_object_meta_update(Meta::new(&new), Meta::new(&old), &Path::ROOT.field("metadata"));
        assert_eq!(texts(errors), want);
    }

    #[test]
    fn names_must_be_there_and_fit() {
        create(object! { "name" => "ok" }, &[]);
        create(object! {}, &["metadata.name: Required value: name or generateName is required"]);
        create(object! { "name" => "Upper" }, &[&format!(r#"metadata.name: Invalid value: "Upper": {SUBDOMAIN}"#)]);
        create(
            object! { "name" => "fine", "generateName" => "Bad_" },
            &[&format!(r#"metadata.generateName: Invalid value: "Bad_": {SUBDOMAIN}"#)],
        );
        create(
            object! { "name" => "ok", "generation" => -1 },
            &["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
        );
        let path = Path::ROOT.field("metadata");
        let scoped = object! { "name" => "a", "namespace" => "b" };
        let errors = validate_object_meta(Meta::new(&scoped), false, names::name_is_path_segment, &path);
        assert_eq!(texts(errors), ["metadata.namespace: Forbidden: not allowed on this type"]);
        let errors =
            validate_object_meta(Meta::new(&object! { "name" => "a" }), true, names::name_is_path_segment, &path);
        assert_eq!(texts(errors), ["metadata.namespace: Required value"]);
    }

    #[test]
    fn labels_and_annotations() {
        create(
            object! { "name" => "ok", "labels" => object! { "" => "x" } },
            &[
                r#"metadata.labels: Invalid value: "": name part must be non-empty"#,
                &format!(r#"metadata.labels: Invalid value: "": {NAME_PART}"#),
            ],
        );
        create(
            object! { "name" => "ok", "annotations" => object! { "a b" => "x", "UP.example/B" => "" } },
            &[&format!(r#"metadata.annotations: Invalid value: "a b": {NAME_PART}"#)],
        );
        let big = "x".repeat(MAX_ANNOTATIONS);
        create(
            object! { "name" => "ok", "annotations" => object! { "a" => big } },
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        );
    }

    #[test]
    fn finalizers() {
        let odd = "name is neither a standard finalizer name nor is it fully qualified";
        create(
            object! { "name" => "fin", "finalizers" => array!["bad fin", "noprefix", "a.example/x", "kubernetes"] },
            &[
                &format!(r#"metadata.finalizers: Invalid value: "bad fin": {NAME_PART}"#),
                &format!(r#"metadata.finalizers[0]: Invalid value: "bad fin": {odd}"#),
                &format!(r#"metadata.finalizers[1]: Invalid value: "noprefix": {odd}"#),
            ],
        );
        create(
            object! { "name" => "fin", "finalizers" => array!["orphan", "foregroundDeletion"] },
            &[
                r#"metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#,
            ],
        );
    }

    #[test]
    fn owners() {
        create(
            object! { "name" => "own", "ownerReferences" => array![
                object! { "apiVersion" => "v1", "kind" => "Pod", "name" => "", "uid" => "" },
                object! { "apiVersion" => "a/b/c", "kind" => "K", "name" => "x", "uid" => "y" },
                object! { "apiVersion" => "v1", "kind" => "Event", "name" => "x", "uid" => "y" },
            ] },
            &[
                r#"metadata.ownerReferences.name: Invalid value: "": must not be empty"#,
                r#"metadata.ownerReferences.uid: Invalid value: "": must not be empty"#,
                r#"metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty"#,
                r#"metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"x","uid":"y"}: /v1, Kind=Event is disallowed from being an owner"#,
            ],
        );
        let owner = |name: &str, uid: &str| {
            object! { "apiVersion" => "v1", "kind" => "Pod", "name" => name, "uid" => uid, "controller" => true }
        };
        create(
            object! { "name" => "own", "ownerReferences" => array![owner("x", "u1"), owner("z", "u2")] },
            &[
                r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"x","uid":"u1","controller":true},{"apiVersion":"v1","kind":"Pod","name":"z","uid":"u2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/x and Pod/z"#,
            ],
        );
    }

    #[test]
    fn managed_fields() {
        create(
            object! { "name" => "m", "managedFields" => array![object! {
                "operation" => "Do", "fieldsType" => "V2", "manager" => "a\nb", "subresource" => "s".repeat(257),
            }] },
            &[
                r#"metadata.managedFields[0].operation: Invalid value: "Do": must be `Apply` or `Update`"#,
                r#"metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`"#,
                r#"metadata.managedFields[0].manager: Invalid value: "a\nb": invalid character U+000A (at position 1)"#,
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ],
        );
    }

    #[test]
    fn an_update_keeps_what_the_server_set() {
        let old =
            object! { "name" => "a", "namespace" => "n", "uid" => "u", "resourceVersion" => "1", "generation" => 2 };
        update(old.clone(), &[("labels", object! { "a" => "b" })], &[]);
        update(
            old.clone(),
            &[("uid", "other".into()), ("generation", 1.into()), ("deletionGracePeriodSeconds", 3.into())],
            &[
                "metadata.generation: Invalid value: 1: must not be decremented",
                r#"metadata.uid: Invalid value: "other": field is immutable"#,
                "metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable",
            ],
        );
        update(
            old.clone(),
            &[("deletionTimestamp", "2001-01-01T00:00:00Z".into())],
            &[r#"metadata.deletionTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable"#],
        );
        update(
            old.clone(),
            &[("resourceVersion", "".into())],
            &[r#"metadata.resourceVersion: Invalid value: "": must be specified for an update"#],
        );
        let mut terminating = old;
        terminating.set(&["deletionTimestamp"], "2001-01-01T00:00:00Z");
        terminating.set(&["finalizers"], array!["a/b"]);
        update(
            terminating.clone(),
            &[("finalizers", array!["a/b", "c/d"])],
            &[
                r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"c/d"}"#,
            ],
        );
        update(
            terminating,
            &[("deletionTimestamp", Value::Null)],
            &["metadata.deletionTimestamp: Invalid value: null: field is immutable"],
        );
    }
}
