//! NodeDeclaredFeatureValidator: a pod that runs on a node is changed only in ways that the node says it knows.

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Value,
    meta::{go_text::quote, status::Status},
};

/// The plugin.
pub(super) struct DeclaredFeatures(pub(super) Arc<Lister>);

#[async_trait]
impl Admission for DeclaredFeatures {
    fn steps(&self) -> Steps {
        Steps::Validate
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let changes = a.operation == Operation::Update && a.is_of("", "pods") && matches!(a.subresource, "" | "resize");
        let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
        let Some(old) = a.old.filter(|_| changes && !node.is_empty()) else { return Ok(()) };
        let generation = |pod: &Value| pod.at(&["metadata", "generation"]).and_then(Value::as_i64);
        let needed = needed(pod, old);
        if generation(pod) == generation(old) || needed.is_empty() {
            return Ok(());
        }
        let shown = quote(node);
        let known = self.0.get_value("", node).await.map_err(|status| match status.code {
            404 => a.forbidden(pod, format!("node {shown} not found")),
            _ => a.forbidden(pod, format!("failed to get node {shown}: {}", status.message)),
        })?;
        let declared = known.at(&["status", "declaredFeatures"]).and_then(Value::as_array).unwrap_or_default();
        let declared: HashSet<&str> = declared.iter().filter_map(Value::as_str).collect();
        let missing: Vec<_> = needed.into_iter().filter(|feature| !declared.contains(feature)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = missing.join(", ");
        Err(a.forbidden(pod, format!("pod update requires features {missing} which are not available on node {shown}")))
    }
}

/// What a node must know for this change.
fn needed(new: &Value, old: &Value) -> Vec<&'static str> {
    let mut needed = Vec::new();
    let resources = |of: &Value| of.get("resources").cloned().unwrap_or_default();
    let spec = |pod: &Value| pod.get("spec").cloned().unwrap_or_default();
    if !resources(&spec(new)).semantic_eq(&resources(&spec(old))) {
        needed.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let containers =
        |pod: &Value| pod.at(&["spec", "initContainers"]).and_then(Value::as_array).unwrap_or_default().to_vec();
    let (new, old) = (containers(new), containers(old));
    let resized = |(old, new): (&Value, &Value)| {
        old.str_at(&["restartPolicy"]) != Some("Always") && !resources(old).semantic_eq(&resources(new))
    };
    if old.iter().zip(&new).any(resized) {
        needed.push("InPlacePodVerticalScalingInitContainers");
    }
    needed
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn resizing_pods_and_init_containers_needs_nodes_that_can() {
        let check = |new: &str, old: &str, expect: &[&str]| {
            let read = |spec: &str| json::decode(format!(r#"{{"spec":{spec}}}"#).as_bytes()).expect("JSON");
            assert_eq!(needed(&read(new), &read(old)), expect, "{new} {old}");
        };
        let pod = |cpu: u8| format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}}}"#);
        check("{}", "{}", &[]);
        check(&pod(1), &pod(1), &[]);
        check(&pod(1), &pod(2), &["InPlacePodLevelResourcesVerticalScaling"]);
        let init = |cpu: u8, more: &str| {
            format!(r#"{{"initContainers":[{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}]}}"#)
        };
        check(&init(1, ""), &init(2, ""), &["InPlacePodVerticalScalingInitContainers"]);
        let sidecar = r#","restartPolicy":"Always""#;
        check(&init(1, sidecar), &init(2, sidecar), &[]);
    }
}
