//! Encryption at rest: stores that encrypt a resource's values as `--encryption-provider-config` says, in upstream's
//! stored forms (`k8s:enc:…`), so that either server reads what the other wrote.

mod config;
mod keys;
mod kms;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;

use self::{keys::Cipher, kms::Kms};
use crate::{Error, Event, Expect, KeyValue, Range, RangeResult, Revision, Sink, Store, Watch};

/// What every encrypted value starts with.
const ENCRYPTED: &[u8] = b"k8s:enc:";
/// What stands in the place of a value that cannot be decrypted, before the reason.
const BROKEN: &[u8] = b"k8s:enc:broken:";
/// So many values are decrypted beside the runtime's threads.
const MANY: usize = 200;

/// Why a value that a store gave could not be decrypted; `None` if it is a value.
///
/// A store gives such a stand-in for the value alone, so that the other objects of a list or watch are not harmed, and
/// the object can still be deleted.
pub fn broken(value: &[u8]) -> Option<&str> {
    let reason = value.strip_prefix(BROKEN)?;
    Some(std::str::from_utf8(reason).unwrap_or("the value cannot be decrypted"))
}

/// An encryption configuration in use.
pub struct Encryption {
    file: PathBuf,
    current: ArcSwap<Loaded>,
}

struct Loaded {
    text: String,
    /// By resource as the file names it: `secrets`, `deployments.apps`, `*.apps`, `*.`, `*.*`.
    rules: HashMap<String, Arc<Vec<Provider>>>,
    kms: Vec<Arc<Kms>>,
}

enum Provider {
    Identity,
    Local { prefix: String, cipher: Cipher },
    Kms { prefix: String, kms: Arc<Kms> },
}

impl Encryption {
    /// Reads the file. Fails with all that is wrong in it.
    pub fn load(file: &Path) -> Result<Arc<Encryption>, String> {
        let current = ArcSwap::from_pointee(Loaded::read(file, None)?);
        Ok(Arc::new(Encryption { file: file.into(), current }))
    }

    /// Looks every `interval` whether the file has changed, and follows it when its new content is valid and its KMS
    /// providers are well (`--encryption-provider-config-automatic-reload`; upstream: each minute).
    pub fn reload_automatically(self: &Arc<Self>, interval: Duration) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(encryption) = this.upgrade() else { return };
                match encryption.reload().await {
                    Ok(true) => tracing::info!("the encryption configuration has changed and is in use"),
                    Ok(false) => {}
                    Err(error) => tracing::error!(error, "the changed encryption configuration is not used"),
                }
            }
        });
    }

    /// Reads the file again; whether it has changed. Keeps the configuration in use if the new one cannot be.
    pub async fn reload(&self) -> Result<bool, String> {
        let current = self.current.load_full();
        let text = std::fs::read_to_string(&self.file).map_err(|error| format!("{}: {error}", self.file.display()))?;
        if text == current.text {
            return Ok(false);
        }
        let next = Loaded::read(&self.file, Some(&current))?;
        for _ in 0..100 {
            if next.kms.iter().all(|kms| kms.health().is_ok()) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for kms in &next.kms {
            kms.health().map_err(|error| format!("KMS provider {}: {error}", kms.name))?;
        }
        self.current.store(Arc::new(next));
        Ok(true)
    }

    /// The store for one resource's keys: encrypts what is put, decrypts what is read. What the file does not name is
    /// stored as it is.
    pub fn wrap(self: &Arc<Self>, store: Arc<dyn Store>, group: &str, resource: &str) -> Arc<dyn Store> {
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let names = [name, format!("*.{group}"), "*.*".to_owned()];
        Arc::new(Encrypted { store, rule: Arc::new(Rule { encryption: self.clone(), names }) })
    }

    /// Each KMS provider's name and whether it is well (readyz's `kms-providers`).
    pub fn kms_health(&self) -> Vec<(String, Result<(), String>)> {
        self.current.load().kms.iter().map(|kms| (kms.name.clone(), kms.health())).collect()
    }
}

impl Loaded {
    fn read(file: &Path, before: Option<&Loaded>) -> Result<Loaded, String> {
        let tell = |error: String| {
            format!("error while parsing encryption provider configuration file: {}: {error}", file.display())
        };
        let text = std::fs::read_to_string(file).map_err(|error| tell(error.to_string()))?;
        let config = config::parse(&text).map_err(tell)?;
        let mut loaded = Loaded { text, rules: HashMap::new(), kms: Vec::new() };
        let mut rules: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        for (at, entry) in config.resources.iter().enumerate() {
            for resource in &entry.resources {
                rules
                    .entry(resource.clone())
                    .or_default()
                    .extend((0..entry.providers.len()).map(|provider| (at, provider)));
            }
        }
        let mut plugins = HashMap::new();
        for provider in config.resources.iter().flat_map(|entry| &entry.providers) {
            if let Some(kms) = &provider.kms {
                let timeout = kms.timeout().unwrap_or(Duration::from_secs(3));
                let known =
                    before.and_then(|before| before.kms.iter().find(|old| old.is(&kms.name, &kms.endpoint, timeout)));
                let plugin = known.cloned().map_or_else(|| Kms::start(&kms.name, &kms.endpoint, timeout), Ok);
                let plugin = plugin.map_err(tell)?;
                plugins.insert(kms.name.clone(), plugin.clone());
                loaded.kms.push(plugin);
            }
        }
        for (resource, uses) in rules {
            let mut providers = Vec::new();
            for (entry, provider) in uses {
                Provider::make(&config.resources[entry].providers[provider], &plugins, &mut providers).map_err(tell)?;
            }
            loaded.rules.insert(resource, Arc::new(providers));
        }
        Ok(loaded)
    }
}

impl Provider {
    /// Adds a provider as the file has it: one for each key.
    fn make(
        config: &config::ProviderConfig,
        plugins: &HashMap<String, Arc<Kms>>,
        into: &mut Vec<Provider>,
    ) -> Result<(), String> {
        type Make = fn(&[u8]) -> keys::Result<Cipher>;
        let local: [(_, _, Make); 3] = [
            (&config.aesgcm, "aesgcm", Cipher::gcm),
            (&config.aescbc, "aescbc", Cipher::cbc),
            (&config.secretbox, "secretbox", Cipher::secretbox),
        ];
        for (keys, name, make) in local {
            for key in keys.iter().flat_map(|keys| &keys.keys) {
                let prefix = format!("k8s:enc:{name}:v1:{}:", key.name);
                into.push(Provider::Local { prefix, cipher: make(&key.secret())? });
            }
        }
        if let Some(kms) = config.kms.as_ref().and_then(|kms| plugins.get(&kms.name)) {
            into.push(Provider::Kms { prefix: format!("k8s:enc:kms:v2:{}:", kms.name), kms: kms.clone() });
        }
        if config.identity.is_some() {
            into.push(Provider::Identity);
        }
        Ok(())
    }

    /// What follows this provider's prefix, if the value is one of its own.
    fn own<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Provider::Identity => Some(stored),
            Provider::Local { prefix, .. } | Provider::Kms { prefix, .. } => stored.strip_prefix(prefix.as_bytes()),
        }
    }
}

/// One resource's rule, in whatever configuration is current.
struct Rule {
    encryption: Arc<Encryption>,
    /// Under which names it may be in the file, the most exact first.
    names: [String; 3],
}

impl Rule {
    fn providers(&self) -> Option<Arc<Vec<Provider>>> {
        let current = self.encryption.current.load();
        self.names.iter().find_map(|name| current.rules.get(name).cloned())
    }

    fn encrypt(&self, key: &str, value: Bytes) -> Result<Bytes, Error> {
        let providers = self.providers();
        let (prefix, tail) = (providers.as_ref().and_then(|providers| providers.first()), value.len() + 128);
        let failed = |error: String| Error::Unavailable(format!("the value of {key} cannot be encrypted: {error}"));
        let out = |prefix: &str| {
            let mut out = Vec::with_capacity(prefix.len() + tail);
            out.extend_from_slice(prefix.as_bytes());
            out
        };
        match prefix {
            None | Some(Provider::Identity) => Ok(value),
            Some(Provider::Local { prefix, cipher }) => {
                let mut out = out(prefix);
                cipher.encrypt(key, &value, &mut out).map_err(|error| failed(error.into()))?;
                Ok(out.into())
            }
            Some(Provider::Kms { prefix, kms }) => {
                let mut out = out(prefix);
                kms.encrypt(key, &value, &mut out).map_err(failed)?;
                Ok(out.into())
            }
        }
    }

    /// Has the data keys of these values at hand, so that their decryption need not wait.
    async fn prepare(&self, values: impl Iterator<Item = &Bytes> + Send) {
        let Some(providers) = self.providers() else { return };
        for value in values {
            for provider in &*providers {
                if let (Provider::Kms { kms, .. }, Some(own)) = (provider, provider.own(value)) {
                    kms.prepare(own).await;
                }
            }
        }
    }

    /// The value, or what stands in the place of one that cannot be decrypted.
    fn decrypt(&self, key: &str, stored: Bytes) -> Bytes {
        match self.try_decrypt(key, &stored) {
            Ok(None) => stored,
            Ok(Some(value)) => value.into(),
            Err(error) => {
                tracing::error!(key, error, "a stored value cannot be decrypted");
                [BROKEN, error.as_bytes()].concat().into()
            }
        }
    }

    /// The value; `None`: as it is stored.
    fn try_decrypt(&self, key: &str, stored: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let identity = || match stored.starts_with(ENCRYPTED) {
            true => Err("identity transformer tried to read encrypted data".to_owned()),
            false => Ok(None),
        };
        let Some(providers) = self.providers() else { return identity() };
        let mut failed = None;
        for provider in &*providers {
            let Some(own) = provider.own(stored) else { continue };
            let result = match provider {
                Provider::Identity => identity(),
                Provider::Local { cipher, .. } => cipher.decrypt(key, own).map(Some).map_err(str::to_owned),
                Provider::Kms { kms, .. } => kms.decrypt(key, own).map(Some),
            };
            match (result, provider) {
                (Ok(value), _) => return Ok(value),
                // A key that has the value's prefix says more than the absence of any.
                (Err(_), Provider::Identity) if failed.is_some() => {}
                (Err(error), _) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| "no matching prefix found".into()))
    }

    fn is_stale(&self, stored: &[u8]) -> bool {
        let providers = self.providers();
        match providers.as_ref().and_then(|providers| providers.first()) {
            None | Some(Provider::Identity) => stored.starts_with(ENCRYPTED),
            Some(provider) => provider.own(stored).is_none_or(|own| match provider {
                Provider::Kms { kms, .. } => !kms.is_current(own),
                _ => false,
            }),
        }
    }

    fn key_value(&self, stored: KeyValue) -> KeyValue {
        KeyValue { value: self.decrypt(&stored.key, stored.value), ..stored }
    }

    /// Decrypts what a conflict shows.
    async fn told<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Err(Error::Conflict { current: Some(current) }) => {
                self.prepare(std::iter::once(&current.value)).await;
                Err(Error::Conflict { current: Some(Box::new(self.key_value(*current))) })
            }
            result => result,
        }
    }
}

struct Encrypted {
    store: Arc<dyn Store>,
    rule: Arc<Rule>,
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

#[async_trait]
impl Store for Encrypted {
    async fn put(&self, key: &str, value: Bytes, expect: Expect, ttl: Option<Duration>) -> Result<Revision, Error> {
        let value = self.rule.encrypt(key, value)?;
        self.rule.told(self.store.put(key, value, expect, ttl).await).await
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
        self.rule.prepare(result.items.iter().map(|item| &item.value)).await;
        let (items, rule) = (std::mem::take(&mut result.items), self.rule.clone());
        let many = items.len() > MANY;
        let decrypt = move || items.into_iter().map(|item| rule.key_value(item)).collect();
        result.items = if many {
            let done = tokio::task::spawn_blocking(decrypt).await;
            done.map_err(|error| Error::Unavailable(format!("decryption failed: {error}")))?
        } else {
            decrypt()
        };
        Ok(result)
    }

    async fn count(&self, prefix: &str) -> Result<usize, Error> {
        self.store.count(prefix).await
    }

    async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch, Error> {
        self.store.watch(prefix, after, Arc::new(Decrypting { sink, rule: self.rule.clone() })).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.store.revision().await
    }

    fn delivered_revision(&self) -> Option<Revision> {
        self.store.delivered_revision()
    }

    async fn request_progress(&self) -> Result<(), Error> {
        self.store.request_progress().await
    }

    async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        let (found, _) = self.store.get(key).await?;
        Ok(found.is_some_and(|found| self.rule.is_stale(&found.value)))
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.store.compact(revision).await
    }

    async fn compacted_revision(&self) -> Result<Revision, Error> {
        self.store.compacted_revision().await
    }

    async fn health(&self) -> Result<(), Error> {
        self.store.health().await
    }

    async fn size(&self) -> Result<u64, Error> {
        self.store.size().await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
