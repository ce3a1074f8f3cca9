//! Rules of types that are written down as data: what each member of a type must be like, and all that its parts must be.
//!
//! Upstream declares the rules of newer kinds beside their types. What an update leaves as it is, is not judged again.

use std::collections::HashSet;

use generic_server::resource::WriteContext;
use machinery::{Value, meta::field_error::FieldError};

use super::{Errors, Field, shown_of};

/// What is declared of a type.
pub(crate) struct Type {
    /// Its name in the facts table; errors show its values in its order.
    pub(crate) name: &'static str,
    /// Members of which exactly one is set; none if the type is no union.
    pub(crate) one_of: &'static [&'static str],
    /// Its members, and the rules of each.
    pub(crate) members: &'static [(&'static str, &'static [Rule])],
}

/// A rule of a member.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// It is there; a zero or an empty one is not.
    Required,
    /// It is there, even if it is zero.
    Set,
    /// It may be absent, or empty: then no rule looks further.
    Optional,
    /// It may be absent: then no rule looks further.
    Unset,
    /// It may not be there.
    Forbidden,
    /// It never changes.
    Immutable,
    /// So many items at most.
    MaxItems(usize),
    /// So many bytes at most.
    MaxBytes(usize),
    /// A number that is not smaller.
    Minimum(i64),
    /// A number that is not larger.
    Maximum(i64),
    /// A text that follows a rule.
    Text(fn(&str) -> Vec<String>),
    /// Whatever follows a rule of its own.
    Check(fn(&Field<'_>, &mut Errors)),
    /// One of a few texts.
    OneOf(&'static [&'static str]),
    /// A part that follows the rules of its type.
    Part(&'static Type),
    /// Items that follow the rules of their type, each with another text at the key.
    Keyed(&'static str, &'static Type),
    /// Items that follow the rules of their type.
    Each(&'static Type),
    /// With the gate on, the first; else the second.
    Gate(&'static str, &'static [Rule], &'static [Rule]),
}

/// The state before an update of a part; `None` of a part that was not there, or of a new object.
type Before<'a> = Option<&'a Value>;

/// What is wrong with a part of a type.
pub(crate) fn check(
    cx: &WriteContext<'_>,
    of: &'static Type,
    part: &Field<'_>,
    old: Option<&Field<'_>>,
    errors: &mut Errors,
) {
    let judge = Judge { cx, updates: old.is_some() };
    judge.part(of, part, old.map(Field::value), errors);
}

struct Judge<'a> {
    cx: &'a WriteContext<'a>,
    updates: bool,
}

/// A rule's word on the rules behind it.
#[derive(PartialEq, Eq)]
enum Then {
    Go,
    Stop,
}

impl Judge<'_> {
    fn part(&self, of: &'static Type, part: &Field<'_>, old: Before<'_>, errors: &mut Errors) {
        self.union(of.one_of, part, old, errors);
        for (name, rules) in of.members {
            let member = part.at(name);
            let before = old.map(|old| old.get(name).unwrap_or(&Value::Null));
            if self.updates && before.is_some_and(|before| is_same(member.value(), before)) {
                continue;
            }
            self.member(rules, &member, before, errors);
        }
    }

    /// What ends the look at a member comes before what looks into it.
    fn member(&self, rules: &[Rule], member: &Field<'_>, old: Before<'_>, errors: &mut Errors) {
        let rules: Vec<Rule> = rules.iter().flat_map(|rule| self.chosen(rule)).copied().collect();
        let mut ends = false;
        for rule in &rules {
            ends |= self.early(rule, member, errors) == Then::Stop;
        }
        if !ends {
            rules.iter().for_each(|rule| self.late(rule, member, old, errors));
        }
    }

    fn chosen<'r>(&self, rule: &'r Rule) -> &'r [Rule] {
        match rule {
            Rule::Gate(gate, on, off) => {
                if self.cx.features.is_on(gate) {
                    on
                } else {
                    off
                }
            }
            other => std::slice::from_ref(other),
        }
    }

    fn early(&self, rule: &Rule, member: &Field<'_>, errors: &mut Errors) -> Then {
        match rule {
            Rule::Required if is_zero(member.value()) => member.required("", errors),
            Rule::Set if !member.is_set() => member.required("", errors),
            Rule::Forbidden if !is_zero(member.value()) => member.forbidden("", errors),
            Rule::Immutable if self.updates => {
                member.invalid_as(&Value::Null, "field is immutable", errors);
            }
            Rule::MaxItems(max) if member.len() > *max => {
                errors.push(FieldError::too_many(member, member.len(), *max));
            }
            Rule::Optional | Rule::Forbidden if is_zero(member.value()) => {}
            Rule::Unset if !member.is_set() => {}
            _ => return Then::Go,
        }
        Then::Stop
    }

    fn late(&self, rule: &Rule, member: &Field<'_>, old: Before<'_>, errors: &mut Errors) {
        match rule {
            Rule::MaxBytes(max) if member.text().len() > *max => errors.push(FieldError::too_long(member, *max)),
            Rule::Minimum(min) if member.int_or_zero() < *min => {
                member.invalid_as(member.int_or_zero(), format!("must be greater than or equal to {min}"), errors);
            }
            Rule::Maximum(max) if member.int_or_zero() > *max => {
                member.invalid_as(member.int_or_zero(), format!("must be less than or equal to {max}"), errors);
            }
            Rule::Text(rule) => member.check(rule, errors),
            Rule::Check(rule) => rule(member, errors),
            Rule::OneOf(values) => member.one_of(values, errors),
            Rule::Part(of) => self.part(of, member, old.filter(|old| !old.is_null()), errors),
            Rule::Keyed(key, of) => self.items(Some(key), of, member, old, errors),
            Rule::Each(of) => self.items(None, of, member, None, errors),
            _ => {}
        }
    }

    fn items(&self, key: Option<&str>, of: &'static Type, list: &Field<'_>, old: Before<'_>, errors: &mut Errors) {
        let name = |item: &Value| -> Option<String> { Some(item.str_at(&[key?]).unwrap_or_default().to_owned()) };
        let mut seen = HashSet::new();
        list.each(|item| {
            if name(item.value()).is_some_and(|name| !seen.insert(name)) {
                item.duplicate_as(shown_of(of.name, item.value()), errors);
            }
        });
        let before: std::collections::HashMap<Option<String>, &Value> =
            old.and_then(Value::as_array).unwrap_or_default().iter().map(|item| (name(item), item)).collect();
        list.each(|item| {
            let old = before.get(&name(item.value())).copied();
            if !old.is_some_and(|old| item.value().semantic_eq(old)) {
                self.part(of, &item, old, errors);
            }
        });
    }

    fn union(&self, members: &[&str], part: &Field<'_>, old: Before<'_>, errors: &mut Errors) {
        if members.is_empty() {
            return;
        }
        let is_set = |value: &Value, name: &str| value.get(name).is_some_and(|member| !member.is_null());
        if self.updates && old.is_some_and(|old| members.iter().all(|m| is_set(old, m) == is_set(part.value(), m))) {
            return;
        }
        let quoted = |names: &mut dyn Iterator<Item = &&str>| -> String {
            names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let all = quoted(&mut members.iter());
        let set: Vec<&&str> = members.iter().filter(|name| is_set(part.value(), name)).collect();
        match set.len() {
            0 => part.invalid_as("", format!("must specify one of: {all}"), errors),
            1 => {}
            _ => {
                let set: Vec<&str> = set.into_iter().copied().collect();
                let set = format!("{{{}}}", set.join(", "));
                part.invalid_as(set.as_str(), format!("must specify exactly one of: {all}"), errors);
            }
        }
    }
}

/// Whether both hold the same. A part that is empty is something else than none.
fn is_same(new: &Value, old: &Value) -> bool {
    let is_part = |value: &Value| matches!(value, Value::Object(_));
    is_part(new) == is_part(old) && new.semantic_eq(old)
}

/// Whether Go has the zero value there, or nothing.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Int(number) => *number == 0,
        Value::Bool(on) => !on,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use auth::User;
    use generic_server::features::Features;
    use machinery::{codec::json, meta::names};

    use super::*;

    const ITEM: Type = Type {
        name: "",
        one_of: &["a", "b"],
        members: &[("name", &[Rule::Required, Rule::Text(names::dns1123_label)])],
    };
    const WHOLE: Type = Type {
        name: "",
        one_of: &[],
        members: &[
            ("items", &[Rule::MaxItems(2), Rule::Optional, Rule::Keyed("name", &ITEM)]),
            ("fixed", &[Rule::Immutable, Rule::Unset, Rule::Minimum(2), Rule::Maximum(4)]),
            ("gated", &[Rule::Gate("On", &[Rule::OneOf(&["x"])], &[Rule::Forbidden])]),
        ],
    };

    fn check(gates: &[&'static str], new: &str, old: Option<&str>, expect: &[&str]) {
        let (user, features) = (User::default(), gates.iter().copied().collect::<Features>());
        let cx =
            WriteContext { group: "", version: "v1", namespace: "", subresource: "", user: &user, features: &features };
        let read = |text: &str| json::decode(text.as_bytes()).expect("JSON");
        let (new, old) = (read(new), old.map(read));
        let mut errors = Errors::default();
        super::check(&cx, &WHOLE, &Field::root(&new), old.as_ref().map(Field::root).as_ref(), &mut errors);
        let found: Vec<String> = errors.into_vec().iter().map(ToString::to_string).collect();
        assert_eq!(found, expect, "{new:?}");
    }

    #[test]
    fn members_follow_their_rules_and_parts_those_of_their_type() {
        check(&[], r#"{"items":[{"name":"a","a":{}}],"fixed":3}"#, None, &[]);
        check(&[], r#"{"fixed":1}"#, None, &["fixed: Invalid value: 1: must be greater than or equal to 2"]);
        check(&[], r#"{"fixed":5}"#, None, &["fixed: Invalid value: 5: must be less than or equal to 4"]);
        check(
            &[],
            r#"{"items":[{"a":{},"b":{}},{"name":"n"}]}"#,
            None,
            &[
                r#"items[0]: Invalid value: "{a, b}": must specify exactly one of: `a`, `b`"#,
                "items[0].name: Required value",
                r#"items[1]: Invalid value: "": must specify one of: `a`, `b`"#,
            ],
        );
        check(&[], r#"{"items":[{},{},{}]}"#, None, &["items: Too many: 3: must have at most 2 items"]);
    }

    #[test]
    fn what_an_update_leaves_alone_is_not_judged_again() {
        let wrong = r#"{"items":[{"name":"N"}],"fixed":9}"#;
        check(&[], wrong, Some(wrong), &[]);
        check(&[], r#"{"fixed":3}"#, Some(r#"{"fixed":2}"#), &["fixed: Invalid value: null: field is immutable"]);
        check(
            &[],
            r#"{"items":[{"name":"N"},{"name":"m","a":{}}]}"#,
            Some(wrong),
            &["fixed: Invalid value: null: field is immutable"],
        );
    }

    #[test]
    fn a_gate_chooses_the_rules() {
        check(&[], r#"{"gated":"y"}"#, None, &["gated: Forbidden"]);
        check(&[], r#"{}"#, None, &[]);
        check(&["On"], r#"{"gated":"x"}"#, None, &[]);
        check(&["On"], r#"{"gated":"y"}"#, None, &[r#"gated: Unsupported value: "y": supported values: "x""#]);
    }
}
