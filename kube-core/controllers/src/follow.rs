//! Following the objects of a kind in its watch cache: what was there, and what is there now.

use std::sync::Arc;

use generic_server::registry::Lister;
use storage::cache::{Cache, CacheEntry, Everything, Follower, Object, Scope, Snapshot};

/// So many changes are handed over before others get their turn.
const BATCH: usize = 256;

/// The changes of a cache since they were asked for last. States in between may be missed, objects are not.
pub(crate) struct Changes {
    cache: Arc<Cache>,
    follower: Follower,
    last: Option<Snapshot>,
}

impl Changes {
    pub(crate) fn of(lister: &Lister) -> Self {
        let cache = lister.cache().clone();
        let follower = cache.follow(Scope::All, Arc::new(Everything));
        Changes { cache, follower, last: None }
    }

    /// Waits for a change; whether there will be more.
    pub(crate) async fn wait(&mut self) -> bool {
        self.follower.next().await.is_some()
    }

    /// What differs from the last time: what was there, and what is there now. Values that cannot be read are no objects, but
    /// they are not gone either.
    pub(crate) fn take(&mut self) -> Vec<(Option<CacheEntry>, Option<CacheEntry>)> {
        let latest = self.cache.latest();
        let mut changes = Vec::new();
        match self.last.replace(latest.clone()) {
            Some(last) if last.shares(&latest) => {}
            Some(last) => last.changes(&latest, |old, new| changes.push((old.cloned(), new.cloned()))),
            None => changes.extend(latest.range("", None).map(|entry| (None, Some(entry.clone())))),
        }
        changes
    }
}

/// Hands over every object, and then every change, until the cache stops. `synced` is called once all were handed over.
pub(crate) async fn follow(
    lister: &Lister,
    mut each: impl FnMut(Option<&Arc<Object>>, Option<&Arc<Object>>),
    synced: impl FnOnce(),
) {
    let mut changes = Changes::of(lister);
    let mut synced = Some(synced);
    while changes.wait().await {
        for (i, (old, new)) in changes.take().into_iter().enumerate() {
            if i % BATCH == BATCH - 1 {
                tokio::task::yield_now().await;
            }
            if matches!(new, Some(CacheEntry::Broken(_))) {
                continue;
            }
            each(old.as_ref().and_then(CacheEntry::object), new.as_ref().and_then(CacheEntry::object));
        }
        if let Some(synced) = synced.take() {
            synced();
        }
    }
}
