//! Rules of storage classes and drivers.

use generic_server::resource::WriteContext;
use machinery::{Value, array};

use super::validation;
use crate::{
    core::pods::warnings::renamed,
    defaults::{is_empty, pointer, within},
    strategy::{Rules, restore},
    validation::Field,
};

/// The rules of storage classes.
pub(super) const STORAGE_CLASSES: Rules = Rules { warn: class_warnings, ..CLASSES };

const CLASSES: Rules = Rules::PLAIN
    .returns_deleted()
    .defaults(|class| {
        pointer(class, "reclaimPolicy", "Delete");
        pointer(class, "volumeBindingMode", "Immediate");
    })
    .validate(validation::class)
    .revalidate(|cx, new, _, errors| validation::class(cx, new, errors))
    .validate_update(validation::class_update);

/// Warnings for the author of a storage class: labels of nodes that have newer names.
fn class_warnings(class: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut out = Vec::new();
    Field::root(class).at("allowedTopologies").each(|topology| {
        topology.at("matchLabelExpressions").each(|requirement| {
            let key = requirement.at("key");
            out.extend(renamed(key.text()).map(|what| format!("{key}: {what}")));
        });
    });
    out
}

/// The rules of CSI drivers.
pub(super) const CSI_DRIVERS: Rules = Rules::PLAIN
    .conditional()
    .returns_deleted()
    .defaults(driver)
    .feature_defaults("VolumeLimitScaling", |driver| {
        within(driver, "spec", |spec| pointer(spec, "preventPodSchedulingIfMissing", false));
    })
    .update(update_driver)
    .warn(driver_warnings)
    .validate(validation::driver)
    .validate_update(validation::driver_update);

/// Warnings for the author of a driver that is given tokens, when these are new.
fn driver_warnings(driver: &Value, old: Option<&Value>) -> Vec<String> {
    let tokens = |driver: &Value| driver.at(&["spec", "tokenRequests"]).cloned().unwrap_or_default();
    let requests = tokens(driver);
    let in_secrets = driver.at(&["spec", "serviceAccountTokenInSecrets"]).is_some_and(|v| !v.is_null());
    let changed = !old.is_some_and(|old| tokens(old).semantic_eq(&requests));
    if in_secrets || is_empty(Some(&requests)) || !changed {
        return Vec::new();
    }
    vec![
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging \
         of tokens in volume attributes"
            .to_owned(),
    ]
}

/// The rules of what drivers tell of nodes.
pub(super) const CSI_NODES: Rules =
    Rules::PLAIN.conditional().returns_deleted().validate(validation::node).validate_update(validation::node_update);

/// The rules of attachments.
pub(super) const ATTACHMENTS: Rules = Rules::STATUS
    .conditional()
    .returns_deleted()
    .status_alone()
    .validate(validation::attachment)
    .validate_update(validation::attachment_update)
    .validate_status(validation::attachment_update);

/// The rules of capacities.
pub(super) const CAPACITIES: Rules = Rules::PLAIN
    .conditional()
    .validate(validation::capacity)
    .revalidate(validation::capacity_again)
    .validate_update(validation::capacity_update);

/// The rules of classes of attributes.
pub(super) const ATTRIBUTES_CLASSES: Rules =
    Rules::PLAIN.returns_deleted().validate(validation::attributes).validate_update(validation::attributes_update);

fn driver(driver: &mut Value) {
    within(driver, "spec", |spec| {
        pointer(spec, "attachRequired", true);
        pointer(spec, "podInfoOnMount", false);
        pointer(spec, "storageCapacity", false);
        pointer(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if is_empty(spec.get("volumeLifecycleModes")) {
            spec.set(&["volumeLifecycleModes"], array!["Persistent"]);
        }
        pointer(spec, "requiresRepublish", false);
        pointer(spec, "seLinuxMount", false);
    });
}

/// Drivers count changes of what may change, and only those: a new one has no generation.
fn update_driver(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    let generation = ["metadata", "generation"];
    restore(new, old, &generation);
    let changed = ["tokenRequests", "requiresRepublish", "seLinuxMount"].iter().any(|member| {
        let of = |v: &Value| v.at(&["spec", member]).cloned().unwrap_or_default();
        !of(new).semantic_eq(&of(old))
    });
    if changed {
        let before = old.at(&generation).and_then(Value::as_i64).unwrap_or(0);
        new.set(&generation, before + 1);
    }
}
