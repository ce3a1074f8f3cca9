//! The checks of the level `restricted`.

use std::collections::BTreeSet;

use machinery::Value;

use super::{
    baseline::{adds_beyond, confines, context, loose, texts},
    checks::{Finding, Pod, containers, plural, quoted, setters},
};

/// Volumes that hold what the pod or its namespace owns.
const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// The others.
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn found(reason: &'static str, detail: String) -> Option<Finding> {
    Some(Finding { reason, detail })
}

fn flag(holder: &Value, member: &str) -> Option<bool> {
    context(holder, &[member])?.as_bool()
}

pub(super) fn escalation(pod: &Pod<'_>) -> Option<Finding> {
    let named = pod.named(|container| flag(container, "allowPrivilegeEscalation") != Some(false));
    if named.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&named));
    found("allowPrivilegeEscalation != false", detail)
}

pub(super) fn escalation_25(pod: &Pod<'_>) -> Option<Finding> {
    if pod.is_windows() { None } else { escalation(pod) }
}

pub(super) fn capabilities(pod: &Pod<'_>) -> Option<Finding> {
    let keeps = pod.named(|container| !texts(container, &["capabilities", "drop"]).any(|name| name == "ALL"));
    let mut said = Vec::new();
    if !keeps.is_empty() {
        said.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeps)));
    }
    said.extend(adds_beyond(pod, &["NET_BIND_SERVICE"]));
    if said.is_empty() { None } else { found("unrestricted capabilities", said.join("; ")) }
}

pub(super) fn capabilities_25(pod: &Pod<'_>) -> Option<Finding> {
    if pod.is_windows() { None } else { capabilities(pod) }
}

pub(super) fn volumes(pod: &Pod<'_>) -> Option<Finding> {
    let volumes = pod.spec.get("volumes").and_then(Value::as_array).unwrap_or_default();
    let is_of = |volume: &Value, kind: &str| volume.get(kind).is_some_and(|source| !source.is_null());
    let odd: Vec<&Value> = volumes.iter().filter(|volume| !VOLUMES.iter().any(|kind| is_of(volume, kind))).collect();
    if odd.is_empty() {
        return None;
    }
    let names: Vec<&str> = odd.iter().map(|volume| volume.str_at(&["name"]).unwrap_or_default()).collect();
    let kind_of = |volume: &&Value| OTHER_VOLUMES.into_iter().find(|kind| is_of(volume, kind)).unwrap_or("unknown");
    let kinds: BTreeSet<&str> = odd.iter().map(kind_of).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let (what, uses) = (plural(names.len(), "volume", "volumes"), plural(names.len(), "uses", "use"));
    let types = plural(kinds.len(), "restricted volume type", "restricted volume types");
    found("restricted volume types", format!("{what} {} {uses} {types} {}", quoted(&names), quoted(&kinds)))
}

pub(super) fn non_root(pod: &Pod<'_>) -> Option<Finding> {
    const REASON: &str = "runAsNonRoot != true";
    let own = flag(pod.spec, "runAsNonRoot");
    let roots = pod.named(|container| flag(container, "runAsNonRoot") == Some(false));
    if let Some(set_by) = setters(own == Some(false), &roots) {
        return found(REASON, format!("{set_by} must not set securityContext.runAsNonRoot=false"));
    }
    let open = pod.named(|container| own != Some(true) && flag(container, "runAsNonRoot").is_none());
    if open.is_empty() {
        return None;
    }
    found(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&open)))
}

pub(super) fn non_root_35(pod: &Pod<'_>) -> Option<Finding> {
    if pod.has_own_users() { None } else { non_root(pod) }
}

pub(super) fn user(pod: &Pod<'_>) -> Option<Finding> {
    let is_root = |holder: &Value| context(holder, &["runAsUser"]).and_then(Value::as_i64) == Some(0);
    let set_by = setters(is_root(pod.spec), &pod.named(is_root))?;
    found("runAsUser=0", format!("{set_by} must not set runAsUser=0"))
}

pub(super) fn user_35(pod: &Pod<'_>) -> Option<Finding> {
    if pod.has_own_users() { None } else { user(pod) }
}

pub(super) fn seccomp(pod: &Pod<'_>) -> Option<Finding> {
    const REASON: &str = "seccompProfile";
    let (by_pod, by_containers, values) = loose(pod, "seccompProfile");
    if let Some(set_by) = setters(by_pod, &by_containers) {
        let values: Vec<&str> = values.into_iter().collect();
        let detail = format!("{set_by} must not set securityContext.seccompProfile.type to {}", quoted(&values));
        return found(REASON, detail);
    }
    let is_confined = context(pod.spec, &["seccompProfile"]).is_some_and(confines);
    let open = pod.named(|container| !is_confined && context(container, &["seccompProfile"]).is_none());
    if open.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&open)
    );
    found(REASON, detail)
}

pub(super) fn seccomp_25(pod: &Pod<'_>) -> Option<Finding> {
    if pod.is_windows() { None } else { seccomp(pod) }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;
    use crate::admission::pod_security::checks::CheckPod;

    fn check(check: CheckPod, spec: &str, expect: Option<&str>) {
        let pod = json::decode(format!(r#"{{"spec":{spec}}}"#).as_bytes()).expect("valid JSON");
        assert_eq!(check(&Pod::of(&pod)).map(|finding| finding.detail).as_deref(), expect);
    }

    #[test]
    fn nobody_becomes_root() {
        let own = |own: &str, container: &str| {
            format!(
                r#"{{"securityContext":{own},"containers":[{{"name":"a"}},{{"name":"b","securityContext":{container}}}]}}"#
            )
        };
        let open = r#"pod or container "a" must set securityContext.runAsNonRoot=true"#;
        check(non_root, &own("{}", r#"{"runAsNonRoot":true}"#), Some(open));
        check(non_root, &own(r#"{"runAsNonRoot":true}"#, "{}"), None);
        let set = r#"pod and container "b" must not set securityContext.runAsNonRoot=false"#;
        check(non_root, &own(r#"{"runAsNonRoot":false}"#, r#"{"runAsNonRoot":false}"#), Some(set));
        check(user, &own("{}", r#"{"runAsUser":0}"#), Some(r#"container "b" must not set runAsUser=0"#));
        check(user, &own(r#"{"runAsUser":1}"#, "{}"), None);
        check(non_root_35, r#"{"hostUsers":false,"containers":[{"name":"a"}]}"#, None);
        check(user_35, r#"{"hostUsers":false,"securityContext":{"runAsUser":0}}"#, None);
    }

    #[test]
    fn capabilities_are_dropped() {
        check(
            capabilities,
            r#"{"containers":[{"name":"a","securityContext":{"capabilities":{"drop":["ALL"],"add":["NET_BIND_SERVICE"]}}},
                {"name":"b","securityContext":{"capabilities":{"drop":["KILL"],"add":["CHOWN"]}}}]}"#,
            Some(
                r#"container "b" must set securityContext.capabilities.drop=["ALL"]; container "b" must not include "CHOWN" in securityContext.capabilities.add"#,
            ),
        );
        check(capabilities_25, r#"{"os":{"name":"windows"},"containers":[{"name":"a"}]}"#, None);
    }

    #[test]
    fn profiles_are_named() {
        let open =
            r#"pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#;
        check(seccomp, r#"{"containers":[{"name":"a"}]}"#, Some(open));
        let tight = r#""securityContext":{"seccompProfile":{"type":"Localhost"}}"#;
        check(seccomp, &format!(r#"{{{tight},"containers":[{{"name":"a"}}]}}"#), None);
        check(seccomp, &format!(r#"{{"containers":[{{"name":"a",{tight}}}]}}"#), None);
    }

    #[test]
    fn volumes_are_the_pods_own() {
        let one = r#"volume "x" uses restricted volume type "unknown""#;
        check(volumes, r#"{"volumes":[{"name":"x"},{"name":"y","secret":{}}]}"#, Some(one));
        let two = r#"volumes "x", "y" use restricted volume type "nfs""#;
        check(volumes, r#"{"volumes":[{"name":"x","nfs":{}},{"name":"y","nfs":{}}]}"#, Some(two));
    }
}
