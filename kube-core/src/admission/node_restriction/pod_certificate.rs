//! Requests for pods' certificates: a kubelet makes them, for pods that run on its node.

use generic_server::{
    admission::{Attributes, Operation},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Meta, go_text::quote, status::Status},
};

use super::{holds, node_name, refused};
use crate::admission::{found, is_mirror};

/// What the names in a request are looked up in.
pub(super) struct PodCertificates<'a> {
    pub(super) pods: &'a Lister,
    pub(super) nodes: &'a Lister,
    pub(super) accounts: &'a Lister,
    /// Whether there are such requests (the gate PodCertificateRequest).
    pub(super) enabled: bool,
}

impl PodCertificates<'_> {
    /// Whether the node may make the request. What may be so only because something is not known here yet is no refusal, so
    /// that the kubelet tries again.
    pub(super) async fn check(&self, a: &Attributes<'_>, request: &Value, node: &str) -> Result<(), Status> {
        let refuse = |why: String| Err(a.forbidden(request, why));
        if !self.enabled {
            return refuse("PodCertificateRequest feature gate is disabled".to_owned());
        }
        if a.operation != Operation::Create {
            return refuse(format!("unexpected operation {}", a.operation.name()));
        }
        if !a.subresource.is_empty() {
            return refuse(format!("unexpected subresource {}", a.subresource));
        }
        let text = |member: &str| request.str_at(&["spec", member]).unwrap_or_default();
        let of_node = text("nodeName");
        if of_node != node {
            let (of_node, node) = (quote(of_node), quote(node));
            return refuse(format!(
                "PodCertificateRequest.Spec.NodeName={of_node}, which is not the requesting node {node}"
            ));
        }
        let pod_name = quote(&format!("{}/{}", a.namespace, text("podName")));
        let uid_of = |object: &Value| Meta::of(object).uid().to_owned();

        let known = self.find(self.nodes, "", node, &format!("node {}", quote(node))).await?;
        again(uid_of(&known) == text("nodeUID"), || {
            let (named, known) = (quote(text("nodeUID")), quote(&uid_of(&known)));
            format!(
                "PodCertificateRequest for pod {pod_name} names node UID {named}, inconsistent with the running node ({known})"
            )
        })?;
        let pod = self.find(self.pods, a.namespace, text("podName"), &format!("pod {pod_name}")).await?;
        again(uid_of(&pod) == text("podUID"), || {
            let (named, known) = (quote(text("podUID")), quote(&uid_of(&pod)));
            format!(
                "PodCertificateRequest for pod {pod_name} contains pod UID ({named}) which differs from running pod {known}"
            )
        })?;
        refused(a, request, pod_fits(&pod, &pod_name, text("serviceAccountName"), of_node))?;
        let account_name = quote(&format!("{}/{}", a.namespace, text("serviceAccountName")));
        let what = format!("service account {account_name}");
        let account = self.find(self.accounts, a.namespace, text("serviceAccountName"), &what).await?;
        again(uid_of(&account) == text("serviceAccountUID"), || {
            let (named, known) = (quote(text("serviceAccountUID")), quote(&uid_of(&account)));
            format!(
                "PodCertificateRequest for pod {pod_name} names service account UID {named}, which differs from the running \
                 service account ({known})"
            )
        })
    }

    async fn find(&self, registry: &Lister, namespace: &str, name: &str, what: &str) -> Result<Value, Status> {
        let found = found(registry, namespace, name).await;
        found.map_err(|why| {
            Status::new(500, "", format!("while retrieving {what} named in the PodCertificateRequest: {}", why.message))
        })
    }
}

fn pod_fits(pod: &Value, name: &str, account: &str, node: &str) -> Result<(), String> {
    let why = format!("pod {name} is not running on node {} named in the PodCertificateRequest", quote(node));
    holds(node_name(pod) == node, why)?;
    holds(!is_mirror(pod), format!("pod {name} is a mirror pod"))?;
    let runs_as = pod.str_at(&["spec", "serviceAccountName"]).unwrap_or_default();
    let (named, known) = (quote(account), quote(runs_as));
    let why = format!(
        "PodCertificateRequest for pod {name} contains serviceAccountName ({named}) that differs from running pod ({known})"
    );
    holds(runs_as == account, why)
}

fn again(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Status> {
    if holds { Ok(()) } else { Err(Status::new(500, "", otherwise())) }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn a_pod_gets_certificates_for_its_account_on_its_node() {
        let check = |pod: &str, expect: Result<(), &str>| {
            let pod = json::decode(pod.as_bytes()).expect("JSON");
            assert_eq!(pod_fits(&pod, "\"n/p\"", "robot", "n1"), expect.map_err(str::to_owned));
        };
        check(r#"{"spec":{"nodeName":"n1","serviceAccountName":"robot"}}"#, Ok(()));
        let elsewhere = "pod \"n/p\" is not running on node \"n1\" named in the PodCertificateRequest";
        check(r#"{"spec":{"nodeName":"n2","serviceAccountName":"robot"}}"#, Err(elsewhere));
        let other = "PodCertificateRequest for pod \"n/p\" contains serviceAccountName (\"robot\") that differs from running \
                     pod (\"other\")";
        check(r#"{"spec":{"nodeName":"n1","serviceAccountName":"other"}}"#, Err(other));
        let mirror = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":{"nodeName":"n1"}}"#;
        check(mirror, Err("pod \"n/p\" is a mirror pod"));
    }
}
