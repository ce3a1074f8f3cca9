//! Pods that were to be disrupted and were not: their condition DisruptionTarget is taken back after a while.

use std::time::Duration;

use machinery::{
    Value,
    json::scan,
    meta::{GrRef, GvrRef, Meta, TimeForm, Timestamp, status::Status},
    object,
};
use storage::cache::Object;

use crate::{
    objects::{self, Key},
    shared::Shared,
    workqueue::Outcome,
};

const TARGET: &str = "DisruptionTarget";
/// Seconds until a condition is stale.
const TIMEOUT: i64 = 120;

/// Whether a pod has the condition, by its text.
pub(super) fn may_be(pod: &Object) -> bool {
    let conditions = scan::field(pod.bytes(), &["status", "conditions"]).unwrap_or_default();
    conditions.windows(TARGET.len()).any(|part| part == TARGET.as_bytes())
}

/// Seconds until the pod's condition is stale; none if it has none.
fn left(pod: &Value, now: i64) -> Option<i64> {
    if Meta::of(pod).is_terminating() || matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")) {
        return None;
    }
    let conditions = pod.at(&["status", "conditions"])?.as_array()?;
    let target = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some(TARGET))?;
    if target.str_at(&["status"]) != Some("True") {
        return None;
    }
    let since = Timestamp::parse(target.str_at(&["lastTransitionTime"])?, TimeForm::Seconds).ok()?;
    Some(since.seconds().saturating_add(TIMEOUT).saturating_sub(now))
}

/// Takes it back in time.
pub(super) async fn sync(shared: &Shared, key: &Key) -> Result<Outcome, Status> {
    let Some(mut pod) = objects::read(shared, GrRef::new("", "pods"), key).await? else { return Ok(Outcome::Done) };
    let now = Timestamp::now();
    match left(&pod, now.seconds()) {
        None => return Ok(Outcome::Done),
        Some(seconds) if seconds > 0 => return Ok(Outcome::After(Duration::from_secs(seconds.unsigned_abs()))),
        Some(_) => {}
    }
    let generation = Meta::of(&pod).generation();
    let tracks =
        pod.at(&["status", "observedGeneration"]).and_then(Value::as_i64).is_some_and(|observed| observed != 0);
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let taken_back = |condition: &Value| {
        if condition.str_at(&["type"]) != Some(TARGET) {
            return condition.clone();
        }
        let mut new = object! {
            "type" => TARGET, "status" => "False", "lastTransitionTime" => now.text(TimeForm::Seconds),
        };
        if tracks || condition.get("observedGeneration").is_some() {
            new.set(&["observedGeneration"], generation);
        }
        new
    };
    let conditions: Vec<Value> = conditions.iter().map(taken_back).collect();
    pod.set(&["status", "conditions"], conditions);
    let path = format!("{}/status", key.path(GvrRef::new("", "v1", "pods")));
    objects::written(shared.client().update(&path, &pod).await)
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    #[test]
    fn a_condition_is_stale_after_two_minutes() {
        let pod = |status: &str, phase: &str| {
            let condition =
                object! { "type" => TARGET, "status" => status, "lastTransitionTime" => "1970-01-01T00:01:40Z" };
            object! { "status" => object! { "phase" => phase, "conditions" => array![condition] } }
        };
        assert_eq!(left(&pod("True", "Running"), 210), Some(10));
        assert_eq!(left(&pod("False", "Running"), 210), None);
        assert_eq!(left(&pod("True", "Failed"), 210), None);
        assert_eq!(left(&object! {}, 210), None);
    }
}
