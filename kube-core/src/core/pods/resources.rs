//! What a pod's containers ask for together: the defaults of pod-level requests, and the quality of service class.

use std::collections::BTreeMap;

use machinery::{Map, Str, Value, meta::quantity::Quantity};

/// Amounts by resource name.
pub(crate) type Amounts = BTreeMap<Str, Quantity>;

/// The amounts in `container.resources.requests` or `.limits`.
fn amounts(holder: &Value, list: &str) -> Amounts {
    amounts_in(holder.at(&["resources", list]))
}

/// The amounts of a list of resources. What is not a quantity is left out: validation refuses it.
pub(crate) fn amounts_in(list: Option<&Value>) -> Amounts {
    let list = list.and_then(Value::as_object);
    let parsed = |(name, value): &(Str, Value)| Some((name.clone(), Quantity::from_value(value).ok()?));
    list.into_iter().flatten().filter_map(parsed).collect()
}

/// Adds each amount.
pub(crate) fn add(to: &mut Amounts, more: &Amounts) {
    for (name, quantity) in more {
        match to.get_mut(name) {
            Some(sum) => sum.add(quantity),
            None => {
                to.insert(name.clone(), quantity.clone());
            }
        }
    }
}

/// Raises each amount to the greater one.
pub(crate) fn raise(to: &mut Amounts, more: &Amounts) {
    for (name, quantity) in more {
        match to.get(name) {
            Some(held) if held >= quantity => {}
            _ => {
                to.insert(name.clone(), quantity.clone());
            }
        }
    }
}

fn list<'a>(spec: &'a Value, name: &str) -> &'a [Value] {
    spec.get(name).and_then(Value::as_array).unwrap_or_default()
}

pub(super) fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == Some("Always")
}

/// What the containers of a pod ask for at once at the worst moment: all containers and sidecars running, or one of the init
/// containers beside the sidecars before it.
pub(crate) fn container_requests(spec: &Value) -> Amounts {
    aggregate(spec, &|container| amounts(container, "requests"))
}

/// What the containers of a pod may use at once at the worst moment.
pub(crate) fn container_limits(spec: &Value) -> Amounts {
    aggregate(spec, &|container| amounts(container, "limits"))
}

/// What a pod asks for: its containers together, or what it says itself.
pub(crate) fn pod_requests(spec: &Value) -> Amounts {
    pod_amounts(spec, "requests", &|container| amounts(container, "requests"))
}

/// What a pod may use: its containers together, or what it says itself.
pub(crate) fn pod_limits(spec: &Value) -> Amounts {
    pod_amounts(spec, "limits", &|container| amounts(container, "limits"))
}

/// The requests or limits (`kind`) of a pod whose containers have those that `of_container` says.
pub(crate) fn pod_amounts(spec: &Value, kind: &str, of_container: &dyn Fn(&Value) -> Amounts) -> Amounts {
    let mut sum = aggregate(spec, of_container);
    sum.extend(amounts(spec, kind).into_iter().filter(|(name, _)| is_pod_level(name)));
    sum
}

fn aggregate(spec: &Value, of_container: &dyn Fn(&Value) -> Amounts) -> Amounts {
    let mut running = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut running, &of_container(container));
    }
    let (mut sidecars, mut worst) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let mut own = of_container(container);
        if is_sidecar(container) {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut worst, &own);
    }
    raise(&mut running, &worst);
    running
}

/// Resources that may be asked for at the level of the pod.
pub(crate) fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// Pod-level limits imply pod-level requests: what the containers ask for, or else the limit.
pub(super) fn default_pod_requests(spec: &mut Value) {
    let Some(limits) = spec.at(&["resources", "limits"]).and_then(Value::as_object).filter(|l| !l.is_empty()) else {
        return;
    };
    let limits = limits.clone();
    let mut requests = spec.at(&["resources", "requests"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, quantity) in container_requests(spec) {
        if matches!(name.as_str(), "cpu" | "memory") && !requests.contains_key(&name) {
            requests.insert(name, quantity.text());
        }
    }
    for (name, limit) in &limits {
        if is_pod_level(name) && !requests.contains_key(name) {
            requests.insert(name.clone(), limit.clone());
        }
    }
    if !requests.is_empty() {
        spec.set(&["resources", "requests"], requests);
    }
}

/// The class by which a node chooses whom to starve first: `BestEffort`, `Burstable` or `Guaranteed`.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let counted = |amounts: Amounts| -> Amounts {
        amounts.into_iter().filter(|(name, q)| matches!(name.as_str(), "cpu" | "memory") && q.sign() > 0).collect()
    };
    let pod_level = spec.get("resources").is_some_and(|resources| !resources.is_null());
    let holders: Vec<&Value> = match pod_level {
        true => vec![spec],
        false => list(spec, "containers").iter().chain(list(spec, "initContainers")).collect(),
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut all_limited = true;
    for holder in holders {
        add(&mut requests, &counted(amounts(holder, "requests")));
        let own = counted(amounts(holder, "limits"));
        let relevant = !pod_level || spec.at(&["resources", "limits"]).and_then(Value::as_object).is_some_and(has_some);
        all_limited &= !relevant || (own.contains_key("cpu") && own.contains_key("memory"));
        add(&mut limits, &own);
    }
    if requests.is_empty() && limits.is_empty() {
        return "BestEffort";
    }
    if all_limited && requests == limits { "Guaranteed" } else { "Burstable" }
}

fn has_some(map: &Map) -> bool {
    !map.is_empty()
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn class(spec: &str) -> &'static str {
        qos_class(&json::decode(spec.as_bytes()).expect("valid JSON"))
    }

    #[test]
    fn the_class_follows_from_requests_and_limits() {
        assert_eq!(class(r#"{"containers":[{}]}"#), "BestEffort");
        assert_eq!(class(r#"{"containers":[{"resources":{"requests":{"cpu":"0"}}}]}"#), "BestEffort");
        assert_eq!(class(r#"{"containers":[{"resources":{"limits":{"example.dev/gpu":"1"}}}]}"#), "BestEffort");
        assert_eq!(class(r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#), "Burstable");
        let both = r#"{"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m","memory":"1Gi"}}}"#;
        assert_eq!(class(&format!(r#"{{"containers":[{both}]}}"#)), "Guaranteed");
        assert_eq!(class(&format!(r#"{{"containers":[{both},{{}}]}}"#)), "Burstable");
        assert_eq!(class(&format!(r#"{{"containers":[{both}],"initContainers":[{{}}]}}"#)), "Burstable");
        assert_eq!(class(r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"resources":{}}"#), "BestEffort");
        let pod = r#""resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1","memory":"1Gi"}}"#;
        assert_eq!(class(&format!(r#"{{"containers":[{{}}],{pod}}}"#)), "Guaranteed");
    }

    #[test]
    fn pod_level_requests_are_those_of_the_containers_or_the_limits() {
        let mut spec = json::decode(
            br#"{"resources":{"limits":{"cpu":"2","memory":"1Gi"}},
                "containers":[{"resources":{"requests":{"cpu":"500m"}}},{"resources":{"requests":{"cpu":"250m"}}}]}"#,
        )
        .expect("valid JSON");
        default_pod_requests(&mut spec);
        assert_eq!(spec.str_at(&["resources", "requests", "cpu"]), Some("750m"));
        assert_eq!(spec.str_at(&["resources", "requests", "memory"]), Some("1Gi"));
    }

    #[test]
    fn sidecars_run_beside_all_that_start_after_them() {
        let spec = json::decode(
            br#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[
                {"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
                {"resources":{"requests":{"cpu":"4"}}}]}"#,
        )
        .expect("valid JSON");
        assert_eq!(container_requests(&spec)["cpu"].text(), "6");
    }
}
