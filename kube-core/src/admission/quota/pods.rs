//! Quota usage of pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use machinery::{Str, Value, meta::Quantity, meta::quantity::Format};

use crate::{
    core::pods::{Amounts, add, amounts_in, is_pod_level, pod_amounts, raise},
    validation::{is_extended_resource, is_native},
};

/// Resources of which quotas once asked every container to say what it needs; they still do.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Everything that quotas count of pods by a fixed name.
const COUNTED: [&str; 11] = [
    "count/pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// Whether a quota's entry is about pods.
pub(super) fn counts(name: &str) -> bool {
    COUNTED.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || (!is_native(name) && name.starts_with("requests."))
}

/// Refuses a pod whose containers do not say what they need of what the quota bounds.
pub(super) fn check_named(bounded: &BTreeSet<&Str>, pod: &Value) -> Result<(), String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let says_itself = |list: &str| {
        let amounts = spec.at(&["resources", list]).and_then(Value::as_object);
        amounts.is_some_and(|amounts| amounts.keys().any(|name| is_pod_level(name)))
    };
    if says_itself("requests") || says_itself("limits") {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).and_then(Value::as_array).unwrap_or_default() {
            let amounts = |list| amounts_in(container.at(&["resources", list]));
            let usage = usage_of(&amounts("requests"), &amounts("limits"));
            for name in bounded.iter().filter(|name| REQUIRED.contains(&name.as_str())) {
                if !usage.contains_key(*name) {
                    missing.entry(name).or_default().insert(container.str_at(&["name"]).unwrap_or_default());
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let told = missing
        .into_iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(",")));
    Err(format!("must specify {}", told.collect::<Vec<_>>().join("; ")))
}

/// What a pod's containers were given, by their names: of equal ones the first.
fn given(pod: &Value) -> HashMap<Option<&str>, &Value> {
    let lists = ["initContainerStatuses", "containerStatuses"].map(|list| pod.at(&["status", list]));
    let statuses = lists.into_iter().flatten().filter_map(Value::as_array).flat_map(|list| list.iter().rev());
    statuses.map(|status| (status.str_at(&["name"]), status)).collect()
}

/// What a pod that is not done uses.
pub(super) fn usage(pod: &Value) -> Amounts {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let overhead = amounts_in(spec.get("overhead"));
    let given = given(pod);
    let of = |container: &Value, kind| of_container(pod, container, given.get(&container.str_at(&["name"])), kind);
    let mut requests = pod_amounts(spec, "requests", &|container| of(container, "requests"));
    add(&mut requests, &overhead);
    let mut limits = pod_amounts(spec, "limits", &|container| of(container, "limits"));
    for (name, limit) in limits.iter_mut().filter(|(_, limit)| !limit.is_zero()) {
        if let Some(more) = overhead.get(name) {
            limit.add(more);
        }
    }
    usage_of(&requests, &limits)
}

/// What a container is counted with: the most of what it asks for and what its node has given it, which differ while it is
/// resized. What its node cannot give is not counted.
fn of_container(pod: &Value, container: &Value, status: Option<&&Value>, kind: &str) -> Amounts {
    let asked = amounts_in(container.at(&["resources", kind]));
    let Some(status) = status else { return asked };
    if status.get("resources").is_none_or(Value::is_null) {
        return asked;
    }
    let mut given = amounts_in(status.at(&["resources", kind]));
    if kind == "requests" {
        raise(&mut given, &amounts_in(status.get("allocatedResources")));
    }
    if !is_infeasible(pod) {
        raise(&mut given, &asked);
    }
    given
}

/// Whether the node has said that it can never give what the pod asks for now.
fn is_infeasible(pod: &Value) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    conditions.iter().any(|condition| {
        condition.str_at(&["type"]) == Some("PodResizePending") && condition.str_at(&["reason"]) == Some("Infeasible")
    })
}

/// Requests and limits by the names that quotas have for them.
fn usage_of(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::new();
    usage.insert(Str::new_static("pods"), Quantity::new(1, Format::DecimalSI));
    for (name, request) in requests {
        let counted = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if counted {
            usage.insert(name.clone(), request.clone());
        }
        if counted || is_extended_resource(name) {
            usage.insert(format!("requests.{name}").into(), request.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}").into(), limit.clone());
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn value(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    fn shown(amounts: &Amounts) -> String {
        amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_pod_uses_what_its_containers_ask_for_and_are_given() {
        let check = |pod: &str, expect: &str| assert_eq!(shown(&usage(&value(pod))), expect);
        check(
            r#"{"spec":{"containers":[{"resources":{
                "requests":{"cpu":"100m","hugepages-2Mi":"4Mi","example.dev/gpu":"1"},"limits":{"memory":"1Gi"}}}]}}"#,
            "cpu=100m hugepages-2Mi=4Mi limits.memory=1Gi pods=1 requests.cpu=100m requests.example.dev/gpu=1 \
             requests.hugepages-2Mi=4Mi",
        );
        check(
            r#"{"spec":{"overhead":{"cpu":"50m"},"containers":[{"resources":{
                "requests":{"cpu":"100m"},"limits":{"cpu":"1"}}}]}}"#,
            "cpu=150m limits.cpu=1050m pods=1 requests.cpu=150m",
        );
        let resized = r#"{"name":"c","resources":{"requests":{"cpu":"1"}},"allocatedResources":{"cpu":"2"}}"#;
        let pod = |conditions: &str| {
            format!(
                r#"{{"spec":{{"containers":[{{"name":"c","resources":{{"requests":{{"cpu":"3"}}}}}}]}},
                    "status":{{"containerStatuses":[{resized}],"conditions":[{conditions}]}}}}"#
            )
        };
        check(&pod(""), "cpu=3 pods=1 requests.cpu=3");
        check(&pod(r#"{"type":"PodResizePending","reason":"Infeasible"}"#), "cpu=2 pods=1 requests.cpu=2");
        check(r#"{"spec":{"resources":{"requests":{"cpu":"4"}},"containers":[{}]}}"#, "cpu=4 pods=1 requests.cpu=4");
    }

    #[test]
    fn containers_say_what_they_need_of_what_is_bounded() {
        let check = |bounded: &[&'static str], spec: &str, expect: Result<(), &str>| {
            let bounded: Vec<Str> = bounded.iter().map(|name| Str::new_static(name)).collect();
            let pod = value(&format!(r#"{{"spec":{spec}}}"#));
            let found = check_named(&bounded.iter().collect(), &pod);
            assert_eq!(found, expect.map_err(str::to_owned));
        };
        let two = r#"{"containers":[{"name":"web"},{"name":"b","resources":{"requests":{"cpu":"1"}}}],
            "initContainers":[{"name":"a"}]}"#;
        let missing = "must specify limits.memory for: a,b,web; requests.cpu for: a,web";
        check(&["requests.cpu", "limits.memory", "pods", "requests.ephemeral-storage"], two, Err(missing));
        check(&["requests.ephemeral-storage", "pods"], two, Ok(()));
        let whole = r#"{"resources":{"limits":{"cpu":"1"}},"containers":[{"name":"web"}]}"#;
        check(&["requests.memory"], whole, Ok(()));
    }

    #[test]
    fn entries_about_pods_are_known_by_their_names() {
        for (name, expect) in [
            ("count/pods", true),
            ("requests.hugepages-1Gi", true),
            ("requests.example.dev/gpu", true),
            ("limits.example.dev/gpu", false),
            ("requests.storage", false),
            ("services", false),
        ] {
            assert_eq!(counts(name), expect, "{name}");
        }
    }
}
