//! LimitPodHardAntiAffinityTopology: a pod keeps others off its node, and off no more than that.

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Steps};
use machinery::{
    Value,
    meta::{Meta, status::Status},
};

use super::{resource_of, writes_pod};

const HOST: &str = "kubernetes.io/hostname";

/// The plugin.
pub(super) struct LimitAntiAffinity;

#[async_trait]
impl Admission for LimitAntiAffinity {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let path = ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = pod.at(&path).and_then(Value::as_array).filter(|_| writes_pod(a)).unwrap_or_default();
        let mut keys = terms.iter().map(|term| term.str_at(&["topologyKey"]).unwrap_or_default());
        let Some(key) = keys.find(|key| *key != HOST) else { return Ok(()) };
        let why = format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
        );
        Err(Status::forbidden(&resource_of(a), Meta::of(pod).name(), why))
    }
}
