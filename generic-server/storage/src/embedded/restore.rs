//! A snapshot's content brought back into a store that serves.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use redb::{ReadOnlyDatabase, ReadableDatabase};

use super::{
    blocking,
    copy::open_snapshot,
    disk::failed,
    folder::load,
    index::{Found, Index},
    read::{Values, View},
};
use crate::{Error, Expect, KeyValue, Range, Store};

/// Keys looked at at once, and writes under way at once.
const CHUNK: usize = 500;
const WRITES: usize = 64;
/// How often a key is tried that others write meanwhile.
const TRIES: usize = 10;

/// How many keys a restore changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Keys that were written, since they differed or were not there.
    pub written: usize,
    /// Keys that were deleted, since the snapshot has none such.
    pub deleted: usize,
}

/// Brings a store (of any backend) to a snapshot's content while it serves.
///
/// It does so by ordinary writes of what differs: every watch sees what happens, revisions go on rising, and what was
/// written meanwhile to other keys is judged as the rest. Keys come back without the time at which they were to expire.
/// Fails with [`Error::Corrupt`] for a damaged snapshot before anything is written, or as the store's writes fail.
pub async fn restore_into(store: &dyn Store, snapshot: PathBuf) -> Result<Restored, Error> {
    let content = blocking(move || Content::read(snapshot)).await?;
    let content = Arc::new(content);
    let mut restored = Restored::default();
    let all = content.index.range("", "", 0, content.index.revision).0;
    let keys: BTreeSet<Arc<str>> = all.iter().map(|found| found.key.clone()).collect();
    for chunk in all.chunks(CHUNK) {
        let (content, chunk) = (content.clone(), chunk.to_vec());
        let items = blocking(move || content.values(chunk)).await?;
        let writes = stream::iter(items.into_iter().map(|item| write(store, item))).buffer_unordered(WRITES);
        restored.written += writes.try_fold(0, async |count, wrote| Ok(count + usize::from(wrote))).await?;
    }
    let mut start = None;
    loop {
        let page = store.range(Range { prefix: String::new(), start, limit: CHUNK, at: None }).await?;
        let mut surplus = page.items.clone();
        surplus.retain(|item| !keys.contains(&item.key));
        let deletes = stream::iter(surplus.into_iter().map(|item| delete(store, item))).buffer_unordered(WRITES);
        restored.deleted += deletes.try_fold(0, async |count, deleted| Ok(count + usize::from(deleted))).await?;
        match page.items.last() {
            // The least key after the last one (keys hold no NUL).
            Some(last) if page.remaining > 0 => start = Some(format!("{}\0", last.key)),
            _ => return Ok(restored),
        }
    }
}

/// Writes a key unless it is as wanted; whether it did.
async fn write(store: &dyn Store, wanted: KeyValue) -> Result<bool, Error> {
    let mut current = store.get(&wanted.key).await?.0;
    for _ in 0..TRIES {
        let expect = match &current {
            Some(current) if current.value == wanted.value => return Ok(false),
            Some(current) => Expect::Revision(current.mod_revision),
            None => Expect::Absent,
        };
        match store.put(&wanted.key, Bytes::clone(&wanted.value), expect, None).await {
            Ok(_) => return Ok(true),
            Err(Error::Conflict { current: now }) => current = now.map(|now| *now),
            Err(error) => return Err(error),
        }
    }
    Err(Error::Unavailable(format!("{} is written all the time by others", wanted.key)))
}

/// Deletes a key; whether it did.
async fn delete(store: &dyn Store, mut current: KeyValue) -> Result<bool, Error> {
    for _ in 0..TRIES {
        match store.delete(&current.key, current.mod_revision).await {
            Ok(_) => return Ok(true),
            Err(Error::Conflict { current: Some(now) }) => current = *now,
            Err(Error::Conflict { current: None }) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Err(Error::Unavailable(format!("{} is written all the time by others", current.key)))
}

/// A snapshot's content.
struct Content {
    database: ReadOnlyDatabase,
    index: Index,
}

impl Content {
    /// Reads a snapshot, and checks every value in it.
    fn read(file: PathBuf) -> Result<Content, Error> {
        let database = open_snapshot(&file)?;
        let index = load(&database)?.index;
        let content = Content { database, index };
        for chunk in content.index.range("", "", 0, content.index.revision).0.chunks(CHUNK) {
            content.values(chunk.to_vec())?;
        }
        Ok(content)
    }

    fn values(&self, found: Vec<Found>) -> Result<Vec<KeyValue>, Error> {
        let read = self.database.begin_read().map_err(failed)?;
        Values::open(&View::of(read))?.key_values(found)
    }
}
