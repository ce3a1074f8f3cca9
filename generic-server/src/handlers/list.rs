//! GET of a collection: a snapshot, selected, paged, sent from shared bytes.

use std::{pin::pin, sync::Arc};

use audit::Layer;
use machinery::meta::status::Status;
use storage::cache::{CacheEntry, CacheError, Filter, FoundBy, Object, ReadAt, Snapshot, Term};

use super::{
    Target,
    continuation::Continuation,
    converted,
    list_options::ListOptions,
    past, span,
    transform::{ListMeta, View},
};
use crate::registry::read_error;
use crate::{registry::Registry, response::Response};

/// Answers the request.
pub(super) async fn serve(target: Target) -> Result<Response, Status> {
    let view = View::of_request(&target.request, &target.entry)?;
    let features = &target.registry.settings().features;
    let options = ListOptions::read(&target.request, &target.entry.row, false, features)?;
    let namespace = target.request.info.namespace.clone();
    let audit = &target.request.audit;
    let span = span::of_cache("cacher.GetList", &target.request, || target.registry.group_resource());
    let page = audit
        .timed(Layer::Storage, span.within(pin!(read_page(&target.registry, &view, &namespace, &options))))
        .await?;
    span.event("Filtered items", |a| a.int("count", page.objects.len()));
    drop(span);
    audit.timed(Layer::Transform, view.list(target.registry.lister(), page.objects, &page.meta)).await
}

/// One page of a collection.
pub(super) struct Page {
    /// The objects.
    pub objects: Vec<Arc<Object>>,
    /// What the list says about itself.
    pub meta: ListMeta,
    /// How the objects were found, and how many were looked at.
    pub search: (FoundBy, usize),
}

/// Reads the page that the options ask for.
pub(super) async fn read_page(
    registry: &Arc<Registry>,
    view: &View,
    namespace: &str,
    options: &ListOptions,
) -> Result<Page, Status> {
    let at = match options.at.filter(|_| options.continuation.is_none()) {
        Some(moment) => ReadAt::Exact(past::revision(registry, moment).await?),
        None => options.read_at()?,
    };
    let snapshot = match registry.cache().read(at).await {
        Ok(snapshot) => snapshot,
        Err(CacheError::Expired { .. }) => return Err(expired(registry, options).await),
        Err(error) => return Err(read_error(&error)),
    };
    traces::event("Ready", |_| {});
    let page = match view.remote_version().filter(|_| options.selection.looks_into_objects()) {
        Some(version) => {
            converted::select(registry.lister(), view.row(), version, namespace, options, &snapshot, at).await
        }
        None => select(registry, namespace, options, &snapshot, at),
    }?;
    let (by, looked_at) = page.search;
    registry.cache().note_list(by, looked_at, page.objects.len());
    Ok(page)
}

fn select(
    registry: &Registry,
    namespace: &str,
    options: &ListOptions,
    snapshot: &Snapshot,
    at: ReadAt,
) -> Result<Page, Status> {
    // A list of any state (resourceVersion "0") is answered whole, as upstream's cache does.
    let limit = if options.resource_version == "0" { 0 } else { options.limit };
    let prefix = registry.namespace_prefix(namespace);
    let shard = options.selection.shard();
    let mut meta = ListMeta { revision: snapshot.revision(), continuation: String::new(), remaining: None, shard };
    // One that is named, where it can only be in one place, is no page of others.
    if let Some(name) = options.selection.name()
        && options.continuation.is_none()
        && namespace.is_empty() != registry.row.namespaced
    {
        let found = snapshot.get(&format!("{prefix}{name}"));
        let object = found.map(|e| e.object().ok_or_else(|| registry.unreadable_items(&[e]))).transpose()?;
        let objects = object.filter(|object| options.selection.matches(object)).cloned().into_iter().collect();
        return Ok(Page { objects, meta, search: (FoundBy::Walk, 1) });
    }
    let start = options.continuation.as_ref().map(|c| format!("{prefix}{}", c.start));
    let mut objects = Vec::new();
    let go_on = |last: &Arc<Object>| go_on_after(last, &prefix, snapshot, at);
    // An index answers for pinned fields and labels (pods of a node, of an application) without a look at the others.
    let terms = options.selection.terms();
    if let Some(indexed) = snapshot.by_terms(&terms, &prefix, start.as_deref()) {
        let is_field = terms.iter().any(|term| matches!(term, Term::Field(..)));
        let search = (if is_field { FoundBy::Field } else { FoundBy::Label }, indexed.len());
        for object in indexed.into_iter().filter(|object| options.selection.matches(object)) {
            objects.push(object.clone());
            if objects.len() == limit {
                let after = format!("{}\0", object.key());
                // A first page of an indexed field ends with those of the same value, as upstream's index has it.
                let fields = terms.iter().filter(|term| start.is_none() && matches!(term, Term::Field(..)));
                let mut rest =
                    fields.map(|field| snapshot.by_terms(std::slice::from_ref(field), &prefix, Some(&after)));
                let same = rest.find_map(|rest| rest);
                let more = match same {
                    Some(same) => !same.is_empty(),
                    None => snapshot.range(&prefix, Some(&after)).next().is_some(),
                };
                if more {
                    meta.continuation = go_on(object);
                }
                break;
            }
        }
        return Ok(Page { objects, meta, search });
    }
    let (everything, mut unreadable, mut looked_at) = (options.selection.is_everything(), Vec::new(), 0);
    let mut entries = snapshot.range(&prefix, start.as_deref());
    while let Some(entry) = entries.next() {
        looked_at += 1;
        let object = match entry {
            CacheEntry::Object(object) => object,
            CacheEntry::Broken(_) => {
                unreadable.push(entry);
                if unreadable.len() == registry.most_unreadable() {
                    break;
                }
                continue;
            }
        };
        // Also what would not be selected continues a page: upstream does not look at it before it is asked to.
        if limit > 0 && objects.len() == limit {
            meta.continuation = go_on(&objects[limit - 1]);
            meta.remaining = everything.then(|| 1 + entries.count());
            break;
        }
        if everything || options.selection.matches(object) {
            objects.push(object.clone());
        }
    }
    if !unreadable.is_empty() {
        return Err(registry.unreadable_items(&unreadable));
    }
    Ok(Page { objects, meta, search: (FoundBy::Walk, looked_at) })
}

/// The token of a list that goes on after this object.
pub(super) fn go_on_after(last: &Object, prefix: &str, snapshot: &Snapshot, at: ReadAt) -> String {
    let revision = match at {
        ReadAt::Exact(revision) => revision,
        _ => snapshot.revision(),
    };
    Continuation { revision: Some(revision), start: format!("{}\0", &last.key()[prefix.len()..]) }.token()
}

/// The 410 of a list whose state is gone; a client that pages gets a token to go on without consistency.
async fn expired(registry: &Registry, options: &ListOptions) -> Status {
    let Some(continuation) = &options.continuation else { return Status::compacted_list() };
    let current = registry.cache().read(ReadAt::Latest).await.map(|s| s.revision()).ok();
    let token = Continuation { revision: current, start: continuation.start.clone() }.token();
    Status::expired_continue(&token)
}
