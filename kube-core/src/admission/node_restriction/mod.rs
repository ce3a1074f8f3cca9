//! NodeRestriction: kubelets write only what is about their own node.

mod mirror_pod;
mod own_node;
mod pod_certificate;
mod token;

use std::sync::Arc;

use async_trait::async_trait;
use auth::Authorizer;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Meta, status::Status},
};

use self::{pod_certificate::PodCertificates, token::Audiences};
use super::{Features, found};
use crate::{
    certificates::parse_request,
    core::pods::validation::{difference, internal},
    node_authorizer::node_of,
};

const LEASES: &str = "kube-node-lease";

/// The plugin.
pub(super) struct NodeRestriction {
    pods: Arc<Lister>,
    nodes: Arc<Lister>,
    accounts: Arc<Lister>,
    /// Who judges the audiences of tokens; nobody if they do not matter (ServiceAccountNodeAudienceRestriction).
    audiences: Option<Audiences>,
    features: Features,
}

impl NodeRestriction {
    pub(super) fn new(
        lister: impl Fn(&str, &str) -> Arc<Lister>,
        authorizer: &Arc<dyn Authorizer>,
        features: &Features,
    ) -> Self {
        let audiences = || Audiences {
            authorizer: authorizer.clone(),
            claims: lister("", "persistentvolumeclaims"),
            volumes: lister("", "persistentvolumes"),
            drivers: lister("storage.k8s.io", "csidrivers"),
        };
        NodeRestriction {
            pods: lister("", "pods"),
            nodes: lister("", "nodes"),
            accounts: lister("", "serviceaccounts"),
            audiences: features.is_on("ServiceAccountNodeAudienceRestriction").then(audiences),
            features: features.clone(),
        }
    }
}

#[async_trait]
impl Admission for NodeRestriction {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

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
            ("", "nodes", _) => refused(a, object, own_node::check(a, object, node)),
            ("", "persistentvolumeclaims", "status") => refused(a, object, claim_status(a, object, node)),
            ("", "persistentvolumeclaims", _) => Err(a.forbidden(object, "may only update PVC status")),
            ("", "serviceaccounts", "token") => {
                token::check(a, object, node, &self.pods, self.audiences.as_ref()).await
            }
            ("coordination.k8s.io", "leases", _) => refused(a, object, lease(a, object, node)),
            ("storage.k8s.io", "csinodes", _) => {
                let own = named(a, object) == node;
                let why = "can only access CSINode with the same name as the requesting node";
                refused(a, object, holds(own, why))
            }
            ("resource.k8s.io", "resourceslices", _) => refused(a, object, slice(a, object, node)),
            ("certificates.k8s.io", "podcertificaterequests", _) => self.pod_certificate(a, object, node).await,
            ("certificates.k8s.io", "certificatesigningrequests", _) => {
                let any = self.features.is_on("AllowInsecureKubeletCertificateSigningRequests");
                if any { Ok(()) } else { refused(a, object, signing_request(a, object, node)) }
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
        let pod = found(&self.pods, a.namespace, name).await?;
        if node_name(&pod) == node { Ok(pod) } else { Err(a.forbidden(object, otherwise)) }
    }

    async fn pod(&self, a: &Attributes<'_>, pod: &Value, node: &str) -> Result<(), Status> {
        match a.operation {
            Operation::Create => {
                refused(a, pod, mirror_pod::check(pod, node))?;
                self.owner(a, pod, node).await?;
                refused(a, pod, mirror_pod::names_nothing(pod, node))
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
        let known = found(&self.nodes, "", node).await?;
        let (wanted, found) = (Meta::of(&known).uid(), owner.uid());
        if wanted != found {
            return Err(a.forbidden(pod, format!("node {node} UID mismatch: expected {found} got {wanted}")));
        }
        Ok(())
    }

    async fn pod_certificate(&self, a: &Attributes<'_>, request: &Value, node: &str) -> Result<(), Status> {
        let enabled = self.features.is_on("PodCertificateRequest");
        let known = PodCertificates { pods: &self.pods, nodes: &self.nodes, accounts: &self.accounts, enabled };
        known.check(a, request, node).await
    }
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
    let claims = same(&["status", "resourceClaimStatuses"]);
    holds(claims, format!("node {node:?} cannot update resource claim statues"))?;
    let extended = same(&["status", "extendedResourceClaimStatus"]);
    holds(extended, format!("node {node:?} cannot update extended resource claim status"))
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
    let (new, old) = (rest(claim), rest(old));
    if new.semantic_eq(&old) {
        return Ok(());
    }
    let pretty = |claim| internal::pretty_object("PersistentVolumeClaimSpec", "PersistentVolumeClaimStatus", claim);
    let difference = difference::between(&pretty(&old), &pretty(&new));
    Err(format!(
        "node {node:?} is not allowed to update fields other than status.quantity and status.conditions: {difference}"
    ))
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
