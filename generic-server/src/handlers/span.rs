//! The spans of handlers, with upstream's names and attributes.

use http::header;
use machinery::{
    meta::gvk::GroupResource,
    request::{Query, Verb},
};
use traces::Span;

use crate::{
    metrics::verb_of,
    request::{Request, audit_id_cut, client_address, protocol},
    resource::{Resource, SubresourceKind},
};

/// User agents are cut to so many bytes, and marked.
const MAX_USER_AGENT: usize = 1024;

/// The span of whoever answers a request for an object or a collection. What is handed on has none, and a watch only if it
/// begins as a list.
pub(super) fn of_handler(request: &Request, row: &Resource) -> Span {
    if !traces::is_recording() {
        return Span::NONE;
    }
    let name = match request.info.verb {
        Verb::Get => "Get",
        Verb::List => "List",
        Verb::Watch if lists(&request.query) => "WatchList",
        Verb::Create => "Create",
        Verb::Update => "Update",
        Verb::Patch => "Patch",
        Verb::Delete | Verb::DeleteCollection => "Delete",
        Verb::Watch | Verb::Connect | Verb::Other => return Span::NONE,
    };
    if row.subresource(&request.info.subresource).is_some_and(|found| found.kind == SubresourceKind::Proxy) {
        return Span::NONE;
    }
    traces::span(name, |a| {
        let info = &request.info;
        let agent = request.header(header::USER_AGENT.as_str()).filter(|agent| !agent.is_empty());
        let agent = agent.unwrap_or("unknown");
        a.text("accept", request.header(header::ACCEPT.as_str()).unwrap_or_default());
        a.text("audit-id", audit_id_cut(&request.audit_id));
        a.text("client", client_address(request));
        a.text("api-group", &info.group);
        a.text("api-version", &info.version);
        a.text("name", &info.name);
        a.text("subresource", &info.subresource);
        a.text("namespace", &info.namespace);
        a.text("protocol", protocol(request));
        a.text("resource", &info.resource);
        a.text("scope", scope(request));
        a.text("url", &info.path);
        match agent.get(..MAX_USER_AGENT).filter(|_| agent.len() > MAX_USER_AGENT) {
            Some(cut) => a.text("user-agent", format!("{cut}...TRUNCATED")),
            None => a.text("user-agent", agent),
        }
        a.text("verb", verb_of(request));
    })
}

/// Whether a watch begins with everything that is there.
fn lists(query: &Query) -> bool {
    query.get("sendInitialEvents") == Some("true") && query.flag("allowWatchBookmarks")
}

fn scope(request: &Request) -> &'static str {
    let info = &request.info;
    match (info.name.is_empty() && info.verb != Verb::Create, info.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    }
}

/// The span of a cache that reads one object.
pub(super) fn of_get(request: &Request, key: impl FnOnce() -> String) -> Span {
    let version = request.query.get("resourceVersion").unwrap_or_default();
    let span = traces::span("cacher.Get", |a| {
        a.text("audit-id", audit_id_cut(&request.audit_id));
        a.text("key", key());
        a.text("resource-version", version);
    });
    let event =
        if version.is_empty() { "About to Get from underlying storage" } else { "About to fetch object from cache" };
    span.event(event, |_| {});
    span
}

/// The span of a cache that reads a collection, or begins a watch of one.
pub(super) fn of_cache(name: &'static str, request: &Request, resource: impl FnOnce() -> GroupResource) -> Span {
    traces::span(name, |a| {
        a.text("audit-id", audit_id_cut(&request.audit_id));
        a.text("type", resource().to_string());
    })
}
