//! A request on its way through the server: what it asks for, who asks, and what is left of it to read.

mod query;
mod unread;

use std::{borrow::Cow, sync::Arc, time::Instant};

use http::{HeaderMap, HeaderValue, Method, Uri};
use machinery::{
    Str,
    meta::selector::{Requirement, Term},
};

pub use query::{Query, strict_percent_decode};
pub use unread::RequestBody;
pub(crate) use unread::{Rest, waits_to_send};

use crate::{
    auth::{Authorizer, User},
    resource::Verb,
};

/// One request. Steps of the pipeline fill it in; handlers read it.
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The URI as sent.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The query, decoded.
    pub query: Query,
    /// What is asked for.
    pub info: RequestInfo,
    /// Who asks. Anonymous until authentication has run.
    pub user: Arc<User>,
    /// Who says what they may do, for what turns out only on the way.
    pub authorizer: Arc<dyn Authorizer>,
    /// The audit id: the client's own, or a new one.
    pub audit_id: Str,
    /// When it must be answered; none for watches and streams.
    pub deadline: Option<Instant>,
    /// The body, until somebody reads it.
    pub body: Option<RequestBody>,
    /// What the connection knows: the peer, its certificates, the upgrade handle.
    pub extensions: http::Extensions,
}

impl Request {
    /// A header's value as text; the first one if it is repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.headers.get(name)?.as_bytes()).ok()
    }
}

/// The text of a header's value. Go takes its bytes as they are, and so do we; what is no UTF-8 is shown as such, never
/// left out: a group that is not read could undo a denial.
pub fn header_text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Has the values of headers be UTF-8, so that all of them can be read.
pub(crate) fn mend_headers(headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        if let Cow::Owned(mended) = String::from_utf8_lossy(value.as_bytes())
            && let Ok(mended) = HeaderValue::from_bytes(mended.as_bytes())
        {
            *value = mended;
        }
    }
}

/// What a request asks for: the attributes that routing, authorisation, metrics and audit share.
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
