//! The rules for lists of metav1.Condition.

use crate::Value;
use crate::meta::field_error::{FieldError, invalid_each};
use crate::meta::names;
use crate::value::{Path, Seen};

/// A list of metav1.Condition.
pub fn validate_conditions(conditions: &[Value], path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = Seen::default();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let kind = condition.str_at(&["type"]).unwrap_or("");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(path.field("type"), kind));
        }
        validate_condition(condition, &path, &mut errors);
    }
    errors
}

fn validate_condition(condition: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("");
    let kind = text("type");
    errors.extend(invalid_each(path.field("type"), kind, names::qualified_name(kind)));
    let statuses = ["False", "True", "Unknown"];
    if !statuses.contains(&text("status")) {
        errors.push(FieldError::not_supported(path.field("status"), text("status"), statuses));
    }
    let generation = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or(0);
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(path.field("observedGeneration"), generation, detail));
    }
    if text("lastTransitionTime").is_empty() {
        errors.push(FieldError::required(path.field("lastTransitionTime"), ""));
    }
    let reason = text("reason");
    if reason.is_empty() {
        errors.push(FieldError::required(path.field("reason"), ""));
    } else {
        errors.extend(invalid_each(path.field("reason"), reason, names::condition_reason(reason)));
        if reason.len() > 1024 {
            errors.push(FieldError::too_long(path.field("reason"), 1024));
        }
    }
    if text("message").len() > 32 * 1024 {
        errors.push(FieldError::too_long(path.field("message"), 32 * 1024));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    fn texts(errors: Vec<FieldError>) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn conditions() {
        let good = object! { "type" => "Ready", "status" => "True", "reason" => "Ok", "lastTransitionTime" => "2001-01-01T00:00:00Z" };
        let bad = object! { "type" => "Ready", "status" => "Yes", "observedGeneration" => -1 };
        let path = Path::ROOT.field("c");
        assert_eq!(
            texts(validate_conditions(array![good, bad].as_array().expect("a list"), &path)),
            [
                r#"c[1].type: Duplicate value: "Ready""#,
                r#"c[1].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown""#,
                "c[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
                "c[1].lastTransitionTime: Required value",
                "c[1].reason: Required value",
            ]
        );
    }
}
