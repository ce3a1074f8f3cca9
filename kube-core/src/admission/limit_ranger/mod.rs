//! LimitRanger: what a namespace's limit ranges give to containers that ask for nothing, and the bounds they set.

mod bounds;

use std::sync::Arc;

use async_trait::async_trait;
use generic_server::{
    admission::{Admission, Attributes, Operation, Steps},
    registry::Lister,
};
use machinery::{
    Str, Value,
    meta::{Meta, MetaMut, status::Status},
};

use super::{aggregated, parsed::Parsed};
use crate::core::pods::{Amounts, amounts_in};

/// Tells which amounts come from here.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The plugin.
pub(super) struct LimitRanger {
    ranges: Parsed<Vec<Item>>,
}

/// One of the items of a limit range.
struct Item {
    /// `Container`, `Pod` or `PersistentVolumeClaim`; others bind nothing here.
    kind: Str,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
    default: Amounts,
    default_request: Amounts,
}

impl Item {
    fn all_of(range: &Value) -> Vec<Item> {
        let items = range.at(&["spec", "limits"]).and_then(Value::as_array).unwrap_or_default();
        let read = |item: &Value| Item {
            kind: item.str_at(&["type"]).unwrap_or_default().into(),
            min: amounts_in(item.get("min")),
            max: amounts_in(item.get("max")),
            ratio: amounts_in(item.get("maxLimitRequestRatio")),
            default: amounts_in(item.get("default")),
            default_request: amounts_in(item.get("defaultRequest")),
        };
        items.iter().map(read).collect()
    }
}

/// What is bounded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bounded {
    Pod,
    Claim,
}

impl LimitRanger {
    pub(super) fn new(ranges: Arc<Lister>) -> Self {
        LimitRanger { ranges: Parsed::new(ranges, Item::all_of) }
    }

    /// The limit ranges that a write has to do with: those of new pods, of pods that are resized, and of claims.
    async fn ranges(&self, a: &Attributes<'_>) -> Result<Option<(Bounded, Vec<Arc<Vec<Item>>>)>, Status> {
        let (creates, updates) = (a.operation == Operation::Create, a.operation == Operation::Update);
        let bounded = match a.subresource {
            "" if creates && a.is_of("", "pods") => Bounded::Pod,
            "resize" if updates && a.is_of("", "pods") => Bounded::Pod,
            "" if (creates || updates) && a.is_of("", "persistentvolumeclaims") => Bounded::Claim,
            _ => return Ok(None),
        };
        if a.old.is_some_and(|old| Meta::of(old).is_terminating()) {
            return Ok(None);
        }
        Ok(Some((bounded, self.ranges.in_namespace(a.namespace).await?)))
    }
}

#[async_trait]
impl Admission for LimitRanger {
    fn steps(&self) -> Steps {
        Steps::Both
    }

    async fn mutate(&self, a: &Attributes<'_>, object: &mut Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        if let Some((Bounded::Pod, ranges)) = self.ranges(a).await? {
            ranges.iter().for_each(|range| fill(range, object));
        }
        Ok(())
    }

    async fn validate(&self, a: &Attributes<'_>, object: &Value, _warnings: &mut Vec<String>) -> Result<(), Status> {
        let Some((bounded, ranges)) = self.ranges(a).await? else { return Ok(()) };
        for range in ranges {
            let found = match bounded {
                Bounded::Pod => bounds::of_pod(&range, object),
                Bounded::Claim => bounds::of_claim(&range, object),
            };
            if !found.is_empty() {
                return Err(a.forbidden(object, aggregated(found)));
            }
        }
        Ok(())
    }
}

/// Gives a pod's containers what a limit range has for those that name no amounts.
fn fill(range: &[Item], pod: &mut Value) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for item in range.iter().filter(|item| item.kind == "Container") {
        requests.extend(item.default_request.clone());
        limits.extend(item.default.clone());
    }
    let mut set = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = pod.at(&["spec", list]).and_then(Value::as_array) else { continue };
        let mut containers = containers.to_vec();
        let before = set.len();
        for container in &mut containers {
            for (list, amounts, word) in [("requests", &requests, "request"), ("limits", &limits, "limit")] {
                let missing: Vec<&Str> =
                    amounts.keys().filter(|name| container.at(&["resources", list, name]).is_none()).collect();
                if missing.is_empty() {
                    continue;
                }
                let names: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
                let of = container.str_at(&["name"]).unwrap_or_default();
                set.push(format!("{} {word} for {what} {of}", names.join(", ")));
                for name in missing {
                    container.set(&["resources", list, name], &amounts[name]);
                }
            }
        }
        if set.len() > before {
            pod.set(&["spec", list], containers);
        }
    }
    if !set.is_empty() {
        let text = format!("LimitRanger plugin set: {}", set.join("; "));
        MetaMut::of(pod).set_annotation(ANNOTATION, text);
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn containers_that_name_no_amount_get_the_default_and_the_pod_says_so() {
        let check = |range: &str, spec: &str, expect: &str, annotation: Option<&str>| {
            let mut pod = value(&format!(r#"{{"metadata":{{}},"spec":{spec}}}"#));
            fill(&Item::all_of(&value(&format!(r#"{{"spec":{{"limits":{range}}}}}"#))), &mut pod);
            assert_eq!(pod.get("spec"), Some(&value(expect)));
            assert_eq!(Meta::of(&pod).annotation(ANNOTATION), annotation);
        };
        let range = r#"[{"type":"Container","default":{"cpu":"1","memory":"1Gi"},"defaultRequest":{"cpu":"500m"}}]"#;
        check(
            range,
            r#"{"containers":[{"name":"c","resources":{"limits":{"cpu":"2"}}}],"initContainers":[{"name":"i"}]}"#,
            r#"{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"500m"}}}],
                "initContainers":[{"name":"i",
                    "resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}}}]}"#,
            Some(
                "LimitRanger plugin set: cpu request for container c; memory limit for container c; cpu request for init \
                 container i; cpu, memory limit for init container i",
            ),
        );
        let full = r#"{"containers":[{"name":"c",
            "resources":{"limits":{"cpu":"2","memory":"1"},"requests":{"cpu":"1"}}}]}"#;
        check(range, full, full, None);
        check(r#"[{"type":"Pod","max":{"cpu":"1"}}]"#, r#"{"containers":[{}]}"#, r#"{"containers":[{}]}"#, None);
    }
}
