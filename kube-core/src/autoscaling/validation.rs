//! Validates HorizontalPodAutoscalers, in their storage version.

use generic_server::resource::WriteContext;
use machinery::meta::names;

use crate::validation::{Errors, Field, container_resource_name};

const MAX_WINDOW: i64 = 3600;
const MAX_PERIOD: i64 = 1800;

pub(super) fn autoscaler(_cx: &WriteContext<'_>, autoscaler: &Field<'_>, errors: &mut Errors) {
    check(autoscaler, None, errors);
}

pub(super) fn autoscaler_update(_cx: &WriteContext<'_>, new: &Field<'_>, old: &Field<'_>, errors: &mut Errors) {
    check(new, Some(old), errors);
}

pub(super) fn autoscaler_status(_cx: &WriteContext<'_>, new: &Field<'_>, _old: &Field<'_>, errors: &mut Errors) {
    new.at("status").none_negative(&["currentReplicas", "desiredReplicas"], errors);
}

fn check(autoscaler: &Field<'_>, old: Option<&Field<'_>>, errors: &mut Errors) {
    let spec = autoscaler.at("spec");
    let old_spec = old.map(|old| old.at("spec"));
    let (least, most) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    // What scales to zero already may go on without the feature.
    let had_zero = old_spec.as_ref().is_some_and(|old| old.at("minReplicas").int() == Some(0));
    let bound = i64::from(!had_zero && !errors.has("HPAScaleToZero"));
    if least.int().is_some_and(|n| n < bound) {
        least.invalid(format!("must be greater than or equal to {bound}"), errors);
    }
    let max = most.int_or_zero();
    if max == 0 {
        most.required("must be set and greater than 0", errors);
    } else if max < 1 {
        most.invalid("must be greater than or equal to 1", errors);
    }
    if least.int().is_some_and(|least| max < least) {
        most.invalid_as(max, "must be greater than or equal to `minReplicas`", errors);
    }
    let target = spec.at("scaleTargetRef");
    reference(&target, errors);
    let old_target = old_spec.as_ref().map(|old| old.at("scaleTargetRef"));
    if !old_target.is_some_and(|old| old.same(&target)) {
        api_version(&target, errors);
    }
    let metrics = spec.at("metrics");
    metrics.each(|metric| metric_spec(&metric, errors));
    let scales_to_zero = |m: &machinery::Value| matches!(m.str_at(&["type"]), Some("Object" | "External"));
    if least.int() == Some(0) && !metrics.items().iter().any(scales_to_zero) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        metrics.forbidden(detail, errors);
    }
    let behavior = spec.at("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        let rules = behavior.at(direction);
        if rules.is_set() {
            scaling_rules(&rules, errors);
        }
    }
}

/// Kind and name of an object in some version.
fn reference(target: &Field<'_>, errors: &mut Errors) {
    for member in ["kind", "name"] {
        let text = target.at(member);
        if text.is_given(errors) {
            text.check(names::path_segment_name, errors);
        }
    }
}

fn api_version(target: &Field<'_>, errors: &mut Errors) {
    let version = target.at("apiVersion");
    let text = version.text();
    match text.matches('/').count() {
        0 if text == "v1" && target.at("kind").text() == "ReplicationController" => {}
        0 => version.invalid_as(text, "apiVersion must specify API group", errors),
        1 if text != "/" && text.starts_with('/') => {
            version.invalid_as(text, "apiVersion must specify API group", errors)
        }
        1 => {}
        _ => version.invalid_as(text, format!("unexpected GroupVersion string: {text}"), errors),
    }
}

fn scaling_rules(rules: &Field<'_>, errors: &mut Errors) {
    let window = rules.at("stabilizationWindowSeconds");
    if window.int().is_some_and(|n| n < 0) {
        window.invalid("must be greater than or equal to zero", errors);
    }
    window.at_most(MAX_WINDOW, &format!("must be less than or equal to {MAX_WINDOW}"), errors);
    let select = rules.at("selectPolicy");
    if select.is_set() {
        select.one_of(&["Disabled", "Max", "Min"], errors);
    }
    let policies = rules.at("policies");
    if policies.is_empty() {
        policies.required("must specify at least one Policy", errors);
    }
    policies.each(|policy| {
        policy.at("type").one_of(&["Percent", "Pods"], errors);
        let period = policy.at("periodSeconds");
        for number in [&policy.at("value"), &period] {
            if number.int_or_zero() <= 0 {
                number.invalid_as(number.int_or_zero(), "must be greater than zero", errors);
            }
        }
        period.at_most(MAX_PERIOD, &format!("must be less than or equal to {MAX_PERIOD}"), errors);
    });
    let tolerance = rules.at("tolerance");
    if tolerance.quantity().sign() < 0 {
        tolerance.invalid_as(tolerance.quantity_text(), "must be greater than or equal to 0", errors);
    }
}

/// Types of metrics, the member that holds each, and its rule; in the order in which upstream looks at them.
type Source = (&'static str, &'static str, fn(&Field<'_>, &mut Errors));
const SOURCES: &[Source] = &[
    ("Object", "object", object_source),
    ("External", "external", external_source),
    ("Pods", "pods", pods_source),
    ("Resource", "resource", resource_source),
    ("ContainerResource", "containerResource", container_source),
];
const TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];

fn metric_spec(metric: &Field<'_>, errors: &mut Errors) {
    let kind = metric.at("type");
    if kind.is_empty() {
        kind.required("must specify a metric source type", errors);
    }
    kind.one_of(TYPES, errors);
    let mut present = SOURCES.iter().filter(|(_, member, _)| metric.at(member).is_set());
    if let Some((_, member, rule)) = present.next() {
        rule(&metric.at(member), errors);
    }
    match SOURCES.iter().find(|(name, ..)| *name == kind.text()) {
        Some((_, member, _)) if !metric.at(member).is_set() => {
            metric.at(member).required("must populate information for the given metric source", errors);
        }
        Some(_) => {}
        None => kind.not_supported(TYPES, errors),
    }
    let mut others: Vec<&str> = SOURCES.iter().map(|(_, member, _)| *member).collect();
    others.retain(|member| metric.at(member).is_set());
    if others.len() != 1 {
        let expected = SOURCES.iter().find(|(name, ..)| *name == kind.text()).map(|(_, member, _)| *member);
        others.retain(|member| Some(*member) != expected);
        others.sort_unstable();
        for member in others {
            metric.at(member).forbidden("must populate the given metric source only", errors);
        }
    }
}

fn object_source(source: &Field<'_>, errors: &mut Errors) {
    reference(&source.at("describedObject"), errors);
    identifier(&source.at("metric"), errors);
    let target = source.at("target");
    metric_target(&target, errors);
    if !target.at("value").is_set() && !target.at("averageValue").is_set() {
        target.at("averageValue").required("must set either a target value or averageValue", errors);
    }
}

fn external_source(source: &Field<'_>, errors: &mut Errors) {
    identifier(&source.at("metric"), errors);
    let target = source.at("target");
    metric_target(&target, errors);
    let (value, average) = (target.at("value"), target.at("averageValue"));
    match (value.is_set(), average.is_set()) {
        (false, false) => average.required("must set either a target value for metric or a per-pod target", errors),
        (true, true) => value.forbidden("may not set both a target value for metric and a per-pod target", errors),
        _ => {}
    }
}

fn pods_source(source: &Field<'_>, errors: &mut Errors) {
    identifier(&source.at("metric"), errors);
    let target = source.at("target");
    metric_target(&target, errors);
    if !target.at("averageValue").is_set() {
        target.at("averageValue").required("must specify a positive target averageValue", errors);
    }
}

fn container_source(source: &Field<'_>, errors: &mut Errors) {
    let (name, container) = (source.at("name"), source.at("container"));
    if name.is_empty() {
        name.required("must specify a resource name", errors);
    } else {
        container_resource_name(&name, name.text(), errors);
    }
    if container.is_empty() {
        container.required("must specify a container", errors);
    } else {
        container.check(names::dns1123_label, errors);
    }
    utilization(&source.at("target"), errors);
}

fn resource_source(source: &Field<'_>, errors: &mut Errors) {
    if source.at("name").is_empty() {
        source.at("name").required("must specify a resource name", errors);
    }
    utilization(&source.at("target"), errors);
}

/// A share of what was asked for, or an amount.
fn utilization(target: &Field<'_>, errors: &mut Errors) {
    metric_target(target, errors);
    let (share, amount) = (target.at("averageUtilization"), target.at("averageValue"));
    match (share.is_set(), amount.is_set()) {
        (false, false) => share.required("must set either a target raw value or a target utilization", errors),
        (true, true) => amount.forbidden("may not set both a target raw value and a target utilization", errors),
        _ => {}
    }
}

fn metric_target(target: &Field<'_>, errors: &mut Errors) {
    let kind = target.at("type");
    if kind.is_empty() {
        kind.required("must specify a metric target type", errors);
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        kind.invalid_as(kind.text(), "must be either Utilization, Value, or AverageValue", errors);
    }
    for member in ["value", "averageValue"] {
        let amount = target.at(member);
        if amount.is_set() && amount.quantity().sign() != 1 {
            amount.invalid_as(amount.quantity_text(), "must be positive", errors);
        }
    }
    let share = target.at("averageUtilization");
    if share.int().is_some_and(|n| n < 1) {
        share.invalid("must be greater than 0", errors);
    }
}

fn identifier(metric: &Field<'_>, errors: &mut Errors) {
    let name = metric.at("name");
    if name.is_empty() {
        name.required("must specify a metric name", errors);
    } else {
        name.check(names::path_segment_name, errors);
    }
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    #[test]
    fn what_is_scaled_is_of_a_group() {
        let check = |version: &str, expect: &[&str]| {
            let target = machinery::object! { "apiVersion" => version, "kind" => "K", "name" => "n" };
            let mut errors = Errors::default();
            api_version(&Field::root(&target), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{version}");
        };
        check("apps/v1", &[]);
        check("/v1", &[r#"apiVersion: Invalid value: "/v1": apiVersion must specify API group"#]);
        check("a/b/c", &[r#"apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#]);
    }

    #[test]
    fn a_metric_has_the_source_of_its_type_alone() {
        let check = |text: &str, expect: &[&str]| {
            let value = json::decode(text.as_bytes()).expect("valid JSON");
            let mut errors = Errors::default();
            metric_spec(&Field::root(&value), &mut errors);
            let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
            assert_eq!(texts, expect, "{text}");
        };
        check(r#"{"type":"Pods"}"#, &["pods: Required value: must populate information for the given metric source"]);
        check(
            r#"{"type":"Resource","resource":{"name":"cpu","target":{}},
               "pods":{"metric":{"name":"x"},"target":{"type":"AverageValue","averageValue":"1"}}}"#,
            &["pods: Forbidden: must populate the given metric source only"],
        );
        check(
            r#"{"type":"External","external":{"metric":{"name":"q"},"target":{"type":"Value","value":"-1"}}}"#,
            &[r#"external.target.value: Invalid value: "-1": must be positive"#],
        );
    }
}
