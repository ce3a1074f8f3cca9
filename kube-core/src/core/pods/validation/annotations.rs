//! Annotations with which pods said things before there were fields for them.

use machinery::{Value, meta::field_error::FieldError};

use super::{
    paths, scheduling,
    scope::{Scope, containers, each_container, name, text},
};
use crate::validation::{Errors, Field, Seen};

/// Set by a kubelet on the image of a pod that it made from a file of its own.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What is wrong with annotations that have a meaning. `old` are those before an update.
pub(super) fn known(annotations: &Field<'_>, old: Option<&Value>, scope: &Scope<'_>, errors: &mut Errors) {
    if annotations.is_empty() {
        return;
    }
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && text(scope.spec, "nodeName").is_empty() {
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set", errors);
    }
    tolerations(annotations, scope, errors);
    let cost = annotations.key(DELETION_COST);
    if errors.has("PodDeletionCost") && cost.is_set() && !is_cost(cost.text()) {
        let before = old.and_then(|old| old.get(DELETION_COST)).and_then(Value::as_str);
        if before.is_none_or(is_cost) {
            cost.invalid("must be a 32bit integer", errors);
        }
    }
    seccomp(annotations, errors);
    app_armor(annotations, scope, errors);
}

/// A number of 32 bits, without a plus sign and without zeros before it.
fn is_cost(text: &str) -> bool {
    (text == "0" || text.starts_with('-') || text.starts_with(|c: char| ('1'..='9').contains(&c)))
        && text.parse::<i32>().is_ok()
}

fn tolerations(annotations: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let given = annotations.key(TOLERATIONS);
    if given.text().is_empty() {
        return;
    }
    match machinery::codec::json::decode(given.text().as_bytes()) {
        Ok(value) => {
            let compares = scheduling::may_compare(scope, errors);
            scheduling::tolerations(&annotations.at(TOLERATIONS).with(&value), compares, errors);
        }
        Err(error) => annotations.invalid_as(TOLERATIONS, error.to_string(), errors),
    }
}

/// Upstream names these as members, not as keys.
fn seccomp(annotations: &Field<'_>, errors: &mut Errors) {
    let check = |key: &str, errors: &mut Errors| {
        let profile = annotations.at(key);
        match profile.text() {
            "runtime/default" | "docker/default" | "unconfined" => {}
            text => match text.strip_prefix("localhost/") {
                Some(path) => paths::descending(&profile.with(&path.into()), errors),
                None => profile.invalid("must be a valid seccomp profile", errors),
            },
        }
    };
    if annotations.at(SECCOMP_POD).is_set() {
        check(SECCOMP_POD, errors);
    }
    annotations.each_key(|key, _| {
        if key.starts_with(SECCOMP_CONTAINER) {
            check(key, errors);
        }
    });
}

fn app_armor(annotations: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let known: Seen<&str> = containers(scope.spec).map(name).collect();
    annotations.each_key(|key, annotation| {
        let Some(container) = key.strip_prefix(APP_ARMOR) else { return };
        if !known.contains(container) {
            annotation.invalid_as(container, "container not found", errors);
        }
        let profile = annotation.text();
        if !matches!(profile, "" | "runtime/default" | "unconfined") && !profile.starts_with("localhost/") {
            let shown = machinery::meta::go_text::quote(profile);
            annotation.invalid(format!("invalid AppArmor profile name: {shown}"), errors);
        }
    });
}

/// What a new pod's annotations and fields say of one profile is the same.
pub(super) fn match_fields(pod: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let metadata = pod.at("metadata");
    let annotations = metadata.at("annotations");
    if !annotations.is_empty() {
        let spec = pod.at("spec");
        seccomp_matches(&spec, annotations.value(), errors);
        if scope.os() != Some("windows") {
            app_armor_matches(&spec, annotations.value(), errors);
        }
    }
}

/// The same of a template, of which only seccomp profiles are compared.
pub(super) fn seccomp_matches(spec: &Field<'_>, annotations: &Value, errors: &mut Errors) {
    let compare = |key: &str, holder: &Field<'_>, errors: &mut Errors| {
        let Some(annotation) = annotations.get(key).and_then(Value::as_str) else { return };
        let context = holder.at("securityContext");
        let profile = context.at("seccompProfile");
        let fine: &[&str] = match profile.at("type").text() {
            "Unconfined" => &["unconfined"],
            "RuntimeDefault" => &["runtime/default", "docker/default"],
            _ => &[],
        };
        matches(annotation, fine, &profile, "seccomp", errors);
    };
    compare(SECCOMP_POD, spec, errors);
    if annotations.as_object().into_iter().flatten().any(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        each_container(spec, |container, value| {
            compare(&format!("{SECCOMP_CONTAINER}{}", name(value)), container, errors);
        });
    }
}

fn app_armor_matches(spec: &Field<'_>, annotations: &Value, errors: &mut Errors) {
    if !annotations.as_object().into_iter().flatten().any(|(key, _)| key.starts_with(APP_ARMOR)) {
        return;
    }
    let of_pod = spec.value().at(&["securityContext", "appArmorProfile"]).unwrap_or(&Value::Null);
    each_container(spec, |container, value| {
        let Some(annotation) = annotations.get(&format!("{APP_ARMOR}{}", name(value))).and_then(Value::as_str) else {
            return;
        };
        let context = container.at("securityContext");
        let own = context.at("appArmorProfile");
        let profile = if own.is_set() { own } else { own.with(of_pod) };
        let fine: &[&str] = match profile.at("type").text() {
            "Unconfined" => &["unconfined"],
            "RuntimeDefault" => &["runtime/default"],
            _ => &[],
        };
        matches(annotation, fine, &profile, "apparmor", errors);
    });
}

fn matches(annotation: &str, fine: &[&str], profile: &Field<'_>, what: &str, errors: &mut Errors) {
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    let wrong_type = || format!("{what} type in annotation and field must match");
    match kind.text() {
        "Unconfined" | "RuntimeDefault" if !fine.contains(&annotation) => kind.forbidden(wrong_type(), errors),
        "Localhost" => match annotation.strip_prefix("localhost/") {
            None => kind.forbidden(wrong_type(), errors),
            Some(path) if !local.is_set() || path != local.text() => {
                local.forbidden(format!("{what} profile in annotation and field must match"), errors);
            }
            Some(_) => {}
        },
        _ => {}
    }
}

/// Annotations that an update may neither change, nor add, nor take away.
pub(super) fn unchanged(new: &Field<'_>, old: &Value, errors: &mut Errors) {
    let old = old.as_object();
    let fixed = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        key if key.starts_with(APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, value) in old.into_iter().flatten() {
        if let Some(what) = fixed(key)
            && new.value().get(key) != Some(value)
        {
            errors.push(FieldError::forbidden(new.key(key), format!("may not remove or update {what}")));
        }
    }
    new.each_key(|key, annotation| {
        if let Some(what) = fixed(key)
            && !old.is_some_and(|old| old.contains_key(key))
        {
            annotation.forbidden(format!("may not add {what}"), errors);
        }
    });
}
