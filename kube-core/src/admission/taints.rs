//! TaintNodesByCondition: a new node is not ready.

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Steps};
use machinery::{Value, meta::status::Status, object};

use super::creates;

/// The plugin.
pub(super) struct TaintNodes;

#[async_trait]
impl Admission for TaintNodes {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, node: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !creates(a, "nodes") {
            return Ok(());
        }
        let taint = object! { "key" => "node.kubernetes.io/not-ready", "effect" => "NoSchedule" };
        let mut taints = node.at(&["spec", "taints"]).and_then(Value::as_array).unwrap_or_default().to_vec();
        let same = |t: &Value| ["key", "effect"].iter().all(|k| t.get(k) == taint.get(k));
        if !taints.iter().any(same) {
            taints.push(taint);
            node.set(&["spec", "taints"], taints);
        }
        Ok(())
    }
}
