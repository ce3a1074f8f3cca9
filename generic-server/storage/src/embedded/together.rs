//! What layers with a data model of their own build on: several keys written as one, and reads of the log by revision.
//!
//! Such a layer has the store for itself and decides alone, so its writes expect nothing. Each write has a revision of its
//! own; that they belong together shows in a crash, after which all of them are there or none.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    Embedded,
    batch::{Batch, Change, Write, Writes},
    blocking, format,
    pending::Entries,
    read::{Values, changes},
    room,
    writer::{MOST_BYTES, Request, Writer},
};
use crate::{Error, Event, Revision};

/// What a write takes in a frame beside its key and value, at most.
const RECORD: usize = 64;

/// Bytes that writes take in a frame.
pub(crate) fn size(writes: &Writes) -> usize {
    writes.iter().map(|(key, value)| RECORD + key.len() + value.as_ref().map_or(0, |(value, _)| value.len())).sum()
}

/// Changes read from the log.
#[derive(Debug, Default)]
pub struct LogPart {
    /// The changes, in order.
    pub events: Vec<Event>,
    /// The last revision looked at; `None`: there is nothing more.
    pub last: Option<Revision>,
}

impl Embedded {
    /// Writes several keys, all or none, at revisions that follow each other; `None` deletes a key, whether it is there or
    /// not. Returns the first revision. Keys may be of any length, and values too, as long as there is memory for them.
    pub async fn write_all(&self, writes: Vec<(Arc<str>, Option<Bytes>)>) -> Result<Revision, Error> {
        let summed = |value: Bytes| {
            let sum = format::value_sum(&value);
            (value, sum)
        };
        let writes: Writes = writes.into_iter().map(|(key, value)| (key, value.map(summed))).collect();
        let Some((key, _)) = writes.first() else { return Ok(self.shared.index().revision + 1) };
        let (answer, answered) = oneshot::channel();
        let request = match size(&writes) <= MOST_BYTES {
            true => Request::Write(Write { key: key.clone(), change: Change::All(writes), answer }),
            false => Request::WriteWhole { writes, answer },
        };
        self.shared.queue.push(request).await?;
        answered.await.unwrap_or_else(|_| Err(Error::Unavailable("the writer ended".into())))
    }

    /// The values that were written at these revisions; `None` where compaction has dropped one, or a key was deleted.
    /// Reads the disk, on the caller's thread.
    pub fn values(&self, revisions: &[Revision]) -> Result<Vec<Option<Bytes>>, Error> {
        self.shared.open()?;
        self.shared.reading(|| {
            let values = Values::open(&self.shared.view()?)?;
            revisions.iter().map(|revision| values.value(*revision)).collect()
        })
    }

    /// Copies the database into a new file, so that it takes no more room than it needs, while the store serves.
    pub async fn defragment(&self) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(Request::Defragment(answer)).await?;
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// The changes after a revision, as far as compaction has left them, looking at up to `most` revisions.
    pub async fn log_after(&self, after: Revision, most: usize) -> Result<LogPart, Error> {
        let shared = self.shared.clone();
        let read = move || {
            shared.open()?;
            let found = shared.reading(|| changes(&shared.view()?, "", after, most, |key| shared.key(key)))?;
            Ok(LogPart { events: found.events, last: found.last })
        };
        blocking(read).await
    }
}

impl Writer {
    /// Writes in one commit of the database what is too large for the journal.
    pub(crate) fn write_whole(&mut self, writes: Writes) -> Result<Revision, Error> {
        self.usable()?;
        // So that one commit in the database is the whole of it: the journal holds nothing more.
        self.settle_all()?;
        let mut batch = Batch::default();
        let first = {
            let index = self.shared.index();
            batch.plan_all(&index, (index.revision, self.shared.clock.now()), &mut HashMap::new(), writes, None);
            index.revision + 1
        };
        room::check(&self.shared, batch.planned.iter().map(|planned| planned.entry.record().stored()).sum())?;
        let entries: Entries = batch.planned.iter().map(|planned| (planned.revision, planned.entry.clone())).collect();
        self.commit_whole(entries)?;
        self.publish(&batch);
        Ok(first)
    }
}
