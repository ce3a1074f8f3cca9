//! Selectors of requests for a version that a webhook converts to. It may give objects other labels and other fields, so what
//! is selected is known when all that might be have been converted; where one cannot be, neither can it be said.

use std::sync::Arc;

use futures_util::TryStreamExt;
use machinery::meta::status::Status;
use storage::cache::{CacheEntry, EventType, FoundBy, Object, ReadAt, Snapshot, WatchEvent};

use super::{
    list::{Page, go_on_after},
    list_options::{ListOptions, Selection},
    transform::{ListMeta, View},
};
use crate::{
    registry::{Lister, VersionForm},
    resource::Resource,
};

/// The page that the options ask for, of a snapshot.
pub(super) async fn select(
    lister: &Arc<Lister>,
    row: &Resource,
    version: &VersionForm,
    namespace: &str,
    options: &ListOptions,
    snapshot: &Snapshot,
    at: ReadAt,
) -> Result<Page, Status> {
    let prefix = lister.namespace_prefix(namespace);
    let start = options.continuation.as_ref().map(|c| format!("{prefix}{}", c.start));
    let names = options.selection.of_names();
    let entries: Vec<&CacheEntry> = match names.name() {
        // Where it can only be in one place.
        Some(name) if start.is_none() && namespace.is_empty() != lister.row.namespaced => {
            snapshot.get(&format!("{prefix}{name}")).into_iter().collect()
        }
        _ => snapshot.range(&prefix, start.as_deref()).collect(),
    };
    let unreadable: Vec<&CacheEntry> = entries.iter().copied().filter(|entry| entry.object().is_none()).collect();
    if !unreadable.is_empty() {
        let most = unreadable.len().min(lister.most_unreadable());
        return Err(lister.unreadable_items(&unreadable[..most]));
    }
    let candidates: Vec<Arc<Object>> = entries.into_iter().filter_map(CacheEntry::object).cloned().collect();
    // A list of any state is answered whole.
    let limit = if options.resource_version == "0" { 0 } else { options.limit };
    let shard = options.selection.shard();
    let mut meta = ListMeta { revision: snapshot.revision(), continuation: String::new(), remaining: None, shard };
    let search = (FoundBy::Walk, candidates.len());
    let mut objects: Vec<Arc<Object>> = Vec::new();
    let mut batches = lister.stream_in_version(version.clone(), candidates.clone());
    let mut rest = candidates.into_iter();
    while let Some(batch) = batches.try_next().await? {
        for (bytes, object) in batch.iter().zip(rest.by_ref()) {
            if limit > 0 && objects.len() == limit {
                meta.continuation = go_on_after(&objects[limit - 1], &prefix, snapshot, at);
                return Ok(Page { objects, meta, search });
            }
            if is_selected(lister, row, &options.selection, &object, bytes)? {
                objects.push(object);
            }
        }
    }
    Ok(Page { objects, meta, search })
}

/// What a watch with a selector tells of an event among all objects of these names; nothing if the object neither is
/// selected nor was.
pub(super) async fn seen(
    lister: &Lister,
    view: &View,
    selection: &Selection,
    event: WatchEvent,
) -> Result<Option<WatchEvent>, Status> {
    let WatchEvent::Object { kind, object, .. } = &event else { return Ok(Some(event)) };
    let is_shown = async |object: &Arc<Object>| {
        let bytes = view.fetch(lister, object).await?;
        is_selected(lister, view.row(), selection, object, &bytes)
    };
    let now = is_shown(object).await?;
    let before = match (kind, event.previous()) {
        (EventType::Modified, Some(previous)) => is_shown(previous).await?,
        _ => now,
    };
    Ok(event.entering_or_leaving(before, now))
}

fn is_selected(
    lister: &Lister,
    row: &Resource,
    selection: &Selection,
    object: &Object,
    bytes: &[u8],
) -> Result<bool, Status> {
    let (labels, fields) = lister.selectable(row, bytes)?;
    Ok(selection.matches_with(object, &labels, &fields))
}
