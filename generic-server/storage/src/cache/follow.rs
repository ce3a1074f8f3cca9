//! Following a resource within the process: a watch that starts over by itself.

use std::{sync::Arc, time::Duration};

use super::{
    change::{Filter, WatchEvent},
    reader::{Cache, CacheError, ReadAt},
    snapshot::Snapshot,
    watcher::{Scope, Start, WatchOptions, Watcher},
};

const PAUSE: Duration = Duration::from_millis(100);

/// What a follower learns.
#[derive(Clone, Debug)]
pub enum Followed {
    /// Everything anew: at the beginning, and after events were missed. What is not in it is gone. The snapshot is of
    /// the whole resource, not selected.
    Reset(Snapshot),
    /// A change since then (never a bookmark).
    Event(WatchEvent),
}

/// The state of a resource and its changes, for as long as the cache lives. For admission, authorization, controllers.
pub struct Follower {
    cache: Arc<Cache>,
    scope: Scope,
    filter: Arc<dyn Filter>,
    watcher: Option<Watcher>,
}

impl Cache {
    /// Follows the objects in `scope` that `filter` selects.
    pub fn follow(self: &Arc<Self>, scope: Scope, filter: Arc<dyn Filter>) -> Follower {
        Follower { cache: self.clone(), scope, filter, watcher: None }
    }
}

impl Follower {
    /// What is next; `None` when the cache has stopped. May be dropped while it waits, nothing is lost.
    pub async fn next(&mut self) -> Option<Followed> {
        loop {
            let Some(watcher) = &mut self.watcher else {
                match self.begin().await {
                    Ok(snapshot) => return Some(Followed::Reset(snapshot)),
                    Err(CacheError::Stopped) => return None,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
                continue;
            };
            match watcher.next().await {
                Some(Ok(event @ WatchEvent::Object { .. })) => return Some(Followed::Event(event)),
                Some(Ok(WatchEvent::Bookmark { .. })) => {}
                Some(Err(_)) | None => self.watcher = None,
            }
        }
    }

    async fn begin(&mut self) -> Result<Snapshot, CacheError> {
        self.cache.ready().await?;
        let snapshot = self.cache.read(ReadAt::Any).await?;
        let options = WatchOptions {
            scope: self.scope.clone(),
            filter: self.filter.clone(),
            bookmarks: false,
            initial_events_end: false,
            timeout: None,
        };
        self.watcher = Some(self.cache.watch(Start::After(snapshot.revision()), options).await?);
        Ok(snapshot)
    }
}
