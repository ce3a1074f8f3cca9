//! Watches from the past: what they missed is read from the log beside the writer, which takes over once little is left.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Shared, blocking, read::changes, writer::Request};
use crate::{
    Error, Revision, Sink, Watch,
    watchers::{Alive, Watcher},
};

/// Revisions read at once.
const CHUNK: usize = 512;

/// Opens a watch.
pub(crate) async fn watch(
    shared: &Arc<Shared>,
    prefix: &str,
    after: Revision,
    sink: Arc<dyn Sink>,
) -> Result<Watch, Error> {
    let (alive, watch) = Alive::new();
    let mut watcher = Watcher { sink, alive, after };
    if after < shared.delivered() {
        let (shared, prefix) = (shared.clone(), prefix.to_owned());
        watcher = blocking(move || catch_up(&shared, &prefix, watcher)).await?;
    }
    let (answer, answered) = oneshot::channel();
    shared.queue.push(Request::Watch { prefix: prefix.into(), watcher, answer }).await?;
    answered.await.unwrap_or(Err(Error::Closed))?;
    Ok(watch)
}

/// Feeds what is in the log, until so little is left that the writer can do it in passing.
fn catch_up(shared: &Shared, prefix: &str, mut watcher: Watcher) -> Result<Watcher, Error> {
    loop {
        // In this order: the view has all that is delivered, and nothing of it had been dropped if it still is readable.
        let delivered = shared.delivered();
        let found = shared.reading(|| {
            let view = shared.view()?;
            let oldest = shared.index().oldest;
            if watcher.after + 1 < oldest {
                return Err(Error::Compacted { oldest });
            }
            changes(&view, prefix, watcher.after, CHUNK, |key| shared.key(key))
        })?;
        // What is committed but not delivered comes by the writer.
        watcher.feed_until(&found.events, delivered);
        let seen = found.last.unwrap_or(delivered).min(delivered);
        watcher.after = watcher.after.max(seen);
        if !watcher.alive.get() || watcher.after + CHUNK as Revision > delivered {
            return Ok(watcher);
        }
    }
}
