//! Validates storage.k8s.io kinds: StorageClasses, CSIDrivers, CSINodes and others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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
/// How much an attachment may say: of itself, and of what went wrong.
const MOST_ATTACHMENT_BYTES: usize = 256 * 1024;
const MOST_ERROR_BYTES: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// What is wrong with a storage class.
pub(super) fn class(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    provisioner(&class.at("provisioner"), errors);
    parameters(&class.at("parameters"), false, errors);
    let policy = class.at("reclaimPolicy");
    if !policy.is_empty() {
        policy.one_of(&["Delete", "Retain"], errors);
    }
    let mode = class.at("volumeBindingMode");
    if mode.is_set() {
        mode.one_of(&["Immediate", "WaitForFirstConsumer"], errors);
    } else {
        mode.required("", errors);
    }
    topologies(&class.at("allowedTopologies"), errors);
}

/// How often one term is called a duplicate. Differs: upstream has no limit.
const MAX_DUPLICATES: usize = 50;

/// Where volumes may be made: each term says something, and something else than those before it.
fn topologies(topologies: &Field<'_>, errors: &mut Errors) {
    let mut terms = HashMap::new();
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
        let expressions = term.at("matchLabelExpressions");
        let required: BTreeMap<String, BTreeSet<String>> = expressions.items().iter().map(requirement).collect();
        // Upstream compares each with all before it, and begins with as many empty ones as there are terms.
        let empty = if required.is_empty() { topologies.len() } else { 0 };
        let before = terms.entry(required).or_insert(empty);
        for _ in 0..(*before).min(MAX_DUPLICATES) {
            errors.push(FieldError::duplicate(expressions, ""));
        }
        *before += 1;
    });
}

/// A key and the values that it may have.
fn requirement(requirement: &Value) -> (String, BTreeSet<String>) {
    let values = requirement.get("values").and_then(Value::as_array).unwrap_or_default();
    let values = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    (requirement.str_at(&["key"]).unwrap_or_default().to_owned(), values)
}

/// Who makes volumes: a name in any case.
fn provisioner(provisioner: &Field<'_>, errors: &mut Errors) {
    if provisioner.is_given(errors) {
        let name = provisioner.text().to_lowercase();
        for message in names::qualified_name(&name) {
            provisioner.invalid_as(name.as_str(), message, errors);
        }
    }
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
pub(super) fn class_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    for member in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        new.at(member).immutable(&old.at(member), errors);
    }
}

/// What is wrong with a driver.
pub(super) fn driver(_cx: &WriteContext<'_>, driver: &Field<'_>, errors: &mut Errors) {
    let spec = driver.at("spec");
    let needed = |member: &'static str, shown: &'static str, errors: &mut Errors| {
        if !spec.at(member).is_set() {
            spec.at(shown).required("", errors);
        }
    };
    for (member, shown) in
        [("attachRequired", ATTACH), ("podInfoOnMount", "podInfoOnMount"), ("storageCapacity", "storageCapacity")]
    {
        needed(member, shown, errors);
    }
    spec.at("fsGroupPolicy").some_one_of(&["File", "None", "ReadWriteOnceWithFSType"], errors);
    token_requests(&spec.at("tokenRequests"), errors);
    let modes = spec.at("volumeLifecycleModes");
    modes.each(|mode| modes.with(mode.value()).one_of(&["Persistent", "Ephemeral"], errors));
    needed("seLinuxMount", "seLinuxMount", errors);
    if errors.has("VolumeLimitScaling") {
        needed("preventPodSchedulingIfMissing", "preventPodSchedulingIfMissing", errors);
    }
    let period = spec.at("nodeAllocatableUpdatePeriodSeconds");
    if period.int().is_some_and(|seconds| seconds < 10) {
        period.invalid("must be greater than or equal to 10 seconds", errors);
    }
    let in_secrets = spec.at("serviceAccountTokenInSecrets");
    if in_secrets.is_set() && spec.at("tokenRequests").is_empty() {
        in_secrets.invalid("serviceAccountTokenInSecrets is set but no tokenRequests are specified", errors);
    }
}

/// Upstream's name for the path of `attachRequired`.
const ATTACH: &str = "attachedRequired";

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

/// What is wrong with an update of a driver.
pub(super) fn driver_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    driver(cx, new, errors);
    let (spec, before) = (new.at("spec"), old.at("spec"));
    let attach = spec.at(ATTACH);
    attach.with(spec.at("attachRequired").value()).immutable(&before.at("attachRequired"), errors);
    spec.at("volumeLifecycleModes").immutable(&before.at("volumeLifecycleModes"), errors);
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
        if !seen.insert(value.str_at(&["name"]).unwrap_or_default()) {
            name.duplicate_text(errors);
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
    let spec = new.at("spec");
    let now = drivers(new.value());
    for before in drivers(old.value()) {
        for driver in now.iter().filter(|driver| driver.get("name") == before.get("name")) {
            let driver = fixed(driver);
            if !driver.semantic_eq(&fixed(&before)) {
                let shown = internal::shown("CSINodeDriver", &driver);
                spec.at("drivers").invalid_as(shown, "field is immutable", errors);
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
        (false, true) if name.is_empty() => name.required("must specify non empty persistentVolumeName", errors),
        (false, true) => {}
        (true, false) => volumes_validation::spec(&inline, None, errors),
    }
    spec.at("nodeName").check(names::dns1123_subdomain, errors);
    if name.is_set() {
        name.check(names::dns1123_subdomain, errors);
    }
}

/// How attaching and detaching went.
fn attachment_state(status: &Field<'_>, errors: &mut Errors) {
    let metadata = status.at("attachmentMetadata");
    let mut bytes = 0;
    metadata.each_key(|key, value| bytes += key.len() + value.text().len());
    if bytes > MOST_ATTACHMENT_BYTES {
        errors.push(FieldError::too_long(metadata, MOST_ATTACHMENT_BYTES));
    }
    for member in ["attachError", "detachError"] {
        let error = status.at(member);
        if error.at("message").text().len() > MOST_ERROR_BYTES {
            // Upstream names the other limit.
            errors.push(FieldError::too_long(error.at("message"), MOST_ATTACHMENT_BYTES));
        }
        let code = error.at("errorCode");
        if code.int().is_some_and(|code| code < 0) {
            code.invalid(names::range_message(0, i32::MAX), errors);
        }
    }
}

/// What is wrong with an update of an attachment, or of its status.
pub(super) fn attachment_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    attachment(cx, new, errors);
    attachment_state(&new.at("status"), errors);
    let (spec, before) = (new.at("spec"), old.at("spec"));
    if !spec.same(&before) {
        spec.invalid_as(internal::shown("VolumeAttachmentSpec", spec.value()), "field is immutable", errors);
    }
}

/// What is wrong with a capacity.
pub(super) fn capacity(_cx: &WriteContext<'_>, capacity: &Field<'_>, errors: &mut Errors) {
    whole_capacity(capacity, None, errors);
}

fn whole_capacity(capacity: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let old_topology = old.map(|old| old.at("nodeTopology"));
    capacity.at("nodeTopology").label_selector_as_before(old_topology.as_ref(), errors);
    capacity.at("storageClassName").check(names::dns1123_subdomain, errors);
    let amount = capacity.at("capacity");
    if amount.quantity().sign() < 0 {
        amount.invalid_as(amount.quantity_text(), "must be greater than or equal to 0", errors);
    }
}

/// What is wrong with an update of a capacity.
/// What is wrong with the new object of an update, of its own.
pub(super) fn capacity_again(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    whole_capacity(new, Some(old), errors);
}

pub(super) fn capacity_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    new.at("nodeTopology").immutable_selector(&old.at("nodeTopology"), errors);
    new.at("storageClassName").immutable(&old.at("storageClassName"), errors);
}

/// What is wrong with a class of attributes.
pub(super) fn attributes(_cx: &WriteContext<'_>, class: &Field<'_>, errors: &mut Errors) {
    provisioner(&class.at("driverName"), errors);
    parameters(&class.at("parameters"), true, errors);
}

/// What is wrong with an update of a class of attributes.
pub(super) fn attributes_update(cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    for member in ["driverName", "parameters"] {
        if !new.at(member).same(&old.at(member)) {
            new.at(member).forbidden(format!("updates to {member} are forbidden."), errors);
        }
    }
    attributes(cx, new, errors);
}

#[cfg(test)]
mod tests {
    use auth::User;
    use machinery::codec::json;

    use super::*;

    type UpdateRule = fn(&WriteContext<'_>, &Field<'_>, &Field<'_>, &mut Errors);

    fn check(rule: UpdateRule, new: &str, old: &str, expect: &[&str]) {
        let parse = |text: &str| json::decode(text.as_bytes()).expect("valid JSON");
        let (user, new, old) = (User::default(), parse(new), parse(old));
        let cx = WriteContext {
            group: "",
            version: "v1",
            namespace: "",
            subresource: "",
            user: &user,
            features: &Default::default(),
        };
        let mut errors = Errors::default();
        rule(&cx, &Field::root(&new), &Field::root(&old), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect, "{new:?}");
    }

    #[test]
    fn attachments_say_only_so_much() {
        let spec = r#"{"attacher":"a.test","nodeName":"n","source":{"persistentVolumeName":"v"}}"#;
        let with = |status: &str| format!(r#"{{"spec":{spec},"status":{status}}}"#);
        let old = with("{}");
        check(attachment_update, &with(r#"{"attachError":{"message":"m","errorCode":8}}"#), &old, &[]);
        let long = "x".repeat(1025);
        check(
            attachment_update,
            &with(&format!(r#"{{"attachError":{{"errorCode":-1}},"detachError":{{"message":"{long}"}}}}"#)),
            &old,
            &[
                "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "status.detachError.message: Too long: may not be more than 262144 bytes",
            ],
        );
    }

    #[test]
    fn a_class_says_where_volumes_may_be_once() {
        let check = |more: &str, expect: &[&str]| {
            let class = format!(r#"{{"provisioner":"d.test","volumeBindingMode":"Immediate"{more}}}"#);
            super::tests::check(|cx, new, _, errors| super::class(cx, new, errors), &class, "{}", expect);
        };
        check(r#","reclaimPolicy":"""#, &[]);
        let term =
            |key: &str, values: &str| format!(r#"{{"matchLabelExpressions":[{{"key":"{key}","values":[{values}]}}]}}"#);
        let (a, same, b) = (term("a", r#""x","y""#), term("a", r#""y","x""#), term("b", r#""x""#));
        check(&format!(r#","allowedTopologies":[{a},{b}]"#), &[]);
        check(
            &format!(r#","allowedTopologies":[{a},{same},{{}}]"#),
            &[
                r#"allowedTopologies[1].matchLabelExpressions: Duplicate value: """#,
                r#"allowedTopologies[2].matchLabelExpressions: Duplicate value: """#,
                r#"allowedTopologies[2].matchLabelExpressions: Duplicate value: """#,
                r#"allowedTopologies[2].matchLabelExpressions: Duplicate value: """#,
            ],
        );
    }

    #[test]
    fn drivers_put_tokens_in_secrets_only_if_they_ask_for_some() {
        let with = |more: &str| {
            let spec = r#""attachRequired":true,"podInfoOnMount":false,"storageCapacity":false,"seLinuxMount":false"#;
            format!(r#"{{"spec":{{{spec}{more}}}}}"#)
        };
        check(driver_update, &with(r#","serviceAccountTokenInSecrets":true,"tokenRequests":[{}]"#), &with(""), &[]);
        check(
            driver_update,
            &with(r#","serviceAccountTokenInSecrets":false,"nodeAllocatableUpdatePeriodSeconds":9"#),
            &with(""),
            &[
                "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds",
                "spec.serviceAccountTokenInSecrets: Invalid value: false: serviceAccountTokenInSecrets is set but no \
                 tokenRequests are specified",
            ],
        );
    }

    #[test]
    fn a_driver_on_a_node_stays_but_for_how_much_it_takes() {
        let with = |id: &str, count: i64| {
            let driver = format!(r#"{{"name":"d.test","nodeID":"{id}","allocatable":{{"count":{count}}}}}"#);
            format!(r#"{{"spec":{{"drivers":[{driver}]}}}}"#)
        };
        check(node_update, &with("a", 2), &with("a", 1), &[]);
        check(
            node_update,
            &with("b", 1),
            &with("a", 1),
            &[
                r#"spec.drivers: Invalid value: {"Name":"d.test","NodeID":"b","TopologyKeys":null,"Allocatable":null}: field is immutable"#,
            ],
        );
    }
}
