//! ExtendedResourceToleration: nodes with special devices are tainted by the devices' name, and pods that ask for the devices
//! tolerate that.

use std::collections::BTreeSet;

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Steps};
use machinery::{Value, meta::status::Status, object};

use super::writes_pod;
use crate::validation::is_extended_resource;

/// The plugin.
pub(super) struct ExtendedResources;

#[async_trait]
impl Admission for ExtendedResources {
    fn steps(&self) -> Steps {
        Steps::Mutate
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if writes_pod(a) {
            tolerate(pod);
        }
        Ok(())
    }
}

fn tolerate(pod: &mut Value) {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.at(&["spec", list]).and_then(Value::as_array).unwrap_or_default());
    let requests = containers.filter_map(|container| container.at(&["resources", "requests"])?.as_object());
    let names: BTreeSet<String> = requests
        .flat_map(|requests| requests.keys())
        .filter(|name| is_extended_resource(name))
        .map(ToString::to_string)
        .collect();
    if names.is_empty() {
        return;
    }
    let mut tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_array).unwrap_or_default().to_vec();
    let mut missing = names.clone();
    for toleration in &mut tolerations {
        let text = |member: &str| toleration.str_at(&[member]).unwrap_or_default();
        // The same toleration, but for its seconds.
        if (text("operator"), text("effect"), text("value")) == ("Exists", "NoSchedule", "")
            && names.contains(text("key"))
        {
            missing.remove(text("key"));
            *toleration = wanted(text("key"));
        }
    }
    tolerations.extend(missing.iter().map(|name| wanted(name)));
    pod.set(&["spec", "tolerations"], tolerations);
}

fn wanted(name: &str) -> Value {
    object! { "key" => name, "operator" => "Exists", "effect" => "NoSchedule" }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn pods_tolerate_the_taint_of_each_device_once() {
        let mut pod = json::decode(
            br#"{"spec":{"containers":[{"resources":{"requests":{"example.com/gpu":"1","cpu":"1"}}}],
                "initContainers":[{"resources":{"requests":{"a.com/x":"1","kubernetes.io/y":"1"}}}],
                "tolerations":[{"key":"example.com/gpu","operator":"Exists","effect":"NoSchedule","tolerationSeconds":5}]}}"#,
        )
        .expect("JSON");
        for _ in 0..2 {
            tolerate(&mut pod);
            let tolerations = json::encode(pod.at(&["spec", "tolerations"]).expect("a list"));
            assert_eq!(
                String::from_utf8_lossy(&tolerations),
                r#"[{"effect":"NoSchedule","key":"example.com/gpu","operator":"Exists"},{"effect":"NoSchedule","key":"a.com/x","operator":"Exists"}]"#
            );
        }
    }
}
