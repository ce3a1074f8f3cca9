//! Keeps a cache fed: lists, watches, and starts over when the watch ends.

use std::{sync::Arc, time::Duration};

use tokio::{task::spawn_blocking, time::Instant};

use super::{
    snapshot::{Snapshot, Tree},
    writer::{Phase, Shared},
};
use crate::{Error, Range, Revision, Store};

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A watcher's time to send an event, roughly.
const TIME_TO_SEND: Duration = Duration::from_micros(10);
/// The longest time between two wakes.
const LONGEST_LULL: Duration = Duration::from_millis(5);
/// The shortest time between two looks at the window's oldest changes.
const SHORTEST_AGING: Duration = Duration::from_secs(1);
/// A watch that lived so long was fine; the next pause is the shortest again.
const FINE_AFTER: Duration = Duration::from_secs(30);

/// Runs until it is aborted or the store is closed.
pub(super) async fn run(store: Arc<dyn Store>, shared: Arc<Shared>) {
    tokio::select! {
        () = keep(store, shared.clone()) => {}
        () = wake(&shared) => {}
        () = age(&shared) => {}
    }
}

/// Wakes watchers where they are many. They are given the time that sending takes them before they are woken again, so
/// that in a storm of changes each wake brings several; the first change of a quiet time is told at once.
async fn wake(shared: &Shared) {
    loop {
        let woken = u32::try_from(shared.wake_many().await).unwrap_or(u32::MAX);
        tokio::time::sleep(TIME_TO_SEND.saturating_mul(woken).min(LONGEST_LULL)).await;
    }
}

/// Gives back what the window holds of changes that are too old, while no new ones come that would push them out.
async fn age(shared: &Arc<Shared>) {
    loop {
        tokio::time::sleep((shared.options.window.max_age / 2).max(SHORTEST_AGING)).await;
        if shared.window.has_aged(std::time::Instant::now()) {
            let shared = shared.clone();
            // They may be many. That a runtime at its end frees nothing more is no failure.
            let _ = spawn_blocking(move || shared.window.age(std::time::Instant::now())).await;
        }
    }
}

async fn keep(store: Arc<dyn Store>, shared: Arc<Shared>) {
    let mut pause = SHORTEST_PAUSE;
    let mut listed = false;
    loop {
        let begun = Instant::now();
        let error = match round(&*store, &shared, &mut listed).await {
            Error::Closed => break shared.stop(),
            error => error,
        };
        if let Error::Compacted { .. } = error {
            listed = false;
        }
        match error {
            // The store says so itself, once for all caches.
            Error::Unavailable(_) | Error::Timeout(_) => {
                tracing::debug!(prefix = shared.prefix, %error, "the watch cache has no feed and tries again");
            }
            _ => tracing::warn!(prefix = shared.prefix, %error, "the watch cache lost its feed and starts it again"),
        }
        if begun.elapsed() > FINE_AFTER {
            pause = SHORTEST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One list (unless what we have can be continued) and one watch, until it fails.
async fn round(store: &dyn Store, shared: &Arc<Shared>, listed: &mut bool) -> Error {
    if !*listed {
        shared.counters.lists.add(1);
        match list(store, shared, None).await {
            Ok(snapshot) => shared.replace(snapshot),
            Err(error) => return error,
        }
        *listed = true;
    }
    let feed = shared.feed();
    let after = shared.revision();
    shared.counters.store_watches.add(1);
    match store.watch(&shared.prefix, after, feed.clone()).await {
        Ok(_watch) => {
            shared.enter(Phase::Live);
            feed.closed().await
        }
        Err(error) => error,
    }
}

/// Reads all objects as they are at one revision, page by page; a page is decoded while the next one is read.
pub(super) async fn list(store: &dyn Store, shared: &Arc<Shared>, at: Option<Revision>) -> Result<Snapshot, Error> {
    let prefix = &shared.prefix;
    let page = |start, at| store.range(Range { prefix: prefix.clone(), start, limit: shared.options.page, at });
    let mut tree = Tree::new(&shared.options.indexed, shared.options.labels_from);
    let mut found = page(None, at).await?;
    let at = at.unwrap_or(found.revision);
    loop {
        shared.counters.store_objects.add(found.items.len());
        let next = match found.items.last() {
            Some(last) if found.remaining > 0 => Some(format!("{}\0", last.key)),
            _ => None,
        };
        let last = next.is_none();
        let decoding = spawn_blocking({
            let shared = shared.clone();
            move || {
                for kv in found.items {
                    tree.load(shared.entry_of(kv));
                }
                if last {
                    tree.index();
                }
                tree
            }
        });
        let reading = async {
            match next {
                Some(start) => page(Some(start), Some(at)).await.map(Some),
                None => Ok(None),
            }
        };
        let (decoded, more) = tokio::join!(decoding, reading);
        tree = decoded.map_err(|e| Error::Unavailable(format!("the decoding task failed: {e}")))?;
        match more? {
            Some(more) => found = more,
            None => return Ok(Snapshot::new(at, Arc::new(tree))),
        }
    }
}
