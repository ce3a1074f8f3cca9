//! A budget's status, computed: pure.

use std::collections::BTreeMap;

use machinery::{
    Map, Str, Value,
    meta::{Meta, TimeForm, Timestamp},
    object,
};

/// Seconds that an eviction has until its pod must be on its way out.
const DELETION_TIMEOUT: i64 = 120;
const ALLOWED: &str = "DisruptionAllowed";

/// What was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Pods that are healthy.
    pub(super) current: i64,
    /// How many must be.
    pub(super) desired: i64,
    /// How many there should be.
    pub(super) expected: i64,
}

/// Pods that are to be evicted, by name and since when.
pub(super) type Disrupted = BTreeMap<Str, Str>;

/// The evictions that are still on their way, and the seconds until the first of them has taken too long.
pub(super) fn disrupted(budget: &Value, pods: &[Value], now: i64) -> (Disrupted, Option<i64>) {
    let (mut left, mut recheck) = (Disrupted::new(), None);
    let Some(noted) = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object) else {
        return (left, recheck);
    };
    for pod in pods.iter().map(Meta::of).filter(|pod| !pod.is_terminating()) {
        let Some(since) = noted.get(pod.name()).and_then(Value::as_str) else { continue };
        let Ok(time) = Timestamp::parse(since, TimeForm::Seconds) else { continue };
        let remaining = time.seconds().saturating_add(DELETION_TIMEOUT).saturating_sub(now);
        if remaining >= 0 {
            recheck = Some(recheck.map_or(remaining, |first: i64| first.min(remaining)));
            left.insert(pod.name().into(), since.into());
        }
    }
    (left, recheck)
}

/// How many pods are ready, and neither go nor are to be evicted.
pub(super) fn healthy(pods: &[Value], disrupted: &Disrupted) -> i64 {
    let is_ready = |pod: &Value| {
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
        let is = |condition: &Value, key, value| condition.str_at(&[key]) == Some(value);
        conditions.iter().any(|condition| is(condition, "type", "Ready") && is(condition, "status", "True"))
    };
    let counts = |pod: &&Value| {
        let meta = Meta::of(pod);
        !meta.is_terminating() && !disrupted.contains_key(meta.name()) && is_ready(pod)
    };
    i64::try_from(pods.iter().filter(counts).count()).unwrap_or(i64::MAX)
}

/// The status that the budget is to have; none if it has it.
pub(super) fn written(budget: &Value, counts: Counts, disrupted: Disrupted, now: Timestamp) -> Option<Value> {
    let left = (counts.current - counts.desired).max(0);
    let allowed = if counts.expected <= 0 { 0 } else { left };
    let generation = Meta::of(budget).generation();
    let mut status = object! {
        "currentHealthy" => counts.current, "desiredHealthy" => counts.desired, "disruptionsAllowed" => allowed,
        "expectedPods" => counts.expected, "observedGeneration" => generation,
    };
    if !disrupted.is_empty() {
        status.set(&["disruptedPods"], Value::from(disrupted.into_iter().map(|(k, v)| (k, v.into())).collect::<Map>()));
    }
    let (state, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    status.set(&["conditions"], conditions(budget, (state, reason, ""), generation, now));
    (budget.get("status") != Some(&status)).then_some(status)
}

/// The same when nothing can be counted: no disruption is allowed.
pub(super) fn failed(budget: &Value, why: &str, now: Timestamp) -> Option<Value> {
    let mut status = budget.get("status").cloned().unwrap_or_else(Value::object);
    let observed = status.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0);
    status.set(&["disruptionsAllowed"], 0);
    status.set(&["conditions"], conditions(budget, ("False", "SyncFailed", why), observed, now));
    (budget.get("status") != Some(&status)).then_some(status)
}

fn conditions(
    budget: &Value,
    (state, reason, message): (&str, &str, &str),
    generation: i64,
    now: Timestamp,
) -> Vec<Value> {
    let conditions = budget.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let mut conditions = conditions.to_vec();
    let at = conditions.iter().position(|condition| condition.str_at(&["type"]) == Some(ALLOWED));
    let old = at.map(|at| &conditions[at]).filter(|old| old.str_at(&["status"]) == Some(state));
    let since = old.and_then(|old| old.str_at(&["lastTransitionTime"]));
    let mut new = object! {
        "type" => ALLOWED, "status" => state, "reason" => reason, "message" => message,
        "lastTransitionTime" => since.map_or_else(|| now.text(TimeForm::Seconds), str::to_owned),
    };
    if generation != 0 {
        new.set(&["observedGeneration"], generation);
    }
    match at {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
    conditions
}

#[cfg(test)]
mod tests {
    use machinery::array;

    use super::*;

    fn pod(name: &str, ready: &str) -> Value {
        let condition = object! { "type" => "Ready", "status" => ready };
        object! {
            "metadata" => object! { "name" => name }, "status" => object! { "conditions" => array![condition] },
        }
    }

    fn budget() -> Value {
        object! { "metadata" => object! { "generation" => 2 }, "status" => object! { "disruptionsAllowed" => 0 } }
    }

    #[test]
    fn what_is_healthy_beyond_what_must_be_may_be_disrupted() {
        let check = |current, desired, expected, allowed: i64, reason: &str| {
            let counts = Counts { current, desired, expected };
            let status = written(&budget(), counts, Disrupted::new(), Timestamp::new(0, 0)).expect("it is new");
            assert_eq!(status.get("disruptionsAllowed").and_then(Value::as_i64), Some(allowed), "{counts:?}");
            let condition = &status.get("conditions").and_then(Value::as_array).expect("conditions")[0];
            assert_eq!(condition.str_at(&["reason"]), Some(reason), "{counts:?}");
            let mut same = budget();
            same.set(&["status"], status);
            assert_eq!(written(&same, counts, Disrupted::new(), Timestamp::new(9, 0)), None);
        };
        check(3, 2, 3, 1, "SufficientPods");
        check(2, 2, 3, 0, "InsufficientPods");
        check(1, 2, 3, 0, "InsufficientPods");
        check(3, 0, 0, 0, "InsufficientPods");
    }

    #[test]
    fn evictions_count_until_they_have_taken_too_long() {
        let mut budget = budget();
        let noted =
            object! { "a" => "1970-01-01T00:01:40Z", "b" => "1970-01-01T00:03:20Z", "gone" => "1970-01-01T00:03:20Z" };
        budget.set(&["status", "disruptedPods"], noted);
        let pods = [pod("a", "True"), pod("b", "True"), pod("c", "True"), pod("d", "False")];
        let (left, recheck) = disrupted(&budget, &pods, 230);
        assert_eq!((left.keys().map(Str::as_str).collect::<Vec<_>>(), recheck), (vec!["b"], Some(90)));
        assert_eq!(healthy(&pods, &left), 2);
        let mut going = pod("e", "True");
        going.set(&["metadata", "deletionTimestamp"], "1970-01-01T00:01:40Z");
        assert_eq!(healthy(&[going], &left), 0);
    }

    #[test]
    fn a_failure_allows_nothing_and_says_why() {
        let status = failed(&budget(), "no luck", Timestamp::new(0, 0)).expect("it is new");
        let condition = &status.get("conditions").and_then(Value::as_array).expect("conditions")[0];
        assert_eq!(condition.str_at(&["message"]), Some("no luck"));
        assert_eq!(condition.str_at(&["reason"]), Some("SyncFailed"));
    }
}
