//! Validates security contexts of containers.

use machinery::{Value, meta::field_error::FieldError, meta::names};

use super::{
    internal, paths,
    scope::{Scope, is_true, list, name},
    windows,
};
use crate::{
    capabilities,
    validation::{Errors, Field, Seen},
};

/// A container's security context.
pub(super) fn container(context: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    let privileged = context.at("privileged");
    if privileged.is_true() && !capabilities::allows_privileged() {
        privileged.forbidden("disallowed by cluster policy", errors);
    }
    context.at("runAsUser").check_some_int(names::unix_id, errors);
    context.at("runAsGroup").check_some_int(names::unix_id, errors);
    let mount = context.at("procMount");
    mount.some_one_of(&["Default", "Unmasked"], errors);
    if scope.host_users() && mount.text() == "Unmasked" {
        mount.invalid("`hostUsers` must be false to use `Unmasked`", errors);
    }
    seccomp(&context.at("seccompProfile"), errors);
    escalation(context, errors);
    windows::options(&context.at("windowsOptions"), errors);
    app_armor(&context.at("appArmorProfile"), errors);
}

fn escalation(context: &Field<'_>, errors: &mut Errors) {
    if context.value().get("allowPrivilegeEscalation").and_then(Value::as_bool) != Some(false) {
        return;
    }
    let shown = || internal::shown("SecurityContext", context.value());
    if context.at("privileged").is_true() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        context.invalid_as(shown(), detail, errors);
    }
    let added = context.value().at(&["capabilities", "add"]).and_then(Value::as_array).unwrap_or_default();
    for _ in added.iter().filter(|c| c.as_str() == Some("CAP_SYS_ADMIN")) {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        context.invalid_as(shown(), detail, errors);
    }
}

/// A pod's security context.
pub(super) fn pod(context: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    for member in ["fsGroup", "runAsUser", "runAsGroup"] {
        context.at(member).check_some_int(names::unix_id, errors);
    }
    context.at("supplementalGroups").each(|group| group.check_int(names::unix_id, errors));
    if scope.shares("hostPID") && scope.shares("shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        context.at("shareProcessNamespace").invalid_as(true, detail, errors);
    }
    sysctls(&context.at("sysctls"), scope, errors);
    context.at("fsGroupChangePolicy").some_one_of(&["Always", "OnRootMismatch"], errors);
    seccomp(&context.at("seccompProfile"), errors);
    windows::options(&context.at("windowsOptions"), errors);
    app_armor(&context.at("appArmorProfile"), errors);
    context.at("supplementalGroupsPolicy").some_one_of(&["Merge", "Strict"], errors);
    let had_policy =
        scope.tolerates(|old| old.at(&["securityContext", "seLinuxChangePolicy"]).is_some_and(|p| !p.is_null()));
    let policies =
        if errors.has("SELinuxMount") || had_policy { &["MountOption", "Recursive"][..] } else { &["Recursive"] };
    context.at("seLinuxChangePolicy").some_one_of(policies, errors);
}

fn seccomp(profile: &Field<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    if kind.is_empty() {
        kind.required("type is required when seccompProfile is set", errors);
    } else {
        kind.one_of(&["Localhost", "RuntimeDefault", "Unconfined"], errors);
    }
    match (kind.text(), local.is_set()) {
        ("Localhost", false) => local.required("must be set when seccomp type is Localhost", errors),
        ("Localhost", true) => paths::descending(&local, errors),
        (_, true) => {
            let shown = internal::shown("SeccompProfile", profile.value());
            local.invalid_as(shown, "can only be set when seccomp type is Localhost", errors);
        }
        (_, false) => {}
    }
}

/// The longest path that Linux takes.
const MAX_PROFILE: usize = 4095;

fn app_armor(profile: &Field<'_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.at("type"), profile.at("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            let trimmed = local.text().trim();
            if local.is_set() && trimmed != local.text() {
                local.invalid("must not be padded with whitespace", errors);
            } else if trimmed.is_empty() {
                local.required("must be set when AppArmor type is Localhost", errors);
            }
            if local.text().len() > MAX_PROFILE {
                errors.push(FieldError::too_long(local, MAX_PROFILE));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                local.invalid("can only be set when AppArmor type is Localhost", errors);
            }
        }
        "" => kind.required("type is required when appArmorProfile is set", errors),
        _ => kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"], errors),
    }
}

/// The longest name of a kernel parameter.
const MAX_SYSCTL: usize = 253;

fn sysctls(parameters: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let mut seen = Seen::default();
    parameters.each_item(|parameter, value| {
        let key = parameter.at("name");
        if key.is_given(errors) {
            if !is_sysctl(key.text()) {
                let detail = format!(
                    "must have at most {MAX_SYSCTL} characters and match regex \
                     ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
                );
                key.invalid(detail, errors);
            } else if seen.contains(name(value)) {
                key.duplicate(errors);
            }
        }
        if let Some(namespace) = shared_by(name(value), scope.spec)
            && !scope.tolerates(has_shared_sysctls)
        {
            key.invalid(format!("may not be specified when '{namespace}' is true"), errors);
        }
        seen.insert(name(value));
    });
}

/// Segments of letters, digits, dashes and underscores between letters or digits, joined by dots or slashes.
fn is_sysctl(name: &str) -> bool {
    let ends = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let segment = |s: &str| {
        let bytes = s.as_bytes();
        bytes.first().is_some_and(|c| ends(*c))
            && bytes.last().is_some_and(|c| ends(*c))
            && bytes.iter().all(|c| ends(*c) || matches!(c, b'-' | b'_'))
    };
    name.len() <= MAX_SYSCTL && name.split(['.', '/']).all(segment)
}

/// The node's namespace that a spec shares and in which a kernel parameter is.
fn shared_by(parameter: &str, spec: &Value) -> Option<&'static str> {
    let dotted = dotted(parameter);
    let ipc = dotted.starts_with("kernel.shm")
        || dotted.starts_with("kernel.msg")
        || dotted.starts_with("fs.mqueue.")
        || dotted == "kernel.sem";
    if is_true(spec, "hostNetwork") && dotted.starts_with("net.") {
        Some("hostNetwork")
    } else if is_true(spec, "hostIPC") && ipc {
        Some("hostIPC")
    } else {
        None
    }
}

/// A parameter written with slashes has its dots and slashes exchanged.
fn dotted(parameter: &str) -> std::borrow::Cow<'_, str> {
    match parameter.find(['.', '/']) {
        Some(first) if parameter.as_bytes()[first] == b'/' => {
            let exchange = |c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            };
            parameter.chars().map(exchange).collect::<String>().into()
        }
        _ => parameter.into(),
    }
}

fn has_shared_sysctls(spec: &Value) -> bool {
    let parameters = spec.get("securityContext").map(|context| list(context, "sysctls")).unwrap_or_default();
    parameters.iter().any(|parameter| shared_by(name(parameter), spec).is_some())
}

/// Containers with a user namespace of their own share none of the node's other namespaces, and have no devices.
pub(super) fn host_users(spec: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    const DETAIL: &str = "when `hostUsers` is false";
    if scope.host_users() {
        return;
    }
    let has_own = |old: &Value| old.get("hostUsers").and_then(Value::as_bool) == Some(false);
    let with_network = |old: &Value| has_own(old) && super::scope::is_true(old, "hostNetwork");
    let may_share_network = errors.has("UserNamespacesHostNetworkSupport") || scope.tolerates(with_network);
    // Upstream spells the last two like this.
    for (namespace, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if scope.shares(namespace) && !(namespace == "hostNetwork" && may_share_network) {
            spec.at(shown).forbidden(DETAIL, errors);
        }
    }
    if scope.tolerates(|old| has_own(old) && has_devices(old)) {
        return;
    }
    super::scope::each_container(spec, |container, value| {
        if !list(value, "volumeDevices").is_empty() {
            container.at("volumeDevices").forbidden(DETAIL, errors);
        }
    });
}

fn has_devices(spec: &Value) -> bool {
    super::scope::containers(spec).any(|container| !list(container, "volumeDevices").is_empty())
}
