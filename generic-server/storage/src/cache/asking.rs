//! Questions to a store that cannot tell by itself what it has delivered, shared by the reads that wait.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

use crate::{Error, Revision, Store};

/// The least time between two requests for progress.
const PROGRESS_PAUSE: Duration = Duration::from_millis(10);

/// At most one question of a kind is under way; an answer serves all who came before it was asked.
#[derive(Default)]
pub(super) struct Asking {
    tickets: AtomicU64,
    revision: Mutex<Option<Answer>>,
    progress: Mutex<Option<Instant>>,
}

struct Answer {
    /// The ticket drawn when the question went out.
    asked: u64,
    revision: Revision,
}

impl Asking {
    /// The store's revision at some moment after this call began.
    pub(super) async fn revision(&self, store: &dyn Store) -> Result<Revision, Error> {
        let arrived = self.tickets.fetch_add(1, Ordering::SeqCst);
        let mut last = self.revision.lock().await;
        if let Some(answer) = last.as_ref().filter(|answer| answer.asked > arrived) {
            return Ok(answer.revision);
        }
        let asked = self.tickets.fetch_add(1, Ordering::SeqCst);
        let revision = store.revision().await?;
        *last = Some(Answer { asked, revision });
        Ok(revision)
    }

    /// Asks for progress, unless somebody just has.
    pub(super) async fn progress(&self, store: &dyn Store, prefix: &str) {
        let mut last = self.progress.lock().await;
        if let Some(asked) = *last {
            tokio::time::sleep_until(asked + PROGRESS_PAUSE).await;
        }
        *last = Some(Instant::now());
        if let Err(error) = store.request_progress(prefix).await {
            // The reads that wait have their deadline; they report where the cache is.
            tracing::debug!(%error, "the store refused to tell its progress");
        }
    }
}
