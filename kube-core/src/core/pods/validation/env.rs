//! Environment variables, and the fields of a pod that variables and files may show.

use std::collections::HashMap;

use machinery::{
    Value,
    meta::{names, quantity::Quantity},
};

use super::{
    paths,
    scope::{containers, each_container, has, list, name, text},
};
use crate::validation::{Errors, Field};

/// The fields that a variable may show, in order.
const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The fields that a file may show, in order.
pub(super) const FILE_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// The fields of a pod that have a place in the downward API at all.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
    "spec.host",
];

/// What a container's limits and requests can be shown of, in order.
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A container's variables.
pub(super) fn variables(variables: &Field<'_>, errors: &mut Errors) {
    variables.each(|variable| {
        variable.at("name").check_given(names::relaxed_env_var_name, errors);
        let from = variable.at("valueFrom");
        if from.is_set() {
            value_from(&from, variable.at("value").text(), errors);
        }
    });
}

fn value_from(from: &Field<'_>, value: &str, errors: &mut Errors) {
    let mut sources = 0;
    for source in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let reference = from.at(source);
        if !reference.is_set() {
            continue;
        }
        sources += 1;
        match source {
            "fieldRef" => object_field(&reference, ENV_FIELDS, errors),
            "resourceFieldRef" => resource_field(&reference, false, errors),
            "fileKeyRef" => file_key(&reference, errors),
            _ => key(&reference, errors),
        }
    }
    match sources {
        0 => {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                          `fileKeyRef`";
            from.invalid_as("", detail, errors);
        }
        _ if !value.is_empty() => from.invalid_as("", "may not be specified when `value` is not empty", errors),
        1 => {}
        _ => from.invalid_as("", "may not have more than one field specified at a time", errors),
    }
}

fn key(reference: &Field<'_>, errors: &mut Errors) {
    reference.at("name").check(names::dns1123_subdomain, errors);
    reference.at("key").check_given(names::config_map_key, errors);
}

fn file_key(reference: &Field<'_>, errors: &mut Errors) {
    reference.at("key").check_given(names::relaxed_env_var_name, errors);
    reference.at("volumeName").check_given(names::dns1123_label, errors);
    let path = reference.at("path");
    if path.is_given(errors) {
        paths::no_backsteps(&path, errors);
    }
}

/// Variables from files: each file is in a folder that containers share.
pub(super) fn file_volumes(spec: &Field<'_>, errors: &mut Errors) {
    let is_from_file = |variable: &Value| variable.at(&["valueFrom", "fileKeyRef"]).is_some();
    if !containers(spec.value()).any(|container| list(container, "env").iter().any(is_from_file)) {
        return;
    }
    let volumes: HashMap<&str, &Value> = list(spec.value(), "volumes").iter().map(|v| (name(v), v)).collect();
    each_container(spec, |container, _| {
        container.at("env").each(|variable| {
            let from = variable.at("valueFrom");
            let reference = from.at("fileKeyRef");
            if !reference.is_set() {
                return;
            }
            let volume = reference.at("volumeName");
            match volumes.get(volume.text()) {
                None => volume.not_found_text(errors),
                Some(v) if !has(v, "emptyDir") => {
                    volume.invalid_text("referenced volume must be of type emptyDir", errors);
                }
                Some(_) => {}
            }
        });
    });
}

/// A field of the pod, by its path.
pub(super) fn object_field(reference: &Field<'_>, allowed: &[&str], errors: &mut Errors) {
    let path = reference.at("fieldPath");
    if !reference.at("apiVersion").is_given(errors) || !path.is_given(errors) {
        return;
    }
    let version = text(reference.value(), "apiVersion");
    let given = path.text();
    let (field, subscript) = match subscripted(given) {
        Some((field, subscript)) => (field, Some(subscript)),
        None => (given, None),
    };
    let refused = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if subscript.is_some() && !matches!(field, "metadata.annotations" | "metadata.labels") {
        Some(format!("field label does not support subscript: {given}"))
    } else if !KNOWN_FIELDS.contains(&field) {
        Some(format!("field label not supported: {given}"))
    } else {
        None
    };
    if let Some(reason) = refused {
        return path.invalid(format!("error converting fieldPath: {reason}"), errors);
    }
    let Some(subscript) = subscript else {
        let field = if field == "spec.host" { "spec.nodeName" } else { field };
        if !allowed.contains(&field) {
            path.with(&field.into()).not_supported(allowed, errors);
        }
        return;
    };
    let lowered = if field == "metadata.annotations" { subscript.to_lowercase() } else { subscript.to_owned() };
    for message in names::qualified_name(&lowered) {
        reference.invalid_as(lowered.as_str(), message, errors);
    }
}

/// `path['key']` in two.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (field, rest) = path.strip_suffix("']")?.split_once("['")?;
    (!field.is_empty()).then_some((field, rest))
}

/// A container's limit or request.
pub(super) fn resource_field(reference: &Field<'_>, in_volume: bool, errors: &mut Errors) {
    let resource = reference.at("resource");
    let huge = |r: &str| r.starts_with("limits.hugepages-") || r.starts_with("requests.hugepages-");
    if in_volume && reference.at("containerName").is_empty() {
        reference.at("containerName").required("", errors);
    } else if resource.is_given(errors) && !RESOURCES.contains(&resource.text()) && !huge(resource.text()) {
        resource.not_supported(RESOURCES, errors);
    }
    let divisor = reference.at("divisor");
    let Ok(quantity) = Quantity::from_value(divisor.value()) else { return };
    if quantity.is_zero() {
        return;
    }
    let name = resource.text();
    let (fine, detail) = match name.split_once('.').unwrap_or_default() {
        ("limits" | "requests", "cpu") => (&["1m", "1"][..], "1m and 1 are supported with the cpu resource"),
        ("limits" | "requests", "memory") => (UNITS, MEMORY),
        ("limits" | "requests", "ephemeral-storage") => (UNITS, STORAGE),
        _ if huge(name) => (UNITS, HUGE_PAGES),
        _ => return,
    };
    if !fine.contains(&quantity.text().as_str()) {
        divisor.invalid_as(name, format!("only divisor's values {detail}"), errors);
    }
}

/// What amounts of bytes can be counted in.
const UNITS: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const MEMORY: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource";
const STORAGE: &str =
    "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource";
const HUGE_PAGES: &str =
    "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource";

/// Objects whose keys become variables.
pub(super) fn from_objects(sources: &Field<'_>, errors: &mut Errors) {
    sources.each(|source| {
        source.at("prefix").check_some(names::relaxed_env_var_name, errors);
        let references = [source.at("configMapRef"), source.at("secretRef")];
        for reference in references.iter().filter(|r| r.is_set()) {
            reference.at("name").check_given(|name| names::name_is_dns_subdomain(name, true), errors);
        }
        match references.iter().filter(|r| r.is_set()).count() {
            0 => sources.invalid_as("", "must specify one of: `configMapRef` or `secretRef`", errors),
            1 => {}
            _ => sources.invalid_as("", "may not have more than one field specified at a time", errors),
        }
    });
}
