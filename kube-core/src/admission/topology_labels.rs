//! PodTopologyLabels: pods carry the zone and region of the node that they are bound to.

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{Meta, status::Status},
};

/// The labels that are handed on.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The plugin.
pub(super) struct TopologyLabels {
    pub(super) nodes: Arc<Lister>,
}

#[async_trait]
impl Admission for TopologyLabels {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if a.operation != Operation::Create || !a.row.group.is_empty() {
            return Ok(());
        }
        let node = match (a.row.plural.as_str(), a.subresource) {
            ("pods", "") => object.str_at(&["spec", "nodeName"]),
            ("pods", "binding") | ("bindings", "") => object.str_at(&["target", "name"]),
            _ => return Ok(()),
        };
        let Some(node) = node.filter(|name| !name.is_empty()) else { return Ok(()) };
        let Ok(node) = self.nodes.get_value("", node).await else { return Ok(()) };
        for label in TOPOLOGY {
            if let Some(value) = Meta::of(&node).label(label) {
                object.set(&["metadata", "labels", label], value);
            }
        }
        Ok(())
    }
}
