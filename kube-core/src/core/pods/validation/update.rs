//! Validates updates of v1 Pods.

use std::collections::{HashMap, HashSet};

use machinery::{Value, meta::names};

use super::{
    annotations, containers, internal, scheduling,
    scope::{Scope, has, list, name, text},
};
use crate::validation::{Errors, Field};

/// What upstream says of all other changes.
const UPDATABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                         `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                         `spec.tolerations` (only additions to existing tolerations),\
                         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What is wrong with the changes of an update, once the new pod has been judged as such.
pub(super) fn changes(new: &Field<'_>, old: &Value, scope: &Scope<'_>, errors: &mut Errors) {
    let metadata = new.at("metadata");
    annotation_changes(&metadata.at("annotations"), old, scope, errors);
    let spec = new.at("spec");
    let old = super::spec::of(old);
    for member in ["containers", "initContainers"] {
        let list_field = spec.at(member);
        if list_field.len() != list(old, member).len() {
            return list_field.forbidden("pod updates may not add or remove containers", errors);
        }
        list_field.each(|container| {
            container.at("image").is_given(errors);
        });
        containers::images(&list_field, errors);
    }
    if !deadline(&spec.at("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"), errors) {
        return;
    }
    only_more_tolerations(&spec.at("tolerations"), list(old, "tolerations"), scope, errors);
    only_fewer_gates(&spec.at("schedulingGates"), list(old, "schedulingGates"), errors);
    if !spec.value().semantic_eq(old) {
        spec_changes(&spec, old, errors);
    }
}

/// Annotations that have a meaning are judged anew, and some may not change.
pub(super) fn annotation_changes(new: &Field<'_>, old: &Value, scope: &Scope<'_>, errors: &mut Errors) {
    let old = old.at(&["metadata", "annotations"]);
    annotations::unchanged(new, old.unwrap_or(&Value::Null), errors);
    annotations::known(new, old, scope, errors);
}

/// The time that a pod may run can be set and made shorter; whether that is what happens.
fn deadline(new: &Field<'_>, old: Option<&Value>, errors: &mut Errors) -> bool {
    let Some(old) = old.and_then(Value::as_i64) else {
        return in_bounds(new, errors);
    };
    if !new.is_set() {
        new.invalid("must not update from a positive integer to nil value", errors);
        return true;
    }
    if !in_bounds(new, errors) {
        return false;
    }
    if new.int_or_zero() > old {
        new.invalid("must be less than or equal to previous value", errors);
        return false;
    }
    true
}

fn in_bounds(deadline: &Field<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    deadline.check_some_int(|n| names::in_range(n, 0, i32::MAX.into()), errors);
    errors.len() == before
}

/// A toleration but for its seconds.
fn identity(toleration: &Value) -> [&str; 4] {
    ["key", "operator", "value", "effect"].map(|member| text(toleration, member))
}

fn only_more_tolerations(new: &Field<'_>, old: &[Value], scope: &Scope<'_>, errors: &mut Errors) {
    let known: HashSet<[&str; 4]> = new.items().iter().map(identity).collect();
    if !old.iter().all(|toleration| known.contains(&identity(toleration))) {
        return new.forbidden("existing toleration can not be modified except its tolerationSeconds", errors);
    }
    scheduling::tolerations(new, scheduling::may_compare(scope, errors), errors);
}

fn only_fewer_gates(new: &Field<'_>, old: &[Value], errors: &mut Errors) {
    if new.is_empty() {
        return;
    }
    let known: HashSet<&str> = old.iter().map(name).collect();
    // Of gates with one name the last one is told of.
    let last: HashMap<&str, usize> = new.items().iter().enumerate().map(|(i, gate)| (name(gate), i)).collect();
    for i in 0..new.len() {
        let gate = new.index(i);
        let gate_name = gate.at("name");
        if last.get(gate_name.text()) == Some(&i) && !known.contains(gate_name.text()) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", gate_name.text());
            gate_name.forbidden(detail, errors);
        }
    }
}

/// Puts back what may change, and compares the rest.
fn spec_changes(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let mut rest = spec.value().clone();
    for member in ["containers", "initContainers"] {
        let images = list(old, member).iter().map(|container| container.get("image"));
        let held = rest.get_mut(member).and_then(Value::as_array_mut);
        for (container, image) in held.into_iter().flatten().zip(images) {
            put_back(container, "image", image);
        }
    }
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put_back(&mut rest, member, old.get(member));
    }
    let grace = |spec: &Value| spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(&rest) == Some(1) {
        put_back(&mut rest, "terminationGracePeriodSeconds", old.get("terminationGracePeriodSeconds"));
    }
    if !list(old, "schedulingGates").is_empty() {
        gated(spec, old, &mut rest, errors);
    }
    if !rest.semantic_eq(old) {
        let difference = super::difference::between(&internal::pretty_spec(old), &internal::pretty_spec(&rest));
        spec.forbidden(format!("{UPDATABLE}\n{difference}"), errors);
    }
}

fn put_back(holder: &mut Value, member: &str, old: Option<&Value>) {
    match old {
        Some(value) if holder.get(member) == Some(value) => {}
        Some(value) => {
            holder.make_object().insert(member, value.clone());
        }
        None => {
            holder.make_object().remove(member);
        }
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A pod that waits for its gates may become choosier about nodes.
fn gated(spec: &Field<'_>, old: &Value, rest: &mut Value, errors: &mut Errors) {
    let selector = spec.at("nodeSelector");
    let before = old.get("nodeSelector").and_then(Value::as_object);
    let mut kept = before.into_iter().flatten();
    if !kept.all(|(key, value)| selector.value().get(key) == Some(value)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        selector.invalid(detail, errors);
    }
    put_back(rest, "nodeSelector", old.get("nodeSelector"));

    let affinity = spec.at("affinity");
    let node = affinity.at("nodeAffinity");
    let old_node = old.at(&["affinity", "nodeAffinity"]).unwrap_or(&Value::Null);
    if node.value().semantic_eq(old_node) {
        return;
    }
    let required = node.at(REQUIRED);
    terms(
        &required.at("nodeSelectorTerms"),
        list(old_node.get(REQUIRED).unwrap_or(&Value::Null), "nodeSelectorTerms"),
        errors,
    );
    let others = |affinity: &Value| has(affinity, "podAffinity") || has(affinity, "podAntiAffinity");
    if !has(old, "affinity") && !others(affinity.value()) {
        put_back(rest, "affinity", None);
    } else {
        put_back(rest.at_mut(&["affinity"]), "nodeAffinity", Some(old_node).filter(|v| !v.is_null()));
    }
}

/// Terms are alternatives, so their number stays; requirements of one are all to be met, so there may be more.
fn terms(new: &Field<'_>, old: &[Value], errors: &mut Errors) {
    if old.is_empty() {
        return;
    }
    if old.len() != new.len() {
        let shown = internal::shown("[]NodeSelectorTerm", new.value());
        return new.invalid_as(shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed", errors);
    }
    for (i, (now, before)) in new.items().iter().zip(old).enumerate() {
        if !is_narrower(now, before) {
            let shown = internal::shown("NodeSelectorTerm", now);
            new.index(i).invalid_as(shown, "only additions are allowed (no mutations or deletions)", errors);
        }
    }
}

fn is_narrower(new: &Value, old: &Value) -> bool {
    const PARTS: [&str; 2] = ["matchExpressions", "matchFields"];
    // A term without requirements matches nothing, and with one it would.
    if PARTS.iter().all(|part| list(old, part).is_empty()) {
        return PARTS.iter().all(|part| list(new, part).is_empty());
    }
    PARTS.iter().all(|part| {
        let (new, old) = (list(new, part), list(old, part));
        new.len() >= old.len() && new.iter().zip(old).all(|(a, b)| a.semantic_eq(b))
    })
}

/// What is wrong with a change of the containers that came later, through their subresource: none goes, none changes.
pub(crate) fn ephemeral_containers(pod: &Field<'_>, old: &Value, errors: &mut Errors) {
    let spec = pod.at("spec");
    let new = spec.at("ephemeralContainers");
    let known: HashMap<&str, &Value> = new.items().iter().map(|c| (name(c), c)).collect();
    for before in list(super::spec::of(old), "ephemeralContainers") {
        let shown = machinery::meta::go_text::quote(name(before));
        match known.get(name(before)) {
            None => new.forbidden(format!("existing ephemeral containers {shown} may not be removed\n"), errors),
            Some(now) if !now.semantic_eq(before) => {
                let pretty = |container| internal::pretty("EphemeralContainer", container);
                let difference = super::difference::between(&pretty(before), &pretty(now));
                let detail = format!("existing ephemeral containers {shown} may not be changed\n{difference}");
                new.forbidden(detail, errors);
            }
            Some(_) => {}
        }
    }
}
