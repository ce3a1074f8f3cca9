//! The rules for `ownerReferences`.

use std::cell::LazyCell;

use crate::json::encode_text;
use crate::meta::accessor::{Meta, OwnerReference};
use crate::meta::field_error::{BadValue, FieldError};
use crate::meta::gvk::GroupVersionKind;
use crate::value::Path;

pub(super) fn validate_owner_references(meta: Meta<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut controller: Option<OwnerReference<'_>> = None;
    let all = LazyCell::new(|| {
        let shown: Vec<String> = meta.owner_references().map(owner_json).collect();
        BadValue::verbatim(format!("[{}]", shown.join(",")))
    });
    for owner in meta.owner_references() {
        validate_owner_reference(owner, path, errors);
        if !owner.is_controller() {
            continue;
        }
        let Some(first) = controller else {
            controller = Some(owner);
            continue;
        };
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {}/{} and {}/{}",
            first.kind(),
            first.name(),
            owner.kind(),
            owner.name()
        );
        errors.push(FieldError::invalid(path, all.clone(), detail));
    }
}

fn validate_owner_reference(owner: OwnerReference<'_>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let kind = GroupVersionKind::from_api_version(owner.api_version(), owner.kind());
    if kind.version.is_empty() {
        errors.push(FieldError::invalid(path.field("apiVersion"), owner.api_version(), "version must not be empty"));
    }
    for (field, text) in [("kind", owner.kind()), ("name", owner.name()), ("uid", owner.uid())] {
        if text.is_empty() {
            errors.push(FieldError::invalid(path.field(field), "", "must not be empty"));
        }
    }
    if kind.group.is_empty() && kind.version == "v1" && kind.kind == "Event" {
        let detail = format!("{kind} is disallowed from being an owner");
        errors.push(FieldError::invalid(path, BadValue::verbatim(owner_json(owner)), detail));
    }
}

/// An owner with its members in the order of upstream's type.
fn owner_json(owner: OwnerReference<'_>) -> String {
    let member = |key: &str, required: bool| match owner.0.get(key) {
        Some(value) if !value.is_null() => Some(format!("\"{key}\":{}", encode_text(value))),
        _ if required => Some(format!("\"{key}\":\"\"")),
        _ => None,
    };
    let members = ["apiVersion", "kind", "name", "uid"].map(|key| member(key, true));
    let flags = ["controller", "blockOwnerDeletion"].map(|key| member(key, false));
    let members: Vec<String> = members.into_iter().chain(flags).flatten().collect();
    format!("{{{}}}", members.join(","))
}
