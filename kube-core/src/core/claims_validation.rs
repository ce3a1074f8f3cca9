//! Validates v1 PersistentVolumeClaims.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{FieldError, Quantity, names},
};

use super::pods::validation::{claim_spec, difference, internal};
use crate::validation::{Errors, Field, is_native, resource_amount};

pub(super) const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const STORAGE: [&str; 4] = ["spec", "resources", "requests", "storage"];
/// What may become of an attempt to resize a volume.
const RESIZE: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// What is wrong with a new claim.
pub(super) fn create(_cx: &WriteContext<'_>, claim: &Field<'_>, errors: &mut Errors) {
    claim_spec(&claim.at("spec"), errors);
}

/// What is wrong with an update: of the spec only the size of a bound claim and its class of attributes may change.
pub(super) fn update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    create(cx, new, errors);
    let (mut now, mut before) = (new.value().clone(), old.value().clone());
    let text = |value: &Value, path: &[&str]| value.str_at(path).unwrap_or_default().to_owned();
    let volume = ["spec", "volumeName"];
    if text(&before, &volume).is_empty() {
        copy(&mut before, &now, &volume);
    }
    let class = ["spec", "storageClassName"];
    let annotation = ["metadata", "annotations", CLASS];
    let (old_annotation, annotated) = (text(&before, &annotation), text(&now, &annotation));
    let is_upgrade = !old_annotation.is_empty()
        && before.at(&class).is_none()
        && annotated.is_empty()
        && text(&now, &class) == old_annotation;
    if is_upgrade {
        now.remove_at(&class);
    } else {
        if old_annotation != annotated {
            let field = format!("metadata.annotations.{CLASS}");
            errors.push(FieldError::invalid(field, annotated, "field is immutable"));
        }
        if before.at(&class).is_none_or(Value::is_null) && old_annotation.is_empty() {
            copy(&mut now, &before, &class); // a class may be given to a claim without one
        }
    }
    let is_bound = text(new.value(), &["status", "phase"]) == "Bound";
    if is_bound && now.at(&STORAGE[..3]).is_some_and(|requests| !requests.is_null()) {
        copy(&mut now, &before, &STORAGE);
    }
    let attributes = ["spec", "volumeAttributesClassName"];
    if is_bound && now.at(&attributes).is_some_and(|name| !name.is_null()) {
        copy(&mut now, &before, &attributes);
    }
    let spec = |value: &Value| value.get("spec").cloned().unwrap_or_default();
    if !spec(&now).semantic_eq(&spec(&before)) {
        let pretty = |value: &Value| internal::pretty("PersistentVolumeClaimSpec", &spec(value));
        let difference = difference::between(&pretty(&before), &pretty(&now));
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        new.at("spec").forbidden(format!("{why}\n{difference}"), errors);
    }
    let amount =
        |value: &Value, path: &[&str]| value.at(path).and_then(|v| Quantity::from_value(v).ok()).unwrap_or_default();
    let (size, old_size) = (amount(new.value(), &STORAGE), amount(old.value(), &STORAGE));
    if size < old_size && size <= amount(old.value(), &["status", "capacity", "storage"]) {
        errors.push(FieldError::forbidden(STORAGE.join("."), "field can not be less than status.capacity"));
    }
    let mode = |value: &Value| value.at(&["spec", "volumeMode"]).cloned().unwrap_or_default();
    if mode(new.value()) != mode(old.value()) {
        errors.push(FieldError::invalid("volumeMode", mode(new.value()), "field is immutable"));
    }
}

/// Puts what another object has at a place into this one.
fn copy(to: &mut Value, from: &Value, path: &[&str]) {
    match from.at(path) {
        Some(value) => to.set(path, value.clone()),
        None => {
            to.remove_at(path);
        }
    }
}

/// What is wrong with an update of the status.
pub(super) fn status(_cx: &WriteContext<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    let status = new.at("status");
    amounts(&status.at("capacity"), errors);
    let attempts = status.at("allocatedResourceStatuses");
    attempts.each_key(|name, attempt| {
        resource_name(&attempts, name, errors);
        if !RESIZE.contains(&attempt.text()) {
            errors.push(FieldError::not_supported(attempts, name, RESIZE));
        }
    });
    let allocated = status.at("allocatedResources");
    allocated.each_key(|name, amount| {
        let before = errors.len();
        resource_name(&allocated, name, errors);
        if errors.len() > before {
            return;
        }
        let quantity = amount.quantity();
        if quantity.value() < 0 {
            amount.invalid_as(quantity.value(), "must be a valid resource quantity", errors);
        } else {
            resource_amount(&amount, "storage", errors);
        }
    });
}

fn amounts(list: &Field<'_>, errors: &mut Errors) {
    list.each_key(|_, amount| {
        if amount.quantity().value() < 0 {
            amount.invalid_as(amount.quantity().value(), "must be a valid resource quantity", errors);
        }
    });
}

fn resource_name(list: &Field<'_>, name: &str, errors: &mut Errors) {
    let messages = names::qualified_name(name);
    let is_sound = messages.is_empty();
    for message in messages {
        list.invalid_as(name, message, errors);
    }
    if is_sound && is_native(name) && name != "storage" {
        errors.push(FieldError::not_supported(list, name, ["storage"]));
    }
}

/// Warnings for the author of a claim.
pub(super) fn warnings(claim: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut out = class_warning(claim);
    out.extend(fraction(claim.at(&STORAGE), "spec.resources.requests[storage]"));
    out
}

/// The class has a member of its own.
pub(super) fn class_warning(object: &Value) -> Vec<String> {
    let is_there = object.at(&["metadata", "annotations", CLASS]).is_some();
    let why =
        format!("metadata.annotations[{CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead");
    is_there.then_some(why).into_iter().collect()
}

/// Bytes are whole.
pub(super) fn fraction(amount: Option<&Value>, place: &str) -> Option<String> {
    let quantity = Quantity::from_value(amount?).ok()?;
    let is_whole = quantity.scaled(machinery::meta::quantity::MILLI) % 1000 == 0;
    let text = quantity.text();
    (!is_whole).then(|| format!("{place}: fractional byte value \"{text}\" is invalid, must be an integer"))
}

#[cfg(test)]
mod tests {
    use machinery::object;

    use super::*;

    #[test]
    fn what_is_allocated_is_storage_or_somebody_elses() {
        let check = |name: &str, expect: &[&str]| {
            let list = object! { name => "1" };
            let root = object! { "allocatedResources" => list };
            let mut errors = Errors::default();
            let field = Field::root(&root);
            resource_name(&field.at("allocatedResources"), name, &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect);
        };
        check("storage", &[]);
        check("example.com/x", &[]);
        for native in ["cpu", "kubernetes.io/x"] {
            let why = format!(r#"allocatedResources: Unsupported value: "{native}": supported values: "storage""#);
            check(native, &[&why]);
        }
    }
}
