//! AppArmor profiles in annotations, from before there was a field.

use machinery::{Str, Value, object};

use crate::defaults::{each, part};

const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Writes annotated profiles into the containers that have none of their own, and where the pod's says something else.
pub(super) fn sync(pod: &mut Value) {
    let Some(annotations) = pod.at(&["metadata", "annotations"]).and_then(Value::as_object).cloned() else { return };
    if !annotations.keys().any(|k| k.starts_with(PREFIX)) || pod.str_at(&["spec", "os", "name"]) == Some("windows") {
        return;
    }
    let of_pod = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    let Some(spec) = pod.get_mut("spec") else { return };
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, list, |container| {
            let key = format!("{PREFIX}{}", container.str_at(&["name"]).unwrap_or_default());
            let annotated = annotations.get(&key).and_then(Value::as_str).and_then(profile);
            let has_own = container.at(&["securityContext", "appArmorProfile"]).is_some();
            if let Some(profile) = annotated.filter(|p| !has_own && of_pod.as_ref() != Some(p)) {
                part(container, "securityContext").set(&["appArmorProfile"], profile);
            }
        });
    }
}

/// The field's value for an annotation's.
pub(super) fn profile(text: &str) -> Option<Value> {
    match text.strip_prefix("localhost/") {
        Some("") => None,
        Some(name) => Some(object! { "type" => "Localhost", "localhostProfile" => Str::from(name) }),
        None => match text {
            "unconfined" => Some(object! { "type" => "Unconfined" }),
            "runtime/default" => Some(object! { "type" => "RuntimeDefault" }),
            _ => None,
        },
    }
}
