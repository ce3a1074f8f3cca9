//! The span of an answer being written.

use http::header;
use http_body::Body as _;
use machinery::Str;

use crate::{
    request::{Request, audit_id_cut, protocol},
    response::Response,
};

/// What such a span says of its request, which is gone by then.
pub(crate) struct Serialization {
    audit_id: Str,
    method: http::Method,
    path: Str,
    protocol: &'static str,
}

impl Serialization {
    /// Nothing where nothing is traced.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        traces::is_recording().then(|| Serialization {
            audit_id: request.audit_id.clone(),
            method: request.method.clone(),
            path: request.info.path.clone(),
            protocol: protocol(request),
        })
    }

    /// Begins the span, which ends when the answer has been sent. An answer that is no document has none.
    pub(crate) fn begin(&self, response: Response) -> Response {
        let content_type = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let Some(media_type) = content_type.filter(|text| text.starts_with("application/")) else { return response };
        let span = traces::span("SerializeObject", |a| {
            a.text("audit-id", audit_id_cut(&self.audit_id));
            a.text("method", self.method.as_str());
            a.text("url", &self.path);
            a.text("protocol", self.protocol);
            a.text("mediaType", media_type);
        });
        let size = response.body().size_hint().exact();
        let tell = |name| {
            if let Some(size) = size {
                span.event(name, |a| a.int("size", size));
            }
        };
        tell("About to start writing response");
        tell("Write call succeeded");
        response.map(|body| body.holding(Box::new(span)))
    }
}
