//! The strategy of v1 Pods: what creates and updates keep, drop and reset.

use generic_server::resource::WriteContext;
use machinery::{
    Str, Value, array,
    meta::{TimeForm, Timestamp},
    object,
};

use super::{affinity, apparmor, defaults, ephemeral_containers, resize, resources, validation, warnings};
use crate::{defaults::is_empty, strategy::Rules};

/// The rules of pods.
pub(crate) const RULES: Rules = Rules {
    defaults: defaults::pod,
    create,
    update,
    status_update,
    validate: validation::validate,
    validate_update: Some(validation::validate_update),
    validate_status: validation::validate_status,
    warn: warnings::pod,
    warn_status: warnings::status_addresses,
    warn_early: warnings::annotated_armor,
    grace,
    subresources: &[ephemeral_containers::EPHEMERAL_CONTAINERS, resize::RESIZE],
    status_leaves: &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
    keeps_status: true,
    ..Rules::WORKLOAD.returns_deleted()
};

fn create(cx: &WriteContext<'_>, pod: &mut Value) {
    let given = pod.str_at(&["status", "qosClass"]).filter(|class| !class.is_empty()).map(Str::from);
    let class = given.unwrap_or_else(|| resources::qos_class(pod.get("spec").unwrap_or(&Value::Null)).into());
    let mut status = object! { "phase" => "Pending", "qosClass" => class };
    if let Some(condition) = gated(pod) {
        status.set(&["conditions"], array![condition]);
    }
    pod.set(&["status"], status);
    affinity::merge_label_keys(cx.features, pod);
    apparmor::sync(pod);
    if let Some(spec) = pod.get_mut("spec") {
        defaults::service_account(spec);
    }
}

/// A pod with scheduling gates says so in its conditions from the start.
fn gated(pod: &Value) -> Option<Value> {
    if is_empty(pod.at(&["spec", "schedulingGates"])) {
        return None;
    }
    let now = Timestamp::now().text(TimeForm::Seconds);
    Some(object! {
        "type" => "PodScheduled",
        "status" => "False",
        "lastProbeTime" => Value::Null,
        "lastTransitionTime" => now,
        "reason" => "SchedulingGated",
        "message" => "Scheduling is blocked due to non-empty scheduling gates",
    })
}

fn update(cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    if let Some(spec) = new.get_mut("spec") {
        defaults::service_account(spec);
    }
    // Gates may go, and what they let the client narrow follows the labels anew.
    if !is_empty(old.at(&["spec", "schedulingGates"])) && new.get("spec") != old.get("spec") {
        affinity::merge_label_keys(cx.features, new);
    }
}

fn status_update(_cx: &WriteContext<'_>, new: &mut Value, old: &Value) {
    if is_empty(new.at(&["status", "qosClass"]))
        && let Some(class) = old.at(&["status", "qosClass"])
    {
        new.set(&["status", "qosClass"], class.clone());
    }
}

/// Seconds until a deleted pod must be gone. A pod that no node runs goes at once.
fn grace(pod: &Value, asked: Option<i64>) -> Option<i64> {
    let phase = pod.str_at(&["status", "phase"]).unwrap_or_default();
    let unscheduled = pod.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty);
    if unscheduled || matches!(phase, "Failed" | "Succeeded") {
        return Some(0);
    }
    let own = || pod.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(30);
    let seconds = asked.unwrap_or_else(own);
    Some(if seconds < 0 { 1 } else { seconds })
}
