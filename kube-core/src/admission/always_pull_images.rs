//! AlwaysPullImages: every image is pulled before it runs, so that only who may pull it can use it.

use std::collections::HashSet;

use async_trait::async_trait;
use generic_server::admission::{Admission, Attributes, Operation, Steps};
use machinery::{
    Value,
    meta::{field_error::FieldError, status::Status},
};

use super::{aggregated, writes_pod};

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The plugin.
pub(super) struct AlwaysPullImages;

#[async_trait]
impl Admission for AlwaysPullImages {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, pod: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if concerns(a, pod) {
            pull_always(pod);
        }
        Ok(())
    }

    async fn validate(&self, a: &Attributes<'_>, pod: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if !concerns(a, pod) {
            return Ok(());
        }
        let found: Vec<String> = faults(pod).iter().map(|fault| a.forbidden(pod, fault).message).collect();
        // Upstream does not call several refusals a refusal, and one neither.
        if found.is_empty() { Ok(()) } else { Err(Status::new(500, "", aggregated(found))) }
    }
}

/// Whether a write may bring images.
fn concerns(a: &Attributes<'_>, pod: &Value) -> bool {
    let brings = |old: &Value| {
        let old: HashSet<&str> = images(old).collect();
        images(pod).any(|image| !old.contains(image))
    };
    writes_pod(a) && (a.operation == Operation::Create || a.old.is_none_or(brings))
}

fn list<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod.at(&["spec", list]).and_then(Value::as_array).unwrap_or_default()
}

fn images(pod: &Value) -> impl Iterator<Item = &str> {
    let containers = LISTS.into_iter().flat_map(|containers| list(pod, containers));
    containers.map(|container| container.str_at(&["image"]).unwrap_or_default())
}

fn is_image(volume: &Value) -> bool {
    volume.get("image").is_some_and(|image| !image.is_null())
}

fn pull_always(pod: &mut Value) {
    for containers in LISTS {
        let mut changed = list(pod, containers).to_vec();
        for container in &mut changed {
            container.set(&["imagePullPolicy"], "Always");
        }
        if !changed.is_empty() {
            pod.set(&["spec", containers], changed);
        }
    }
    let mut volumes = list(pod, "volumes").to_vec();
    if volumes.iter().any(is_image) {
        for volume in volumes.iter_mut().filter(|volume| is_image(volume)) {
            volume.set(&["image", "pullPolicy"], "Always");
        }
        pod.set(&["spec", "volumes"], volumes);
    }
}

/// The images that are not always pulled.
fn faults(pod: &Value) -> Vec<FieldError> {
    let not_always = |path: String, value: &Value, member: &[&str]| {
        let policy = value.str_at(member).unwrap_or_default();
        (policy != "Always").then(|| FieldError::not_supported(path, policy, ["Always"]))
    };
    let mut found = Vec::new();
    for containers in LISTS {
        let faults = list(pod, containers).iter().enumerate().filter_map(|(i, container)| {
            not_always(format!("spec.{containers}[{i}].imagePullPolicy"), container, &["imagePullPolicy"])
        });
        found.extend(faults);
    }
    let volumes = list(pod, "volumes").iter().enumerate().filter(|(_, volume)| is_image(volume));
    found.extend(volumes.filter_map(|(i, volume)| {
        not_always(format!("spec.volumes[{i}].image.pullPolicy"), volume, &["image", "pullPolicy"])
    }));
    found
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn all_images_are_pulled_always() {
        let mut pod = json::decode(
            br#"{"spec":{"containers":[{"name":"c","imagePullPolicy":"Never"}],"initContainers":[{"name":"i"}],
                "ephemeralContainers":[{"name":"e","imagePullPolicy":"Always"}],
                "volumes":[{"name":"v","emptyDir":{}},{"name":"w","image":{"reference":"r"}}]}}"#,
        )
        .expect("JSON");
        let found: Vec<String> = faults(&pod).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                r#"spec.initContainers[0].imagePullPolicy: Unsupported value: "": supported values: "Always""#,
                r#"spec.containers[0].imagePullPolicy: Unsupported value: "Never": supported values: "Always""#,
                r#"spec.volumes[1].image.pullPolicy: Unsupported value: "": supported values: "Always""#,
            ]
        );
        pull_always(&mut pod);
        assert!(faults(&pod).is_empty());
        assert_eq!(pod.at(&["spec", "volumes"]).and_then(|v| v.as_array()?[0].get("image")), None);
    }
}
