//! What `autoscaling/v1` keeps in annotations: JSON texts in the member order of Go's structs, which clients compare.

use machinery::{Value, codec::json};

pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
pub(super) const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
pub(super) const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
pub(super) const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
pub(super) const ALL: [&str; 4] = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR];

/// Members in writing order, most specific place first: `parent` is the member that holds the object.
fn order(parent: &str) -> &'static [&'static str] {
    match parent {
        "metric" => &["type", "object", "pods", "resource", "containerResource", "external"],
        "object" => &["target", "metricName", "targetValue", "currentValue", "selector", "averageValue"],
        "pods" => &["metricName", "targetAverageValue", "currentAverageValue", "selector"],
        "resource" | "containerResource" => &[
            "name",
            "targetAverageUtilization",
            "targetAverageValue",
            "currentAverageUtilization",
            "currentAverageValue",
            "container",
        ],
        "external" => &[
            "metricName",
            "metricSelector",
            "targetValue",
            "currentValue",
            "targetAverageValue",
            "currentAverageValue",
        ],
        "target" => &["kind", "name", "apiVersion"],
        "selector" | "metricSelector" => &["matchLabels", "matchExpressions"],
        "matchExpressions" => &["key", "operator", "values"],
        "condition" => &["type", "status", "lastTransitionTime", "reason", "message"],
        "behavior" => &["ScaleUp", "ScaleDown"],
        "ScaleUp" | "ScaleDown" => &["StabilizationWindowSeconds", "SelectPolicy", "Policies", "Tolerance"],
        "Policies" => &["Type", "Value", "PeriodSeconds"],
        _ => &[],
    }
}

/// The text of a value that stands in the member `parent`. Members without a known place follow by name.
pub(super) fn text(value: &Value, parent: &str) -> String {
    let mut out = String::new();
    write(value, parent, &mut out);
    out
}

fn write(value: &Value, parent: &str, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, parent, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            let known = order(parent);
            let rest = map.keys().map(|k| k.as_str()).filter(|k| !known.contains(k));
            let members = known.iter().copied().chain(rest).filter_map(|k| Some((k, map.get(k)?)));
            out.push('{');
            for (i, (key, member)) in members.enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&leaf(&Value::from(key)));
                out.push(':');
                write(member, key, out);
            }
            out.push('}');
        }
        _ => out.push_str(&leaf(value)),
    }
}

fn leaf(value: &Value) -> String {
    String::from_utf8_lossy(&json::encode(value)).into_owned()
}

/// The value in an annotation; `None` if there is none or it is not JSON.
pub(super) fn parse(object: &Value, annotation: &str) -> Option<Value> {
    json::decode(object.str_at(&["metadata", "annotations", annotation])?.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_the_order_of_gos_structs() {
        let value = json::decode(br#"[{"object":{"metricName":"hits","target":{"apiVersion":"v1","kind":"Service","name":"s"},"targetValue":"2k"},"type":"Object"}]"#).expect("valid");
        assert_eq!(
            text(&value, "metric"),
            r#"[{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"hits","targetValue":"2k"}}]"#
        );
    }
}
