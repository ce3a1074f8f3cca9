//! The span of a request that goes out, and who is told of it.

use std::borrow::Cow;

use http::{HeaderMap, Method, StatusCode, Uri, uri::Scheme};
use traces::Span;

/// A span of one request to another server; nothing, where nothing is traced.
#[derive(Default)]
pub struct ClientSpan(Span);

impl ClientSpan {
    /// Begins the span in the current one, and tells the other server of it. `url`: where the request goes, for people.
    pub fn begin(method: &Method, headers: &mut HeaderMap, url: &str) -> Self {
        let span = traces::client_span(name(method), |a| {
            let parsed: Option<Uri> = url.parse().ok();
            let parsed = parsed.as_ref();
            let is_plain = parsed.is_some_and(|uri| uri.scheme() == Some(&Scheme::HTTP));
            a.text("http.request.method", method.as_str());
            a.text("url.full", url);
            a.text("server.address", parsed.and_then(Uri::host).unwrap_or_default());
            let usual = if is_plain { 80 } else { 443 };
            if let Some(port) = parsed.and_then(Uri::port_u16).filter(|port| *port != usual) {
                a.int("server.port", port);
            }
            a.text("network.protocol.version", "1.1");
        });
        let entered = span.enter();
        traces::inject(headers);
        drop(entered);
        ClientSpan(span)
    }

    /// There is an answer.
    pub fn answered(&self, code: StatusCode) {
        let is_failure = code.is_client_error() || code.is_server_error();
        self.0.describe(|a| {
            a.int("http.response.status_code", code.as_u16());
            if is_failure {
                a.text("error.type", code.as_str());
            }
        });
        if is_failure {
            self.0.failed("");
        }
    }

    /// There is none.
    pub fn failed(&self, why: &str) {
        self.0.failed(why);
    }
}

/// What the span of a request is called, as OpenTelemetry has it.
fn name(method: &Method) -> Cow<'static, str> {
    match *method {
        Method::GET => Cow::Borrowed("HTTP GET"),
        Method::POST => Cow::Borrowed("HTTP POST"),
        _ => Cow::Owned(format!("HTTP {method}")),
    }
}
