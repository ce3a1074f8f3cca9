//! One file a verb. A handler reads what the request says, asks the registry, and answers in the form that was agreed on.

mod body;
pub mod computed;
mod continuation;
mod converted;
mod create;
mod custom;
mod delete;
mod delete_collection;
mod delete_options;
mod get;
mod list;
mod list_options;
mod past;
mod patch;
mod permission;
pub mod scale;
mod scale_fields;
mod scale_view;
mod serialization;
mod shard;
mod span;
#[cfg(test)]
mod tests;
pub mod transform;
mod update;
mod watch;
mod websocket;

use std::{pin::pin, sync::Arc};

use http::Method;
use machinery::{
    Str,
    codec::scan,
    meta::{gvk::GroupResource, names, status::Status},
};

pub use crate::decode::{check_namespace, conform};
pub use body::{read_body, read_object};
pub(crate) use serialization::Serialization;

use crate::{
    features::Features,
    offload,
    registry::{Registry, Written},
    request::Request,
    resource::SubresourceKind,
    response::{self, Response},
    table::TableEntry,
};
use machinery::request::{Route, Verb};

/// A request for a stored resource, with what every handler needs of it.
pub struct Target {
    /// The request.
    pub request: Request,
    /// The row.
    pub entry: Arc<TableEntry>,
    /// The row's objects.
    pub registry: Arc<Registry>,
}

impl Target {
    /// Lets follow what must be done before a write is answered.
    async fn settle(&self, dry_run: bool, namespace: &str, name: &str) {
        if let (false, Some(after)) = (dry_run, &self.entry.after_write) {
            after.written(namespace, name).await;
        }
    }

    /// What is said of the resource as its registry calls it, of the resource as the request calls it: a registry may be several
    /// groups', and a client hears of its own.
    fn in_own_group(&self, mut status: Status) -> Status {
        let (own, known) = (&self.entry.row.group, &self.registry.row.group);
        if own == known {
            return status;
        }
        let resource = |group: &Str| GroupResource::new(group.clone(), self.entry.row.plural.clone()).to_string();
        if let Some(details) = &mut status.details
            && details.kind == self.entry.row.plural
            && details.group == *known
        {
            details.group = own.clone();
            let (from, to) = (format!("{} \"", resource(known)), format!("{} \"", resource(own)));
            status.message = status.message.replacen(&from, &to, 1);
        }
        status
    }

    /// [`Target::settle`] for an object as it was written.
    async fn settle_written(&self, dry_run: bool, written: &Written) {
        if self.entry.after_write.is_some() {
            let name = scan::text(&written.bytes, &["metadata", "name"]).unwrap_or_default();
            self.settle(dry_run, &self.request.info.namespace, &name).await;
        }
    }
}

/// Answers a request for a resource that has a row. What is about large documents is answered outside of the reactor.
pub async fn serve(mut request: Request, entry: Arc<TableEntry>) -> Result<Response, Status> {
    let is_large = is_large(&request, &entry);
    if is_large || brings_more(&request, &entry, offload::VALUES) {
        body::read_ahead(&mut request).await;
    }
    if !is_large && body::values_ahead(&request) <= offload::VALUES {
        return answer(request, entry).await;
    }
    let (user, wanted) = (request.user.clone(), response::wanted(&request));
    let work = async {
        // An error may be as large as what it is about.
        answer(request, entry).await.unwrap_or_else(|status| response::error(&status, wanted))
    };
    offload::run(&user.name, pin!(work)).await
}

/// Whether a request is a write whose document is read here.
fn is_write(request: &Request, entry: &TableEntry) -> bool {
    let info = &request.info;
    let is_handed_on = || {
        let kind = entry.row.subresource(&info.subresource).map(|s| &s.kind);
        matches!(kind, Some(SubresourceKind::Proxy))
    };
    !matches!(info.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Connect | Verb::Other) && !is_handed_on()
}

/// Whether a write may bring a document of more bytes than that.
fn brings_more(request: &Request, entry: &TableEntry, bytes: usize) -> bool {
    is_write(request, entry) && body::may_exceed(request, bytes)
}

/// Whether a write is about more than is handled in place: what it brings, what is there, or many objects; or whether what
/// judges it may take as long all the same. What is handed on is not read here, whatever its size, and reads know their
/// objects themselves.
fn is_large(request: &Request, entry: &TableEntry) -> bool {
    let (info, row) = (&request.info, &entry.row);
    match info.verb {
        _ if !is_write(request, entry) => return false,
        Verb::DeleteCollection => return true,
        Verb::Create | Verb::Update | Verb::Patch if row.strategy.takes_long(&row.version) => return true,
        _ if body::may_exceed(request, offload::INLINE) => return true,
        _ => {}
    }
    let stored = || {
        let registry = entry.registry.as_ref()?;
        let snapshot = registry.cache().latest();
        let object = snapshot.get(&registry.key(&info.namespace, &info.name))?.object()?;
        Some(object.bytes().len())
    };
    !info.name.is_empty() && stored().is_some_and(|size| size > offload::INLINE)
}

async fn answer(request: Request, entry: Arc<TableEntry>) -> Result<Response, Status> {
    let span = span::of_handler(&request, &entry.row);
    if !span.is_kept() {
        return dispatch(request, entry).await;
    }
    let (serialization, wanted) = (Serialization::of(&request), response::wanted(&request));
    let is_watch = request.info.verb == Verb::Watch;
    let answered = async {
        let answer = Box::pin(dispatch(request, entry)).await;
        let Some(serialization) = serialization.filter(|_| !is_watch) else { return answer };
        // An error is written here, so that its span is in this one.
        let response = answer.unwrap_or_else(|status| response::error(&status, wanted));
        Ok(serialization.begin(response))
    };
    let answer = span.within(pin!(answered)).await;
    if is_watch {
        return answer; // its span is that of the beginning
    }
    answer.map(|response| response.map(|body| body.holding(Box::new(span))))
}

async fn dispatch(request: Request, entry: Arc<TableEntry>) -> Result<Response, Status> {
    if entry.row.built_in {
        check_route(&request, &entry)?;
    } else if let Some(answer) = custom::check_route(&request, &entry)? {
        return Ok(answer);
    }
    let subresource = request.info.subresource.clone();
    if let Some(endpoint) = entry.endpoints.get(&subresource) {
        return endpoint.serve(request).await;
    }
    let Some(registry) = entry.registry.clone() else { return Err(Status::method_not_allowed()) };
    if !registry.cache().is_live() {
        // Whoever watches from what is written now is to find it in the cache; but nobody is refused because it is not there.
        registry.cache().ready_in_time().await;
    }
    let target = Target { request, registry, entry: entry.clone() };
    if let Some(kind) = entry.row.subresource(&subresource).map(|s| &s.kind) {
        return match kind {
            SubresourceKind::Scale { .. } => scale::serve(target).await,
            _ => serve_object(target).await,
        };
    }
    serve_object(target).await
}

/// Boxed, but for what is asked most and holds least: a request is as large as the largest of what may be awaited for it.
async fn serve_object(target: Target) -> Result<Response, Status> {
    match target.request.info.verb {
        Verb::Get => get::serve(target).await,
        Verb::List => Box::pin(list::serve(target)).await,
        Verb::Watch => {
            past::refuse(&target.request)?;
            Box::pin(watch::serve(target)).await
        }
        _ => Box::pin(serve_write(target)).await,
    }
}

async fn serve_write(mut target: Target) -> Result<Response, Status> {
    let mut warnings = Vec::new();
    past::refuse(&target.request)?;
    let answer = match target.request.info.verb {
        Verb::Create => create::serve(&mut target, &mut warnings).await,
        Verb::Update => update::serve(&mut target, &mut warnings).await,
        Verb::Patch => patch::serve(&mut target, &mut warnings).await,
        Verb::Delete => delete::serve(&mut target, &mut warnings).await,
        Verb::DeleteCollection => delete_collection::serve(&mut target, &mut warnings).await,
        _ => return Err(Status::method_not_allowed()),
    };
    let answer = answer.map_err(|status| target.in_own_group(status));
    warned(&target.request, answer, &warnings)
}

/// The answer with its warnings, which a client hears of whatever came of its request.
fn warned(request: &Request, answer: Result<Response, Status>, warnings: &[String]) -> Result<Response, Status> {
    if warnings.is_empty() {
        return answer;
    }
    let response = answer.unwrap_or_else(|status| response::error(&status, response::wanted(request)));
    Ok(response::add_warnings(response, warnings))
}

/// Refuses what no route of the resource has: upstream registers routes for exactly these combinations.
fn check_route(request: &Request, entry: &TableEntry) -> Result<(), Status> {
    let (info, row) = (&request.info, &entry.row);
    let in_namespace = info.route == Route::Namespaced;
    let collection = match info.verb {
        Verb::List | Verb::DeleteCollection => true,
        Verb::Watch => !is_watch_path(&info.path) || info.name.is_empty(),
        _ => info.name.is_empty(),
    };
    let name_in_path = !collection || !info.subresource.is_empty();
    if in_namespace && info.namespace.is_empty() {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    if row.namespaced != in_namespace && (in_namespace || name_in_path) {
        return Err(Status::path_not_found());
    }
    let verbs = if info.subresource.is_empty() {
        let of_objects = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
        if !info.name.is_empty() && !collection && !of_objects.iter().any(|verb| row.verbs.contains(*verb)) {
            return Err(Status::path_not_found()); // what is only made has no objects to name
        }
        row.verbs
    } else {
        let Some(subresource) = row.subresource(&info.subresource) else { return Err(Status::path_not_found()) };
        if !info.rest.is_empty() && subresource.kind != SubresourceKind::Proxy {
            return Err(Status::path_not_found());
        }
        subresource.verbs
    };
    if info.verb == Verb::Watch && !verbs.contains(Verb::Watch) && verbs.contains(Verb::List) {
        // Lists have a route that takes `watch`, too; the paths of watches are only there for what can be watched.
        return Err(match is_watch_path(&info.path) {
            true => Status::path_not_found(),
            false => {
                list_options::ListOptions::read(request, row, true, &Features::default())?;
                let resource = GroupResource::new(row.group.clone(), row.plural.clone());
                Status::method_not_supported(&resource, "watch")
            }
        });
    }
    let cluster_wide_ok = matches!(info.verb, Verb::List | Verb::Watch);
    let post_to_object = info.verb == Verb::Create && !info.name.is_empty() && info.subresource.is_empty();
    let put_to_collection = matches!(info.verb, Verb::Update | Verb::Patch) && info.name.is_empty();
    let watch_by_other_method = info.verb == Verb::Watch && request.method != Method::GET;
    let handed_on = row.subresource(&info.subresource).is_some_and(|s| s.kind == SubresourceKind::Proxy);
    if (!handed_on && (request.method == Method::HEAD || !verbs.contains(info.verb)))
        || watch_by_other_method
        || (row.namespaced && !in_namespace && !cluster_wide_ok)
        || post_to_object
        || put_to_collection
    {
        return Err(Status::method_not_allowed());
    }
    if name_in_path && let Some(problem) = names::path_segment_name(&info.name).first() {
        return Err(Status::bad_request(format!("Name parameter invalid: {:?}: {problem}", info.name.as_str())));
    }
    Ok(())
}

/// Whether it is one of the deprecated paths of watches: `/api/v1/watch/…`, `/apis/GROUP/VERSION/watch/…`.
fn is_watch_path(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let above = if parts.next() == Some("api") { 1 } else { 2 };
    parts.nth(above) == Some("watch")
}
