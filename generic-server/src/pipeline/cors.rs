//! Step: CORS. Off unless `--cors-allowed-origins` names origins.

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use regex_automata::meta::Regex;

use crate::response::Response;
use crate::{body::Body, request::Request};

/// What is no regular expression, of those that name origins; what the parser says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OriginError(String);

/// The origins that may call from browsers.
pub struct Cors(Regex);

impl Cors {
    /// From regular expressions.
    ///
    /// # Errors
    /// One of them is none.
    pub fn new(patterns: &[String]) -> Result<Self, OriginError> {
        Regex::new_many(patterns).map(Cors).map_err(|e| OriginError(e.to_string()))
    }

    /// The answer to a preflight request.
    pub(super) fn preflight(&self, request: &Request) -> Option<Response> {
        let origin = request.header("origin")?;
        if request.method != Method::OPTIONS || !self.0.is_match(origin) {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Some(response)
    }

    /// Marks a response for an allowed origin.
    pub(super) fn mark(&self, origin: &str, headers: &mut HeaderMap) {
        if !self.0.is_match(origin) {
            return;
        }
        let Ok(origin) = HeaderValue::from_str(origin) else { return };
        let set = |headers: &mut HeaderMap, name, value| headers.insert(name, HeaderValue::from_static(value));
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        set(headers, header::ACCESS_CONTROL_ALLOW_METHODS, "POST, GET, OPTIONS, PUT, DELETE, PATCH");
        set(
            headers,
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
        );
        set(headers, header::ACCESS_CONTROL_EXPOSE_HEADERS, "Date");
        set(headers, header::ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    }
}
