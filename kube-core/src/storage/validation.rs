//! What is wrong with storage classes, drivers and what they tell of nodes.

use generic_server::resource::WriteContext;
use machinery::{
    Value,
    meta::{FieldError, names},
};

use crate::{
    core::{
        pods::validation::{internal, sources},
        volumes_validation,
    },
    validation::{Errors, Field, Seen},
};

const MOST_PARAMETERS: usize = 512;
const MOST_PARAMETER_BYTES: usize = 256 * 1024;
/// Bounds of the life of a token that a driver asks for, in seconds.
const SHORTEST_TOKEN: i64 = 600;
const LONGEST_TOKEN: i64 = 1 << 32;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// What is wrong with a storage class.
pub(super) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    let provisioner = class.at("provisioner");
    if provisioner.is_given(errors) {
        provisioner.check(|text| names::qualified_name(&text.to_lowercase()), errors);
    }
    parameters(&class.at("parameters"), false, errors);
    class.at("reclaimPolicy").some_one_of(&["Delete", "Retain"], errors);
    let mode = class.at("volumeBindingMode");
    if mode.is_set() {
        mode.one_of(&["Immediate", "WaitForFirstConsumer"], errors);
    } else {
        mode.required("", errors);
    }
    let topologies = class.at("allowedTopologies");
    topologies.each(|term| {
        let mut keys = Seen::default();
        term.at("matchLabelExpressions").each_item(|requirement, value| {
            let values = requirement.at("values");
            if values.is_empty() {
                values.required("", errors);
            }
            values.unique_texts(errors);
            let key = requirement.at("key");
            key.check(names::qualified_name, errors);
            if !keys.insert(value.str_at(&["key"]).unwrap_or_default()) {
                key.duplicate(errors);
            }
        });
    });
}

fn parameters(parameters: &Field<'_>, needed: bool, errors: &mut Errors) {
    if parameters.len() > MOST_PARAMETERS {
        errors.push(FieldError::too_long(parameters, MOST_PARAMETERS));
        return;
    }
    let mut bytes = 0;
    parameters.each_key(|key, value| {
        if key.is_empty() {
            parameters.invalid_as(key, "field can not be empty.", errors);
        }
        bytes += key.len() + value.text().len();
    });
    if bytes > MOST_PARAMETER_BYTES {
        errors.push(FieldError::too_long(parameters, MOST_PARAMETER_BYTES));
    }
    if needed && parameters.is_empty() {
        parameters.required("must contain at least one key/value pair", errors);
    }
}

/// What is wrong with an update of a storage class.
pub(super) fn class_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    class(cx, new, errors);
    for member in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        new.at(member).immutable(&old.at(member), errors);
    }
}

/// What is wrong with a driver.
pub(super) fn driver(_cx: &WriteContext<'_>, driver: &Field<'_>, errors: &mut Errors) {
    let spec = driver.at("spec");
    let needed = |member: &'static str, errors: &mut Errors| {
        if !spec.at(member).is_set() {
            spec.at(member).required("", errors);
        }
    };
    for member in ["attachRequired", "podInfoOnMount", "storageCapacity"] {
        needed(member, errors);
    }
    let policy = spec.at("fsGroupPolicy");
    needed("fsGroupPolicy", errors);
    policy.some_one_of(&["File", "None", "ReadWriteOnceWithFSType"], errors);
    token_requests(&spec.at("tokenRequests"), errors);
    let modes = spec.at("volumeLifecycleModes");
    modes.each(|mode| modes.with(mode.value()).one_of(&["Persistent", "Ephemeral"], errors));
    needed("seLinuxMount", errors);
    update_period(&spec, errors);
}

fn token_requests(requests: &Field<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    requests.each_item(|request, value| {
        if !seen.insert(value.str_at(&["audience"]).unwrap_or_default()) {
            return request.at("audience").duplicate_text(errors);
        }
        let seconds = request.at("expirationSeconds");
        match seconds.int() {
            Some(n) if n < SHORTEST_TOKEN => seconds.invalid("may not specify a duration less than 10 minutes", errors),
            Some(n) if n > LONGEST_TOKEN => {
                seconds.invalid("may not specify a duration larger than 2^32 seconds", errors);
            }
            _ => {}
        }
    });
}

fn update_period(spec: &Field<'_>, errors: &mut Errors) {
    let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
    if period.int().is_some_and(|seconds| seconds < 10) {
        period.invalid("must be greater than or equal to 10 seconds", errors);
    }
}

/// What is wrong with an update of a driver.
pub(super) fn driver_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    // Upstream's name for the path.
    let attach = spec.at("attachedRequired");
    attach.with(spec.at("attachRequired").value()).immutable(&before.at("attachRequired"), errors);
    spec.at("volumeLifecycleModes").immutable(&before.at("volumeLifecycleModes"), errors);
    token_requests(&spec.at("tokenRequests"), errors);
    update_period(&spec, errors);
}

/// What is wrong with the drivers of a node.
pub(super) fn node(_cx: &WriteContext<'_>, node: &Field<'_>, errors: &mut Errors) {
    let spec = node.at("spec");
    let mut seen = Seen::default();
    spec.at("drivers").each_item(|driver, value| {
        let name = driver.at("name");
        sources::csi_driver(&name, errors);
        let id = driver.at("nodeID");
        if id.is_given(errors) && id.text().len() > 256 {
            id.invalid("must be 256 characters or less", errors);
        }
        driver.at("allocatable").at("count").non_negative(errors);
        if !name.is_empty() && !seen.insert(value.str_at(&["name"]).unwrap_or_default()) {
            name.duplicate(errors);
        }
        let mut keys = Seen::default();
        let all = value.get("topologyKeys").and_then(Value::as_array).unwrap_or_default();
        for key in all.iter().filter_map(Value::as_str) {
            if key.is_empty() {
                driver.required("", errors);
            }
            if !keys.insert(key) {
                errors.push(FieldError::duplicate(driver, key));
            }
            for message in names::qualified_name(key) {
                driver.invalid_as(key, message, errors);
            }
        }
    });
}

/// What is wrong with an update of the drivers of a node: one that is there stays as it is, but for how much it can take.
pub(super) fn node_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    node(cx, new, errors);
    let drivers =
        |object: &Value| object.at(&["spec", "drivers"]).and_then(Value::as_array).unwrap_or_default().to_vec();
    let fixed = |driver: &Value| {
        let mut fixed = driver.clone();
        fixed.remove_at(&["allocatable"]);
        fixed
    };
    let now = drivers(new.value());
    for before in drivers(old.value()) {
        for driver in now.iter().filter(|driver| driver.get("name") == before.get("name")) {
            if !fixed(driver).semantic_eq(&fixed(&before)) {
                let shown = internal::shown("CSINodeDriver", driver);
                errors.push(FieldError::invalid("CSINodeDriver", shown, "field is immutable"));
            }
        }
    }
}

/// What is wrong with an attachment.
pub(super) fn attachment(_cx: &WriteContext<'_>, attachment: &Field<'_>, errors: &mut Errors) {
    let spec = attachment.at("spec");
    sources::csi_driver(&spec.at("attacher"), errors);
    let source = spec.at("source");
    let (inline, name) = (source.at("inlineVolumeSpec"), source.at("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => source.required(ONE_SOURCE, errors),
        (true, true) => source.forbidden(ONE_SOURCE, errors),
        (false, true) => {
            name.check_given(names::dns1123_subdomain, errors);
        }
        (true, false) => volumes_validation::spec(&inline, true, errors),
    }
    spec.at("nodeName").check(names::dns1123_subdomain, errors);
}

/// What is wrong with an update of an attachment.
pub(super) fn attachment_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (spec, before) = (new.at("spec"), old.at("spec"));
    if !spec.same(&before) {
        spec.invalid_as(internal::shown("VolumeAttachmentSpec", spec.value()), "field is immutable", errors);
    }
}

/// What is wrong with a capacity.
pub(super) fn capacity(_cx: &WriteContext<'_>, capacity: &Field<'_>, errors: &mut Errors) {
    capacity.at("nodeTopology").label_selector(errors);
    capacity.at("storageClassName").check(names::dns1123_subdomain, errors);
    for member in ["capacity", "maximumVolumeSize"] {
        let amount = capacity.at(member);
        if amount.quantity().sign() < 0 {
            amount.invalid_as(amount.quantity_text(), "must be greater than or equal to 0", errors);
        }
    }
}

/// What is wrong with an update of a capacity.
pub(super) fn capacity_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    capacity(cx, new, errors);
    new.at("nodeTopology").immutable_selector(&old.at("nodeTopology"), errors);
    new.at("storageClassName").immutable(&old.at("storageClassName"), errors);
}

/// What is wrong with a class of attributes.
pub(super) fn attributes(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    sources::csi_driver(&class.at("driverName"), errors);
    parameters(&class.at("parameters"), true, errors);
}

/// What is wrong with an update of a class of attributes.
pub(super) fn attributes_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    for member in ["driverName", "parameters"] {
        if !new.at(member).same(&old.at(member)) {
            new.at(member).forbidden(format!("updates to {member} are forbidden."), errors);
        }
    }
}
