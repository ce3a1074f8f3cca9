//! Validates updates of a pod's status.

use std::{
    cell::LazyCell,
    collections::{HashMap, HashSet},
};

use machinery::{
    Value,
    meta::{
        field_error::FieldError,
        ip::{self, Family},
        names,
    },
};

use super::{
    internal, network,
    scope::{Scope, has, list, name, text},
};
use crate::validation::{Errors, Field, Seen};

/// The lists of containers in a status, and where their containers are.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// What is wrong with a new status.
pub(super) fn status(new: &Field<'_>, old: &Value, scope: &Scope<'_>, errors: &mut Errors) {
    let status = new.at("status");
    let none = Value::Null;
    let (old_status, old_spec) = (old.get("status").unwrap_or(&none), super::spec::of(old));
    conditions(&status.at("conditions"), errors);
    nominated(&status.at("nominatedNodeName"), old_status, old_spec, errors);
    generation(&status.at("observedGeneration"), errors);
    let class = status.at("qosClass");
    if class.text() != text(old_status, "qosClass") {
        class.invalid_text("field is immutable", errors);
    }
    for (member, containers) in STATUSES {
        transitions(&status.at(member), list(old_status, member), old_spec, containers, errors);
    }
    claim_statuses(&status.at("resourceClaimStatuses"), scope, errors);
    extended_claim(&status.at("extendedResourceClaimStatus"), scope, errors);
    addresses(&status.at("podIPs"), list(old_status, "podIPs"), "PodIP", errors);
    host_addresses(&status, old_status, errors);
    for (member, _) in STATUSES {
        users(&status.at(member), scope, errors);
    }
    for (member, containers) in STATUSES {
        allocated(&status.at(member), containers, scope, errors);
    }
    for (member, _) in STATUSES {
        images(&status.at(member), errors);
    }
}

fn conditions(conditions: &Field<'_>, errors: &mut Errors) {
    conditions.each(|condition| {
        generation(&condition.at("observedGeneration"), errors);
        let kind = condition.at("type");
        if !matches!(kind.text(), "PodScheduled" | "Ready" | "Initialized") {
            // Upstream spells it like this.
            let place = condition.at("Type");
            place.with(kind.value()).check(names::qualified_name, errors);
        }
    });
}

fn generation(generation: &Field<'_>, errors: &mut Errors) {
    if generation.int_or_zero() < 0 {
        generation.invalid("must be a non-negative integer", errors);
    }
}

fn nominated(node: &Field<'_>, old_status: &Value, old_spec: &Value, errors: &mut Errors) {
    if node.is_empty() || node.text() == text(old_status, "nominatedNodeName") {
        return;
    }
    node.check(names::dns1123_subdomain, errors);
    if errors.has("ClearingNominatedNodeNameAfterBinding") && !text(old_spec, "nodeName").is_empty() {
        node.forbidden("may not be set on pods that are already bound to a node", errors);
    }
}

fn ended(status: &Value) -> Option<&Value> {
    status.at(&["state", "terminated"]).filter(|v| !v.is_null())
}

/// A container that has ended for good stays so.
fn transitions(new: &Field<'_>, old: &[Value], spec: &Value, containers: &str, errors: &mut Errors) {
    if !old.iter().any(|status| ended(status).is_some()) {
        return;
    }
    let (has_rules, restarts_all) =
        (errors.has("ContainerRestartRules"), errors.has("RestartAllContainersOnContainerExits"));
    if containers != "ephemeralContainers" && has_rules && restarts_all && all_restart(spec) {
        return;
    }
    let mut now: HashMap<&str, &Value> = HashMap::new();
    for status in new.items() {
        now.entry(name(status)).or_insert(status);
    }
    let by_name = by_name(list(spec, containers));
    for (i, before) in old.iter().enumerate() {
        let Some(terminated) = ended(before) else { continue };
        if now.get(name(before)).is_none_or(|status| ended(status).is_some()) {
            continue;
        }
        let code = terminated.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
        // Without rules of its own a container restarts as its pod says.
        let container = if has_rules { by_name.get(name(before)).copied() } else { Some(&Value::Null) };
        if containers == "ephemeralContainers" || !container.is_some_and(|c| restarts(c, spec, code, restarts_all)) {
            let status = new.index(i);
            status.at("state").forbidden("may not be transitioned to non-terminated state", errors);
        }
    }
}

/// The first container of each name.
fn by_name(containers: &[Value]) -> HashMap<&str, &Value> {
    containers.iter().rev().map(|container| (name(container), container)).collect()
}

/// Whether some container's end may start all of them again.
fn all_restart(spec: &Value) -> bool {
    let restarts = |container: &Value| {
        list(container, "restartPolicyRules").iter().any(|rule| text(rule, "action") == "RestartAllContainers")
    };
    ["containers", "initContainers"].iter().any(|member| list(spec, member).iter().any(restarts))
}

/// Whether a container starts again after it ended with a code: by its rules, its own policy, or the pod's. `all`: rules may
/// start all containers again.
fn restarts(container: &Value, spec: &Value, code: i64, all: bool) -> bool {
    let applies = |rule: &&Value| {
        let Some(codes) = rule.get("exitCodes") else { return false };
        let named = list(codes, "values").iter().any(|v| v.as_i64() == Some(code));
        match text(codes, "operator") {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        }
    };
    match list(container, "restartPolicyRules").iter().find(applies).map(|rule| text(rule, "action")) {
        Some("Restart") => return true,
        Some("RestartAllContainers") if all => return true,
        _ => {}
    }
    let own = text(container, "restartPolicy");
    match if own.is_empty() { text(spec, "restartPolicy") } else { own } {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

fn claim_statuses(statuses: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    statuses.each_item(|status, value| {
        let claim = status.at("name");
        if scope.claims().binary_search(&name(value)).is_err() {
            claim.invalid_text("must match the name of an entry in `spec.resourceClaims`", errors);
        }
        if !seen.insert(name(value)) {
            claim.duplicate_text(errors);
        }
        let made = status.at("resourceClaimName");
        if made.is_set() {
            made.check(names::dns1123_subdomain, errors);
        }
    });
}

fn extended_claim(status: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !status.is_set() {
        return;
    }
    let mappings = status.at("requestMappings");
    if mappings.is_empty() {
        mappings.required("at least one request mapping is required", errors);
    }
    let lists = ["initContainers", "containers"].into_iter().flat_map(|member| list(scope.spec, member));
    let containers: HashMap<&str, &Value> = lists.map(|c| (name(c), c)).collect();
    let mut seen = Seen::default();
    mappings.each_item(|mapping, value| {
        let (container, resource) = (mapping.at("containerName"), mapping.at("resourceName"));
        match containers.get(container.text()) {
            None => {
                let detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                container.invalid_text(detail, errors);
            }
            Some(c) if c.at(&["resources", "requests", resource.text()]).is_none() => {
                let detail = "must match the extended resource name of an entry in \
                              spec.initContainers.resources.requests or spec.containers.resources.requests";
                resource.invalid_text(detail, errors);
            }
            Some(_) => {}
        }
        let place = status.at("requestName");
        let request = mapping.at("requestName");
        place.with(request.value()).check(names::dns1123_label, errors);
        let key = [text(value, "containerName"), text(value, "resourceName"), text(value, "requestName")];
        if !seen.insert(key) {
            for member in [&container, &resource, &request] {
                member.duplicate_text(errors);
            }
        }
    });
    status.at("resourceClaimName").check_given(names::dns1123_subdomain, errors);
}

/// At most one address of each family; those that were there before may be odd.
fn addresses(new: &Field<'_>, old: &[Value], kind: &str, errors: &mut Errors) {
    let known: Seen<&str> = old.iter().map(|address| text(address, "ip")).collect();
    new.each(|address| {
        let ip = address.at("ip");
        if !known.contains(ip.text()) {
            // Upstream names the item, not its member.
            network::address(&address.with(&ip.text().into()), errors);
        }
    });
    if new.len() < 2 {
        return;
    }
    let family = |address: &Value| ip::parse_sloppy(text(address, "ip")).map(ip::family);
    let families: Vec<Option<Family>> = new.items().iter().take(3).map(family).collect();
    let both = families.contains(&Some(Family::V4)) && families.contains(&Some(Family::V6));
    if !both || new.len() > 2 {
        let shown = internal::shown(&format!("[]{kind}"), new.value());
        new.invalid_as(shown, "may specify no more than one IP for each IP family", errors);
    }
}

fn host_addresses(status: &Field<'_>, old_status: &Value, errors: &mut Errors) {
    let all = status.at("hostIPs");
    let Some(first) = all.items().first() else { return };
    if text(first, "ip") != status.at("hostIP").text() {
        let item = all.index(0);
        item.at("ip").invalid_text("must be equal to `hostIP`", errors);
    }
    addresses(&all, list(old_status, "hostIPs"), "HostIP", errors);
}

/// As whom a container runs.
fn users(statuses: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    statuses.each(|status| {
        let user = status.at("user");
        let linux = user.at("linux");
        if !linux.is_set() {
            return;
        }
        match scope.os() {
            Some("windows") => linux.forbidden("cannot be set for a windows pod", errors),
            None | Some("linux") => {
                linux.at("uid").check_int(names::unix_id, errors);
                linux.at("gid").check_int(names::unix_id, errors);
                linux.at("supplementalGroups").each(|group| group.check_int(names::unix_id, errors));
            }
            Some(_) => {}
        }
    });
}

/// The longest message about the health of a device.
const MAX_MESSAGE: usize = 1024;

/// What became of the devices that a container was given.
fn allocated(statuses: &Field<'_>, containers: &str, scope: &Scope<'_>, errors: &mut Errors) {
    let by_name = LazyCell::new(|| by_name(list(scope.spec, containers)));
    statuses.each_item(|status, value| {
        let all = status.at("allocatedResourcesStatus");
        if all.is_empty() {
            return;
        }
        if containers == "ephemeralContainers" {
            return all.forbidden("must not be specified in container status", errors);
        }
        let container = by_name.get(name(value)).copied();
        let claims = LazyCell::new(|| container.map(claimed).unwrap_or_default());
        all.each(|resource| {
            let resource_name = resource.at("name");
            if let Some(container) = container {
                asked_for(&resource_name, container, &claims, errors);
            }
            devices(&resource.at("resources"), errors);
        });
    });
}

/// The claims of a container, each with the request of it that is meant.
fn claimed(container: &Value) -> HashSet<(&str, Option<&str>)> {
    let claims = container.get("resources").map_or(&[][..], |asked| list(asked, "claims"));
    claims.iter().map(|claim| (name(claim), Some(text(claim, "request")).filter(|r| !r.is_empty()))).collect()
}

fn asked_for(resource: &Field<'_>, container: &Value, claims: &HashSet<(&str, Option<&str>)>, errors: &mut Errors) {
    let asked = container.get("resources").unwrap_or(&Value::Null);
    let (found, detail) = match resource.text().strip_prefix("claim:") {
        Some(claim) => {
            let part = claim.split_once('/').map(|(claim, request)| (claim, Some(request)));
            let found = claims.contains(&(claim, None)) || part.is_some_and(|part| claims.contains(&part));
            let detail = "must match one of the container's resource claims in a format \
                          'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
            (found, detail)
        }
        None => {
            let found = asked.at(&["requests", resource.text()]).is_some();
            (found, "must match one of the container's resource requests")
        }
    };
    if !found {
        resource.invalid_text(detail, errors);
    }
}

fn devices(devices: &Field<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    devices.each_item(|device, value| {
        device.at("health").one_of(&["Healthy", "Unhealthy", "Unknown"], errors);
        let message = device.at("message");
        if message.is_set() && message.text().is_empty() {
            message.required("must be non-empty if specified", errors);
        } else if message.text().len() > MAX_MESSAGE {
            errors.push(FieldError::too_long(message, MAX_MESSAGE));
        }
        if !seen.insert(text(value, "resourceID")) {
            device.at("resourceID").duplicate_text(errors);
        }
    });
}

/// The longest reference to an image.
const MAX_REFERENCE: usize = 256;

/// Which images are mounted.
fn images(statuses: &Field<'_>, errors: &mut Errors) {
    statuses.each(|status| {
        status.at("volumeMounts").each(|mount| {
            let volume = mount.at("volumeStatus");
            if !has(volume.value(), "image") {
                return;
            }
            let (place, image) = (volume.at("imageVolumeStatus"), volume.at("image"));
            let (reference_place, held) = (place.at("imageRef"), image.at("imageRef"));
            let reference = reference_place.with(held.value());
            if reference.is_empty() {
                reference.required("imageRef must not be empty", errors);
            }
            if reference.text().len() > MAX_REFERENCE {
                errors.push(FieldError::too_long(reference, MAX_REFERENCE));
            }
        });
    });
}
