//! Table columns of autoscalers.

use machinery::Value;

use super::conversion::V1;

use generic_server::printer::{
    AGE, Doc, Heading, NAME, NONE, Table, UNSET, age, amount, int, items, name, scalar, text,
};
use generic_server::resource::Conversion as _;

const SPEC: &str = "autoscaling.v2.HorizontalPodAutoscalerSpec";

/// Autoscalers, in the stored version.
pub(super) const TABLE: Table = Table::new(HEADINGS, cells);

/// Autoscalers in v1, which show what the stored version shows.
pub(super) const TABLE_V1: Table =
    Table::new(HEADINGS, |autoscaler, now| cells(&V1.to_storage(autoscaler.clone()), now));

const HEADINGS: &[Heading] = &[
    NAME,
    text("Reference", Doc::Of(SPEC, "scaleTargetRef")),
    text("Targets", Doc::Of(SPEC, "metrics")),
    text("MinPods", Doc::Of(SPEC, "minReplicas")),
    text("MaxPods", Doc::Of(SPEC, "maxReplicas")),
    text("Replicas", Doc::Of("autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas")),
    AGE,
];

fn cells(autoscaler: &Value, now: i64) -> Vec<Value> {
    let target = |name: &str| autoscaler.str_at(&["spec", "scaleTargetRef", name]).unwrap_or_default();
    vec![
        name(autoscaler),
        format!("{}/{}", target("kind"), target("name")).into(),
        targets(autoscaler).into(),
        scalar(autoscaler.at(&["spec", "minReplicas"])).unwrap_or_else(|| UNSET.to_owned()).into(),
        Value::Int(int(autoscaler, &["spec", "maxReplicas"])),
        Value::Int(int(autoscaler, &["status", "currentReplicas"])),
        age(autoscaler, now),
    ]
}

/// The first two metrics, each as what is against what is wanted.
fn targets(autoscaler: &Value) -> String {
    let statuses = items(autoscaler, &["status", "currentMetrics"]);
    let all: Vec<String> =
        items(autoscaler, &["spec", "metrics"]).iter().enumerate().map(|(i, m)| metric(m, statuses.get(i))).collect();
    match all.len() {
        0 => NONE.to_owned(),
        1 | 2 => all.join(", "),
        many => format!("{} + {} more...", all[..2].join(", "), many - 2),
    }
}

fn metric(metric: &Value, status: Option<&Value>) -> String {
    let source = match metric.str_at(&["type"]).unwrap_or_default() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let wanted = |number: &str| metric.at(&[source, "target", number]).filter(|v| !v.is_null());
    let current = |number: &str, unit: &str| {
        let held = status.and_then(|s| scalar(s.at(&[source, "current", number])));
        held.map_or_else(|| "<unknown>".to_owned(), |text| text + unit)
    };
    let average = wanted("averageValue").is_some();
    let target = |number: &str| amount(metric, &[source, "target", number]);
    match source {
        "external" | "object" if average => {
            format!("{}/{} (avg)", current("averageValue", ""), target("averageValue"))
        }
        "external" | "object" => format!("{}/{}", current("value", ""), target("value")),
        "pods" => format!("{}/{}", current("averageValue", ""), target("averageValue")),
        _ => {
            let resource = metric.str_at(&[source, "name"]).unwrap_or_default();
            if average {
                return format!("{resource}: {}/{}", current("averageValue", ""), target("averageValue"));
            }
            let percent = scalar(wanted("averageUtilization")).map_or_else(|| "<auto>".to_owned(), |p| p + "%");
            format!("{resource}: {}/{percent}", current("averageUtilization", "%"))
        }
    }
}
