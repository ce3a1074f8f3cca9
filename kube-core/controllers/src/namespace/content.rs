//! Deleting the objects of one resource in a namespace, and counting what is left.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{StreamExt, stream};
use machinery::{
    Str, Value,
    codec::json,
    json::scan,
    meta::{GvrRef, Meta, Timestamp, status::Status},
    request::Verb,
};
use storage::cache::{CacheEntry, Object, ReadAt};

use crate::{
    client::{Client, Deletion},
    kinds::StoredKind,
    remote::Resource,
};

/// Dependents are deleted as content, so that nothing is to wait for them.
const BACKGROUND: Deletion<'static> = Deletion { propagation: "Background", uid: "", version: "" };
/// How long content that waits for finalizers is given (upstream's guess).
const FINALIZER_ESTIMATE: i64 = 15;
/// So many objects of a kind are deleted at once.
const AT_ONCE: usize = 32;
/// From so many on they are deleted side by side instead of as a collection, of which one goes after the other.
const MANY: usize = 64;

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Deleted {
    /// Seconds until what is left may be gone; 0: not known.
    pub(super) estimate: i64,
    /// Objects that are left.
    pub(super) remaining: usize,
    /// How many of these wait, by finalizer.
    pub(super) finalizers: BTreeMap<Str, usize>,
    /// What has failed.
    pub(super) error: Option<String>,
}

/// The content of a namespace.
pub(super) struct Content<'a> {
    pub(super) client: &'a Client,
    pub(super) namespace: &'a str,
    pub(super) deleted_at: Timestamp,
}

impl Content<'_> {
    /// Deletes all objects of a kind.
    pub(super) async fn delete(&self, kind: &StoredKind) -> Deleted {
        let mut deleted = Deleted::default();
        if let Err(status) = self.try_delete(kind, &mut deleted).await {
            deleted.error = Some(status.message);
        }
        deleted
    }

    async fn try_delete(&self, kind: &StoredKind, deleted: &mut Deleted) -> Result<(), Status> {
        let entries = self.entries(kind).await?;
        if entries.is_empty() {
            return Ok(());
        }
        if kind.group.is_empty() && kind.plural == "pods" {
            deleted.estimate = self.estimate(&entries);
        }
        if entries.len() >= MANY {
            self.delete_seen(kind, &entries).await?;
        }
        if entries.len() < MANY || !self.entries(kind).await?.is_empty() {
            self.delete_rest(kind).await?;
        }
        let left = self.entries(kind).await?;
        let finalizers = left.iter().filter_map(CacheEntry::object).flat_map(|object| finalizers_of(object.bytes()));
        deleted.count(left.len(), finalizers);
        deleted.judge(self.namespace, GvrRef::new(&kind.group, &kind.version, &kind.plural))
    }

    /// What there is, as the store has it.
    async fn entries(&self, kind: &StoredKind) -> Result<Vec<CacheEntry>, Status> {
        kind.lister.ready().await?;
        let snapshot = kind.lister.cache().read(ReadAt::Latest).await;
        let snapshot = snapshot.map_err(|error| Status::internal_error(error.to_string()))?;
        Ok(snapshot.range(&kind.lister.namespace_prefix(self.namespace), None).cloned().collect())
    }

    async fn delete_rest(&self, kind: &StoredKind) -> Result<(), Status> {
        if kind.verbs.contains(Verb::DeleteCollection) {
            return self.client.delete_collection(&kind.collection(self.namespace), BACKGROUND).await;
        }
        let entries = self.entries(kind).await?;
        self.delete_seen(kind, &entries).await
    }

    /// Deletes these objects side by side, and no others of the same names.
    pub(super) async fn delete_seen(&self, kind: &StoredKind, entries: &[CacheEntry]) -> Result<(), Status> {
        let path_and_uid = |object: &Arc<Object>| {
            let uid = scan::text(object.bytes(), &["metadata", "uid"]).unwrap_or_default().into_owned();
            (kind.path(self.namespace, object.name()), uid)
        };
        let objects: Vec<_> = entries.iter().filter_map(CacheEntry::object).map(path_and_uid).collect();
        let results = stream::iter(objects).map(|(path, uid)| {
            let client = self.client.clone();
            // Tasks of their own, so that all cores take part.
            let delete = async move { client.delete(&path, Deletion { uid: &uid, ..BACKGROUND }).await };
            async move { tokio::spawn(delete).await }
        });
        let results: Vec<_> = results.buffer_unordered(AT_ONCE).collect().await;
        for result in results {
            match result.map_err(Status::internal_error)? {
                Ok(()) => {}
                Err(status) if status.is_not_found() || status.is_conflict() => {} // gone, or another one now
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }

    /// The longest that any of these pods may still take; 0 when that time is over.
    fn estimate(&self, pods: &[CacheEntry]) -> i64 {
        let grace = |entry: &CacheEntry| {
            let pod = entry.object()?.bytes();
            if matches!(scan::text(pod, &["status", "phase"]).as_deref(), Some("Succeeded" | "Failed")) {
                return None;
            }
            let seconds = scan::field(pod, &["spec", "terminationGracePeriodSeconds"])?;
            std::str::from_utf8(seconds).ok()?.parse().ok()
        };
        let longest = pods.iter().filter_map(grace).max().unwrap_or(0);
        let since = Timestamp::now().seconds().saturating_sub(self.deleted_at.seconds());
        if since >= longest { 0 } else { longest }
    }

    /// Deletes all objects of a resource that another server has.
    pub(super) async fn delete_remote(&self, resource: &Resource) -> Deleted {
        let mut deleted = Deleted::default();
        if let Err(status) = self.try_delete_remote(resource, &mut deleted).await {
            deleted.error = Some(status.message);
        }
        deleted
    }

    async fn try_delete_remote(&self, resource: &Resource, deleted: &mut Deleted) -> Result<(), Status> {
        let path = resource.collection(self.namespace);
        let unsupported = |status: &Status| status.is_not_found() || status.code == 405;
        let is_deleted = match resource.verbs.contains(Verb::DeleteCollection) {
            true => match self.client.delete_collection(&path, BACKGROUND).await {
                Ok(()) => true,
                Err(status) if unsupported(&status) => false,
                Err(status) => return Err(status),
            },
            false => false,
        };
        if !resource.verbs.contains(Verb::List) {
            return Ok(());
        }
        if !is_deleted {
            for item in self.list_remote(&path).await? {
                let name = Meta::of(&item).name();
                match self.client.delete(&resource.path(self.namespace, name), BACKGROUND).await {
                    Ok(()) => {}
                    Err(status) if unsupported(&status) => {}
                    Err(status) => return Err(status),
                }
            }
        }
        let left = self.list_remote(&path).await?;
        deleted.count(left.len(), left.iter().flat_map(|item| Meta::of(item).finalizers().map(Str::from)));
        deleted.judge(self.namespace, GvrRef::new(&resource.group, &resource.version, &resource.plural))
    }

    async fn list_remote(&self, path: &str) -> Result<Vec<Value>, Status> {
        match self.client.list_metadata(path).await {
            Err(status) if status.is_not_found() || status.code == 405 => Ok(Vec::new()),
            listed => listed,
        }
    }
}

impl Deleted {
    fn count(&mut self, remaining: usize, finalizers: impl Iterator<Item = Str>) {
        self.remaining = remaining;
        for finalizer in finalizers {
            *self.finalizers.entry(finalizer).or_default() += 1;
        }
        if remaining == 0 {
            self.estimate = 0;
        }
    }

    /// What is left must have a reason: time to end, or finalizers.
    fn judge(&mut self, namespace: &str, resource: GvrRef<'_>) -> Result<(), Status> {
        if self.remaining == 0 || self.estimate != 0 {
            return Ok(());
        }
        if !self.finalizers.is_empty() {
            self.estimate = FINALIZER_ESTIMATE;
            return Ok(());
        }
        let resource = resource.to_owned();
        let message = format!("unexpected items still remain in namespace: {namespace} for gvr: {resource}");
        Err(Status { message, ..Status::internal_error("") })
    }
}

fn finalizers_of(object: &[u8]) -> Vec<Str> {
    let Some(finalizers) = scan::field(object, &["metadata", "finalizers"]) else { return Vec::new() };
    let finalizers = json::decode(finalizers).unwrap_or(Value::Null);
    let finalizers = finalizers.as_array().unwrap_or_default();
    finalizers.iter().filter_map(|finalizer| finalizer.as_shared_str().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_without_a_reason_is_an_error() {
        let judge = |remaining, estimate, finalizers: &[&'static str]| {
            let mut deleted = Deleted { estimate, ..Deleted::default() };
            deleted.count(remaining, finalizers.iter().copied().map(Str::new_static));
            let error = deleted.judge("ns", GvrRef::new("", "v1", "pods")).err().map(|status| status.message);
            (deleted.estimate, error)
        };
        assert_eq!(judge(0, 30, &[]), (0, None));
        assert_eq!(judge(1, 30, &["a/b"]), (30, None));
        assert_eq!(judge(1, 0, &["a/b"]), (15, None));
        let why = "unexpected items still remain in namespace: ns for gvr: /v1, Resource=pods";
        assert_eq!(judge(1, 0, &[]), (0, Some(why.to_owned())));
    }

    #[test]
    fn finalizers_are_read_from_the_text() {
        let check = |text: &str, expect: &[&str]| assert_eq!(finalizers_of(text.as_bytes()), expect, "{text}");
        check(r#"{"metadata":{"name":"x","finalizers":["a/b","c/d"]}}"#, &["a/b", "c/d"]);
        check(r#"{"metadata":{"name":"x"}}"#, &[]);
        check(r#"{"metadata":{"finalizers":null}}"#, &[]);
    }
}
