//! The verbs of the API, and sets of them.

use std::fmt;

/// What a request wants to do with a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verb {
    /// POST
    Create,
    /// DELETE of one object
    Delete,
    /// DELETE of a collection
    DeleteCollection,
    /// GET of one object
    Get,
    /// GET of a collection
    List,
    /// PATCH
    Patch,
    /// PUT
    Update,
    /// GET with `watch=true`, or below `/watch/`
    Watch,
    /// Requests that are handed on: proxy, exec, logs …
    Connect,
    /// HEAD, OPTIONS and others that no resource serves
    #[default]
    Other,
}

impl Verb {
    /// All verbs that discovery lists, in its order.
    pub const ALL: [Verb; 8] = [
        Verb::Create,
        Verb::Delete,
        Verb::DeleteCollection,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ];

    /// The name in discovery, RBAC and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
            Verb::Update => "update",
            Verb::Watch => "watch",
            Verb::Connect => "connect",
            Verb::Other => "",
        }
    }

    /// Whether the verb changes nothing.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u16);

impl Verbs {
    /// What most stored resources serve.
    pub const STANDARD: Verbs = Verbs(0xff);
    /// What a status subresource serves.
    pub const STATUS: Verbs = Verbs::of(&[Verb::Get, Verb::Patch, Verb::Update]);
    /// What a review or another virtual resource serves.
    pub const CREATE: Verbs = Verbs::of(&[Verb::Create]);

    /// The set of these verbs.
    pub const fn of(verbs: &[Verb]) -> Verbs {
        let (mut bits, mut i) = (0, 0);
        while i < verbs.len() {
            bits |= 1 << verbs[i] as u16;
            i += 1;
        }
        Verbs(bits)
    }

    /// Whether the set has `verb`.
    pub const fn contains(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u16) != 0
    }

    /// The set without `verb`.
    pub const fn without(self, verb: Verb) -> Verbs {
        Verbs(self.0 & !(1 << verb as u16))
    }

    /// The verbs in discovery's order.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |v| self.contains(*v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_set_is_what_discovery_lists() {
        let names: Vec<_> = Verbs::STANDARD.iter().map(Verb::name).collect();
        assert_eq!(names, ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
        assert!(!Verbs::STANDARD.contains(Verb::Connect));
        assert!(!Verbs::STANDARD.without(Verb::Watch).contains(Verb::Watch));
    }
}
