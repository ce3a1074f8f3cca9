//! `pods/resize`: the cpu and memory of a pod's containers change while it runs.

use generic_server::resource::WriteContext;
use machinery::{Map, Value, meta::FieldError};

use super::{
    resources::{is_sidecar, qos_class},
    validation,
};
use crate::{
    defaults::is_empty,
    strategy::{SubresourceRules, restore, restore_metadata},
    validation::{Errors, Field},
};

/// The rules of the subresource.
pub(super) const RESIZE: SubresourceRules = SubresourceRules { name: "resize", update, validate };

/// Where the resources of the whole pod are.
const POD_LEVEL: [&str; 2] = ["spec", "resources"];

/// The members of a container that a resize may change.
const RESIZED: [&str; 2] = ["resources", "resizePolicy"];

/// The feature by which containers that go first are resized too, though they are no sidecars.
const INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";

const NO_POD_LEVEL: &str = "resize of pods with pod-level resources is forbidden when \
                            InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
const RESTARTING_INIT: &str = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";

/// Only the resources of the containers and of the whole pod may change. Where the containers are others, everything is left as it came, for the
/// validation to refuse.
fn update(cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    let lists = ["containers", "initContainers"].map(|list| (list, ["spec", list]));
    if lists.iter().any(|(_, path)| items(new, path).len() != items(old, path).len()) {
        return;
    }
    let of_pod = new.at(&POD_LEVEL).cloned();
    let resized = lists.map(|(list, path)| (list, with_resources_of(items(new, &path), items(old, &path))));
    restore(new, old, &["spec"]);
    restore(new, old, &["status"]);
    restore_metadata(new, old);
    for (list, containers) in resized {
        if !containers.is_empty() {
            new.set(&["spec", list], containers);
        }
    }
    if !cx.features.is_on("InPlacePodLevelResourcesVerticalScaling") {
        return;
    }
    match of_pod {
        Some(resources) => new.set(&POD_LEVEL, resources),
        None => drop(new.remove_at(&POD_LEVEL)),
    }
}

fn items<'a>(pod: &'a Value, path: &[&str]) -> &'a [Value] {
    pod.at(path).and_then(Value::as_array).unwrap_or_default()
}

/// The old containers with the resources of the new ones; the new ones as they are if they are in another order.
fn with_resources_of(new: &[Value], old: &[Value]) -> Vec<Value> {
    if new.iter().zip(old).any(|(new, old)| new.get("name") != old.get("name")) {
        return new.to_vec();
    }
    let merged = |(new, old): (&Value, &Value)| {
        let mut container = old.clone();
        RESIZED.iter().for_each(|member| restore(&mut container, new, &[member]));
        container
    };
    new.iter().zip(old).map(merged).collect()
}

/// Why a pod cannot be resized at all.
fn refusal(old: &Value) -> Option<&'static str> {
    if old.at(&["metadata", "annotations", "kubernetes.io/config.mirror"]).is_some() {
        return Some("static pods cannot be resized");
    }
    (old.str_at(&["spec", "os", "name"]) == Some("windows")).then_some("windows pods cannot be resized")
}

fn validate(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    if let Some(why) = refusal(old.value()) {
        errors.push(FieldError::forbidden("[]", why));
        return;
    }
    validation::validate_pod(new, old.value(), errors);
    let spec = new.at("spec");
    let class = |pod: &Value| qos_class(pod.get("spec").unwrap_or(&Value::Null));
    let before = old.value().str_at(&["status", "qosClass"]).unwrap_or_else(|| class(old.value()));
    if before != class(new.value()) {
        let shown = new.value().str_at(&["status", "qosClass"]).unwrap_or_default();
        spec.invalid_as(shown, "Pod QOS Class may not change as a result of resizing", errors);
    }
    if !node_resizes(old.value()) {
        spec.forbidden("Pod running on node without support for resize", errors);
    }
    let old_spec = old.at("spec");
    let asks = |spec: &Value| ["requests", "limits"].iter().any(|list| !is_empty(spec.at(&["resources", list])));
    if !errors.has("InPlacePodLevelResourcesVerticalScaling") && (asks(spec.value()) || asks(old_spec.value())) {
        errors.push(FieldError::forbidden("[]", NO_POD_LEVEL));
        return;
    }
    pod_level(&spec, &old_spec, errors);
    let found = errors.len();
    same_containers(&spec, &old_spec, errors);
    if errors.len() > found {
        return;
    }
    let sidecars_only = !errors.has(INIT_CONTAINERS);
    for list in ["initContainers", "containers"] {
        nothing_removed(&spec.at(list), &old_spec.at(list), sidecars_only && list == "initContainers", errors);
    }
    only_cpu_and_memory(&spec, &old_spec, errors);
}

/// A kubelet that can resize tells the resources of running containers.
fn node_resizes(pod: &Value) -> bool {
    let running = items(pod, &["status", "containerStatuses"]).iter().find(|s| s.at(&["state", "running"]).is_some());
    running.is_none_or(|status| status.get("resources").is_some())
}

/// What the whole pod asks for or is limited to may change in cpu and memory, and does not go.
fn pod_level(spec: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let (new, old) = (spec.at("resources"), old.at("resources"));
    if !old.is_set() {
        return;
    }
    if !new.is_set() {
        return new.forbidden("pod-level resources cannot be removed", errors);
    }
    for (list, what) in [("requests", "pod-level resource requests"), ("limits", "pod-level resource limits")] {
        let (now, before) = (new.at(list), old.at(list));
        let gone = before.value().as_object().into_iter().flatten().any(|(name, _)| now.value().get(name).is_none());
        if gone {
            now.forbidden(format!("{what} cannot be removed"), errors);
        }
    }
    let mut rest = new.value().clone();
    for list in ["requests", "limits"] {
        for resource in ["cpu", "memory"] {
            restore(&mut rest, old.value(), &[list, resource]);
        }
    }
    if !rest.semantic_eq(old.value()) {
        spec.forbidden("only cpu and memory resources are mutable at pod-level", errors);
    }
}

fn same_containers(new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        let (new, old) = (new.at(list), old.at(list));
        if new.len() != old.len() {
            new.forbidden(format!("{list} may not be added or removed on resize"), errors);
            continue;
        }
        for i in 0..new.len() {
            let (new, old) = (new.index(i), old.index(i));
            if !new.at("name").same(&old.at("name")) {
                new.at("name").forbidden(format!("{list} may not be renamed or reordered on resize"), errors);
            }
        }
    }
}

/// What a container asks for or is limited to may change, and does not go.
fn nothing_removed(new: &Field<'_>, old: &Field<'_>, sidecars_only: bool, errors: &mut Errors) {
    let amounts = |container: &Value, list: &str| -> Map {
        container.at(&["resources", list]).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    for (i, container) in old.items().iter().enumerate() {
        if sidecars_only && !is_sidecar(container) {
            continue;
        }
        let now = new.index(i);
        for (list, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
            let (before, after) = (amounts(container, list), amounts(now.value(), list));
            if before.keys().any(|name| !after.contains_key(name)) {
                now.at("resources").at(list).forbidden(format!("{what} cannot be removed"), errors);
            }
        }
    }
}

fn only_cpu_and_memory(spec: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    let pairs = |list: &'static str| spec.at(list).items().iter().zip(old.at(list).items());
    for (new, old) in pairs("containers") {
        if !without_resize(new, old).semantic_eq(old) {
            spec.forbidden("only cpu and memory resources are mutable", errors);
        }
    }
    let resizable = errors.has(INIT_CONTAINERS);
    let containers = spec.at("initContainers");
    for (i, (new, old)) in pairs("initContainers").enumerate() {
        let place = containers.index(i);
        let is_changed = !new.semantic_eq(old);
        if !is_sidecar(new) && !resizable {
            if is_changed {
                spec.forbidden("resources for non-sidecar init containers are immutable", errors);
            }
            continue;
        }
        if !without_resize(new, old).semantic_eq(old) {
            place.forbidden("only cpu and memory resources for init or sidecar containers are mutable", errors);
        }
        if is_changed && !is_sidecar(new) {
            let restarts = |policy: &&Value| policy.str_at(&["restartPolicy"]) == Some("RestartContainer");
            let policies = new.get("resizePolicy").and_then(Value::as_array).unwrap_or_default();
            policies.iter().filter(restarts).for_each(|_| place.forbidden(RESTARTING_INIT, errors));
        }
    }
}

/// The new container with the old one's cpu, memory and policy of resizing.
fn without_resize(new: &Value, old: &Value) -> Value {
    let mut container = new.clone();
    for list in ["requests", "limits"] {
        if old.at(&["resources", list]).is_none() {
            container.remove_at(&["resources", list]);
            continue;
        }
        for resource in ["cpu", "memory"] {
            restore(&mut container, old, &["resources", list, resource]);
        }
    }
    restore(&mut container, old, &["resizePolicy"]);
    container
}

#[cfg(test)]
mod tests {
    use auth::User;
    use machinery::{array, object};

    use super::*;

    fn pod(containers: Value) -> Value {
        object! {
            "metadata" => object! {}, "spec" => object! { "containers" => containers },
            "status" => object! { "qosClass" => "Burstable" },
        }
    }

    fn container(name: &str, cpu: &str) -> Value {
        object! { "name" => name, "resources" => object! { "requests" => object! { "cpu" => cpu } } }
    }

    fn check(new: Value, expect: &[&str]) {
        let (old, user) = (pod(array![container("c", "1")]), User::default());
        let cx = WriteContext {
            group: "",
            version: "v1",
            namespace: "n",
            subresource: "resize",
            user: &user,
            features: &Default::default(),
        };
        let (mut new, mut errors) = (new, Errors::default());
        update(&cx, &mut new, &old);
        let own = RESIZE.validate;
        own(&cx, &Field::root(&new), &Field::root(&old), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        let about_resize = |t: &&String| ["resize", "removed", "mutable", "resizing"].iter().any(|w| t.contains(w));
        assert_eq!(texts.iter().filter(about_resize).map(String::as_str).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn cpu_may_change_and_nothing_may_go() {
        check(pod(array![container("c", "2")]), &[]);
        let mut other = container("c", "2");
        other.set(&["image"], "ignored");
        check(pod(array![other]), &[]);
        let mut bare = container("c", "1");
        bare.set(&["resources", "requests"], object! { "memory" => "1Gi" });
        let path = "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed";
        check(pod(array![bare]), &[path]);
        let mut more = container("c", "1");
        more.set(&["resources", "requests", "ephemeral-storage"], "1Gi");
        check(pod(array![more]), &["spec: Forbidden: only cpu and memory resources are mutable"]);
    }

    #[test]
    fn the_containers_stay_the_same() {
        check(
            pod(array![container("c", "1"), container("d", "1")]),
            &["spec.containers: Forbidden: containers may not be added or removed on resize"],
        );
        check(
            pod(array![container("d", "1")]),
            &["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"],
        );
    }
}
