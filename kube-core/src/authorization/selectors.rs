//! The selectors of an access review, as authorizers see them.

use std::fmt;

use machinery::{
    Str, Value,
    meta::{
        FieldSelector, LabelSelector,
        selector::{Operator, Requirement, Term},
    },
};

use super::validation::strings;

/// What a review's selectors ask for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Selectors {
    pub(super) fields: Vec<Term>,
    pub(super) labels: Vec<Requirement>,
    /// What of them cannot be read and is left out: authorizers are asked about more then, never about less.
    pub(super) errors: Vec<Ignored>,
}

/// A selector that was left out, or a part of it.
#[derive(Debug, PartialEq)]
pub(super) struct Ignored {
    selector: &'static str,
    partially: bool,
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partially = if self.partially { "partially " } else { "" };
        write!(f, "spec.resourceAttributes.{} {partially}ignored due to parse error", self.selector)
    }
}

impl Selectors {
    /// The selectors of `spec.resourceAttributes`.
    pub(super) fn of(attributes: &Value) -> Self {
        let mut selectors = Selectors::default();
        let (fields, complete) = read(attributes.get("fieldSelector"), field_text, term);
        selectors.note("fieldSelector", complete, !fields.is_empty());
        let (labels, complete) = read(attributes.get("labelSelector"), label_text, requirement);
        selectors.note("labelSelector", complete, !labels.is_empty());
        Selectors { fields, labels, ..selectors }
    }

    fn note(&mut self, selector: &'static str, complete: bool, partially: bool) {
        if !complete {
            self.errors.push(Ignored { selector, partially });
        }
    }
}

/// What a selector asks for, and whether that is all that it says. Requirements count before text.
fn read<T>(selector: Option<&Value>, text: fn(&str) -> Option<Vec<T>>, one: fn(&Value) -> Option<T>) -> (Vec<T>, bool) {
    let Some(selector) = selector else { return (Vec::new(), true) };
    let listed = selector.get("requirements").and_then(Value::as_array).unwrap_or_default();
    if !listed.is_empty() {
        let read: Vec<T> = listed.iter().filter_map(one).collect();
        let complete = read.len() == listed.len();
        return (read, complete);
    }
    match selector.str_at(&["rawSelector"]).filter(|raw| !raw.is_empty()).map(text) {
        None => (Vec::new(), true),
        Some(Some(read)) => (read, true),
        Some(None) => (Vec::new(), false),
    }
}

fn field_text(raw: &str) -> Option<Vec<Term>> {
    FieldSelector::parse(raw).ok().map(|selector| selector.terms().to_vec())
}

fn label_text(raw: &str) -> Option<Vec<Requirement>> {
    LabelSelector::parse(raw).ok().map(|selector| selector.requirements().to_vec())
}

/// Fields are equal to one value, or are not: other requirements on them are not known.
fn term(requirement: &Value) -> Option<Term> {
    let [value] = requirement.get("values")?.as_array()? else { return None };
    let equal = match requirement.str_at(&["operator"])? {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let field = Str::from(requirement.str_at(&["key"]).unwrap_or_default());
    Some(Term { field, value: Str::from(value.as_str()?), equal })
}

fn requirement(requirement: &Value) -> Option<Requirement> {
    let operator = match requirement.str_at(&["operator"])? {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    Requirement::new(key, operator, strings(requirement.get("values"))).ok()
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn check(attributes: &str, fields: &str, labels: usize, errors: &[&str]) {
        let read = Selectors::of(&json::decode(attributes.as_bytes()).expect("JSON"));
        assert_eq!(FieldSelector::new(read.fields).to_string(), fields, "{attributes}");
        assert_eq!(read.labels.len(), labels, "{attributes}");
        assert_eq!(read.errors.iter().map(ToString::to_string).collect::<Vec<_>>(), errors, "{attributes}");
    }

    #[test]
    fn what_cannot_be_read_of_a_selector_is_left_out_and_told() {
        check(
            r#"{"fieldSelector": {"rawSelector": "a=b,c!=d"}, "labelSelector": {"rawSelector": "x,!y"}}"#,
            "a=b,c!=d",
            2,
            &[],
        );
        check(
            r#"{"fieldSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]},
                {"key": "c", "operator": "Exists"}]}}"#,
            "a=b",
            0,
            &["spec.resourceAttributes.fieldSelector partially ignored due to parse error"],
        );
        check(
            r#"{"fieldSelector": {"rawSelector": "a"}, "labelSelector": {"rawSelector": "a in"}}"#,
            "",
            0,
            &[
                "spec.resourceAttributes.fieldSelector ignored due to parse error",
                "spec.resourceAttributes.labelSelector ignored due to parse error",
            ],
        );
        check(
            r#"{"labelSelector": {"requirements": [{"key": "a", "operator": "Near", "values": ["b"]},
                {"key": "b", "operator": "NotIn", "values": ["c", "a"]}]}}"#,
            "",
            1,
            &["spec.resourceAttributes.labelSelector partially ignored due to parse error"],
        );
        check("{}", "", 0, &[]);
    }
}
