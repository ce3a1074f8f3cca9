//! Mirror pods: what a kubelet runs from a file opens no other object of the API to it.

use machinery::Value;

use super::{holds, node_name};
use crate::{admission::is_mirror, node_authorizer::references_of};

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Sources of volumes by member. Those with a text are made of an object of the API, and the text says of which.
const VOLUMES: [(&str, Option<&str>); 29] = [
    ("awsElasticBlockStore", None),
    ("azureDisk", None),
    ("cephfs", None),
    ("cinder", None),
    ("downwardAPI", None),
    ("emptyDir", None),
    ("fc", None),
    ("flexVolume", None),
    ("flocker", None),
    ("gcePersistentDisk", None),
    ("gitRepo", None),
    ("hostPath", None),
    ("image", None),
    ("iscsi", None),
    ("nfs", None),
    ("photonPersistentDisk", None),
    ("portworxVolume", None),
    ("quobyte", None),
    ("rbd", None),
    ("scaleIO", None),
    ("storageos", None),
    ("vsphereVolume", None),
    ("configMap", Some("configmaps (via configmap volumes)")),
    ("secret", Some("secrets (via secret volumes)")),
    ("csi", Some("csidrivers (via CSI volumes)")),
    ("glusterfs", Some("endpoints (via glusterFS volumes)")),
    ("persistentVolumeClaim", Some("persistentvolumeclaims")),
    ("ephemeral", Some("persistentvolumeclaims (via ephemeral volumes)")),
    ("azureFile", Some("secrets (via azureFile volumes)")),
];
/// The same for what a projected volume is made of.
const PROJECTED: [(&str, Option<&str>); 6] = [
    ("configMap", Some("configmaps (via projected volumes)")),
    ("secret", Some("secrets (via projected volumes)")),
    ("serviceAccountToken", Some("serviceaccounts (via projected volumes)")),
    ("clusterTrustBundle", Some("clustertrustbundles")),
    ("podCertificate", Some("podcertificates")),
    ("downwardAPI", None),
];

/// Whether a pod is a mirror pod of the node that names nothing.
pub(super) fn check(pod: &Value, node: &str) -> Result<(), String> {
    let why = format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods");
    holds(is_mirror(pod), why)?;
    let why = format!("node {node:?} can only create pods with spec.nodeName set to itself");
    holds(node_name(pod) == node, why)
}

/// Whether a pod names no object of the API.
pub(super) fn names_nothing(pod: &Value, node: &str) -> Result<(), String> {
    let found = named(pod).map_err(|why| format!("error checking mirror pod for API references: {why}"))?;
    found.map_or(Ok(()), |what| Err(format!("node {node:?} can not create pods that reference {what}")))
}

/// What kind of object a pod names, if it does.
fn named(pod: &Value) -> Result<Option<&'static str>, String> {
    if !pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default().is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    let names = references_of(pod);
    if names.any_secret() {
        return Ok(Some("secrets"));
    }
    if names.any_config_map() {
        return Ok(Some("configmaps"));
    }
    let list = |value: &'_ Value, path: &[&str]| value.at(path).and_then(Value::as_array).unwrap_or_default().to_vec();
    if !list(pod, &["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in list(pod, &["spec", "volumes"]) {
        let name = volume.str_at(&["name"]).unwrap_or_default();
        if let Some((_, found)) = VOLUMES.iter().find(|(member, _)| has(&volume, member)) {
            if found.is_some() {
                return Ok(*found);
            }
            continue;
        }
        if !has(&volume, "projected") {
            return Err(format!("unknown volume type for volume  {name:?}"));
        }
        for source in list(&volume, &["projected", "sources"]) {
            let found = PROJECTED.iter().find(|(member, _)| has(&source, member));
            let (_, found) = found.ok_or_else(|| format!("unknown source for projected volume {name:?}"))?;
            if found.is_some() {
                return Ok(*found);
            }
        }
    }
    Ok(None)
}

fn has(value: &Value, member: &str) -> bool {
    value.get(member).is_some_and(|source| !source.is_null())
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    /// `expect` is what the pod references, or `=` and the whole refusal.
    fn check_spec(spec: &str, expect: Result<(), &str>) {
        let pod = format!(r#"{{"metadata":{{"annotations":{{"kubernetes.io/config.mirror":"x"}}}},"spec":{spec}}}"#);
        let pod = json::decode(pod.as_bytes()).expect("JSON");
        let found = check(&pod, "n1").and_then(|()| names_nothing(&pod, "n1"));
        let whole = |what: &str| match what.strip_prefix('=') {
            Some(whole) => whole.to_owned(),
            None => format!("node \"n1\" can not create pods that reference {what}"),
        };
        assert_eq!(found, expect.map_err(whole), "{spec}");
    }

    #[test]
    fn mirror_pods_are_of_the_node() {
        check_spec(r#"{"nodeName":"n1","containers":[{"name":"c"}]}"#, Ok(()));
        check_spec(r#"{"nodeName":"n2"}"#, Err("=node \"n1\" can only create pods with spec.nodeName set to itself"));
    }

    #[test]
    fn mirror_pods_name_no_object() {
        let check = |spec: &str, expect| check_spec(&format!(r#"{{"nodeName":"n1",{spec}}}"#), expect);
        check(r#""serviceAccountName":"a""#, Err("serviceaccounts"));
        check(r#""imagePullSecrets":[{"name":"a"}]"#, Err("secrets"));
        let variable = r#"[{"name":"c","env":[{"name":"e","valueFrom":{"secretKeyRef":{"name":"s"}}}]}]"#;
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            check(&format!(r#""{list}":{variable}"#), Err("secrets"));
        }
        check(r#""containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"s"}}]}]"#, Err("configmaps"));
        check(r#""resourceClaims":[{"name":"a"}]"#, Err("resourceclaims"));
    }

    #[test]
    fn volumes_of_mirror_pods_are_made_of_no_object() {
        let check = |volume: &str, expect| {
            check_spec(
                &format!(r#"{{"nodeName":"n1","volumes":[{{"name":"a","emptyDir":{{}}}},{{"name":"v",{volume}}}]}}"#),
                expect,
            );
        };
        check(r#""hostPath":{"path":"/"}"#, Ok(()));
        check(r#""downwardAPI":{}"#, Ok(()));
        check(r#""projected":{"sources":[{"downwardAPI":{}}]}"#, Ok(()));
        check(r#""secret":{"secretName":"s"}"#, Err("secrets"));
        check(r#""secret":{}"#, Err("secrets (via secret volumes)"));
        check(r#""configMap":{}"#, Err("configmaps (via configmap volumes)"));
        check(r#""csi":{"driver":"d"}"#, Err("csidrivers (via CSI volumes)"));
        check(r#""glusterfs":{"endpoints":"e"}"#, Err("endpoints (via glusterFS volumes)"));
        check(r#""azureFile":{}"#, Err("secrets (via azureFile volumes)"));
        check(r#""persistentVolumeClaim":{"claimName":"s"}"#, Err("persistentvolumeclaims"));
        check(r#""ephemeral":{}"#, Err("persistentvolumeclaims (via ephemeral volumes)"));
        let projected = [
            (r#"{"serviceAccountToken":{}}"#, "serviceaccounts (via projected volumes)"),
            (r#"{"downwardAPI":{}},{"clusterTrustBundle":{}}"#, "clustertrustbundles"),
            (r#"{"podCertificate":{}}"#, "podcertificates"),
            (r#"{"secret":{}}"#, "secrets (via projected volumes)"),
            (r#"{"configMap":{}}"#, "configmaps (via projected volumes)"),
        ];
        for (sources, expect) in projected {
            check(&format!(r#""projected":{{"sources":[{sources}]}}"#), Err(expect));
        }
    }

    #[test]
    fn sources_that_nobody_knows_are_refused() {
        let check = |volume: &str, expect: &str| {
            let pod = format!(r#"{{"spec":{{"volumes":[{{"name":"v",{volume}}}]}}}}"#);
            let found = names_nothing(&json::decode(pod.as_bytes()).expect("JSON"), "n1");
            assert_eq!(found, Err(format!("error checking mirror pod for API references: {expect}")));
        };
        check(r#""new":{}"#, "unknown volume type for volume  \"v\"");
        check(r#""projected":{"sources":[{"new":{}}]}"#, "unknown source for projected volume \"v\"");
    }
}
