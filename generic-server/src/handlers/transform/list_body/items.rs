//! The items of a list, and where they come from.

use std::{sync::Arc, vec};

use bytes::Bytes;
use futures_util::{TryStreamExt, stream::BoxStream};
use machinery::meta::status::Status;
use storage::cache::Object;

use super::super::View;
use crate::registry::Lister;

/// So much of what others convert is had before the header is sent.
const CONVERTED_AHEAD: usize = 4 << 20;

/// An object on its way into a list.
pub(super) enum Item {
    /// As it is in the cache.
    Cached(Arc<Object>),
    /// Its JSON in the version asked for.
    Json(Bytes),
    /// Its message.
    Message(Bytes),
}

impl Item {
    /// The bytes that it is made of.
    pub(super) fn size(&self) -> usize {
        match self {
            Item::Cached(object) => object.bytes().len(),
            Item::Json(bytes) | Item::Message(bytes) => bytes.len(),
        }
    }
}

/// Where the items come from.
pub(super) enum Source {
    Cached(vec::IntoIter<Arc<Object>>),
    /// What others convert: a batch, and more batches.
    Converted(vec::IntoIter<Bytes>, BoxStream<'static, Result<Vec<Bytes>, Status>>),
    Messages(vec::IntoIter<Bytes>),
}

impl Source {
    pub(super) async fn of(view: &View, lister: &Arc<Lister>, objects: Vec<Arc<Object>>) -> Result<Self, Status> {
        let Some(version) = view.version.as_ref().filter(|version| version.is_remote()) else {
            return Ok(Source::Cached(objects.into_iter()));
        };
        let mut batches = lister.stream_in_version(version.clone(), objects);
        let (mut ahead, mut size) = (Vec::new(), 0);
        while size < CONVERTED_AHEAD {
            let Some(batch) = batches.try_next().await? else { break };
            size += batch.iter().map(Bytes::len).sum::<usize>();
            ahead.extend(batch);
        }
        Ok(Source::Converted(ahead.into_iter(), batches))
    }

    pub(super) async fn next(&mut self) -> Result<Option<Item>, Status> {
        Ok(match self {
            Source::Cached(objects) => objects.next().map(Item::Cached),
            Source::Messages(messages) => messages.next().map(Item::Message),
            Source::Converted(batch, more) => loop {
                if let Some(json) = batch.next() {
                    break Some(Item::Json(json));
                }
                match more.try_next().await? {
                    Some(next) => *batch = next.into_iter(),
                    None => break None,
                }
            },
        })
    }
}
