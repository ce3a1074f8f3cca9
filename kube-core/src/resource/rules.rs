//! Rules of devices and claims to them.

use machinery::{
    Value,
    meta::{TimeForm, Timestamp, names},
};

use super::{deallocation, validation};
use crate::{
    defaults::{each, number, pointer, text, within},
    strategy::{Rules, restore_metadata},
};

/// The rules of classes.
pub(super) const CLASSES: Rules = Rules::COUNTED
    .names(names::name_is_declared_subdomain)
    .returns_deleted()
    .validate(validation::class)
    .validate_update(validation::class_update);

/// The rules of claims.
pub(super) const CLAIMS: Rules = Rules::STATUS
    .returns_deleted()
    .defaults(claim)
    .status_alone()
    .status_update(|_, new, old| {
        restore_metadata(new, old);
        deallocation::drop_deallocated(new, old);
    })
    .validate(validation::claim)
    .validate_update(validation::claim_update)
    .validate_status(validation::claim_status);

/// The rules of templates of claims.
pub(super) const TEMPLATES: Rules = Rules::PLAIN
    .returns_deleted()
    .defaults(|template| within(template, "spec", |spec| within(spec, "spec", claim_spec)))
    .validate(validation::template)
    .revalidate(|cx, new, _, errors| validation::template(cx, new, errors))
    .validate_update(validation::template_update);

/// The rules of slices.
pub(super) const SLICES: Rules = Rules::COUNTED
    .returns_deleted()
    .defaults(slice)
    .validate(validation::slice)
    .validate_update(validation::slice_update)
    .warn(|slice, _| validation::slice_warnings(slice));

/// The rules of taints that an administrator gives devices. A taint whose effect changes is there from then on.
pub(super) const TAINT_RULES: Rules = Rules::WORKLOAD
    .returns_deleted()
    .defaults(|rule| within(rule, "spec", |spec| within(spec, "taint", taint)))
    .update(|_, new, old| {
        let at = |rule: &Value, member: &str| rule.at(&["spec", "taint", member]).cloned();
        if at(new, "effect") != at(old, "effect") && at(new, "timeAdded") == at(old, "timeAdded") {
            new.set(&["spec", "taint", "timeAdded"], Timestamp::now().text(TimeForm::Seconds));
        }
    })
    .status_alone()
    .status_update(|_, new, old| restore_metadata(new, old))
    .validate(|_, rule, errors| validation::taint_rule(rule, None, errors))
    .validate_update(|_, rule, old, errors| validation::taint_rule(rule, Some(old), errors))
    .validate_status(|_, rule, _, errors| validation::taint_rule_status(rule, errors));

fn claim(claim: &mut Value) {
    within(claim, "spec", claim_spec);
    within(claim, "status", |status| {
        within(status, "allocation", |allocation| {
            within(allocation, "devices", |devices| {
                each(devices, "results", |result| each(result, "tolerations", toleration));
            });
        });
    });
}

fn claim_spec(spec: &mut Value) {
    within(spec, "devices", |devices| {
        each(devices, "requests", |request| {
            within(request, "exactly", device_request);
            each(request, "firstAvailable", device_request);
        });
    });
}

fn device_request(request: &mut Value) {
    text(request, "allocationMode", "ExactCount");
    if request.str_at(&["allocationMode"]) == Some("ExactCount") {
        number(request, "count", 1);
    }
    each(request, "tolerations", toleration);
}

fn toleration(toleration: &mut Value) {
    text(toleration, "operator", "Equal");
}

fn slice(slice: &mut Value) {
    within(slice, "spec", |spec| {
        each(spec, "devices", device);
    });
}

fn device(device: &mut Value) {
    each(device, "taints", taint);
    if let Some(mappings) = device.get_mut("nodeAllocatableResourceMappings").and_then(Value::as_object_mut) {
        mappings.iter_mut().for_each(|(_, mapping)| pointer(mapping, "allocationMultiplier", "1"));
    }
}

/// A taint that does not say since when it is there is there from now on.
fn taint(taint: &mut Value) {
    pointer(taint, "timeAdded", Timestamp::now().text(TimeForm::Seconds));
}
