//! The request info: verb, resource and names that a request is about.

use super::Verb;
use crate::{
    Str,
    meta::selector::{Requirement, Term},
};

/// What a request asks for: the attributes that routing, authorization, metrics and audit share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestInfo {
    /// The path, decoded.
    pub path: Str,
    /// Whether the path names a resource (in a group version), rather than something else.
    pub is_resource: bool,
    /// The verb. For paths that are no resource see [`RequestInfo::verb_name`].
    pub verb: Verb,
    /// `api`, `apis` or nothing.
    pub prefix: Str,
    /// The API group.
    pub group: Str,
    /// The API version.
    pub version: Str,
    /// The namespace; for the resource `namespaces` with a name, that name.
    pub namespace: Str,
    /// The resource's plural name.
    pub resource: Str,
    /// The subresource.
    pub subresource: Str,
    /// The object's name (for a collection request, the name its field selector pins).
    pub name: Str,
    /// The lower-case HTTP method, the verb of a path that is no resource.
    pub method: Str,
    /// What stands below the subresource (proxy paths).
    pub rest: Str,
    /// The collection or object named by the path alone.
    pub route: Route,
    /// What a collection request's field selector asks for; none of it where the selector cannot be read.
    pub field_selector: Vec<Term>,
    /// The same of its label selector.
    pub label_selector: Vec<Requirement>,
}

/// What the shape of a resource path is, before anybody looks whether it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Route {
    /// No resource path.
    #[default]
    None,
    /// A collection in all namespaces, or of a cluster-scoped resource.
    Cluster,
    /// A collection or object below `namespaces/NAME/`.
    Namespaced,
    /// Segments that no resource path has (empty ones, too many).
    Malformed,
}

impl RequestInfo {
    /// Whether only objects whose field has this value are asked for.
    pub fn pins(&self, field: &str, value: &str) -> bool {
        self.field_selector.iter().any(|term| term.equal && term.field == field && term.value == value)
    }

    /// The verb as RBAC names it: the resource verb, or the lower-case method of other paths.
    pub fn verb_name(&self) -> &str {
        if self.is_resource && self.verb != Verb::Other { self.verb.name() } else { &self.method }
    }

    /// Whether the request names one object (rather than a collection).
    pub fn has_name_in_path(&self) -> bool {
        !matches!(self.verb, Verb::List | Verb::Watch | Verb::DeleteCollection | Verb::Create)
            || !self.subresource.is_empty()
    }
}
