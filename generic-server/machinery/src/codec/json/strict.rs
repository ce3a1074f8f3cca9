//! What a strict reader finds wrong with a text that can be read: members that come twice, members that a type does not
//! have; in the order of the text, as sigs.k8s.io/json notes them.

use std::collections::HashSet;
use std::fmt;

use crate::Str;
use crate::meta::go_text::quote;
use crate::schema::{Object, Schema, Shape};

/// As many findings as upstream collects.
const MAX_FINDINGS: usize = 100;

/// Differs: upstream looks at repetitions of one finding without end; their paths may be long.
const MAX_LOOKS: usize = 1000;

/// One thing that a strict reader minds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A member that its object has twice, by its path: `metadata.name`.
    Duplicate(String),
    /// A member that the type does not have, by its path: `spec.containers[0].port`.
    Unknown(String),
}

impl fmt::Display for Finding {
    /// Upstream's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Duplicate(path) => write!(f, "duplicate field {}", quote(path)),
            Finding::Unknown(path) => write!(f, "unknown field {}", quote(path)),
        }
    }
}

/// What the pass that notes findings remembers.
pub(super) struct Strict<'s> {
    root: Expect<'s>,
    /// Of each open container: what it is, and the names seen in it.
    open: Vec<(Expect<'s>, HashSet<Str>)>,
    noted: HashSet<Finding>,
    looks: usize,
    pub(super) findings: Vec<Finding>,
}

/// What a container is to the type.
#[derive(Clone, Copy)]
enum Expect<'s> {
    /// There is no type: only duplicates are minded.
    Anything,
    /// Of no interest: unknown, or read by code of its own, which is not strict.
    Nothing,
    Object(&'s Object),
    /// A map or a list of these.
    Each(&'s Schema),
}

impl<'s> Expect<'s> {
    fn of(schema: &'s Schema) -> Self {
        match &schema.resolve().shape {
            Shape::Object(object) => Expect::Object(object),
            Shape::Map(values) => Expect::Each(values),
            Shape::List(items) => Expect::Each(items),
            _ => Expect::Nothing,
        }
    }
}

impl<'s> Strict<'s> {
    /// Without a schema all duplicates are found, and nothing is unknown.
    pub(super) fn new(schema: Option<&'s Schema>) -> Self {
        let root = schema.map_or(Expect::Anything, Expect::of);
        Strict { root, open: Vec::new(), noted: HashSet::new(), looks: 0, findings: Vec::new() }
    }

    /// A container begins; `name` is its own in the object that holds it.
    pub(super) fn enter(&mut self, name: Option<&Str>) {
        let expect = match self.open.last() {
            None => self.root,
            Some((Expect::Anything, _)) => Expect::Anything,
            Some((Expect::Nothing, _)) => Expect::Nothing,
            Some((Expect::Each(schema), _)) => Expect::of(schema),
            Some((Expect::Object(object), _)) => {
                name.and_then(|n| object.field(n)).map_or(Expect::Nothing, |f| Expect::of(&f.schema))
            }
        };
        self.open.push((expect, HashSet::new()));
    }

    /// The innermost container ends.
    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// A member's name has been read; `path` is its path.
    pub(super) fn member(&mut self, name: &Str, path: impl FnOnce() -> String) {
        let Some((expect, seen)) = self.open.last_mut() else { return };
        let finding: fn(String) -> Finding = match expect {
            Expect::Nothing => return,
            Expect::Object(object) if object.field(name).is_none() => Finding::Unknown,
            _ if seen.insert(name.clone()) => return,
            _ => Finding::Duplicate,
        };
        if self.findings.len() >= MAX_FINDINGS || self.looks >= MAX_LOOKS {
            return;
        }
        self.looks += 1;
        let finding = finding(path());
        if self.noted.insert(finding.clone()) {
            self.findings.push(finding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::strict_findings;
    use crate::schema::builtin;

    #[test]
    fn findings_come_in_the_order_of_the_text() {
        let pod = builtin::schema_of("", "v1", "Pod").expect("a definition");
        for (text, want) in [
            (r#"{"kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[]}}"#, &[][..]),
            (
                r#"{"zzz":{"a":1,"a":2},"metadata":{"lables":{},"name":"a","name":"b"},"spec":{"containers":[{"port":1,"livenessProbe":{"httpget":{}}}]},"kind":"Pod","kind":"Pod"}"#,
                &[
                    r#"unknown field "zzz""#,
                    r#"unknown field "metadata.lables""#,
                    r#"duplicate field "metadata.name""#,
                    r#"unknown field "spec.containers[0].port""#,
                    r#"unknown field "spec.containers[0].livenessProbe.httpget""#,
                    r#"duplicate field "kind""#,
                ],
            ),
            (
                r#"{"metadata":{"labels":{"a":"b","a":"c"},"managedFields":[{"fieldsV1":{"x":1,"x":2}}]},"a\"b":1,"a\"b":2}"#,
                &[r#"duplicate field "metadata.labels.a""#, r#"unknown field "a\"b""#],
            ),
        ] {
            let findings = strict_findings(text.as_bytes(), pod).expect(text);
            let texts: Vec<String> = findings.iter().map(ToString::to_string).collect();
            assert_eq!(texts, want, "{text}");
        }
    }
}
