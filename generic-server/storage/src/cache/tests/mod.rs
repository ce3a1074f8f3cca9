//! The cache over a store in memory.
//!
//! Stored values are `label field text`; `!` is a value that cannot be decoded.

mod embedded;
mod feed;
mod model;
mod reads;
mod remote;
mod watches;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;

use super::*;
use crate::{Expect, Memory, Revision, Store};

struct Words;

impl Decode for Words {
    fn decode(&self, _: &str, value: &Bytes, revision: Revision) -> Result<Decoded, DecodeError> {
        let text = std::str::from_utf8(value).map_err(|e| DecodeError(e.to_string()))?;
        let mut words = text.splitn(3, ' ');
        let (Some(label), Some(field), Some(rest)) = (words.next(), words.next(), words.next()) else {
            return Err(DecodeError(format!("not three words: {text:?}")));
        };
        let head = r#"{"metadata":{"resourceVersion":""#;
        let digits = revision.to_string();
        let bytes = format!(r#"{head}{digits}"}},"text":"{rest}"}}"#);
        Ok(Decoded {
            bytes: bytes.into(),
            version_at: head.len()..head.len() + digits.len(),
            labels: [("l", label)].into_iter().collect(),
            fields: [field].into_iter().collect(),
        })
    }
}

const PREFIX: &str = "/r/things/";

fn options() -> CacheOptions {
    CacheOptions {
        indexed: vec![0],
        labels_from: 3,
        page: 3,
        patience: Duration::from_secs(30),
        ..CacheOptions::default()
    }
}

async fn cache_with(store: Arc<dyn Store>, options: CacheOptions) -> Arc<Cache> {
    let cache = Cache::start(store, PREFIX.into(), Arc::new(Words), options);
    cache.ready().await.unwrap();
    while !cache.is_live() {
        tokio::task::yield_now().await;
    }
    cache
}

async fn memory_and_cache() -> (Arc<Memory>, Arc<Cache>) {
    let store = Memory::new();
    let cache = cache_with(store.clone(), options()).await;
    (store, cache)
}

/// Writes `value` at `name` below the prefix, whatever is there; answers the revision.
async fn put(store: &dyn Store, name: &str, value: &str) -> Revision {
    let key = format!("{PREFIX}{name}");
    let (current, _) = store.get(&key).await.unwrap();
    let expect = current.map_or(Expect::Absent, |kv| Expect::Revision(kv.mod_revision));
    store.put(&key, Bytes::copy_from_slice(value.as_bytes()), expect, None).await.unwrap()
}

async fn delete(store: &dyn Store, name: &str) -> Revision {
    let key = format!("{PREFIX}{name}");
    let current = store.get(&key).await.unwrap().0.unwrap();
    store.delete(&key, current.mod_revision).await.unwrap()
}

/// `name=text` of all objects, in order; `name!` for one that is broken.
fn show(snapshot: &Snapshot) -> String {
    let show = |entry: &CacheEntry| {
        let name = &entry.key()[PREFIX.len()..];
        match entry {
            CacheEntry::Object(o) => format!("{name}={}", text(o)),
            CacheEntry::Broken(_) => format!("{name}!"),
        }
    };
    snapshot.range("", None).map(show).collect::<Vec<_>>().join(" ")
}

fn text(object: &Object) -> String {
    let json = std::str::from_utf8(object.bytes()).unwrap();
    let version = format!(r#""resourceVersion":"{}""#, object.revision());
    assert!(json.contains(&version), "{json} should have {version}");
    json.split('"').nth(9).unwrap().to_owned()
}

fn all() -> WatchOptions {
    WatchOptions {
        scope: Scope::All,
        filter: Arc::new(Everything),
        bookmarks: false,
        initial_events_end: false,
        timeout: None,
    }
}

fn show_event(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Object { kind, object, .. } => {
            let name = &object.key()[PREFIX.len()..];
            format!("{} {name}={}@{}", &kind.as_str()[..1], text(object), object.revision())
        }
        WatchEvent::Bookmark { revision, initial_events_end } => {
            format!("B {revision}{}", if *initial_events_end { " end" } else { "" })
        }
    }
}

/// All that a watcher has to tell without waiting: events, then how it ended if it did.
fn drain(watcher: &mut Watcher) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(next) = watcher.next().now_or_never() {
        match next {
            Some(Ok(event)) => told.push(show_event(&event)),
            Some(Err(end)) => told.push(format!("{end:?}")),
            None => {
                told.push("end".into());
                break;
            }
        }
    }
    told
}
