//! Strict decoding errors: members that come twice, members that a type does not
//! have; in the order of the text, as sigs.k8s.io/json notes them.

use std::collections::HashSet;
use std::fmt;

use crate::Str;
use crate::go_text::quote;

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

/// What a type says of the containers in its values.
pub trait Typed {
    /// What a value of this type is.
    fn container(&self) -> Container<'_>;
}

/// The fields of an object's type.
pub trait Fields {
    /// The type of a field; `None` if there is none of this name.
    fn field(&self, name: &str) -> Option<&dyn Typed>;
}

/// A container, as far as its type knows it.
#[derive(Clone, Copy)]
pub enum Container<'s> {
    /// An object with these fields.
    Object(&'s dyn Fields),
    /// A map or a list of these.
    Each(&'s dyn Typed),
    /// Of no interest: no container, or read by code of its own, which is not strict.
    Other,
}

/// What a container is to the type.
#[derive(Clone, Copy)]
enum Expect<'s> {
    /// There is no type: only duplicates are minded.
    Anything,
    Known(Container<'s>),
}

impl<'s> Strict<'s> {
    /// Without a type all duplicates are found, and nothing is unknown.
    pub(super) fn new(of: Option<&'s dyn Typed>) -> Self {
        let root = of.map_or(Expect::Anything, |of| Expect::Known(of.container()));
        Strict { root, open: Vec::new(), noted: HashSet::new(), looks: 0, findings: Vec::new() }
    }

    /// A container begins; `name` is its own in the object that holds it.
    pub(super) fn enter(&mut self, name: Option<&Str>) {
        let of = |typed: &'s dyn Typed| Expect::Known(typed.container());
        let expect = match self.open.last() {
            None => self.root,
            Some((Expect::Known(Container::Each(items)), _)) => of(*items),
            Some((Expect::Known(Container::Object(fields)), _)) => {
                name.and_then(|n| fields.field(n)).map_or(Expect::Known(Container::Other), of)
            }
            Some((same, _)) => *same,
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
            Expect::Known(Container::Other) => return,
            Expect::Known(Container::Object(fields)) if fields.field(name).is_none() => Finding::Unknown,
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
