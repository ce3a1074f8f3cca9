//! Admission plugins that are about built-in kinds, one file each.

mod certificates;
mod claim_resize;
mod default_classes;
mod limit_ranger;
mod parsed;
mod pod_resize;
mod priority;
mod runtime_class;
mod service_account;
mod storage_protection;
mod taints;
mod tolerations;
mod topology_labels;

use std::{collections::HashMap, sync::Arc};

use generic_server::{
    admission::{Admission, Attributes, Operation},
    auth::Authorizer,
    registry::Registry,
};
use machinery::{Str, Value};

pub(crate) use priority::system_classes;

/// What the plugins are set up with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long pods stay on a node that is not ready, in seconds.
    pub not_ready_toleration_seconds: i64,
    /// How long pods stay on a node that cannot be reached, in seconds.
    pub unreachable_toleration_seconds: i64,
}

/// The plugin called `name`; `None` if it is not one of these.
pub fn plugin(
    name: &str,
    registries: &HashMap<(Str, Str), Arc<Registry>>,
    authorizer: &Arc<dyn Authorizer>,
    settings: &Settings,
) -> Option<Arc<dyn Admission>> {
    let registry = |group: &str, plural: &str| registries[&(Str::from(group), Str::from(plural))].clone();
    Some(match name {
        "LimitRanger" => Arc::new(limit_ranger::LimitRanger::new(registry("", "limitranges"))),
        "ServiceAccount" => Arc::new(service_account::ServiceAccount { accounts: registry("", "serviceaccounts") }),
        "TaintNodesByCondition" => Arc::new(taints::TaintNodes),
        "Priority" => Arc::new(priority::Priority { classes: registry("scheduling.k8s.io", "priorityclasses") }),
        "RuntimeClass" => Arc::new(runtime_class::RuntimeClass { classes: registry("node.k8s.io", "runtimeclasses") }),
        "DefaultTolerationSeconds" => Arc::new(tolerations::DefaultTolerations(*settings)),
        "CertificateApproval" => Arc::new(certificates::Approval(authorizer.clone())),
        "CertificateSigning" => Arc::new(certificates::Signing(authorizer.clone())),
        "CertificateSubjectRestriction" => Arc::new(certificates::SubjectRestriction),
        "PodTopologyLabels" => Arc::new(topology_labels::TopologyLabels { nodes: registry("", "nodes") }),
        "PodResizeValidator" => Arc::new(pod_resize::PodResize { nodes: registry("", "nodes") }),
        "DefaultStorageClass" => Arc::new(default_classes::DefaultClass {
            classes: registry("storage.k8s.io", "storageclasses"),
            kind: &default_classes::STORAGE,
        }),
        "DefaultIngressClass" => Arc::new(default_classes::DefaultClass {
            classes: registry("networking.k8s.io", "ingressclasses"),
            kind: &default_classes::INGRESS,
        }),
        "PersistentVolumeClaimResize" => {
            Arc::new(claim_resize::ClaimResize { classes: registry("storage.k8s.io", "storageclasses") })
        }
        "StorageObjectInUseProtection" => Arc::new(storage_protection::StorageProtection),
        _ => return None,
    })
}

/// Whether a write makes an object of this core resource.
fn creates(a: &Attributes<'_>, plural: &str) -> bool {
    a.operation == Operation::Create && a.subresource.is_empty() && a.row.group.is_empty() && a.row.plural == plural
}

/// Whether a pod stands for one that a kubelet runs from a file.
fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some()
}

/// Several findings as one refusal, in upstream's form: each is told once, and one needs no brackets.
fn aggregated(findings: Vec<String>) -> String {
    let mut told: Vec<String> = Vec::with_capacity(findings.len());
    for finding in findings {
        if !told.contains(&finding) {
            told.push(finding);
        }
    }
    match told.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
