//! The JSON form of label selectors: `matchLabels` and `matchExpressions`.

use super::SelectorError;
use super::label::{LabelSelector, Operator, Requirement, requirement_error};
use crate::meta::field_error::{FieldError, invalid_each};
use crate::meta::{go_text, names};
use crate::value::Path;
use crate::{Map, Str, Value};

pub(super) fn read(value: &Value) -> Result<LabelSelector, SelectorError> {
    if value.is_null() {
        return Ok(LabelSelector::nothing());
    }
    let mut requirements = Vec::new();
    let mut add = |key: &str, operator, values| {
        requirements.push(Requirement::new(key, operator, values).map_err(|errors| requirement_error(&errors))?);
        Ok(())
    };
    for (key, value) in value.get("matchLabels").and_then(Value::as_object).unwrap_or(&Map::new()) {
        add(key, Operator::Equals, vec![text(value)])?;
    }
    for expression in expressions(value) {
        let operator = match expression.str_at(&["operator"]).unwrap_or("") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let other = go_text::quote(other);
                return Err(SelectorError(format!("{other} is not a valid label selector operator")));
            }
        };
        add(expression.str_at(&["key"]).unwrap_or(""), operator, values(expression).iter().map(text).collect())?;
    }
    Ok(LabelSelector::new(requirements))
}

fn text(value: &Value) -> Str {
    value.as_shared_str().cloned().unwrap_or_default()
}

fn expressions(selector: &Value) -> &[Value] {
    selector.get("matchExpressions").and_then(Value::as_array).unwrap_or_default()
}

fn values(expression: &Value) -> &[Value] {
    expression.get("values").and_then(Value::as_array).unwrap_or_default()
}

/// What a field that holds a label selector asks of it beyond the grammar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelSelectorRules {
    /// Values of expressions are not checked: upstream's AllowInvalidLabelValueInSelector, for fields that were not
    /// validated in the past.
    pub any_values: bool,
}

/// The errors of a LabelSelector object; none for `null`.
pub fn validate_label_selector(selector: &Value, rules: LabelSelectorRules, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = match selector.get("matchLabels").and_then(Value::as_object) {
        Some(labels) => validate_labels(labels, &path.field("matchLabels")),
        None => Vec::new(),
    };
    let list = path.field("matchExpressions");
    for (i, expression) in expressions(selector).iter().enumerate() {
        validate_expression(expression, rules, &list.index(i), &mut errors);
    }
    errors
}

fn validate_expression(expression: &Value, rules: LabelSelectorRules, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let values = values(expression);
    let values_path = path.field("values");
    match expression.str_at(&["operator"]).unwrap_or("") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(values_path, detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(values_path, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            errors.push(FieldError::invalid(path.field("operator"), other, "not a valid selector operator"));
        }
    }
    let key = expression.str_at(&["key"]).unwrap_or("");
    errors.extend(invalid_each(path.field("key"), key, names::qualified_name(key)));
    if !rules.any_values {
        for (i, value) in values.iter().enumerate() {
            let value = value.as_str().unwrap_or("");
            errors.extend(invalid_each(values_path.index(i), value, names::label_value(value)));
        }
    }
}

/// The errors of a map of labels. All of them are on the map itself, as upstream reports them.
pub fn validate_labels(labels: &Map, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(invalid_each(path, key, names::qualified_name(key)));
        let value = value.as_str().unwrap_or("");
        errors.extend(invalid_each(path, value, names::label_value(value)));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{array, object};

    fn expression(key: &str, operator: &str, values: Value) -> Value {
        object! { "matchExpressions" => array![object! { "key" => key, "operator" => operator, "values" => values }] }
    }

    #[test]
    fn an_object_reads_as_a_selector() {
        let read = |value: &Value| LabelSelector::from_value(value).map(|s| s.to_string());
        let mut selector = expression("tier", "NotIn", array!["b", "a"]);
        selector.set(&["matchLabels", "app"], "web");
        assert_eq!(read(&selector).as_deref(), Ok("app=web,tier notin (a,b)"));
        assert_eq!(read(&expression("a", "DoesNotExist", Value::Null)).as_deref(), Ok("!a"));
        let error = read(&expression("a", "Near", Value::Null)).expect_err("an unknown operator");
        assert_eq!(error.to_string(), r#""Near" is not a valid label selector operator"#);
        let error = read(&expression("a", "In", Value::Null)).expect_err("no values");
        assert_eq!(
            error.to_string(),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
        assert!(LabelSelector::from_value(&Value::Null).is_ok_and(|s| s.is_nothing()));
        assert!(LabelSelector::from_value(&object! {}).is_ok_and(|s| s.is_everything()));
    }

    #[test]
    fn an_object_is_validated() {
        let spec = Path::ROOT.field("spec");
        let path = spec.field("selector");
        let check = |selector: Value, want: &[&str]| {
            let errors = validate_label_selector(&selector, LabelSelectorRules::default(), &path);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, want);
        };
        check(Value::Null, &[]);
        check(
            expression("a", "In", array![]),
            &[
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        );
        check(
            expression("a", "Exists", array!["x"]),
            &[
                "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ],
        );
        check(
            expression("a", "Near", array![]),
            &[r#"spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator"#],
        );
    }
}
