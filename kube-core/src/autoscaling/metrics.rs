//! One metric of an autoscaler in the nested shape of `autoscaling/v2` and in the flat one of v1's annotations.

use machinery::{Map, Str, Value, object};

/// Whether a metric says what is wanted (`spec.metrics`) or what is measured (`status.currentMetrics`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What is wanted.
    Spec,
    /// What is measured.
    Status,
}

impl Side {
    /// The member of v2 that holds the numbers.
    fn member(self) -> &'static str {
        match self {
            Side::Spec => "target",
            Side::Status => "current",
        }
    }

    /// A number's name in v1: `targetAverageValue`.
    fn flat(self, number: &str) -> String {
        format!("{}{number}", self.member())
    }
}

const SOURCES: [&str; 5] = ["object", "pods", "resource", "containerResource", "external"];

/// From v2 to v1.
pub(super) fn flatten(metric: &Value, side: Side) -> Value {
    let mut out = object! { "type" => metric.str_at(&["type"]).unwrap_or_default() };
    for source in SOURCES {
        if let Some(from) = metric.get(source).filter(|v| !v.is_null()) {
            out.set(&[source], flat_source(source, from, side));
        }
    }
    out
}

fn flat_source(source: &str, from: &Value, side: Side) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Option<&Value>| {
        if let Some(value) = value.filter(|v| !v.is_null()) {
            out.insert(name, value.clone());
        }
    };
    let numbers = from.get(side.member());
    let number = |name: &str| numbers.and_then(|n| n.get(name)).filter(|v| !v.is_null());
    let zero = Value::from("0");
    match source {
        "resource" | "containerResource" => {
            put("name", from.get("name"));
            put("container", from.get("container"));
            put(&side.flat("AverageUtilization"), number("averageUtilization"));
            let always = (side == Side::Status).then_some(&zero);
            put(&side.flat("AverageValue"), number("averageValue").or(always));
        }
        "pods" => {
            put("metricName", from.at(&["metric", "name"]));
            put("selector", from.at(&["metric", "selector"]));
            put(&side.flat("AverageValue"), number("averageValue").or(Some(&zero)));
        }
        "object" => {
            put("target", from.get("describedObject"));
            put("metricName", from.at(&["metric", "name"]));
            put("selector", from.at(&["metric", "selector"]));
            put(&side.flat("Value"), number("value").or(Some(&zero)));
            put("averageValue", number("averageValue"));
        }
        _ => {
            put("metricName", from.at(&["metric", "name"]));
            put("metricSelector", from.at(&["metric", "selector"]));
            let always = (side == Side::Status).then_some(&zero);
            put(&side.flat("Value"), number("value").or(always));
            put(&side.flat("AverageValue"), number("averageValue"));
        }
    }
    Value::Object(out)
}

/// From v1 to v2.
pub(super) fn nest(metric: &Value, side: Side) -> Value {
    let mut out = object! { "type" => metric.str_at(&["type"]).unwrap_or_default() };
    for source in SOURCES {
        if let Some(from) = metric.get(source).filter(|v| !v.is_null()) {
            out.set(&[source], nested_source(source, from, side));
        }
    }
    out
}

fn nested_source(source: &str, from: &Value, side: Side) -> Value {
    let flat = |name: &str| from.get(&side.flat(name)).filter(|v| !v.is_null()).cloned();
    let zero = || Some(Value::from("0"));
    let mut numbers = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            numbers.insert(name, value);
        }
    };
    let kind = match source {
        "resource" | "containerResource" => {
            let utilization = flat("AverageUtilization");
            let kind = if utilization.is_some() { "Utilization" } else { "AverageValue" };
            put("averageUtilization", utilization);
            put("averageValue", flat("AverageValue"));
            kind
        }
        "pods" => {
            put("averageValue", flat("AverageValue").or_else(zero));
            "AverageValue"
        }
        "object" => {
            let average = from.get("averageValue").filter(|v| !v.is_null()).cloned();
            let kind = if average.is_some() { "AverageValue" } else { "Value" };
            put("value", flat("Value").or_else(zero));
            put("averageValue", average);
            kind
        }
        _ => {
            let value = flat("Value");
            let kind = if value.is_some() { "Value" } else { "AverageValue" };
            put("value", if side == Side::Status { value.or_else(zero) } else { value });
            put("averageValue", flat("AverageValue"));
            kind
        }
    };
    if side == Side::Spec {
        numbers.insert("type", kind);
    }
    let mut out = names(source, from);
    out.insert(side.member(), numbers);
    Value::Object(out)
}

/// What a source of v2 is called and of.
fn names(source: &str, from: &Value) -> Map {
    let mut out = Map::new();
    if let "resource" | "containerResource" = source {
        for name in ["name", "container"] {
            if let Some(value) = from.get(name) {
                out.insert(name, value.clone());
            }
        }
        return out;
    }
    let mut metric = object! { "name" => from.str_at(&["metricName"]).unwrap_or_default() };
    let selector = if source == "external" { "metricSelector" } else { "selector" };
    if let Some(selector) = from.get(selector).filter(|v| !v.is_null()) {
        metric.set(&["selector"], selector.clone());
    }
    out.insert("metric", metric);
    if source == "object" {
        let target = from.get("target").cloned().unwrap_or_else(Value::object);
        out.insert("describedObject", with_required(target, &["kind", "name"]));
    }
    out
}

/// With the texts that are written also when they are empty.
fn with_required(mut object: Value, names: &[&str]) -> Value {
    let map = object.make_object();
    for name in names {
        if !map.contains_key(name) {
            map.insert(*name, Value::String(Str::default()));
        }
    }
    object
}
