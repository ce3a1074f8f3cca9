//! Containers: what all of them have, and what only some may have.

use machinery::meta::{field_error::FieldError, names};

use super::{
    env, mounts, probes, resources,
    scope::{Scope, list, name, text},
    security,
};
use crate::validation::{Errors, Field, Seen};

/// The containers that stay.
pub(super) fn regular(containers: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !containers.is_given(errors) {
        return;
    }
    let mut names_seen = Seen::default();
    containers.each_item(|container, value| {
        common(&container, scope, errors);
        if !names_seen.insert(name(value)) {
            container.at("name").duplicate_text(errors);
        }
        probes::lifecycle(&container.at("lifecycle"), scope, errors);
        probes::all(&container, scope, errors);
        restart_policy(&container, errors);
    });
    let mut ports = Seen::default();
    containers.each_item(|container, value| {
        host_ports(list(value, "ports"), &container.at("ports"), &mut ports, errors);
    });
}

/// The containers that go first, and those among them that stay beside the others.
pub(super) fn init(containers: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let mut names_seen: Seen<&str> = list(scope.spec, "containers").iter().map(name).collect();
    containers.each_item(|container, value| {
        common(&container, scope, errors);
        init_restart_policy(&container, errors);
        if names_seen.contains(name(value)) {
            container.at("name").duplicate_text(errors);
        } else if !name(value).is_empty() {
            names_seen.insert(name(value));
        }
        // They run one by one: each has the node's ports for itself. Upstream counts them as if each were the first.
        let first = containers.index(0);
        host_ports(list(value, "ports"), &first.at("ports"), &mut Seen::default(), errors);
        if text(value, "restartPolicy") == "Always" {
            probes::lifecycle(&container.at("lifecycle"), scope, errors);
            probes::all(&container, scope, errors);
        } else {
            for member in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                let detail = "may not be set for init containers without restartPolicy=Always";
                container.at(member).forbid(detail, errors);
            }
        }
    });
}

/// The containers that came later. Neither a new pod nor a template may have any.
pub(super) fn ephemeral(containers: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        return;
    }
    let others = || ["containers", "initContainers"].into_iter().flat_map(|member| list(scope.spec, member)).map(name);
    let targets: Seen<&str> = others().collect();
    let mut names_seen: Seen<&str> = others().collect();
    containers.each_item(|container, value| {
        common(&container, scope, errors);
        image_text(&container, errors);
        if !names_seen.insert(name(value)) {
            container.at("name").duplicate_text(errors);
        }
        let target = container.at("targetContainerName");
        if !target.text().is_empty() && !targets.contains(target.text()) {
            target.not_found(errors);
        }
        for member in FORBIDDEN_IN_EPHEMERAL {
            let held = container.at(member);
            // Go holds resources by value: those that ask for nothing are not there.
            if held.is_set() && !(*member == "resources" && held.is_empty()) {
                held.forbidden(NOT_IN_EPHEMERAL, errors);
            }
        }
        container.at("volumeMounts").each(|mount| {
            for member in ["subPath", "subPathExpr"] {
                if !mount.at(member).is_empty() {
                    mount.at(member).forbidden(NOT_IN_EPHEMERAL, errors);
                }
            }
        });
    });
}

const NOT_IN_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";

/// What a container that came later may not have, in the order of Go's members.
const FORBIDDEN_IN_EPHEMERAL: &[&str] = &[
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

fn common(container: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    container.at("name").check_given(names::dns1123_label, errors);
    container.at("image").is_given(errors);
    container.at("terminationMessagePolicy").required_one_of(&["File", "FallbackToLogsOnError"], errors);
    ports(&container.at("ports"), errors);
    env::variables(&container.at("env"), errors);
    env::from_objects(&container.at("envFrom"), errors);
    mounts::mounts(container, scope, errors);
    mounts::devices(container, scope, errors);
    pull_policy(&container.at("imagePullPolicy"), errors);
    resources::of_container(&container.at("resources"), scope, errors);
    resize_policy(&container.at("resizePolicy"), scope, errors);
    security::container(&container.at("securityContext"), scope, errors);
}

/// When an image is pulled.
pub(super) fn pull_policy(policy: &Field<'_>, errors: &mut Errors) {
    policy.required_one_of(&["Always", "IfNotPresent", "Never"], errors);
}

/// Images that a pod runs are written without space around them; templates may have it.
pub(super) fn images(containers: &Field<'_>, errors: &mut Errors) {
    containers.each(|container| image_text(&container, errors));
}

fn image_text(container: &Field<'_>, errors: &mut Errors) {
    let image = container.at("image");
    if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace", errors);
    }
}

fn ports(ports: &Field<'_>, errors: &mut Errors) {
    let mut names_seen = Seen::default();
    ports.each_item(|port, value| {
        let name_field = port.at("name");
        if !name(value).is_empty() {
            let before = errors.len();
            name_field.check(names::port_name, errors);
            if errors.len() == before && !names_seen.insert(name(value)) {
                name_field.duplicate(errors);
            }
        }
        let number = port.at("containerPort");
        if number.int_or_zero() == 0 {
            number.required("", errors);
        } else {
            number.check_int(names::port_number, errors);
        }
        let host = port.at("hostPort");
        if host.int_or_zero() != 0 {
            host.check_int(names::port_number, errors);
        }
        port.at("protocol").required_one_of(&["SCTP", "TCP", "UDP"], errors);
    });
}

/// No two containers that run together have the same port of the node.
fn host_ports<'a>(
    ports: &'a [machinery::Value],
    place: &Field<'_>,
    taken: &mut Seen<(&'a str, &'a str, i64)>,
    errors: &mut Errors,
) {
    for (i, port) in ports.iter().enumerate() {
        let number = port.get("hostPort").and_then(machinery::Value::as_i64).unwrap_or_default();
        let (protocol, address) = (text(port, "protocol"), text(port, "hostIP"));
        if number != 0 && !taken.insert((protocol, address, number)) {
            let port = place.index(i);
            errors.push(FieldError::duplicate(port.at("hostPort"), format!("{protocol}/{address}/{number}")));
        }
    }
}

fn resize_policy(policies: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    policies.each_item(|item, value| {
        let (resource, policy) = (text(value, "resourceName"), text(value, "restartPolicy"));
        if !seen.insert(resource) {
            errors.push(FieldError::duplicate(item, resource));
        }
        policies.with(&resource.into()).required_one_of(&["cpu", "memory"], errors);
        policies.with(&policy.into()).required_one_of(&["NotRequired", "RestartContainer"], errors);
        if scope.never_restarts() && policy != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            policies.invalid_as(policy, detail, errors);
        }
    });
}

fn init_restart_policy(container: &Field<'_>, errors: &mut Errors) {
    let policy = container.at("restartPolicy");
    if policy.is_set() {
        let is_sidecar = policy.text() == "Always";
        match (errors.has("ContainerRestartRules"), is_sidecar) {
            (true, true) if !errors.has("RestartAllContainersOnContainerExits") => {
                let rules = container.at("restartPolicyRules");
                if !rules.is_empty() {
                    let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
                    rules.forbidden(detail, errors);
                }
            }
            (true, _) => restart_rules(container, errors),
            (false, true) => {}
            (false, false) => policy.not_supported(&["Always"], errors),
        }
    } else if !container.at("restartPolicyRules").is_empty() {
        policy.required(RULES_NEED_POLICY, errors);
    }
}

const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";

/// How many rules about restarts a container may have.
const MAX_RULES: usize = 20;
/// How many exit codes a rule may name.
const MAX_CODES: usize = 255;

/// When a container that stays restarts.
fn restart_policy(container: &Field<'_>, errors: &mut Errors) {
    if errors.has("ContainerRestartRules") {
        restart_rules(container, errors);
    } else {
        container.at("restartPolicy").forbid("may not be set for non-init containers", errors);
    }
}

fn restart_rules(container: &Field<'_>, errors: &mut Errors) {
    let (policy, rules) = (container.at("restartPolicy"), container.at("restartPolicyRules"));
    if policy.is_set() {
        policy.one_of(&["Always", "Never", "OnFailure"], errors);
    } else if !rules.is_empty() {
        policy.required(RULES_NEED_POLICY, errors);
    }
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(rules, rules.len(), MAX_RULES));
    }
    let restarts_all = errors.has("RestartAllContainersOnContainerExits");
    let actions = if restarts_all { &["Restart", "RestartAllContainers"][..] } else { &["Restart"] };
    rules.each(|rule| {
        rule.at("action").one_of(actions, errors);
        let codes = rule.at("exitCodes");
        if !codes.is_set() {
            return codes.required("must be specified", errors);
        }
        codes.at("operator").one_of(&["In", "NotIn"], errors);
        let values = codes.at("values");
        if values.len() > MAX_CODES {
            errors.push(FieldError::too_many(values, values.len(), MAX_CODES));
        }
    });
}
