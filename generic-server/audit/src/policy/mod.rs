//! The policy (`audit.k8s.io/v1`): the first rule that matches a request says at which level it is recorded.

mod read;
#[cfg(test)]
mod tests;

use machinery::Str;

use crate::{event::Stage, level::Level};

pub use read::{DecodingFault, PolicyError, ReadPolicy};

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stages(u8);

impl Stages {
    fn add(&mut self, stage: Stage) {
        self.0 |= 1 << stage as u8;
    }

    fn union(self, other: Stages) -> Stages {
        Stages(self.0 | other.0)
    }

    pub(crate) fn contains(self, stage: Stage) -> bool {
        self.0 & 1 << stage as u8 != 0
    }
}

/// What rules look at: the attributes of a request, as authorization sees them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// The user's name and groups; none if nobody could be authenticated.
    pub user: Option<(&'a str, &'a [Str])>,
    /// The verb; the lower-case method for paths that are no resources.
    pub verb: &'a str,
    /// Whether a resource is asked for.
    pub is_resource: bool,
    /// The decoded path.
    pub path: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// The namespace.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

/// What a policy says of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) level: Level,
    pub(crate) omit: Stages,
    pub(crate) omit_managed_fields: bool,
}

/// A policy.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Rule>,
    omit: Stages,
    omit_managed_fields: bool,
}

/// Names that are looked up; none: every name.
#[derive(Clone, Debug, Default)]
struct Names(Vec<Str>);

impl Names {
    fn new(mut names: Vec<Str>) -> Self {
        names.sort_unstable();
        Names(names)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, name: &str) -> bool {
        self.0.binary_search_by(|own| own.as_str().cmp(name)).is_ok()
    }
}

#[derive(Clone, Debug, Default)]
struct Rule {
    verdict: Verdict,
    users: Names,
    groups: Names,
    verbs: Names,
    namespaces: Names,
    resources: Vec<GroupResources>,
    paths: Vec<Str>,
}

#[derive(Clone, Debug, Default)]
struct GroupResources {
    group: Str,
    resources: Vec<Str>,
    names: Names,
}

impl Policy {
    pub(crate) fn evaluate(&self, attributes: &Attributes<'_>) -> Verdict {
        let found = self.rules.iter().find(|rule| rule.matches(attributes));
        found.map_or(
            Verdict { level: Level::None, omit: self.omit, omit_managed_fields: self.omit_managed_fields },
            |rule| rule.verdict,
        )
    }
}

impl Rule {
    fn matches(&self, a: &Attributes<'_>) -> bool {
        if !self.users.is_empty() && !a.user.is_some_and(|(name, _)| self.users.has(name)) {
            return false;
        }
        let in_group = |groups: &[Str]| groups.iter().any(|group| self.groups.has(group));
        if !self.groups.is_empty() && !a.user.is_some_and(|(_, groups)| in_group(groups)) {
            return false;
        }
        if !self.verbs.is_empty() && !self.verbs.has(a.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return a.is_resource && self.matches_resource(a);
        }
        self.paths.is_empty() || (!a.is_resource && self.paths.iter().any(|path| path_matches(a.path, path)))
    }

    fn matches_resource(&self, a: &Attributes<'_>) -> bool {
        // What is in no namespace matches the empty name.
        if !self.namespaces.is_empty() && !self.namespaces.has(a.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(a))
    }
}

impl GroupResources {
    fn matches(&self, a: &Attributes<'_>) -> bool {
        if self.group != a.group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        (self.names.is_empty() || self.names.has(a.name))
            && self.resources.iter().any(|pattern| resource_matches(pattern, a.resource, a.subresource))
    }
}

/// `pods`, `pods/log`, `*`, `pods/*`, `*/log`. `pods` alone is not its subresources, `pods/*` is the resource, too.
fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    match pattern.split_once('/') {
        None => pattern == "*" || (subresource.is_empty() && pattern == resource),
        Some((wanted, "*")) if wanted == resource => true,
        Some(("*", wanted)) => !subresource.is_empty() && wanted == subresource,
        Some((wanted, below)) => wanted == resource && below == subresource && !subresource.is_empty(),
    }
}

/// A pattern with stars at its end stands for all that begins so.
fn path_matches(path: &str, pattern: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}
