//! Defaults of autoscalers, in the stored version.

use machinery::{Value, array, object};

use super::{annotations, conversion::drop_annotations, validation};
use crate::{
    defaults::{is_empty, part, pointer, within},
    strategy::Rules,
};

/// The rules of autoscalers.
pub(super) const RULES: Rules = Rules::STATUS
    .hidden_annotations(&annotations::ALL)
    .defaults(defaults)
    .validate(validation::autoscaler)
    .validate_update(validation::autoscaler_update)
    .validate_status(validation::autoscaler_status);

fn defaults(autoscaler: &mut Value) {
    drop_annotations(autoscaler);
    within(autoscaler, "spec", |spec| {
        pointer(spec, "minReplicas", 1);
        if is_empty(spec.get("metrics")) {
            let target = object! { "type" => "Utilization", "averageUtilization" => 80 };
            let resource = object! { "name" => "cpu", "target" => target };
            spec.set(&["metrics"], array![object! { "type" => "Resource", "resource" => resource }]);
        }
        within(spec, "behavior", |behavior| {
            let policy = |kind: &str, value: i64| object! { "type" => kind, "value" => value, "periodSeconds" => 15 };
            let up = part(behavior, "scaleUp");
            pointer(up, "stabilizationWindowSeconds", 0);
            rules(up, array![policy("Pods", 4), policy("Percent", 100)]);
            rules(part(behavior, "scaleDown"), array![policy("Percent", 100)]);
        });
    });
}

fn rules(rules: &mut Value, policies: Value) {
    pointer(rules, "selectPolicy", "Max");
    pointer(rules, "policies", policies);
}
