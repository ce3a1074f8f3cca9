//! Step: of which trace is the request part? Its spans are upstream's: one of the request, and those of the steps, each of
//! which lasts until the request is answered.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use http::{Method, header};
use machinery::request::RequestInfo;
use traces::{Attributes, Context, Instrument, Nested, Parent, Remote, Span, Tracer};

use crate::{
    handlers::Serialization,
    request::{Request, audit_id_cut, protocol},
    response::Response,
    serve::Peer,
};

/// The part of upstream's server that makes the spans of steps, in its own spelling.
static STEPS: Instrument = Instrument { name: "k8s.op/apiserver/pkg/endpoints/filterlatency", version: "" };

/// Users of these groups may say whether their traces are kept.
const TRUSTED: [&str; 2] = ["system:masters", "system:monitoring"];

/// The spans of one request; nothing, where nothing is traced and the client has not asked for it.
#[derive(Default)]
pub(super) struct Trace(Option<Box<Open>>);

struct Open {
    tracer: Option<Tracer>,
    /// The span that the client has named.
    remote: Option<Remote>,
    started: SystemTime,
    spans: Nested,
    /// The span of the request among them.
    request: OnceLock<Context>,
    /// What was read of its body, in bytes.
    read: Arc<AtomicU64>,
    /// What is said when the answer is written.
    serialization: OnceLock<Serialization>,
}

impl Trace {
    pub(super) fn begin(tracer: Option<&Tracer>, request: &mut Request, received: Instant) -> Self {
        let remote = Remote::of(&request.headers);
        if tracer.is_none() && remote.is_none() {
            return Trace(None);
        }
        let now = SystemTime::now();
        let started = now.checked_sub(received.elapsed()).unwrap_or(now);
        let read = Arc::<AtomicU64>::default();
        if let (Some(_), Some(body)) = (tracer, &mut request.body) {
            body.count_into(read.clone());
        }
        let open = Open {
            tracer: tracer.cloned(),
            remote,
            started,
            spans: Nested::default(),
            request: OnceLock::new(),
            read,
            serialization: OnceLock::new(),
        };
        Trace(Some(Box::new(open)))
    }

    /// Polls the steps in the span of the last one that has begun.
    pub(super) async fn within<F: Future>(&self, steps: Pin<&mut F>) -> F::Output {
        match &self.0 {
            Some(open) => open.spans.within(steps).await,
            None => steps.await,
        }
    }

    /// It is to be found out who asks.
    pub(super) fn authenticating(&self) {
        if let Some(open) = &self.0
            && let Some(tracer) = &open.tracer
        {
            open.spans.push(tracer.root(&STEPS, "authentication", SystemTime::now(), |_| {}));
        }
    }

    /// It is known who asks, and so who decides whether the trace is kept.
    pub(super) fn authenticated(&self, request: &Request) {
        let Some(open) = self.0.as_deref() else { return };
        let Some(tracer) = &open.tracer else {
            // Whom this server asks in turn hears of the client's trace all the same.
            if let Some(Remote { context, carried }) = open.remote.clone() {
                open.spans.push(Span::unkept(context, carried));
            }
            return;
        };
        let is_trusted = request.user.groups.iter().any(|group| TRUSTED.contains(&group.as_str()));
        let around = open.spans.last(Span::context).flatten();
        let parent = match (open.remote.clone(), &around) {
            (Some(remote), _) if is_trusted => Parent::Trusted(remote),
            (Some(remote), _) => Parent::Linked(remote),
            (None, Some(around)) if is_trusted => Parent::Here(around),
            (None, _) => Parent::None,
        };
        let span = tracer
            .request(parent, (name(request), audit_id_cut(&request.audit_id)), open.started, |a| describe(request, a));
        if let Some(context) = span.context() {
            open.request.get_or_init(|| context);
        }
        open.spans.push(span);
        if let Some(serialization) = Serialization::of(request) {
            open.serialization.get_or_init(|| serialization);
        }
    }

    /// An error is written.
    pub(super) fn serialized(&self, response: Response) -> Response {
        let open = self.0.as_deref();
        let Some((open, serialization)) = open.and_then(|open| Some((open, open.serialization.get()?))) else {
            return response;
        };
        let around = open.spans.last(Span::enter);
        let response = serialization.begin(response);
        drop(around);
        response
    }

    /// A step begins.
    pub(super) fn step(&self, name: &'static str) {
        if let Some(open) = &self.0
            && let Some(span) = open.spans.last(|span| span.child(&STEPS, name, |_| {}))
        {
            open.spans.push(span);
        }
    }

    /// There is an answer. The spans end when it has been sent.
    pub(super) fn answered(self, response: Response) -> Response {
        let Some(open) = self.0.filter(|open| open.tracer.is_some()) else { return response };
        if let Some(context) = open.request.get() {
            open.spans.find(*context, |span| {
                let code = response.status().as_u16();
                span.describe(|a| {
                    let read = open.read.load(Ordering::Relaxed);
                    if read > 0 {
                        a.int("http.request.body.size", read);
                    }
                    let size = http_body::Body::size_hint(response.body()).exact();
                    if let Some(size) = size.filter(|size| *size > 0) {
                        a.int("http.response.body.size", size);
                    }
                    a.int("http.response.status_code", code);
                });
                if code >= 500 {
                    span.failed("");
                }
            });
        }
        response.map(|body| body.holding(open))
    }
}

/// What the span of a request is called.
fn name(request: &Request) -> String {
    let RequestInfo { is_resource, prefix, group, version, namespace, resource, name, subresource, .. } = &request.info;
    let mut path = request.method.to_string();
    if !is_resource {
        return path;
    }
    path += " ";
    let namespace = if namespace.is_empty() { "" } else { "namespaces/{:namespace}" };
    let name = if name.is_empty() { "" } else { "{:name}" };
    // The prefix and the version are there even where they are empty.
    for (part, is_there) in [
        (prefix.as_str(), true),
        (group.as_str(), !group.is_empty()),
        (version.as_str(), true),
        (namespace, !namespace.is_empty()),
        (resource.as_str(), true),
        (name, !name.is_empty()),
        (subresource.as_str(), !subresource.is_empty()),
    ] {
        if is_there {
            path += "/";
            path += part;
        }
    }
    path
}

/// The attributes that OpenTelemetry has for a request that came in, and upstream's own.
fn describe(request: &Request, a: &mut Attributes) {
    let own = request.uri.authority().map(|authority| authority.as_str());
    let host = request.header("host").or(own).unwrap_or_default();
    let (address, port) = split(host);
    a.text("server.address", address);
    let known = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS]
        .contains(&request.method)
        || [Method::CONNECT, Method::TRACE].contains(&request.method);
    a.text("http.request.method", if known { request.method.as_str() } else { "GET" });
    if !known {
        a.text("http.request.method_original", request.method.as_str());
    }
    a.text("url.scheme", "https");
    if let Some(port) = port.filter(|port| *port != 443) {
        a.int("server.port", port);
    }
    let peer: Option<SocketAddr> = request.extensions.get::<Peer>().map(|peer| peer.remote);
    let remote = peer.map(|peer| peer.ip().to_canonical().to_string()).unwrap_or_default();
    if let Some(peer) = peer {
        a.text("network.peer.address", &remote);
        a.int("network.peer.port", peer.port());
    }
    a.text_if("user_agent.original", request.header(header::USER_AGENT.as_str()).unwrap_or_default());
    let before = request.header("x-forwarded-for").and_then(|list| list.split(',').next()).map(str::trim);
    a.text_if("client.address", before.filter(|first| !first.is_empty()).unwrap_or(&remote));
    a.text_if("url.path", &request.info.path);
    a.text("network.protocol.version", protocol(request).trim_start_matches("HTTP/"));
    a.text("http.target", request.uri.path_and_query().map_or("/", |target| target.as_str()));
    a.text("audit-id", audit_id_cut(&request.audit_id));
}

/// The host and the port of an authority.
fn split(host: &str) -> (&str, Option<u16>) {
    let (address, port) = match host.rsplit_once(':') {
        Some((address, port)) if !address.contains(':') || address.ends_with(']') => (address, port.parse().ok()),
        _ => (host, None),
    };
    (address.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(address), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        let check = |host: &str, expect: (&str, Option<u16>)| assert_eq!(split(host), expect, "{host}");
        check("a.example", ("a.example", None));
        check("a.example:6443", ("a.example", Some(6443)));
        check("[::1]:6443", ("::1", Some(6443)));
        check("[::1]", ("::1", None));
        check("a:b", ("a", None));
        check("", ("", None));
    }
}
