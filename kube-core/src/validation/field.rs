//! A value and where it stands in its object.

use std::fmt;

use machinery::{
    Value,
    meta::field_error::{BadValue, FieldError},
    value::Path,
};

use super::Errors;

/// A cursor: a value, which may be absent, and its path. Absent and null are the same, as they are for upstream.
///
/// ```text
/// fn toleration(toleration: &Field<'_>, errors: &mut Errors) {
///     let key = toleration.at("key");
///     if !key.text().is_empty() {
///         key.check(names::qualified_name, errors);
///     }
/// }
/// spec.at("tolerations").each(|item| toleration(&item, errors));
/// ```
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    value: &'a Value,
    path: Path<'a>,
}

impl<'a> Field<'a> {
    /// The object itself.
    pub(crate) fn root(object: &'a Value) -> Self {
        Field { value: object, path: Path::ROOT }
    }

    /// A value at a path of its own.
    pub(crate) fn new(value: Option<&'a Value>, path: Path<'a>) -> Self {
        Field { value: value.unwrap_or(&Value::Null), path }
    }

    /// A member.
    pub(crate) fn at<'b>(&'b self, member: &'b str) -> Field<'b> {
        Field::new(self.value.get(member), self.path.field(member))
    }

    /// A value of a map, named as upstream does: `labels[key]`.
    pub(crate) fn key<'b>(&'b self, key: &'b str) -> Field<'b> {
        Field::new(self.value.get(key), self.path.key(key))
    }

    /// An item of a list.
    pub(crate) fn index(&self, index: usize) -> Field<'_> {
        Field::new(self.items().get(index), self.path.index(index))
    }

    /// Another value that is reported at this place.
    pub(crate) fn with<'b>(&'b self, value: &'b Value) -> Field<'b> {
        Field { value, path: self.path }
    }

    /// Every item of the list, in order.
    pub(crate) fn each(&self, mut rule: impl FnMut(Field<'_>)) {
        for (i, item) in self.items().iter().enumerate() {
            rule(Field { value: item, path: self.path.index(i) });
        }
    }

    /// Every entry of the map, in order of keys, at `path[key]`.
    pub(crate) fn each_key(&self, mut rule: impl FnMut(&str, Field<'_>)) {
        for (key, value) in self.value.as_object().into_iter().flatten() {
            rule(key, Field { value, path: self.path.key(key) });
        }
    }

    /// The keys of the map, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.value.as_object().into_iter().flat_map(|map| map.keys()).map(|key| key.as_str())
    }

    /// The value; null if absent.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// The path.
    pub(crate) fn path(&self) -> &Path<'a> {
        &self.path
    }

    /// Whether there is a value. What Go holds by a pointer is set even when it is empty.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Whether there is nothing: no value, an empty text, list or map.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(s) => s.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }

    /// The text; empty if absent.
    pub(crate) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// The whole number, if there is one.
    pub(crate) fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// The whole number; zero if absent.
    pub(crate) fn int_or_zero(&self) -> i64 {
        self.int().unwrap_or_default()
    }

    /// Whether it is there and true.
    pub(crate) fn is_true(&self) -> bool {
        self.value.as_bool() == Some(true)
    }

    /// The items of the list; none if absent.
    pub(crate) fn items(&self) -> &'a [Value] {
        self.value.as_array().unwrap_or_default()
    }

    /// How many items or entries there are.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        }
    }

    /// Whether both hold the same; absent, null and empty are.
    pub(crate) fn same(&self, other: &Field<'_>) -> bool {
        self.value.semantic_eq(other.value)
    }
}

/// Findings about this field.
impl Field<'_> {
    /// `Required value: detail`
    pub(crate) fn required(&self, detail: impl Into<String>, errors: &mut Errors) {
        errors.push(FieldError::required(self, detail));
    }

    /// `Invalid value: VALUE: detail`
    pub(crate) fn invalid(&self, detail: impl Into<String>, errors: &mut Errors) {
        errors.push(FieldError::invalid(self, self.value, detail));
    }

    /// `Invalid value: VALUE: detail`, of another value than the one here.
    pub(crate) fn invalid_as(&self, shown: impl Into<BadValue>, detail: impl Into<String>, errors: &mut Errors) {
        errors.push(FieldError::invalid(self, shown, detail));
    }

    /// `Forbidden: detail`
    pub(crate) fn forbidden(&self, detail: impl Into<String>, errors: &mut Errors) {
        errors.push(FieldError::forbidden(self, detail));
    }

    /// `Duplicate value: VALUE`
    pub(crate) fn duplicate(&self, errors: &mut Errors) {
        errors.push(FieldError::duplicate(self, self.value));
    }

    /// `Duplicate value: VALUE`, of a value that is shown another way.
    pub(crate) fn duplicate_as(&self, shown: BadValue, errors: &mut Errors) {
        errors.push(FieldError::duplicate(self, shown));
    }

    /// `Not found: VALUE`
    pub(crate) fn not_found(&self, errors: &mut Errors) {
        errors.push(FieldError::not_found(self, self.value));
    }

    /// `Unsupported value: VALUE: supported values: …`, in the order given.
    pub(crate) fn not_supported(&self, supported: &[&str], errors: &mut Errors) {
        errors.push(FieldError::not_supported(self, self.shown_text(), supported));
    }

    /// An absent text is shown as an empty one.
    fn shown_text(&self) -> BadValue {
        if self.value.is_null() { BadValue::from("") } else { BadValue::from(self.value) }
    }
}

/// Plain rules.
impl Field<'_> {
    /// Whether the text is there; reports one that is not.
    pub(crate) fn is_given(&self, errors: &mut Errors) -> bool {
        if self.is_empty() {
            self.required("", errors);
        }
        !self.is_empty()
    }

    /// The text follows a rule that answers what is wrong with it.
    pub(crate) fn check(&self, rule: impl Fn(&str) -> Vec<String>, errors: &mut Errors) {
        for message in rule(self.text()) {
            errors.push(FieldError::invalid(self, self.shown_text(), message));
        }
    }

    /// The text is one of a few.
    pub(crate) fn one_of(&self, supported: &[&str], errors: &mut Errors) {
        if !supported.contains(&self.text()) {
            self.not_supported(supported, errors);
        }
    }

    /// The text is there, and one of a few.
    pub(crate) fn required_one_of(&self, supported: &[&str], errors: &mut Errors) {
        if self.is_given(errors) {
            self.one_of(supported, errors);
        }
    }

    /// The number, if there is one, is not negative.
    pub(crate) fn non_negative(&self, errors: &mut Errors) {
        if self.int().is_some_and(|n| n < 0) {
            self.invalid("must be greater than or equal to 0", errors);
        }
    }

    /// None of these members is negative.
    pub(crate) fn none_negative(&self, members: &[&str], errors: &mut Errors) {
        for member in members {
            self.at(member).non_negative(errors);
        }
    }

    /// The number, 0 if absent, is at most another one, which `detail` names.
    pub(crate) fn at_most(&self, other: i64, detail: &str, errors: &mut Errors) {
        if self.int_or_zero() > other {
            self.invalid_as(self.int_or_zero(), detail, errors);
        }
    }

    /// The number, if there is one, is at most another one, which `detail` names.
    pub(crate) fn at_most_if_set(&self, other: i64, detail: &str, errors: &mut Errors) {
        if self.is_set() {
            self.at_most(other, detail, errors);
        }
    }

    /// The texts of the list are each there once; reports those that come again.
    pub(crate) fn unique_texts(&self, errors: &mut Errors) {
        let mut seen = std::collections::HashSet::new();
        for (i, item) in self.items().iter().enumerate() {
            if !seen.insert(item.as_str()) {
                self.index(i).duplicate(errors);
            }
        }
    }

    /// The value is the old one.
    pub(crate) fn immutable(&self, old: &Field<'_>, errors: &mut Errors) {
        if !self.same(old) {
            self.invalid("field is immutable", errors);
        }
    }
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use machinery::{meta::names, object};

    use super::*;

    fn check(rule: impl Fn(&Field<'_>, &mut Errors), expect: &[&str]) {
        let object = object! {
            "spec" => object! {
                "name" => "Bad_Name", "empty" => "", "count" => -1, "policy" => "Never",
                "labels" => object! { "a" => "x", "b" => "y" },
                "items" => Value::from(vec![Value::from("p"), Value::from("q")]),
            },
        };
        let mut errors = Errors::default();
        rule(&Field::root(&object).at("spec"), &mut errors);
        let texts: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(texts, expect);
    }

    #[test]
    fn plain_rules_report_path_value_and_detail() {
        check(|f, e| assert!(!f.at("empty").is_given(e)), &["spec.empty: Required value"]);
        check(|f, e| f.at("absent").required_one_of(&["A"], e), &["spec.absent: Required value"]);
        check(
            |f, e| f.at("absent").one_of(&["A"], e),
            &[r#"spec.absent: Unsupported value: "": supported values: "A""#],
        );
        check(|f, e| f.at("policy").one_of(&["Never"], e), &[]);
        check(
            |f, e| f.at("count").non_negative(e),
            &["spec.count: Invalid value: -1: must be greater than or equal to 0"],
        );
        check(|f, e| f.at("absent").non_negative(e), &[]);
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
                     end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        check(
            |f, e| f.at("name").check(names::dns1123_label, e),
            &[&format!("spec.name: Invalid value: \"Bad_Name\": {label}")],
        );
        check(
            |f, e| f.at("name").immutable(&f.at("policy"), e),
            &[r#"spec.name: Invalid value: "Bad_Name": field is immutable"#],
        );
    }

    #[test]
    fn items_and_entries_know_their_place() {
        check(
            |f, e| f.at("items").each(|item| item.duplicate(e)),
            &[r#"spec.items[0]: Duplicate value: "p""#, r#"spec.items[1]: Duplicate value: "q""#],
        );
        check(
            |f, e| {
                f.at("labels").each_key(|key, label| {
                    if key == "b" {
                        label.forbidden("no", e)
                    }
                })
            },
            &["spec.labels[b]: Forbidden: no"],
        );
        check(|f, e| f.at("items").index(1).not_found(e), &[r#"spec.items[1]: Not found: "q""#]);
    }
}
