//! Pods for one operating system.

use machinery::{Value, meta::names};

use super::scope::{Scope, each_container};
use crate::validation::{Errors, Field};

/// The most that a credential spec may hold, in KiB.
const MAX_CREDENTIAL_KIB: usize = 64;
/// The lengths of the two parts of a user's name.
const MAX_DOMAIN: usize = 256;
const MAX_USER: usize = 104;

/// Options of a container on Windows.
pub(super) fn options(options: &Field<'_>, errors: &mut Errors) {
    if !options.is_set() {
        return;
    }
    let spec_name = options.at("gmsaCredentialSpecName");
    if spec_name.is_set() {
        spec_name.check(names::dns1123_subdomain, errors);
    }
    let spec = options.at("gmsaCredentialSpec");
    if spec.is_set() {
        match spec.text().len() {
            0 => spec.invalid("gmsaCredentialSpec cannot be an empty string", errors),
            n if n > MAX_CREDENTIAL_KIB * 1024 => {
                spec.invalid(format!("gmsaCredentialSpec size must be under {MAX_CREDENTIAL_KIB} KiB"), errors);
            }
            _ => {}
        }
    }
    let user = options.at("runAsUserName");
    if user.is_set() {
        user_name(&user, errors);
    }
}

fn user_name(field: &Field<'_>, errors: &mut Errors) {
    let text = field.text();
    if text.is_empty() {
        return field.invalid("runAsUserName cannot be an empty string", errors);
    }
    if text.bytes().any(|c| c.is_ascii_control()) {
        return field.invalid("runAsUserName cannot contain control characters", errors);
    }
    let mut parts = text.split('\\');
    let (domain, user) = match (parts.next(), parts.next(), parts.next()) {
        (Some(user), None, _) => (None, user),
        (Some(domain), Some(user), None) => (Some(domain), user),
        _ => return field.invalid("runAsUserName cannot contain more than one backslash", errors),
    };
    if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN) {
        field.invalid(format!("runAsUserName's Domain length must be under {MAX_DOMAIN} characters"), errors);
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        field.invalid("runAsUserName's Domain doesn't match the NetBios nor the DNS format", errors);
    }
    if user.is_empty() {
        field.invalid("runAsUserName's User cannot be empty", errors);
    } else if user.len() > MAX_USER {
        let detail = format!("runAsUserName's User length must not be longer than {MAX_USER} characters");
        field.invalid(detail, errors);
    }
    if !user.is_empty() && user.bytes().all(|c| matches!(c, b'.' | b' ')) {
        field.invalid("runAsUserName's User cannot contain only periods or spaces", errors);
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let detail = r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        field.invalid(detail, errors);
    }
}

fn is_net_bios(domain: &str) -> bool {
    let fine = |c: char| !matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && domain.chars().all(fine)
}

fn is_dns(domain: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(label)
}

/// Containers that run as the node's own processes: all of a pod's do, or none.
pub(super) fn host_process(spec: &Field<'_>, scope: &Scope<'_>, errors: &mut Errors) {
    let flag =
        |holder: &Value| holder.at(&["securityContext", "windowsOptions", "hostProcess"]).and_then(Value::as_bool);
    let of_pod = flag(spec.value());
    let (mut all, mut on_host) = (0, 0);
    each_container(spec, |container, value| {
        all += 1;
        let own = flag(value);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let context = container.at("securityContext");
            let options = context.at("windowsOptions");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            options.at("hostProcess").invalid_as(own, detail, errors);
        }
        if own.or(of_pod) == Some(true) {
            on_host += 1;
        }
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        spec.invalid_as("", detail, errors);
    }
    if !scope.shares("hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        spec.at("hostNetwork").invalid_as(false, detail, errors);
    }
    if !crate::capabilities::allows_privileged() {
        spec.forbidden("hostProcess containers are disallowed by cluster policy", errors);
    }
}

/// The system that a pod is for, and what it rules out.
pub(super) fn os(spec: &Field<'_>, errors: &mut Errors) {
    let os = spec.at("os");
    if !os.is_set() || !os.at("name").is_given(errors) {
        return;
    }
    let name = os.at("name");
    match name.text() {
        "linux" => only_linux(spec, errors),
        "windows" => only_windows(spec, errors),
        other => os.with(&other.into()).not_supported(&["linux", "windows"], errors),
    }
}

fn only_linux(spec: &Field<'_>, errors: &mut Errors) {
    const DETAIL: &str = "windows options cannot be set for a linux pod";
    spec.at("securityContext").at("windowsOptions").forbid(DETAIL, errors);
    each_container(spec, |container, _| {
        container.at("securityContext").at("windowsOptions").forbid(DETAIL, errors);
    });
}

/// What Windows knows nothing of, in a pod: the member of the spec, and the member of its security context.
const NOT_OF_WINDOWS: &[(&str, &str)] = &[
    ("securityContext", "appArmorProfile"),
    ("securityContext", "seLinuxOptions"),
    ("hostUsers", ""),
    ("hostPID", ""),
    ("hostIPC", ""),
    ("securityContext", "seccompProfile"),
    ("securityContext", "fsGroup"),
    ("securityContext", "fsGroupChangePolicy"),
    ("securityContext", "sysctls"),
    ("shareProcessNamespace", ""),
    ("securityContext", "runAsUser"),
    ("securityContext", "runAsGroup"),
    ("securityContext", "supplementalGroups"),
    ("securityContext", "supplementalGroupsPolicy"),
    ("securityContext", "seLinuxChangePolicy"),
];

/// The same of a container's security context.
const NOT_OF_WINDOWS_CONTAINERS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn only_windows(spec: &Field<'_>, errors: &mut Errors) {
    const DETAIL: &str = "cannot be set for a windows pod";
    if spec.at("securityContext").is_set() {
        for (member, of_context) in NOT_OF_WINDOWS {
            let outer = spec.at(member);
            let inner = outer.at(of_context);
            let field = if of_context.is_empty() { &outer } else { &inner };
            // Go holds these by value: what is false or empty is not there.
            let unset = match (*member, *of_context) {
                ("hostPID" | "hostIPC", _) => !field.is_true(),
                (_, "sysctls") => field.is_empty(),
                _ => !field.is_set(),
            };
            if !unset {
                field.forbidden(DETAIL, errors);
            }
        }
    }
    each_container(spec, |container, _| {
        let context = container.at("securityContext");
        for member in NOT_OF_WINDOWS_CONTAINERS {
            context.at(member).forbid(DETAIL, errors);
        }
    });
}
