//! A request on its way through the server: what it asks for, who asks, and what is left of it to read.

mod said;
mod unread;

use std::{
    borrow::Cow,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Instant,
};

use audit::Recorder;
use auth::{Authorizer, User};
use http::{HeaderMap, HeaderValue, Method, Uri};
use machinery::{
    Str,
    request::{Query, RequestInfo, resolve},
};

use crate::negotiate::ServesCbor;

pub(crate) use said::{audit_id_cut, client_address, protocol, source_ips};
pub use unread::RequestBody;
pub(crate) use unread::{Rest, waits_to_send};

/// One request. Steps of the pipeline fill it in; handlers read it.
///
/// Boxed: it is handed on from one future to the next, each of which has room for it.
pub struct Request(Box<RequestParts>);

/// What a request is made of.
pub struct RequestParts {
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
    /// What is recorded of it.
    pub audit: Recorder,
    /// When it must be answered; none for watches and streams.
    pub deadline: Option<Instant>,
    /// The body, until somebody reads it.
    pub body: Option<RequestBody>,
    /// What the connection knows: the peer, its certificates, the upgrade handle.
    pub extensions: http::Extensions,
}

impl RequestParts {
    /// A stranger's request that nobody records, without a body and a deadline.
    pub fn new(method: Method, uri: Uri, headers: HeaderMap, authorizer: Arc<dyn Authorizer>) -> Self {
        let query = Query::parse(uri.query().unwrap_or(""));
        RequestParts {
            info: resolve(method.as_str(), uri.path(), &query),
            method,
            uri,
            headers,
            query,
            user: Arc::new(User::anonymous()),
            authorizer,
            audit_id: Str::default(),
            audit: Recorder::default(),
            deadline: None,
            body: None,
            extensions: http::Extensions::new(),
        }
    }
}

impl Deref for Request {
    type Target = RequestParts;

    fn deref(&self) -> &RequestParts {
        &self.0
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut RequestParts {
        &mut self.0
    }
}

impl From<RequestParts> for Request {
    fn from(parts: RequestParts) -> Self {
        Request(Box::new(parts))
    }
}

impl Request {
    /// The parts, to be taken apart.
    pub fn into_parts(self) -> RequestParts {
        *self.0
    }

    /// A header's value as text; the first one if it is repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.headers.get(name)?.as_bytes()).ok()
    }

    /// Whether the server has CBOR.
    pub fn serves_cbor(&self) -> bool {
        ServesCbor::is_in(&self.extensions)
    }
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
