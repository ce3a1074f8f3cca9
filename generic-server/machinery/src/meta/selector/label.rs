//! `LabelSelector`: requirements on labels that must all hold.

use std::fmt;

use super::SelectorError;
use crate::meta::field_error::{FieldError, aggregate};
use crate::meta::names;
use crate::value::Path;
use crate::{Map, Str, Value};

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; holds without the label
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`; holds without the label
    NotEquals,
    /// `key>5`
    GreaterThan,
    /// `key<5`
    LessThan,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: Str,
    operator: Operator,
    values: Vec<Str>, // sorted when read from text
    bound: i64,       // the value of GreaterThan and LessThan
}

impl Requirement {
    /// A checked requirement. The errors name the fields `key` and `values[i]`.
    pub fn new(key: impl Into<Str>, operator: Operator, values: Vec<Str>) -> Result<Self, Vec<FieldError>> {
        let key = key.into();
        let mut errors = Vec::new();
        let root = Path::ROOT;
        errors.extend(check_key(&key, root.field("key")));
        let path = root.field("values");
        let shown = || Value::from(values.clone());
        let mut bound = 0;
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(FieldError::invalid(
                    path,
                    shown(),
                    "for 'in', 'notin' operators, values set can't be empty",
                ));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.push(FieldError::invalid(path, shown(), "exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                let detail = "values set must be empty for exists and does not exist";
                errors.push(FieldError::invalid(path, shown(), detail));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
                    errors.push(FieldError::invalid(path, shown(), detail));
                }
                for (i, value) in values.iter().enumerate() {
                    match value.parse() {
                        Ok(number) => bound = number,
                        Err(_) => {
                            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                            errors.push(FieldError::invalid(path.index(i), value, detail));
                        }
                    }
                }
            }
            _ => {}
        }
        for (i, value) in values.iter().enumerate() {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                errors.push(FieldError::invalid(path.index(i).key(&key), value, messages.join("; ")));
            }
        }
        if errors.is_empty() { Ok(Self { key, operator, values, bound }) } else { Err(errors) }
    }

    /// The label's key.
    pub fn key(&self) -> &Str {
        &self.key
    }

    /// How it compares.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// What it compares with.
    pub fn values(&self) -> &[Str] {
        &self.values
    }

    /// Whether the requirement holds for the label's value, `None` if there is no such label.
    pub fn holds(&self, label: Option<&str>) -> bool {
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => label.is_some_and(|v| self.has(v)),
            Operator::NotIn | Operator::NotEquals => label.is_none_or(|v| !self.has(v)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => label.and_then(integer).is_some_and(|n| n > self.bound),
            Operator::LessThan => label.and_then(integer).is_some_and(|n| n < self.bound),
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.iter().any(|v| v == value)
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

pub(super) fn check_key(key: &str, path: impl fmt::Display) -> Option<FieldError> {
    let messages = names::qualified_name(key);
    (!messages.is_empty()).then(|| FieldError::invalid(path, key, messages.join("; ")))
}

/// Requirements that must all hold. The default one, without requirements, matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>, // by key
    nothing: bool,
}

impl LabelSelector {
    /// The selector that matches everything.
    pub fn everything() -> Self {
        Self::default()
    }

    /// The selector that matches nothing.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// From requirements in any order.
    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Reads the text of a `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        super::parse::parse(text).map(Self::new)
    }

    /// From the labels that must all be there with these values (a `spec.selector` of Services and
    /// ReplicationControllers). No labels select everything; upstream's controllers look for that case themselves.
    pub fn from_labels(labels: &Map) -> Self {
        let requirement = |(key, value): &(Str, Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_shared_str().cloned().unwrap_or_default()],
            bound: 0,
        };
        Self { requirements: labels.iter().map(requirement).collect(), nothing: false }
    }

    /// From a LabelSelector object: `null` selects nothing, `{}` everything.
    pub fn from_value(value: &Value) -> Result<Self, SelectorError> {
        super::json::read(value)
    }

    /// Whether everything matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Whether nothing can match.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// The requirements, by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object with these labels matches (`None`: it has none).
    pub fn matches(&self, labels: Option<&Map>) -> bool {
        self.matches_with(|key| labels?.get(key)?.as_str())
    }

    /// Whether an object matches, given a look-up of its labels.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.holds(label(&r.key)))
    }

    /// Whether an object's `metadata.labels` match.
    pub fn matches_object(&self, object: &Value) -> bool {
        self.matches(object.at(&["metadata", "labels"]).and_then(Value::as_object))
    }

    /// The only value that the label `key` may have, if there is one.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|r| r.key == key)?;
        match (requirement.operator, requirement.values.as_slice()) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

pub(super) fn requirement_error(errors: &[FieldError]) -> SelectorError {
    SelectorError(aggregate(errors).expect("a refused requirement has errors"))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.operator == Operator::DoesNotExist {
            f.write_str("!")?;
        }
        f.write_str(&self.key)?;
        let (before, after) = match self.operator {
            Operator::Exists | Operator::DoesNotExist => return Ok(()),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
        };
        let mut values: Vec<&Str> = self.values.iter().collect();
        values.sort();
        f.write_str(before)?;
        for (i, value) in values.into_iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(after)
    }
}

impl fmt::Display for LabelSelector {
    /// The normal form, which parses to the same selector. Nothing and everything both read as no text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn requirements_hold_or_not() {
        let labels = object! { "app" => "web", "tier" => "front", "n" => "7", "empty" => "" };
        let labels = labels.as_object();
        for (text, want) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!none", true),
            ("app=web", true),
            ("app==db", false),
            ("app!=db,none!=x", true),
            ("app in (db,web)", true),
            ("none in (a)", false),
            ("app notin (db)", true),
            ("none notin (a)", true),
            ("app notin (web)", false),
            ("n>6", true),
            ("n>7", false),
            ("n<8", true),
            ("app>1", false),
            ("none<1", false),
            ("empty=", true),
            ("none=", false),
            ("empty in ()", true),
        ] {
            assert_eq!(LabelSelector::parse(text).expect(text).matches(labels), want, "{text}");
        }
        assert!(!LabelSelector::nothing().matches(labels));
        assert!(!LabelSelector::parse("a").expect("parses").matches(None));
    }

    #[test]
    fn an_exact_match_is_seen() {
        let selector = LabelSelector::parse("a=1,b in (2),c in (3,4),d!=5,e").expect("parses");
        let exact = |key| selector.requires_exact_match(key);
        assert_eq!(
            [exact("a"), exact("b"), exact("c"), exact("d"), exact("e"), exact("f")],
            [Some("1"), Some("2"), None, None, None, None]
        );
    }
}
