//! The authorizer of `--authorization-mode=Node`: kubelets read what the pods on their node need, and write what is about
//! their node.
//!
//! What belongs to a node is looked up in the caches that serve every request: a pod counts for the next request after the
//! one that bound it. What pods name is read once for each of their revisions.

mod related;

use async_trait::async_trait;
use auth::{Attributes, Authorizer, Decision, User, UserRules};
use generic_server::{features::Features, registry::Listers};
use machinery::{Str, request::RequestInfo};
pub(crate) use related::references_of;
use related::{Kind, Sources};

use crate::rbac::{Rule, node_rules};

const PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
/// Where kubelets tell that their node lives.
const LEASES: &str = "kube-node-lease";

/// The node that a user speaks for; empty if it is one of the nodes, but nobody knows which.
pub(crate) fn node_of(user: &User) -> Option<&str> {
    let node = user.name.strip_prefix(PREFIX)?;
    user.in_group(NODES).then_some(node)
}

/// The authorizer.
pub struct NodeAuthorizer {
    sources: Sources,
    /// What all nodes may do alike.
    rules: Vec<Rule>,
    /// Whether nodes ask for certificates of their pods (the gate PodCertificateRequest).
    requests_certificates: bool,
    /// Nodes read the service accounts of their pods.
    reads_accounts: bool,
}

impl NodeAuthorizer {
    /// Reads what a server knows about nodes and their pods.
    pub fn new(listers: &Listers, features: &Features) -> Self {
        NodeAuthorizer {
            sources: Sources::new(listers),
            rules: node_rules(features),
            requests_certificates: features.is_on("PodCertificateRequest"),
            reads_accounts: ["KubeletServiceAccountTokenForCredentialProviders", "PodCertificateRequest"]
                .iter()
                .any(|gate| features.is_on(gate)),
        }
    }

    fn decide(&self, node: &str, info: &RequestInfo) -> Result<(), Str> {
        let named = |kind| self.named(node, kind, info);
        let verb = info.verb_name();
        let (group, resource, subresource) = (info.group.as_str(), info.resource.as_str(), info.subresource.as_str());
        if info.is_resource {
            match (group, resource) {
                ("", "secrets") => return self.read(node, Kind::Secret, info),
                ("", "configmaps") => return self.read(node, Kind::ConfigMap, info),
                ("", "persistentvolumeclaims") if subresource == "status" => {
                    allow(matches!(verb, "update" | "patch"), "can only get/update/patch this type")?;
                    return named(Kind::Claim);
                }
                ("", "persistentvolumeclaims") => return self.get(node, Kind::Claim, info),
                ("", "persistentvolumes") => return self.get(node, Kind::Volume, info),
                ("resource.k8s.io", "resourceclaims") => return self.get(node, Kind::DeviceClaim, info),
                ("storage.k8s.io", "volumeattachments") => return self.get(node, Kind::Attachment, info),
                ("", "serviceaccounts") if verb == "get" && subresource.is_empty() => {
                    allow(self.reads_accounts, "not allowed to get service accounts")?;
                    return self.read(node, Kind::Account, info);
                }
                ("", "serviceaccounts") => {
                    let creates = verb == "create" && !info.name.is_empty();
                    allow(creates, "can only create tokens for individual service accounts")?;
                    allow(subresource == "token", "can only create token subresource of serviceaccount")?;
                    return named(Kind::Account);
                }
                ("coordination.k8s.io", "leases") => return lease(node, info),
                ("storage.k8s.io", "csinodes") => return csi_node(node, info),
                ("resource.k8s.io", "resourceslices") => return self.slice(node, info),
                ("", "nodes") => return own_node(node, info),
                ("", "pods") => return self.pod(node, info),
                ("certificates.k8s.io", "podcertificaterequests") => return self.certificate_request(node, info),
                _ => {}
            }
        }
        allow(self.rules.iter().any(|rule| rule.allows(info)), "")
    }

    /// Reading one object that belongs to the node.
    fn get(&self, node: &str, kind: Kind, info: &RequestInfo) -> Result<(), Str> {
        allow(info.verb_name() == "get", "can only get individual resources of this type")?;
        allow(info.subresource.is_empty(), "cannot get subresource")?;
        self.named(node, kind, info)
    }

    /// Reading and watching one object of a namespace that belongs to the node.
    fn read(&self, node: &str, kind: Kind, info: &RequestInfo) -> Result<(), Str> {
        allow(matches!(info.verb_name(), "get" | "list" | "watch"), "can only read resources of this type")?;
        allow(info.subresource.is_empty(), "cannot read subresource")?;
        allow(!info.namespace.is_empty(), "can only read namespaced object of this type")?;
        self.named(node, kind, info)
    }

    fn named(&self, node: &str, kind: Kind, info: &RequestInfo) -> Result<(), Str> {
        allow(!info.name.is_empty(), "No Object name found")?;
        let is_related = self.sources.relate(node, kind, &info.namespace, &info.name);
        let why = || Str::from(format!("no relationship found between node '{node}' and this object"));
        is_related.then_some(()).ok_or_else(why)
    }

    fn slice(&self, node: &str, info: &RequestInfo) -> Result<(), Str> {
        allow(info.subresource.is_empty(), "cannot authorize ResourceSlice subresources")?;
        match info.verb_name() {
            "create" => Ok(()), // whose it is, NodeRestriction sees in the object
            "get" | "update" | "patch" | "delete" => self.named(node, Kind::Slice, info),
            "watch" | "list" | "deletecollection" => allow(
                info.pins("spec.nodeName", node),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => Err(Str::new_static(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, \
                 deletecollection",
            )),
        }
    }

    fn certificate_request(&self, node: &str, info: &RequestInfo) -> Result<(), Str> {
        allow(self.requests_certificates, "")?;
        let status = "nodes may not access the status subresource of PodCertificateRequests";
        allow(info.subresource.is_empty(), status)?;
        match info.verb_name() {
            "create" => Ok(()), // whose pod it is, NodeRestriction sees in the object
            "get" => self.named(node, Kind::CertificateRequest, info),
            "list" | "watch" => allow(
                info.pins("spec.nodeName", node),
                "can only list/watch podcertificaterequests with nodeName field selector",
            ),
            verb => Err(format!("nodes may not {verb} podcertificaterequests").into()),
        }
    }

    fn pod(&self, node: &str, info: &RequestInfo) -> Result<(), Str> {
        match (info.subresource.as_str(), info.verb_name()) {
            ("", "get") => self.get(node, Kind::Pod, info),
            ("", "list" | "watch") if info.pins("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !info.name.is_empty() => self.named(node, Kind::Pod, info),
            ("", "list" | "watch") => {
                Err(Str::new_static("can only list/watch pods with spec.nodeName field selector"))
            }
            // Whether the pod is on the node and stands for one of its files, NodeRestriction sees.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(Str::default()),
        }
    }
}

fn allow(holds: bool, otherwise: &'static str) -> Result<(), Str> {
    holds.then_some(()).ok_or(Str::new_static(otherwise))
}

fn lease(node: &str, info: &RequestInfo) -> Result<(), Str> {
    let verb = info.verb_name();
    allow(
        matches!(verb, "get" | "create" | "update" | "patch" | "delete"),
        "can only get, create, update, patch, or delete a node lease",
    )?;
    allow(info.namespace == LEASES, "can only access leases in the \"kube-node-lease\" system namespace")?;
    let is_own = verb == "create" || info.name == node;
    allow(is_own, "can only access node lease with the same name as the requesting node")
}

fn csi_node(node: &str, info: &RequestInfo) -> Result<(), Str> {
    let verb = info.verb_name();
    allow(
        matches!(verb, "get" | "create" | "update" | "patch" | "delete"),
        "can only get, create, update, patch, or delete a CSINode",
    )?;
    allow(info.subresource.is_empty(), "cannot authorize CSINode subresources")?;
    let is_own = verb == "create" || info.name == node;
    allow(is_own, "can only access CSINode with the same name as the requesting node")
}

fn own_node(node: &str, info: &RequestInfo) -> Result<(), Str> {
    match (info.subresource.as_str(), info.verb_name()) {
        // That it is its own, NodeRestriction sees.
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if info.name == node => Ok(()),
        ("", "get" | "list" | "watch") if info.name.is_empty() => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object").into())
        }
        ("", "get" | "list" | "watch") => {
            Err(format!("node '{node}' cannot read '{}', only its own Node object", info.name).into())
        }
        _ => Err(Str::default()),
    }
}

#[async_trait]
impl Authorizer for NodeAuthorizer {
    async fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        match node_of(attributes.user) {
            None => Decision::no_opinion(""),
            Some("") => Decision::no_opinion(format!("unknown node for user {:?}", attributes.user.name.as_str())),
            Some(node) => match self.decide(node, attributes.info) {
                Ok(()) => Decision::allow(""),
                Err(why) => Decision::no_opinion(why),
            },
        }
    }

    async fn rules_of(&self, user: &User, _namespace: &str) -> UserRules {
        match node_of(user) {
            None => UserRules::default(),
            Some(_) => UserRules {
                incomplete: true,
                errors: vec!["node authorizer does not support user rule resolution".to_owned()],
                ..UserRules::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use generic_server::registry::{Backing, RegistrySettings};
    use machinery::request::resource_info;
    use storage::Memory;

    use super::*;

    /// The authorizer of a server that has no objects.
    fn nodes() -> NodeAuthorizer {
        let backing = Backing {
            store: Memory::new(),
            encryption: None,
            root: "/registry".into(),
            settings: RegistrySettings::default(),
        };
        NodeAuthorizer::new(&Listers::start(&crate::resources(), &backing), &backing.settings.features)
    }

    fn check(nodes: &NodeAuthorizer, request: &str, expect: Result<(), &str>) {
        let [verb, group, resource, namespace, name] = request.split(' ').collect::<Vec<_>>()[..] else {
            panic!("verb group resource namespace name: {request}")
        };
        let part = |text: &str| Str::from(if text == "-" { "" } else { text });
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let info = RequestInfo {
            namespace: part(namespace),
            name: part(name),
            subresource: subresource.into(),
            ..resource_info(verb, &part(group), "v1", resource)
        };
        let found = nodes.decide("n1", &info);
        assert_eq!(found, expect.map_err(Str::from), "{request}");
    }

    #[tokio::test]
    async fn nodes_keep_to_themselves() {
        let nodes = nodes();
        check(&nodes, "get - nodes - n1", Ok(()));
        check(&nodes, "get - nodes - n2", Err("node 'n1' cannot read 'n2', only its own Node object"));
        check(&nodes, "list - nodes - -", Err("node 'n1' cannot read all nodes, only its own Node object"));
        check(&nodes, "delete - nodes - n1", Err(""));
        check(&nodes, "patch - nodes/status - n2", Ok(()));
        check(&nodes, "update coordination.k8s.io leases kube-node-lease n1", Ok(()));
        let lease = "can only access node lease with the same name as the requesting node";
        check(&nodes, "get coordination.k8s.io leases kube-node-lease n2", Err(lease));
        let outside = "can only access leases in the \"kube-node-lease\" system namespace";
        check(&nodes, "create coordination.k8s.io leases default -", Err(outside));
        let csi = "can only access CSINode with the same name as the requesting node";
        check(&nodes, "get storage.k8s.io csinodes - n2", Err(csi));
        check(&nodes, "create storage.k8s.io csinodes - -", Ok(()));
        check(&nodes, "list storage.k8s.io csidrivers - -", Ok(()));
        check(&nodes, "list - services default -", Ok(()));
        check(&nodes, "list - endpoints default -", Err(""));
    }

    #[tokio::test]
    async fn what_is_not_related_is_not_theirs() {
        let nodes = nodes();
        let unrelated = Err("no relationship found between node 'n1' and this object");
        check(&nodes, "get - secrets a b", unrelated);
        check(&nodes, "list - secrets a -", Err("No Object name found"));
        check(&nodes, "list - secrets - b", Err("can only read namespaced object of this type"));
        check(&nodes, "patch - configmaps a b", Err("can only read resources of this type"));
        check(&nodes, "list - persistentvolumes - -", Err("can only get individual resources of this type"));
        check(&nodes, "get - persistentvolumeclaims/x a b", Err("cannot get subresource"));
        check(&nodes, "get - persistentvolumeclaims/status a b", Err("can only get/update/patch this type"));
        check(&nodes, "get - serviceaccounts a b", unrelated);
        check(&nodes, "get - serviceaccounts - b", Err("can only read namespaced object of this type"));
        let individual = "can only create tokens for individual service accounts";
        check(&nodes, "list - serviceaccounts a -", Err(individual));
        check(&nodes, "create - serviceaccounts a b", Err("can only create token subresource of serviceaccount"));
        check(&nodes, "list - pods a -", Err("can only list/watch pods with spec.nodeName field selector"));
        check(&nodes, "create - pods a -", Ok(()));
        check(&nodes, "patch - pods a b", Err(""));
        let group = "certificates.k8s.io podcertificaterequests";
        check(&nodes, &format!("get {group} a b"), Err(""));
        let nodes = NodeAuthorizer { requests_certificates: true, ..nodes };
        check(&nodes, &format!("get {group} a b"), unrelated);
        check(&nodes, &format!("create {group} a -"), Ok(()));
        check(&nodes, &format!("patch {group} a b"), Err("nodes may not patch podcertificaterequests"));
        let selector = "can only list/watch podcertificaterequests with nodeName field selector";
        check(&nodes, &format!("list {group} a -"), Err(selector));
        let status = "nodes may not access the status subresource of PodCertificateRequests";
        check(&nodes, &format!("get {group}/status a b"), Err(status));
    }

    #[test]
    fn a_node_is_told_by_name_and_group() {
        let user = |name: &str, groups: &[&str]| User {
            name: name.into(),
            groups: groups.iter().map(|group| Str::from(*group)).collect(),
            ..User::default()
        };
        assert_eq!(node_of(&user("system:node:a", &["system:nodes"])), Some("a"));
        assert_eq!(node_of(&user("system:node:", &["system:nodes"])), Some(""));
        assert_eq!(node_of(&user("system:node:a", &[])), None);
        assert_eq!(node_of(&user("a", &["system:nodes"])), None);
    }
}
