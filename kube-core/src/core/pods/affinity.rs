//! `matchLabelKeys` and `mismatchLabelKeys`: the pod's own labels, written into the selectors that they narrow.

use generic_server::features::Features;
use machinery::{Map, Str, Value, array, object};

use crate::defaults::{each, within};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Writes the keys of affinity terms and of spread constraints out as expressions.
pub(super) fn merge_label_keys(features: &Features, pod: &mut Value) {
    let spreads = ["MatchLabelKeysInPodTopologySpread", "MatchLabelKeysInPodTopologySpreadSelectorMerge"];
    let spreads = spreads.iter().all(|gate| features.is_on(gate));
    let Some(labels) = pod.at(&["metadata", "labels"]).and_then(Value::as_object).cloned() else { return };
    within(pod, "spec", |spec| {
        within(spec, "affinity", |affinity| {
            for side in ["podAffinity", "podAntiAffinity"] {
                within(affinity, side, |side| {
                    each(side, REQUIRED, |term| merge(term, &labels));
                    each(side, PREFERRED, |term| within(term, "podAffinityTerm", |term| merge(term, &labels)));
                });
            }
        });
        if spreads {
            each(spec, "topologySpreadConstraints", |constraint| merge(constraint, &labels));
        }
    });
}

fn merge(term: &mut Value, labels: &Map) {
    if !term.get("labelSelector").is_some_and(|s| matches!(s, Value::Object(_))) {
        return; // no selector selects nothing, and stays so
    }
    let mut expressions = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in term.get(list).and_then(Value::as_array).unwrap_or_default() {
            let Some((key, value)) = key.as_shared_str().and_then(|k| Some((k, labels.get(k)?))) else { continue };
            expressions.push(expression(key, operator, value));
        }
    }
    if expressions.is_empty() {
        return;
    }
    let held = term.at_mut(&["labelSelector", "matchExpressions"]);
    let mut all = held.as_array().unwrap_or_default().to_vec();
    all.extend(expressions);
    *held = all.into();
}

fn expression(key: &Str, operator: &str, value: &Value) -> Value {
    object! { "key" => key.clone(), "operator" => operator, "values" => array![value.clone()] }
}
