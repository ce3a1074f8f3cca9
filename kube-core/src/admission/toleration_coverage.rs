//! Whether tolerations cover others: whether whatever one tolerates, another one does as well.

use std::collections::{BTreeMap, HashMap};

use machinery::Value;

/// A list of tolerations that answers whether one of them covers another, without looking at each.
#[derive(Default)]
pub(super) struct Coverage<'a> {
    /// How many there are of each shape, by how long they tolerate.
    shapes: HashMap<Shape<'a>, BTreeMap<i64, usize>>,
    /// How many are alike in everything.
    alike: HashMap<Identity<'a>, usize>,
}

/// Which of them are asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// All of them.
    All,
    /// Those that differ in something.
    Unlike,
}

/// What a toleration covers others by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shape<'a> {
    key: &'a str,
    effect: &'a str,
    /// One value; `None`: all.
    value: Option<&'a str>,
}

type Identity<'a> = (&'a str, &'a str, &'a str, &'a str, Option<i64>);

const FOREVER: i64 = i64::MAX;
const NO_EXECUTE: &str = "NoExecute";

fn text<'a>(toleration: &'a Value, member: &str) -> &'a str {
    toleration.str_at(&[member]).unwrap_or_default()
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration.get("tolerationSeconds").and_then(Value::as_i64)
}

fn identity(toleration: &Value) -> Identity<'_> {
    let text = |member| text(toleration, member);
    (text("key"), text("operator"), text("value"), text("effect"), seconds(toleration))
}

/// The shape of a toleration, and how long it tolerates; `None` if its operator is one that covers nothing.
fn shape(toleration: &Value) -> Option<(Shape<'_>, i64)> {
    let (key, operator, value, effect, seconds) = identity(toleration);
    let value = match operator {
        "" | "Equal" => Some(value),
        "Exists" => None,
        _ => return None,
    };
    // How long counts for this effect alone.
    let limit = seconds.filter(|_| effect == NO_EXECUTE).unwrap_or(FOREVER);
    Some((Shape { key, effect, value }, limit))
}

impl<'a> Coverage<'a> {
    pub(super) fn add(&mut self, toleration: &'a Value) {
        *self.alike.entry(identity(toleration)).or_default() += 1;
        if let Some((shape, limit)) = shape(toleration) {
            *self.shapes.entry(shape).or_default().entry(limit).or_default() += 1;
        }
    }

    /// Takes one out that was added.
    pub(super) fn remove(&mut self, toleration: &'a Value) {
        if let Some(count) = self.alike.get_mut(&identity(toleration)) {
            *count -= 1;
        }
        let Some((shape, limit)) = shape(toleration) else { return };
        if let Some(limits) = self.shapes.get_mut(&shape)
            && let Some(count) = limits.get_mut(&limit)
        {
            *count -= 1;
            if *count == 0 {
                limits.remove(&limit);
            }
        }
    }

    /// Whether one of those asked about covers `narrow`.
    pub(super) fn covers(&self, narrow: &'a Value, others: Others) -> bool {
        let alike = self.alike.get(&identity(narrow)).copied().unwrap_or_default();
        if others == Others::All && alike > 0 {
            return true;
        }
        let (key, operator, value, effect, _) = identity(narrow);
        let own = shape(narrow);
        [effect, ""].into_iter().any(|effect| {
            let any_value = [key, ""].map(|key| Shape { key, effect, value: None });
            let one_value = (operator == "Equal").then_some(Shape { key, effect, value: Some(value) });
            any_value.into_iter().chain(one_value).any(|shape| {
                let Some((longest, count)) = self.shapes.get(&shape).and_then(BTreeMap::last_key_value) else {
                    return false;
                };
                match own {
                    // Among those of its own shape are those that are alike.
                    Some((own, limit)) if own == shape => *longest > limit || (*longest == limit && *count > alike),
                    _ => effect != NO_EXECUTE || *longest >= seconds(narrow).unwrap_or(FOREVER),
                }
            })
        })
    }
}

/// Tolerations without those that others cover. Of equal ones the first is kept.
pub(super) fn merged(all: Vec<Value>) -> Vec<Value> {
    let (mut kept, mut later) = (Coverage::default(), Coverage::default());
    all.iter().for_each(|toleration| later.add(toleration));
    let mut merged = Vec::new();
    for toleration in &all {
        later.remove(toleration);
        if !kept.covers(toleration, Others::All) && !later.covers(toleration, Others::Unlike) {
            kept.add(toleration);
            merged.push(toleration.clone());
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use machinery::codec::json;

    use super::*;

    fn read(text: &str) -> Value {
        json::decode(text.as_bytes()).expect("JSON")
    }

    #[test]
    fn a_toleration_covers_those_that_are_narrower() {
        let check = |wide: &str, narrow: &str, expect: bool| {
            let (wide, narrow) = (read(wide), read(narrow));
            let mut coverage = Coverage::default();
            coverage.add(&wide);
            assert_eq!(coverage.covers(&narrow, Others::All), expect, "{wide:?} {narrow:?}");
            coverage.remove(&wide);
            assert!(!coverage.covers(&narrow, Others::All));
        };
        check(r#"{"key":"a","operator":"Exists"}"#, r#"{"key":"a","operator":"Equal","value":"b"}"#, true);
        check(r#"{"key":"a","operator":"Exists"}"#, r#"{"key":"b","operator":"Exists"}"#, false);
        check(r#"{"operator":"Exists"}"#, r#"{"key":"b","operator":"Exists","effect":"NoExecute"}"#, true);
        check(r#"{"key":"a","operator":"Exists","effect":"NoSchedule"}"#, r#"{"key":"a","operator":"Exists"}"#, false);
        check(r#"{"key":"a","value":"b"}"#, r#"{"key":"a","operator":"Equal","value":"b"}"#, true);
        check(r#"{"key":"a","value":"b"}"#, r#"{"key":"a","operator":"Exists","value":"b"}"#, false);
        check(r#"{"key":"a","value":"b"}"#, r#"{"key":"a","value":"b"}"#, true);
        check(r#"{"operator":"Equal","value":"b"}"#, r#"{"key":"a","operator":"Equal","value":"b"}"#, false);
        let five = r#"{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}"#;
        check(five, r#"{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":4}"#, true);
        check(five, r#"{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5,"value":"x"}"#, true);
        check(five, r#"{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":6}"#, false);
        check(five, r#"{"key":"a","operator":"Exists","effect":"NoExecute"}"#, false);
        check(r#"{"key":"a","operator":"Lt","value":"1"}"#, r#"{"key":"a","operator":"Equal","value":"0"}"#, false);
        check(r#"{"key":"a","operator":"Lt","value":"1"}"#, r#"{"key":"a","operator":"Lt","value":"1"}"#, true);
    }

    #[test]
    fn one_that_is_alike_is_told_from_one_that_covers() {
        let (a, b) =
            (read(r#"{"key":"a","operator":"Exists"}"#), read(r#"{"key":"a","operator":"Exists","value":"v"}"#));
        let mut coverage = Coverage::default();
        coverage.add(&a);
        assert!(!coverage.covers(&a, Others::Unlike) && coverage.covers(&b, Others::Unlike));
        coverage.add(&b);
        assert!(coverage.covers(&a, Others::Unlike));
    }

    fn list(text: &str) -> Vec<Value> {
        json::decode(text.as_bytes()).expect("JSON").as_array().expect("a list").to_vec()
    }

    #[test]
    fn merging_keeps_what_no_other_covers() {
        let check = |all: &str, expect: &str| assert_eq!(merged(list(all)), list(expect), "{all}");
        check(
            r#"[{"key":"a","operator":"Equal","value":"1"},{"key":"b","operator":"Exists"},
                {"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]"#,
            r#"[{"key":"b","operator":"Exists"},{"key":"a","operator":"Exists"}]"#,
        );
        // Each covers the other: the last one stays.
        check(
            r#"[{"key":"a","operator":"Exists","value":"1"},{"key":"a","operator":"Exists","value":"2"}]"#,
            r#"[{"key":"a","operator":"Exists","value":"2"}]"#,
        );
        check(r#"[{"key":"a"},{"key":"a"}]"#, r#"[{"key":"a"}]"#);
    }
}
