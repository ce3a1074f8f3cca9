//! The table of checks, and what becomes of their findings.

use machinery::{Map, Value, meta::Meta};

use super::{
    baseline as b,
    policy::{Demand, Level, Version},
    restricted as r,
};

/// A pod or a template of one, as checks see it.
pub(super) struct Pod<'a> {
    annotations: Option<&'a Map>,
    pub(super) spec: &'a Value,
    /// All containers: those that initialise first, then the pod's own, then those that came later.
    pub(super) containers: Vec<&'a Value>,
}

impl<'a> Pod<'a> {
    /// A pod, or a pod template: an object with metadata and a spec.
    pub(super) fn of(pod: &'a Value) -> Self {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let list = |name: &str| spec.get(name).and_then(Value::as_array).unwrap_or_default();
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        Pod { annotations: Meta::of(pod).annotations(), spec, containers: lists.into_iter().flat_map(list).collect() }
    }

    pub(super) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.annotations.into_iter().flatten();
        annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations?.get(key)?.as_str()
    }

    /// The names of the containers of which this holds.
    pub(super) fn named(&self, holds: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers.iter().filter(|c| holds(c)).map(|c| c.str_at(&["name"]).unwrap_or_default()).collect()
    }

    /// Whether root in the pod is nobody outside of it.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec.str_at(&["os", "name"]) == Some("windows")
    }
}

/// What a check has against a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

/// What a check does; none if it has nothing against the pod.
pub(super) type CheckPod = fn(&Pod<'_>) -> Option<Finding>;

/// One check, as it is from some version on.
struct Check {
    name: &'static str,
    level: Level,
    /// What it does from which minor version on, the oldest first.
    versions: &'static [(u32, CheckPod)],
    /// The weaker check that need not look where this one does.
    replaces: &'static str,
}

const fn baseline(name: &'static str, versions: &'static [(u32, CheckPod)]) -> Check {
    Check { name, level: Level::Baseline, versions, replaces: "" }
}

const fn restricted(name: &'static str, versions: &'static [(u32, CheckPod)], replaces: &'static str) -> Check {
    Check { name, level: Level::Restricted, versions, replaces }
}

/// Every check of v1.36, in the order in which findings are told.
const CHECKS: [Check; 19] = [
    baseline("appArmorProfile", &[(0, b::app_armor)]),
    baseline("capabilities_baseline", &[(0, b::capabilities)]),
    baseline("hostNamespaces", &[(0, b::host_namespaces)]),
    baseline("hostPathVolumes", &[(0, b::host_paths)]),
    baseline("hostPorts", &[(0, b::host_ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, b::probe_hosts)]),
    baseline("privileged", &[(0, b::privileged)]),
    baseline("procMount", &[(0, b::proc_mount), (35, b::proc_mount_of_own_users)]),
    baseline("seLinuxOptions", &[(0, b::se_linux), (31, b::se_linux_31)]),
    baseline("seccompProfile_baseline", &[(0, b::seccomp_annotations), (19, b::seccomp)]),
    baseline("sysctls", &[(0, b::sysctls), (27, b::sysctls_27), (29, b::sysctls_29), (32, b::sysctls_32)]),
    baseline("windowsHostProcess", &[(0, b::host_process)]),
    restricted("allowPrivilegeEscalation", &[(8, r::escalation), (25, r::escalation_25)], ""),
    restricted("capabilities_restricted", &[(22, r::capabilities), (25, r::capabilities_25)], "capabilities_baseline"),
    restricted("procMount_restricted", &[(35, b::proc_mount)], "procMount"),
    restricted("restrictedVolumes", &[(0, r::volumes)], "hostPathVolumes"),
    restricted("runAsNonRoot", &[(0, r::non_root), (35, r::non_root_35)], ""),
    restricted("runAsUser", &[(23, r::user), (35, r::user_35)], ""),
    restricted("seccompProfile_restricted", &[(19, r::seccomp), (25, r::seccomp_25)], "seccompProfile_baseline"),
];

impl Check {
    /// What the check does in a version; none if it is not made there.
    fn at(&self, version: Version) -> Option<CheckPod> {
        let from = |(minor, _): &&(u32, CheckPod)| Version::Minor(*minor) <= version;
        self.versions.iter().rev().find(from).map(|(_, check)| *check)
    }
}

/// What is wrong with a pod where this is asked of it.
pub(super) fn findings(demand: Demand, pod: &Pod<'_>) -> Vec<Finding> {
    if demand.level == Level::Privileged {
        return Vec::new();
    }
    let made = |check: &&Check| check.level <= demand.level && check.at(demand.version).is_some();
    let is_replaced = |check: &Check| CHECKS.iter().filter(made).any(|stricter| stricter.replaces == check.name);
    let checks = CHECKS.iter().filter(made).filter(|check| !is_replaced(check));
    checks.filter_map(|check| check.at(demand.version)?(pod)).collect()
}

/// The findings with what they are about.
pub(super) fn told(findings: &[Finding]) -> String {
    let told = |finding: &Finding| match finding.detail.as_str() {
        "" => finding.reason.to_owned(),
        detail => format!("{} ({detail})", finding.reason),
    };
    findings.iter().map(told).collect::<Vec<_>>().join(", ")
}

/// The findings in short.
pub(super) fn reasons(findings: &[Finding]) -> String {
    findings.iter().map(|finding| finding.reason).collect::<Vec<_>>().join(", ")
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers<S: AsRef<str>>(names: &[S]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// `"a", "b"`
pub(super) fn quoted<S: AsRef<str>>(texts: &[S]) -> String {
    texts.iter().map(|text| format!("\"{}\"", text.as_ref())).collect::<Vec<_>>().join(", ")
}

pub(super) fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Those who set something: the pod, some containers.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".into()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[track_caller]
    fn check(level: Level, version: Version, pod: &str, expect: &str) {
        let pod = json::decode(pod.as_bytes()).expect("valid JSON");
        assert_eq!(told(&findings(Demand { level, version }, &Pod::of(&pod))), expect);
    }

    #[test]
    fn a_stricter_check_stands_for_the_weaker_one() {
        let volumes =
            r#"{"spec":{"volumes":[{"name":"h","hostPath":{}},{"name":"n","nfs":{}},{"name":"i","image":{}}]}}"#;
        check(Level::Baseline, Version::Latest, volumes, r#"hostPath volumes (volume "h")"#);
        let types = r#"restricted volume types (volumes "h", "n" use restricted volume types "hostPath", "nfs")"#;
        check(Level::Restricted, Version::Latest, volumes, types);
        let adds = r#"{"spec":{"containers":[{"name":"c","securityContext":{"capabilities":{"add":["SYS_TIME"]}}}]}}"#;
        let found = r#"non-default capabilities (container "c" must not include "SYS_TIME" in securityContext.capabilities.add)"#;
        check(Level::Baseline, Version::Minor(0), adds, found);
        // Before 1.22 there is no stricter one.
        check(
            Level::Restricted,
            Version::Minor(7),
            adds,
            &format!(
                "{found}, runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)"
            ),
        );
    }

    #[test]
    fn checks_are_those_of_the_version() {
        let probe = r#"{"spec":{"containers":[{"name":"c","livenessProbe":{"tcpSocket":{"host":"10.0.0.1"}}}]}}"#;
        check(Level::Baseline, Version::Minor(33), probe, "");
        let host = r#"probe or lifecycle host (container "c" uses probe or lifecycle host "10.0.0.1")"#;
        check(Level::Baseline, Version::Minor(34), probe, host);
        check(Level::Baseline, Version::Minor(99), probe, host);
        check(Level::Privileged, Version::Latest, probe, "");
        let unmasked = r#"{"spec":{"hostUsers":false,
            "containers":[{"name":"c","securityContext":{"procMount":"Unmasked"}}]}}"#;
        let found = r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#;
        check(Level::Baseline, Version::Minor(34), unmasked, found);
        check(Level::Baseline, Version::Latest, unmasked, "");
        let sysctls = r#"{"spec":{"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem"},
            {"name":"net.ipv4.tcp_keepalive_time"},{"name":"net.ipv4.ip_local_reserved_ports"}]}}}"#;
        let forbidden = |names: &str| format!("forbidden sysctls ({names})");
        let all = "net.ipv4.tcp_rmem, net.ipv4.tcp_keepalive_time, net.ipv4.ip_local_reserved_ports";
        check(Level::Baseline, Version::Minor(26), sysctls, &forbidden(all));
        let some = "net.ipv4.tcp_rmem, net.ipv4.tcp_keepalive_time";
        check(Level::Baseline, Version::Minor(28), sysctls, &forbidden(some));
        check(Level::Baseline, Version::Minor(31), sysctls, &forbidden("net.ipv4.tcp_rmem"));
        check(Level::Baseline, Version::Minor(32), sysctls, "");
    }

    #[test]
    fn the_table_is_sound() {
        for check in &CHECKS {
            assert!(check.versions.is_sorted_by_key(|(minor, _)| *minor), "{}", check.name);
            assert!(check.replaces.is_empty() || CHECKS.iter().any(|c| c.name == check.replaces), "{}", check.name);
        }
        assert!(CHECKS.is_sorted_by(|a, b| (a.level, a.name) < (b.level, b.name)));
    }
}
