//! PodResizeValidator: a pod is resized only on a node that can hold it then.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Meta, Quantity, status::Status},
};

use crate::core::pods::requests;

/// The plugin.
pub(super) struct PodResize {
    pub(super) nodes: Arc<Lister>,
}

#[async_trait]
impl Admission for PodResize {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let resizes = a.operation == Operation::Update
            && a.subresource == "resize"
            && a.row.group.is_empty()
            && a.row.plural == "pods";
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        let unchanged = a.old.is_some_and(|old| Meta::of(old).generation() == Meta::of(pod).generation());
        if !resizes || node.is_empty() || unchanged {
            return Ok(());
        }
        let Ok(node) = self.nodes.get_value("", node).await else {
            return Err(a.forbidden(pod, format!("node {node:?} not found")));
        };
        fits(pod, &node).map_err(|why| a.forbidden(pod, why))
    }
}

/// Whether a node could hold the pod alone.
fn fits(pod: &Value, node: &Value) -> Result<(), String> {
    let meta = Meta::of(node);
    if let Some(os) = meta.label("kubernetes.io/os").filter(|os| *os != "linux") {
        return Err(format!("pod resize is only supported on linux nodes, node {:?} is {os:?}", meta.name()));
    }
    let requests = requests(pod.get("spec").unwrap_or(&Value::Null));
    let zero = Quantity::parse("0").expect("zero is a quantity");
    let mut lacking = Vec::new();
    for resource in ["cpu", "memory"] {
        let wanted = requests.get(resource).cloned().unwrap_or_else(|| zero.clone());
        let has = node.at(&["status", "allocatable", resource]).and_then(|v| Quantity::from_value(v).ok());
        let has = has.unwrap_or_else(|| zero.clone());
        if wanted > has {
            let number = |q: &Quantity| if resource == "cpu" { q.milli_value() } else { q.value() };
            lacking.push(format!("{resource}, requested: {}, allocatable: {}", number(&wanted), number(&has)));
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    Err(format!("node didn't have enough allocatable resources: {}", lacking.join("; ")))
}

#[cfg(test)]
mod tests {
    use machinery::{array, object};

    use super::*;

    #[test]
    fn a_node_must_have_what_is_asked_for() {
        let check = |cpu: &str, os: &str, expect: Result<(), &str>| {
            let requests = object! { "cpu" => cpu, "memory" => "1Gi" };
            let containers = array![object! { "resources" => object! { "requests" => requests } }];
            let pod = object! { "spec" => object! { "containers" => containers } };
            let node = object! {
                "metadata" => object! { "name" => "n", "labels" => object! { "kubernetes.io/os" => os } },
                "status" => object! { "allocatable" => object! { "cpu" => "2", "memory" => "2Gi" } },
            };
            assert_eq!(fits(&pod, &node), expect.map_err(str::to_owned));
        };
        check("2", "linux", Ok(()));
        let lacks = "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000";
        check("3", "linux", Err(lacks));
        check("1", "windows", Err("pod resize is only supported on linux nodes, node \"n\" is \"windows\""));
    }
}
