//! `autoscaling/v1` to and from v2: the CPU target has a field, all else travels in annotations.

use generic_server::resource::Conversion;
use machinery::{Map, Str, Value, object};

use super::{
    annotations::{self, ALL, BEHAVIOR, CONDITIONS, CURRENT_METRICS, METRICS},
    metrics::{Side, flatten, nest},
};
use crate::conversion::renamed;

/// The conversion of v1.
pub(super) struct V1;

impl Conversion for V1 {
    fn from_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("autoscaling/v1"));
        drop_annotations(&mut object);
        spec_to_v1(&mut object);
        status_to_v1(&mut object);
        object
    }

    fn to_storage(&self, object: Value) -> Value {
        let mut object = renamed(object, Str::new_static("autoscaling/v2"));
        spec_to_v2(&mut object);
        status_to_v2(&mut object);
        drop_annotations(&mut object);
        object
    }
}

/// Takes away the annotations that only carry what one version has no fields for: no stored object has them.
pub(super) fn drop_annotations(object: &mut Value) {
    let Some(held) = object.at(&["metadata", "annotations"]) else { return };
    if !ALL.iter().any(|name| held.get(name).is_some()) {
        return;
    }
    for name in ALL {
        object.remove_at(&["metadata", "annotations", name]);
    }
    if object.at(&["metadata", "annotations"]).and_then(Value::as_object).is_some_and(Map::is_empty) {
        object.remove_at(&["metadata", "annotations"]);
    }
}

fn annotate(object: &mut Value, name: &str, text: String) {
    object.set(&["metadata", "annotations", name], text);
}

fn items(object: &Value, path: &[&str]) -> Vec<Value> {
    object.at(path).and_then(Value::as_array).unwrap_or_default().to_vec()
}

/// The utilisation of the CPU that a metric is about, if it is that metric.
fn cpu_utilization<'a>(metric: &'a Value, member: &str) -> Option<&'a Value> {
    if metric.str_at(&["type"]) != Some("Resource") || metric.str_at(&["resource", "name"]) != Some("cpu") {
        return None;
    }
    metric.at(&["resource", member, "averageUtilization"]).filter(|v| !v.is_null())
}

fn spec_to_v1(object: &mut Value) {
    let metrics = items(object, &["spec", "metrics"]);
    object.remove_at(&["spec", "metrics"]);
    if let Some(percent) = metrics.iter().find_map(|m| cpu_utilization(m, "target")) {
        object.set(&["spec", "targetCPUUtilizationPercentage"], percent.clone());
    }
    let others: Value =
        metrics.iter().filter(|m| cpu_utilization(m, "target").is_none()).map(|m| flatten(m, Side::Spec)).collect();
    if others.as_array().is_some_and(|o| !o.is_empty()) {
        annotate(object, METRICS, annotations::text(&others, "metric"));
    }
    if let Some(behavior) = object.remove_at(&["spec", "behavior"]).filter(|b| !b.is_null()) {
        annotate(object, BEHAVIOR, annotations::text(&behavior_to_go(&behavior), "behavior"));
    }
}

fn status_to_v1(object: &mut Value) {
    let current = items(object, &["status", "currentMetrics"]);
    object.remove_at(&["status", "currentMetrics"]);
    let conditions = items(object, &["status", "conditions"]);
    object.remove_at(&["status", "conditions"]);
    if let Some(percent) = current.iter().find_map(|m| cpu_utilization(m, "current")) {
        object.set(&["status", "currentCPUUtilizationPercentage"], percent.clone());
    }
    for name in ["currentReplicas", "desiredReplicas"] {
        if object.at(&["status", name]).is_none() {
            object.set(&["status", name], 0);
        }
    }
    if !current.is_empty() {
        let flat: Value = current.iter().map(|m| flatten(m, Side::Status)).collect();
        annotate(object, CURRENT_METRICS, annotations::text(&flat, "metric"));
    }
    if !conditions.is_empty() {
        annotate(object, CONDITIONS, annotations::text(&conditions.into_iter().collect(), "condition"));
    }
}

fn spec_to_v2(object: &mut Value) {
    let percent = object.remove_at(&["spec", "targetCPUUtilizationPercentage"]).filter(|p| !p.is_null());
    let mut metrics: Vec<Value> = annotations::parse(object, METRICS)
        .and_then(|v| Some(v.as_array()?.iter().map(|m| nest(m, Side::Spec)).collect()))
        .unwrap_or_default();
    metrics.extend(percent.map(|percent| {
        let target = object! { "type" => "Utilization", "averageUtilization" => percent };
        object! { "type" => "Resource", "resource" => object! { "name" => "cpu", "target" => target } }
    }));
    if !metrics.is_empty() {
        object.set(&["spec", "metrics"], metrics);
    }
    let behavior = annotations::parse(object, BEHAVIOR).and_then(|b| behavior_from_go(&b));
    if let Some(behavior) = behavior {
        object.set(&["spec", "behavior"], behavior);
    }
}

fn status_to_v2(object: &mut Value) {
    let percent = object.remove_at(&["status", "currentCPUUtilizationPercentage"]).filter(|p| !p.is_null());
    let current = annotations::parse(object, CURRENT_METRICS)
        .and_then(|v| Some(v.as_array()?.iter().map(|m| nest(m, Side::Status)).collect::<Vec<_>>()))
        .filter(|current| !current.is_empty())
        .or_else(|| {
            let current = object! { "averageUtilization" => percent? };
            Some(vec![
                object! { "type" => "Resource", "resource" => object! { "name" => "cpu", "current" => current } },
            ])
        });
    let conditions = annotations::parse(object, CONDITIONS).filter(|c| c.as_array().is_some_and(|c| !c.is_empty()));
    // The list is written also when there is nothing in it.
    object.set(&["status", "currentMetrics"], current);
    if let Some(conditions) = conditions {
        object.set(&["status", "conditions"], conditions);
    }
}

/// Upstream writes the Go names of an internal type's fields, with every field.
fn behavior_to_go(behavior: &Value) -> Value {
    let rules = |name: &str| {
        let Some(rules) = behavior.get(name).filter(|r| !r.is_null()) else { return Value::Null };
        let policies = rules.get("policies").and_then(Value::as_array).map(|list| {
            let policy = |p: &Value| {
                object! {
                    "Type" => p.get("type").cloned(),
                    "Value" => p.get("value").cloned(),
                    "PeriodSeconds" => p.get("periodSeconds").cloned(),
                }
            };
            list.iter().map(policy).collect::<Vec<_>>()
        });
        object! {
            "StabilizationWindowSeconds" => rules.get("stabilizationWindowSeconds").cloned(),
            "SelectPolicy" => rules.get("selectPolicy").cloned(),
            "Policies" => policies,
            "Tolerance" => rules.get("tolerance").cloned(),
        }
    };
    object! { "ScaleUp" => rules("scaleUp"), "ScaleDown" => rules("scaleDown") }
}

/// Reads what [`behavior_to_go`] writes, in any case, as Go does. `None` if nothing is set.
fn behavior_from_go(behavior: &Value) -> Option<Value> {
    let member = |v: &Value, name: &str| -> Option<Value> {
        let (_, value) = v.as_object()?.iter().find(|(k, _)| k.eq_ignore_ascii_case(name))?;
        (!value.is_null()).then(|| value.clone())
    };
    let pick = |v: &Value, names: &[&'static str]| -> Value {
        names.iter().filter_map(|name| Some(((*name).into(), member(v, name)?))).collect::<Map>().into()
    };
    let mut out = pick(behavior, &["scaleUp", "scaleDown"]);
    let map = out.make_object();
    if map.is_empty() {
        return None;
    }
    for (_, rules) in map.iter_mut() {
        let mut read = pick(rules, &["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"]);
        // What has no policies here gets none by default: the rules of v2 find that they are missing.
        let policies = read.make_object().entry("policies");
        if policies.is_null() {
            *policies = Vec::<Value>::new().into();
        }
        for policy in policies.as_array_mut().into_iter().flatten() {
            *policy = pick(policy, &["type", "value", "periodSeconds"]);
        }
        *rules = read;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn parse(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("valid JSON")
    }

    #[test]
    fn what_v1_has_no_fields_for_travels_in_annotations_and_back() {
        let stored = parse(
            r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"annotations":{"keep":"me"}},
            "spec":{"maxReplicas":9,"metrics":[
              {"type":"Resource","resource":{"name":"memory","target":{"type":"AverageValue","averageValue":"100Mi"}}},
              {"type":"Pods","pods":{"metric":{"name":"qps","selector":{"matchLabels":{"a":"b"}}},"target":{"type":"AverageValue","averageValue":"1500m"}}},
              {"type":"Object","object":{"describedObject":{"kind":"Service","name":"s","apiVersion":"v1"},"target":{"type":"Value","value":"2k"},"metric":{"name":"hits"}}},
              {"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"30"}}},
              {"type":"ContainerResource","containerResource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50},"container":"app"}},
              {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":60}}}],
             "behavior":{"scaleDown":{"stabilizationWindowSeconds":60,"policies":[{"type":"Pods","value":2,"periodSeconds":30}]}}},
            "status":{"desiredReplicas":0,"currentReplicas":0,"currentMetrics":null}}"#,
        );
        let served = V1.from_storage(stored.clone());
        assert_eq!(served.at(&["spec", "targetCPUUtilizationPercentage"]), Some(&Value::Int(60)));
        assert_eq!(
            served.str_at(&["metadata", "annotations", BEHAVIOR]),
            Some(
                r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":60,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":2,"PeriodSeconds":30}],"Tolerance":null}}"#
            )
        );
        assert_eq!(V1.to_storage(served), stored);
    }

    #[test]
    fn rules_without_policies_are_not_completed() {
        let text = r#"{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/behavior":"{\"ScaleUp\":{\"Policies\":null}}"}},
            "spec":{"maxReplicas":5}}"#;
        let stored = V1.to_storage(parse(text));
        assert_eq!(stored.at(&["spec", "behavior"]), Some(&parse(r#"{"scaleUp":{"policies":[]}}"#)));
    }

    #[test]
    fn an_annotation_that_is_not_json_says_nothing_and_goes() {
        let served = parse(
            r#"{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"not json"}},"spec":{"maxReplicas":5}}"#,
        );
        let stored = V1.to_storage(served);
        assert_eq!(stored.at(&["metadata", "annotations"]), None);
        assert_eq!(stored.at(&["spec", "metrics"]), None);
    }
}
