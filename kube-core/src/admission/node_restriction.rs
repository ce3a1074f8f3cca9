//! NodeRestriction: kubelets write only what is about their own node.
//!
//! Differs: the audiences of tokens that a kubelet asks for are not compared with those that its pods' volumes name.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::{
    admission::{Admission, Attributes, Operation},
    registry::Registry,
};
use machinery::{
    Value,
    meta::{Meta, MetaMut, status::Status},
};

use super::is_mirror;
use crate::{certificates::parse_request, node_authorizer::node_of};

const MIRROR: &str = "kubernetes.io/config.mirror";
const LEASES: &str = "kube-node-lease";
/// Labels of the project that kubelets may set on their node.
const OWN_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// The plugin.
pub(super) struct NodeRestriction {
    pub(super) pods: Arc<Registry>,
    pub(super) nodes: Arc<Registry>,
}

#[async_trait]
impl Admission for NodeRestriction {
    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some(node) = node_of(a.user).filter(|_| a.operation != Operation::Connect) else { return Ok(()) };
        if node.is_empty() {
            let why = format!("could not determine node from user {:?}", a.user.name.as_str());
            return Err(a.forbidden(object, why));
        }
        match (a.row.group.as_str(), a.row.plural.as_str(), a.subresource) {
            ("", "pods", "") => self.pod(a, object, node).await,
            ("", "pods", "status") => refused(a, object, pod_status(a, object, node)),
            ("", "pods", "eviction") => {
                let why = format!("node {node} can only evict pods with spec.nodeName set to itself");
                self.on_node(a, object, node, a.name, &why).await.map(|_| ())
            }
            ("", "pods", other) => {
                let why = format!("unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed");
                Err(a.forbidden(object, why))
            }
            ("", "nodes", _) => refused(a, object, own_node(a, object, node)),
            ("", "persistentvolumeclaims", "status") => refused(a, object, claim_status(a, object, node)),
            ("", "persistentvolumeclaims", _) => Err(a.forbidden(object, "may only update PVC status")),
            ("", "serviceaccounts", "token") => self.token(a, object, node).await,
            ("coordination.k8s.io", "leases", _) => refused(a, object, lease(a, object, node)),
            ("storage.k8s.io", "csinodes", _) => {
                let own = named(a, object) == node;
                let why = "can only access CSINode with the same name as the requesting node";
                refused(a, object, holds(own, why))
            }
            ("resource.k8s.io", "resourceslices", _) => refused(a, object, slice(a, object, node)),
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                refused(a, object, signing_request(a, object, node))
            }
            _ => Ok(()),
        }
    }
}

fn refused(a: &Attributes<'_>, object: &Value, found: Result<(), String>) -> Result<(), Status> {
    found.map_err(|why| a.forbidden(object, why))
}

fn holds(holds: bool, otherwise: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// The name of what is written.
fn named<'a>(a: &'a Attributes<'_>, object: &'a Value) -> &'a str {
    if a.operation == Operation::Create { Meta::of(object).name() } else { a.name }
}

fn node_name(object: &Value) -> &str {
    object.str_at(&["spec", "nodeName"]).unwrap_or_default()
}

impl NodeRestriction {
    /// The pod, if it is on the node.
    async fn on_node(
        &self,
        a: &Attributes<'_>,
        object: &Value,
        node: &str,
        name: &str,
        otherwise: &str,
    ) -> Result<Value, Status> {
        let pod = self.pods.get_value(a.namespace, name).await?;
        if node_name(&pod) == node { Ok(pod) } else { Err(a.forbidden(object, otherwise)) }
    }

    async fn pod(&self, a: &Attributes<'_>, pod: &Value, node: &str) -> Result<(), Status> {
        match a.operation {
            Operation::Create => {
                refused(a, pod, mirror_pod(pod, node))?;
                self.owner(a, pod, node).await?;
                refused(a, pod, names_nothing(pod, node))
            }
            Operation::Delete => {
                let why = format!("node {node:?} can only delete pods with spec.nodeName set to itself");
                self.on_node(a, pod, node, a.name, &why).await.map(|_| ())
            }
            other => {
                let why = format!(
                    "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
                    other.name()
                );
                Err(a.forbidden(pod, why))
            }
        }
    }

    /// A mirror pod is owned by its node, and by nobody else.
    async fn owner(&self, a: &Attributes<'_>, pod: &Value, node: &str) -> Result<(), Status> {
        let owners: Vec<_> = Meta::of(pod).owner_references().collect();
        let can_only = |what: &str| Err(a.forbidden(pod, format!("node {node:?} can only create pods with {what}")));
        let [owner] = owners.as_slice() else {
            return can_only(match owners.len() {
                0 => "an owner reference set to itself",
                _ => "a single owner reference set to itself",
            });
        };
        if (owner.api_version(), owner.kind(), owner.name()) != ("v1", "Node", node) {
            return can_only("an owner reference set to itself");
        }
        if !owner.is_controller() {
            return can_only("a controller owner reference set to itself");
        }
        if owner.blocks_owner_deletion() {
            return Err(
                a.forbidden(pod, format!("node {node:?} must not set blockOwnerDeletion on an owner reference"))
            );
        }
        let known = self.nodes.get_value("", node).await?;
        let (wanted, found) = (Meta::of(&known).uid(), owner.uid());
        if wanted != found {
            return Err(a.forbidden(pod, format!("node {node} UID mismatch: expected {found} got {wanted}")));
        }
        Ok(())
    }

    /// A token is bound to a pod on the node.
    async fn token(&self, a: &Attributes<'_>, request: &Value, node: &str) -> Result<(), Status> {
        if a.operation != Operation::Create {
            return Ok(());
        }
        let text = |member: &str| request.str_at(&["spec", "boundObjectRef", member]).unwrap_or_default();
        if text("apiVersion") != "v1" || text("kind") != "Pod" || text("name").is_empty() {
            return Err(a.forbidden(request, "node requested token not bound to a pod"));
        }
        let uid = text("uid");
        if uid.is_empty() {
            return Err(a.forbidden(request, "node requested token with a pod binding without a uid"));
        }
        let pod = self.pods.get_value(a.namespace, text("name")).await?;
        if uid != Meta::of(&pod).uid() {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
                 deleted and then recreated"
            );
            return Err(a.forbidden(request, why));
        }
        let why = "node requested token bound to a pod scheduled on a different node";
        refused(a, request, holds(node_name(&pod) == node, why))
    }
}

fn mirror_pod(pod: &Value, node: &str) -> Result<(), String> {
    let why = format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods");
    holds(is_mirror(pod), why)?;
    let why = format!("node {node:?} can only create pods with spec.nodeName set to itself");
    holds(node_name(pod) == node, why)
}

/// What a kubelet runs from a file must not open other objects to it.
fn names_nothing(pod: &Value, node: &str) -> Result<(), String> {
    let can_not = |what: &str| Err(format!("node {node:?} can not create pods that reference {what}"));
    if !pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default().is_empty() {
        return can_not("a service account");
    }
    let mut named = pod.clone();
    MetaMut::of(&mut named).remove_annotation(MIRROR);
    let names = crate::node_authorizer::names_in(&named);
    if names.any_secret() {
        return can_not("secrets");
    }
    if names.any_config_map() {
        return can_not("configmaps");
    }
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array).unwrap_or_default();
    let sources = volumes.iter().filter_map(|v| v.at(&["projected", "sources"])?.as_array()).flatten();
    if sources.into_iter().any(|source| source.get("clusterTrustBundle").is_some()) {
        return can_not("clustertrustbundles");
    }
    if volumes.iter().any(|volume| volume.get("persistentVolumeClaim").is_some()) {
        return can_not("persistentvolumeclaims");
    }
    Ok(())
}

fn pod_status(a: &Attributes<'_>, pod: &Value, node: &str) -> Result<(), String> {
    let Some(old) = a.old.filter(|_| a.operation == Operation::Update) else {
        return Err(format!("unexpected operation {:?}", a.operation.name()));
    };
    let why = format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself");
    holds(node_name(old) == node, why)?;
    let same = |path: &[&str]| {
        let part = |pod: &'_ Value| pod.at(path).cloned().unwrap_or_default();
        part(pod).semantic_eq(&part(old))
    };
    holds(same(&["metadata", "labels"]), format!("node {node:?} cannot update labels through pod status"))?;
    let claims = same(&["status", "resourceClaimStatuses"]) && same(&["status", "extendedResourceClaimStatus"]);
    holds(claims, format!("node {node:?} cannot update resource claim statues"))
}

fn claim_status(a: &Attributes<'_>, claim: &Value, node: &str) -> Result<(), String> {
    let Some(old) = a.old.filter(|_| a.operation == Operation::Update) else {
        return Err(format!("unexpected operation {:?}", a.operation.name()));
    };
    let rest = |claim: &Value| {
        let mut rest = claim.clone();
        for path in [["metadata", "resourceVersion"], ["metadata", "managedFields"]] {
            rest.remove_at(&path);
        }
        for member in ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"] {
            rest.remove_at(&["status", member]);
        }
        rest
    };
    let why = format!("node {node:?} is not allowed to update fields other than status.quantity and status.conditions");
    holds(rest(claim).semantic_eq(&rest(old)), why)
}

fn own_node(a: &Attributes<'_>, object: &Value, node: &str) -> Result<(), String> {
    let name = named(a, object);
    holds(name == node, format!("node {node:?} is not allowed to modify node {name:?}"))?;
    if a.operation == Operation::Create {
        let labels = forbidden_labels(object, None);
        let why = format!("node {node:?} is not allowed to set the following labels: {labels}");
        return holds(labels.is_empty(), why);
    }
    let Some(old) = a.old.filter(|_| a.operation == Operation::Update) else { return Ok(()) };
    let taints = |node: &Value| node.at(&["spec", "taints"]).cloned().unwrap_or_default();
    let same = taints(object).semantic_eq(&taints(old));
    holds(same, format!("node {node:?} is not allowed to modify taints"))?;
    let labels = forbidden_labels(object, Some(old));
    holds(labels.is_empty(), format!("is not allowed to modify labels: {labels}"))
}

/// The labels that differ and are not the kubelet's to set, as a list.
fn forbidden_labels(new: &Value, old: Option<&Value>) -> String {
    let labels = |node: &Value| Meta::of(node).labels().cloned().unwrap_or_default();
    let (new, old) = (labels(new), old.map(labels).unwrap_or_default());
    let keys: BTreeSet<&str> = new.keys().chain(old.keys()).map(|key| key.as_str()).collect();
    let changed = keys.into_iter().filter(|key| new.get(key) != old.get(key));
    changed.filter(|key| !is_kubelets(key)).collect::<Vec<_>>().join(", ")
}

/// Whether a kubelet may set the label on its node.
fn is_kubelets(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    if within("node-restriction.kubernetes.io") {
        return false;
    }
    let is_projects = within("kubernetes.io") || within("k8s.io");
    !is_projects || OWN_LABELS.contains(&label) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

fn lease(a: &Attributes<'_>, lease: &Value, node: &str) -> Result<(), String> {
    holds(a.namespace == LEASES, format!("can only access leases in the {LEASES:?} system namespace"))?;
    let why = "can only access node lease with the same name as the requesting node";
    holds(named(a, lease) == node, why)
}

fn slice(a: &Attributes<'_>, slice: &Value, node: &str) -> Result<(), String> {
    match a.operation {
        Operation::Create => {
            let why = "can only create ResourceSlice with the same NodeName as the requesting node";
            holds(node_name(slice) == node, why)
        }
        Operation::Delete => {
            let why = "can only delete ResourceSlice with the same NodeName as the requesting node";
            holds(a.old.is_some_and(|old| node_name(old) == node), why)
        }
        _ => Ok(()),
    }
}

fn signing_request(a: &Attributes<'_>, request: &Value, node: &str) -> Result<(), String> {
    let signer = request.str_at(&["spec", "signerName"]).unwrap_or_default();
    let is_theirs = matches!(signer, "kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet");
    if a.operation != Operation::Create || !is_theirs {
        return Ok(());
    }
    let pem = request.str_at(&["spec", "request"]).unwrap_or_default();
    let parsed =
        parse_request(&BASE64.decode(pem).unwrap_or_default()).map_err(|why| format!("unable to parse csr: {why}"))?;
    let wanted = format!("system:node:{node}");
    holds(parsed.common_name() == wanted, format!("can only create a node CSR with CN={wanted}"))
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn labels_that_steer_pods_are_not_the_kubelets() {
        let check = |new: &str, old: Option<&str>, expect: &str| {
            let node = |labels: &str| value(&format!(r#"{{"metadata":{{"labels":{labels}}}}}"#));
            assert_eq!(forbidden_labels(&node(new), old.map(node).as_ref()), expect);
        };
        check(r#"{"foo":"bar","kubernetes.io/os":"linux","node.kubernetes.io/any":"x"}"#, None, "");
        check(r#"{"a.k8s.io/x":"","kubernetes.io/x":""}"#, None, "a.k8s.io/x, kubernetes.io/x");
        check(r#"{"x.node-restriction.kubernetes.io/a":""}"#, None, "x.node-restriction.kubernetes.io/a");
        check(r#"{"kubernetes.io/x":"1"}"#, Some(r#"{"kubernetes.io/x":"1"}"#), "");
        check("{}", Some(r#"{"kubernetes.io/x":"1"}"#), "kubernetes.io/x");
    }

    #[test]
    fn mirror_pods_name_nothing() {
        let check = |spec: &str, expect: Result<(), &str>| {
            let pod = value(&format!(
                r#"{{"metadata":{{"annotations":{{"kubernetes.io/config.mirror":"x"}}}},"spec":{spec}}}"#
            ));
            let found = mirror_pod(&pod, "n1").and_then(|()| names_nothing(&pod, "n1"));
            assert_eq!(found, expect.map_err(str::to_owned));
        };
        check(r#"{"nodeName":"n1","containers":[{"name":"c"}]}"#, Ok(()));
        let elsewhere = "node \"n1\" can only create pods with spec.nodeName set to itself";
        check(r#"{"nodeName":"n2"}"#, Err(elsewhere));
        let secrets = "node \"n1\" can not create pods that reference secrets";
        check(r#"{"nodeName":"n1","volumes":[{"name":"v","secret":{"secretName":"s"}}]}"#, Err(secrets));
        let claims = "node \"n1\" can not create pods that reference persistentvolumeclaims";
        check(r#"{"nodeName":"n1","volumes":[{"persistentVolumeClaim":{"claimName":"s"}}]}"#, Err(claims));
    }
}
