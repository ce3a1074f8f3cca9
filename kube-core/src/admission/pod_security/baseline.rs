//! The checks of the level `baseline`.

use std::collections::BTreeSet;

use machinery::Value;

use super::checks::{Finding, Pod, containers, plural, quoted, setters};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Sysctls that are safe, the oldest first.
const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports", // 1.27
    "net.ipv4.tcp_keepalive_time",      // 1.29
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem", // 1.32
    "net.ipv4.tcp_wmem",
];

/// Types of processes that SELinux confines, the oldest first.
const SE_LINUX_TYPES: [&str; 5] = ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APP_ARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";

fn found(reason: &'static str, detail: String) -> Option<Finding> {
    Some(Finding { reason, detail })
}

/// A member of the security context of a pod's spec or of a container.
pub(super) fn context<'a>(holder: &'a Value, path: &[&str]) -> Option<&'a Value> {
    holder.get("securityContext")?.at(path).filter(|value| !value.is_null())
}

pub(super) fn texts<'a>(holder: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> {
    context(holder, path).and_then(Value::as_array).unwrap_or_default().iter().filter_map(Value::as_str)
}

/// Whether a profile of seccomp or AppArmor confines.
pub(super) fn confines(profile: &Value) -> bool {
    matches!(profile.str_at(&["type"]), Some("RuntimeDefault" | "Localhost"))
}

fn type_of(profile: &Value) -> &str {
    profile.str_at(&["type"]).unwrap_or_default()
}

/// Who sets a profile that does not confine, and to what.
pub(super) fn loose<'a>(pod: &Pod<'a>, profile: &str) -> (bool, Vec<&'a str>, BTreeSet<&'a str>) {
    let is_loose = |holder: &Value| context(holder, &[profile]).is_some_and(|profile| !confines(profile));
    let holders = std::iter::once(pod.spec).chain(pod.containers.iter().copied());
    let values = holders.filter(|holder| is_loose(holder)).filter_map(|holder| context(holder, &[profile]));
    (is_loose(pod.spec), pod.named(is_loose), values.map(type_of).collect())
}

pub(super) fn app_armor(pod: &Pod<'_>) -> Option<Finding> {
    let (by_pod, by_containers, values) = loose(pod, "appArmorProfile");
    let mut values: Vec<String> = values.into_iter().map(str::to_owned).collect();
    let mut set_by: Vec<String> = setters(by_pod, &by_containers).into_iter().collect();
    let allowed = |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations: Vec<String> = pod
        .annotations()
        .filter(|(key, value)| key.starts_with(APP_ARMOR_CONTAINER) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", machinery::meta::go_text::quote(value)))
        .collect();
    if !annotations.is_empty() {
        set_by.push(plural(annotations.len(), "annotation", "annotations").to_owned());
        values.extend(annotations);
    }
    if set_by.is_empty() {
        return None;
    }
    found(
        plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        format!("{} must not set AppArmor profile type to {}", set_by.join(" and "), quoted(&values)),
    )
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Finding> {
    adds_beyond(pod, &CAPABILITIES).and_then(|detail| found("non-default capabilities", detail))
}

/// What is said of containers that add other capabilities than these.
pub(super) fn adds_beyond(pod: &Pod<'_>, allowed: &[&str]) -> Option<String> {
    let beyond = |name: &&str| !allowed.contains(name);
    let named = pod.named(|container| texts(container, &["capabilities", "add"]).any(|name| beyond(&name)));
    let added = pod.containers.iter().flat_map(|container| texts(container, &["capabilities", "add"]));
    let names: BTreeSet<&str> = added.filter(beyond).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let say =
        || format!("{} must not include {} in securityContext.capabilities.add", containers(&named), quoted(&names));
    (!named.is_empty()).then(say)
}

pub(super) fn host_namespaces(pod: &Pod<'_>) -> Option<Finding> {
    let shares = |name: &&str| pod.spec.get(name).and_then(Value::as_bool) == Some(true);
    let shared: Vec<String> =
        ["hostNetwork", "hostPID", "hostIPC"].iter().filter(|n| shares(n)).map(|name| format!("{name}=true")).collect();
    if shared.is_empty() { None } else { found("host namespaces", shared.join(", ")) }
}

pub(super) fn host_paths(pod: &Pod<'_>) -> Option<Finding> {
    let volumes = pod.spec.get("volumes").and_then(Value::as_array).unwrap_or_default();
    let names: Vec<&str> = volumes
        .iter()
        .filter(|volume| volume.get("hostPath").is_some_and(|path| !path.is_null()))
        .map(|volume| volume.str_at(&["name"]).unwrap_or_default())
        .collect();
    if names.is_empty() {
        return None;
    }
    found("hostPath volumes", format!("{} {}", plural(names.len(), "volume", "volumes"), quoted(&names)))
}

pub(super) fn host_ports(pod: &Pod<'_>) -> Option<Finding> {
    fn ports(container: &Value) -> impl Iterator<Item = i64> {
        let ports = container.get("ports").and_then(Value::as_array).unwrap_or_default().iter();
        ports.filter_map(|port| port.get("hostPort")?.as_i64()).filter(|port| *port != 0)
    }
    let named = pod.named(|container| ports(container).next().is_some());
    if named.is_empty() {
        return None;
    }
    let used: BTreeSet<String> = pod.containers.iter().flat_map(|c| ports(c)).map(|port| port.to_string()).collect();
    let used: Vec<String> = used.into_iter().collect();
    let (uses, what) = (plural(named.len(), "uses", "use"), plural(used.len(), "hostPort", "hostPorts"));
    found("hostPort", format!("{} {uses} {what} {}", containers(&named), used.join(", ")))
}

/// Probes and hooks that ask somebody else than the pod.
pub(super) fn probe_hosts(pod: &Pod<'_>) -> Option<Finding> {
    const PLACES: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        let handlers = PLACES.iter().filter_map(|place| container.at(place));
        let hosts = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|how| handler.str_at(&[how, "host"])));
        hosts.flatten().filter(|host| !host.is_empty())
    }
    let named: BTreeSet<&str> = pod.named(|container| hosts(container).next().is_some()).into_iter().collect();
    if named.is_empty() {
        return None;
    }
    let named: Vec<&str> = named.into_iter().collect();
    let asked: BTreeSet<&str> = pod.containers.iter().flat_map(|container| hosts(container)).collect();
    let asked: Vec<&str> = asked.into_iter().collect();
    let what = plural(asked.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    let uses = plural(named.len(), "uses", "use");
    found("probe or lifecycle host", format!("{} {uses} {what} {}", containers(&named), quoted(&asked)))
}

pub(super) fn privileged(pod: &Pod<'_>) -> Option<Finding> {
    let named = pod.named(|c| context(c, &["privileged"]).and_then(Value::as_bool) == Some(true));
    if named.is_empty() {
        return None;
    }
    found("privileged", format!("{} must not set securityContext.privileged=true", containers(&named)))
}

pub(super) fn proc_mount(pod: &Pod<'_>) -> Option<Finding> {
    fn unmasked(container: &Value) -> Option<&str> {
        context(container, &["procMount"])?.as_str().filter(|mount| *mount != "Default")
    }
    let named = pod.named(|container| unmasked(container).is_some());
    if named.is_empty() {
        return None;
    }
    let types: BTreeSet<&str> = pod.containers.iter().filter_map(|container| unmasked(container)).collect();
    let types: Vec<&str> = types.into_iter().collect();
    let detail = format!("{} must not set securityContext.procMount to {}", containers(&named), quoted(&types));
    found("procMount", detail)
}

pub(super) fn proc_mount_of_own_users(pod: &Pod<'_>) -> Option<Finding> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

pub(super) fn se_linux(pod: &Pod<'_>) -> Option<Finding> {
    se_linux_of(pod, &SE_LINUX_TYPES[..4])
}

pub(super) fn se_linux_31(pod: &Pod<'_>) -> Option<Finding> {
    se_linux_of(pod, &SE_LINUX_TYPES)
}

fn se_linux_of(pod: &Pod<'_>, allowed: &[&str]) -> Option<Finding> {
    let text = |options: &'_ Value, member: &str| options.str_at(&[member]).unwrap_or_default().to_owned();
    fn options(holder: &Value) -> Option<&Value> {
        context(holder, &["seLinuxOptions"])
    }
    let odd_type = |options: &Value| Some(text(options, "type")).filter(|name| !allowed.contains(&name.as_str()));
    let sets = |options: &Value, member: &str| !text(options, member).is_empty();
    let is_odd =
        |holder: &Value| options(holder).is_some_and(|o| odd_type(o).is_some() || sets(o, "user") || sets(o, "role"));
    let set_by = setters(is_odd(pod.spec), &pod.named(is_odd))?;
    let all: Vec<&Value> =
        std::iter::once(pod.spec).chain(pod.containers.iter().copied()).filter_map(options).collect();
    let types: BTreeSet<String> = all.iter().filter_map(|options| odd_type(options)).collect();
    let types: Vec<String> = types.into_iter().collect();
    let mut said = Vec::new();
    if !types.is_empty() {
        said.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(&types)));
    }
    for member in ["user", "role"] {
        if all.iter().any(|options| sets(options, member)) {
            said.push(format!("{member} may not be set"));
        }
    }
    found("seLinuxOptions", format!("{set_by} set forbidden securityContext.seLinuxOptions: {}", said.join("; ")))
}

/// Before 1.19 profiles of seccomp stand in annotations.
pub(super) fn seccomp_annotations(pod: &Pod<'_>) -> Option<Finding> {
    let allowed =
        |value: &str| value == "runtime/default" || value == "docker/default" || value.starts_with("localhost/");
    let names = pod.named(|_| true).into_iter().map(|name| format!("{SECCOMP_CONTAINER}{name}"));
    let keys = std::iter::once(SECCOMP_POD.to_owned()).chain(names);
    let forbidden: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = pod.annotation(&key).filter(|value| !allowed(value))?;
            Some(format!("{key}={}", machinery::meta::go_text::quote(value)))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let forbidden: Vec<String> = forbidden.into_iter().collect();
    let what = plural(forbidden.len(), "annotation", "annotations");
    found("seccompProfile", format!("forbidden {what} {}", forbidden.join(", ")))
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Finding> {
    let (by_pod, by_containers, values) = loose(pod, "seccompProfile");
    let set_by = setters(by_pod, &by_containers)?;
    let values: Vec<&str> = values.into_iter().collect();
    let detail = format!("{set_by} must not set securityContext.seccompProfile.type to {}", quoted(&values));
    found("seccompProfile", detail)
}

pub(super) fn sysctls(pod: &Pod<'_>) -> Option<Finding> {
    sysctls_beyond(pod, &SYSCTLS[..5])
}

pub(super) fn sysctls_27(pod: &Pod<'_>) -> Option<Finding> {
    sysctls_beyond(pod, &SYSCTLS[..6])
}

pub(super) fn sysctls_29(pod: &Pod<'_>) -> Option<Finding> {
    sysctls_beyond(pod, &SYSCTLS[..10])
}

pub(super) fn sysctls_32(pod: &Pod<'_>) -> Option<Finding> {
    sysctls_beyond(pod, &SYSCTLS)
}

fn sysctls_beyond(pod: &Pod<'_>, safe: &[&str]) -> Option<Finding> {
    let sysctls = context(pod.spec, &["sysctls"]).and_then(Value::as_array).unwrap_or_default();
    let names = sysctls.iter().map(|sysctl| sysctl.str_at(&["name"]).unwrap_or_default());
    let unsafe_ones: Vec<&str> = names.filter(|name| !safe.contains(name)).collect();
    if unsafe_ones.is_empty() { None } else { found("forbidden sysctls", unsafe_ones.join(", ")) }
}

pub(super) fn host_process(pod: &Pod<'_>) -> Option<Finding> {
    let is_host =
        |holder: &Value| context(holder, &["windowsOptions", "hostProcess"]).and_then(Value::as_bool) == Some(true);
    let set_by = setters(is_host(pod.spec), &pod.named(is_host))?;
    found("hostProcess", format!("{set_by} must not set securityContext.windowsOptions.hostProcess=true"))
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;
    use crate::admission::pod_security::checks::CheckPod;

    fn check(check: CheckPod, pod: &str, expect: Option<(&str, &str)>) {
        let pod = json::decode(pod.as_bytes()).expect("valid JSON");
        let found = check(&Pod::of(&pod));
        assert_eq!(found.as_ref().map(|f| (f.reason, f.detail.as_str())), expect);
    }

    /// A pod of two containers with these security contexts, the pod's own first.
    fn pod(own: &str, first: &str, second: &str) -> String {
        format!(
            r#"{{"spec":{{"securityContext":{own},"containers":[{{"name":"a","securityContext":{first}}},
                {{"name":"b","securityContext":{second}}}]}}}}"#
        )
    }

    #[test]
    fn profiles_confine() {
        let loose = r#"{"appArmorProfile":{"type":"Unconfined"},"seccompProfile":{"type":"Unconfined"}}"#;
        let tight = r#"{"appArmorProfile":{"type":"Localhost"},"seccompProfile":{"type":"RuntimeDefault"}}"#;
        check(
            app_armor,
            &pod(loose, loose, tight),
            Some((
                "forbidden AppArmor profile",
                r#"pod and container "a" must not set AppArmor profile type to "Unconfined""#,
            )),
        );
        check(app_armor, &pod(tight, "{}", tight), None);
        let annotated = r#"{"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined",
            "container.apparmor.security.beta.kubernetes.io/d":"localhost/x"}}}"#;
        check(
            app_armor,
            annotated,
            Some((
                "forbidden AppArmor profile",
                r#"annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/c="unconfined"""#,
            )),
        );
        let detail = r#"containers "a", "b" must not set securityContext.seccompProfile.type to "Unconfined""#;
        check(seccomp, &pod(tight, loose, loose), Some(("seccompProfile", detail)));
        let annotated = r#"{"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}}}"#;
        let detail = r#"forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined""#;
        check(seccomp_annotations, annotated, Some(("seccompProfile", detail)));
        check(seccomp, annotated, None);
    }

    #[test]
    fn containers_keep_to_themselves() {
        let odd = r#"{"privileged":true,"capabilities":{"add":["KILL","NET_RAW"]},
            "windowsOptions":{"hostProcess":true}}"#;
        check(
            privileged,
            &pod("{}", odd, "{}"),
            Some(("privileged", r#"container "a" must not set securityContext.privileged=true"#)),
        );
        check(
            capabilities,
            &pod("{}", odd, odd),
            Some((
                "non-default capabilities",
                r#"containers "a", "b" must not include "NET_RAW" in securityContext.capabilities.add"#,
            )),
        );
        check(
            host_process,
            &pod(odd, "{}", odd),
            Some((
                "hostProcess",
                r#"pod and container "b" must not set securityContext.windowsOptions.hostProcess=true"#,
            )),
        );
        check(
            host_namespaces,
            r#"{"spec":{"hostIPC":true,"hostNetwork":true,"hostPID":false}}"#,
            Some(("host namespaces", "hostNetwork=true, hostIPC=true")),
        );
        check(
            host_ports,
            r#"{"spec":{"containers":[{"name":"a","ports":[{"hostPort":80},{"hostPort":0}]}],
                "initContainers":[{"name":"b","ports":[{"hostPort":443}]}]}}"#,
            Some(("hostPort", r#"containers "b", "a" use hostPorts 443, 80"#)),
        );
    }

    #[test]
    fn labels_of_se_linux_are_those_of_containers() {
        let options = |options: &str| format!(r#"{{"seLinuxOptions":{options}}}"#);
        let detail = |detail: &str| format!("pod set forbidden securityContext.seLinuxOptions: {detail}");
        for (given, expect) in [
            (r#"{"type":"spc_t","user":"u","role":"r"}"#, r#"type "spc_t"; user may not be set; role may not be set"#),
            (r#"{"user":"u"}"#, "user may not be set"),
            (r#"{"type":"container_engine_t"}"#, r#"type "container_engine_t""#),
        ] {
            let expect = detail(expect);
            check(se_linux, &pod(&options(given), "{}", "{}"), Some(("seLinuxOptions", &expect)));
        }
        check(se_linux_31, &pod(&options(r#"{"type":"container_engine_t"}"#), "{}", "{}"), None);
        check(se_linux, &pod(&options(r#"{"level":"s0","type":"container_t"}"#), "{}", "{}"), None);
    }
}
