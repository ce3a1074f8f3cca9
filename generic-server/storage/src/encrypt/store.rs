//! A store whose values are encrypted by a rule.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use super::rule::Rule;
use crate::{Error, Event, Expect, KeyValue, Layer, Range, RangeResult, Revision, Sink, Store, Watch};

/// So many values are decrypted beside the runtime's threads.
const MANY: usize = 200;
/// So many values of a list are decrypted at once: their data keys are kept until that is done.
const PART: usize = 512;
/// How soon, and then how often, values that could not be decrypted are tried again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(10);

pub(super) struct Encrypted {
    pub(super) store: Arc<dyn Store>,
    pub(super) rule: Arc<Rule>,
}

struct Decrypting {
    sink: Arc<dyn Sink>,
    rule: Arc<Rule>,
}

impl Sink for Decrypting {
    fn apply(&self, events: &[Event]) {
        let decrypted = events.iter().map(|event| Event {
            value: event.value.clone().map(|value| self.rule.decrypt(&event.key, value)),
            previous: event.previous.clone().map(|previous| self.rule.key_value(previous)),
            ..event.clone()
        });
        self.sink.apply(&decrypted.collect::<Vec<_>>());
    }

    fn progress(&self, revision: Revision) {
        self.sink.progress(revision);
    }

    fn closed(&self, error: Error) {
        self.sink.closed(error);
    }
}

/// Ends a watch once something that could not be decrypted can be (a KMS plugin is back, a key is in the file again): what
/// was told of it cannot be taken back otherwise than by a new list.
async fn end_on_recovery(rule: Arc<Rule>, sink: Arc<dyn Sink>) {
    let mut pause = FIRST_RETRY;
    loop {
        rule.has_failed().await;
        tokio::time::sleep(pause).await;
        if rule.has_recovered().await {
            return sink.closed(Error::Compacted { oldest: 0 });
        }
        pause = (pause * 2).min(LAST_RETRY);
    }
}

impl Encrypted {
    async fn decrypted(&self, part: Vec<KeyValue>) -> Result<Vec<KeyValue>, Error> {
        self.rule.prepare(part.iter().map(|item| &item.value)).await;
        let (many, rule) = (part.len() > MANY, self.rule.clone());
        let decrypt = move || part.into_iter().map(|item| rule.key_value(item)).collect();
        if many {
            let done = tokio::task::spawn_blocking(decrypt).await;
            done.map_err(|error| Error::Unavailable(format!("decryption failed: {error}")))
        } else {
            Ok(decrypt())
        }
    }
}

#[async_trait]
impl Layer for Encrypted {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        let value = self.rule.encrypt(key, value).await?;
        self.rule.told(self.store.put(key, value, expect, ttl).await).await
    }

    async fn put_series(
        &self,
        key: &str,
        value: Bytes,
        then: Vec<Bytes>,
        expect: Expect,
    ) -> Result<Vec<Revision>, Error> {
        let value = self.rule.encrypt(key, value).await?;
        let mut encrypted = Vec::with_capacity(then.len());
        for value in then {
            encrypted.push(self.rule.encrypt(key, value).await?);
        }
        self.rule.told(self.store.put_series(key, value, encrypted, expect).await).await
    }

    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.rule.told(self.store.delete(key, expected).await).await
    }

    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision), Error> {
        let (found, revision) = self.store.get(key).await?;
        self.rule.prepare(found.iter().map(|found| &found.value)).await;
        Ok((found.map(|found| self.rule.key_value(found)), revision))
    }

    async fn range(&self, range: Range) -> Result<RangeResult, Error> {
        let mut result = self.store.range(range).await?;
        let mut stored = std::mem::take(&mut result.items).into_iter();
        result.items.reserve_exact(stored.len());
        while stored.len() > 0 {
            let part: Vec<KeyValue> = stored.by_ref().take(PART).collect();
            result.items.extend(self.decrypted(part).await?);
        }
        Ok(result)
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        let decrypting = Decrypting { sink: sink.clone(), rule: self.rule.clone() };
        let watch = self.store.watch(prefix, after, Arc::new(decrypting)).await?;
        let retry = tokio::spawn(end_on_recovery(self.rule.clone(), sink));
        Ok(Watch::new(move || {
            retry.abort();
            drop(watch);
        }))
    }

    async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        let (found, _) = self.store.get(key).await?;
        Ok(match found {
            Some(found) => self.rule.is_stale(key, &found.value).await,
            None => false,
        })
    }
}
