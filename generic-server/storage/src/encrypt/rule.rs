//! One resource's rule: how its values are encrypted, read, and told to be stale.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::{BROKEN, ENCRYPTED, Encryption, Provider, error::DecryptError};
use crate::{Error, KeyValue};

/// So many values that could not be decrypted are tried again; one is enough to find out that a key is back.
const MOST_SAMPLES: usize = 64;

/// One resource's rule, in whatever configuration is current.
pub(super) struct Rule {
    encryption: Arc<Encryption>,
    /// Under which names it may be in the file, the most exact first.
    names: [String; 3],
    failed: Failed,
}

/// Values that could not be decrypted, each with its key.
#[derive(Default)]
struct Failed {
    samples: Mutex<Vec<(Arc<str>, Bytes)>>,
    news: Notify,
}

impl Failed {
    fn samples(&self) -> std::sync::MutexGuard<'_, Vec<(Arc<str>, Bytes)>> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rule {
    pub(super) fn new(encryption: Arc<Encryption>, names: [String; 3]) -> Rule {
        Rule { encryption, names, failed: Failed::default() }
    }

    /// Waits until there is a value that could not be decrypted.
    pub(super) async fn has_failed(&self) {
        while self.failed.samples().is_empty() {
            self.failed.news.notified().await;
        }
    }

    /// Whether a value that could not be decrypted can be now. Then all are forgotten: they are to be read anew.
    pub(super) async fn has_recovered(&self) -> bool {
        let samples = self.failed.samples().clone();
        self.prepare(samples.iter().map(|(_, stored)| stored)).await;
        let recovered = samples.iter().any(|(key, stored)| self.try_decrypt(key, stored).is_ok());
        if recovered {
            self.failed.samples().clear();
        }
        recovered
    }

    fn note_failure(&self, key: &str, stored: &Bytes) {
        let mut samples = self.failed.samples();
        if samples.len() < MOST_SAMPLES && !samples.iter().any(|(known, value)| **known == *key && value == stored) {
            samples.push((key.into(), stored.clone()));
            drop(samples);
            self.failed.news.notify_one();
        }
    }

    fn providers(&self) -> Option<Arc<Vec<Provider>>> {
        let current = self.encryption.current.load();
        self.names.iter().find_map(|name| current.rules.get(name).cloned())
    }

    pub(super) async fn encrypt(&self, key: &str, value: Bytes) -> Result<Bytes, Error> {
        let providers = self.providers();
        let (prefix, tail) = (providers.as_ref().and_then(|providers| providers.first()), value.len() + 128);
        let failed = |error: &(dyn std::error::Error + Sync)| {
            Error::Unavailable(format!("the value of {key} cannot be encrypted: {error}"))
        };
        let out = |prefix: &str| {
            let mut out = Vec::with_capacity(prefix.len() + tail);
            out.extend_from_slice(prefix.as_bytes());
            out
        };
        match prefix {
            None | Some(Provider::Identity) => Ok(value),
            Some(Provider::Local { prefix, cipher }) => {
                let mut out = out(prefix);
                cipher.encrypt(key, &value, &mut out).map_err(|error| failed(&error))?;
                Ok(out.into())
            }
            Some(Provider::Kms { prefix, kms }) => {
                let mut out = out(prefix);
                kms.encrypt(key, &value, &mut out).await.map_err(|error| failed(&error))?;
                Ok(out.into())
            }
        }
    }

    /// Has the data keys of these values at hand, so that their decryption need not wait.
    pub(super) async fn prepare(&self, values: impl Iterator<Item = &Bytes> + Send) {
        let Some(providers) = self.providers() else { return };
        if !providers.iter().any(|provider| matches!(provider, Provider::Kms { .. })) {
            return;
        }
        let values: Vec<&Bytes> = values.collect();
        for provider in &*providers {
            if let Provider::Kms { kms, .. } = provider {
                kms.prepare(values.iter().filter_map(|value| provider.own(value))).await;
            }
        }
    }

    /// The value, or what stands in the place of one that cannot be decrypted.
    pub(super) fn decrypt(&self, key: &str, stored: Bytes) -> Bytes {
        match self.try_decrypt(key, &stored) {
            Ok(None) => stored,
            Ok(Some(value)) => value.into(),
            Err(error) => {
                tracing::error!(key, %error, "a stored value cannot be decrypted");
                self.note_failure(key, &stored);
                [BROKEN, error.to_string().as_bytes()].concat().into()
            }
        }
    }

    /// The value; `None`: as it is stored.
    fn try_decrypt(&self, key: &str, stored: &[u8]) -> Result<Option<Vec<u8>>, DecryptError> {
        let identity = || match stored.starts_with(ENCRYPTED) {
            true => Err(DecryptError::Identity),
            false => Ok(None),
        };
        let Some(providers) = self.providers() else { return identity() };
        let mut failed = None;
        for provider in &*providers {
            let Some(own) = provider.own(stored) else { continue };
            let result = match provider {
                Provider::Identity => identity(),
                Provider::Local { cipher, .. } => cipher.decrypt(key, own).map(Some).map_err(DecryptError::from),
                Provider::Kms { kms, .. } => kms.decrypt(key, own).map(Some).map_err(DecryptError::from),
            };
            match (result, provider) {
                (Ok(value), _) => return Ok(value),
                // A key that has the value's prefix says more than the absence of any.
                (Err(_), Provider::Identity) if failed.is_some() => {}
                (Err(error), _) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or(DecryptError::NoProvider))
    }

    /// Whether a value is not stored as it would be now.
    pub(super) async fn is_stale(&self, key: &str, stored: &Bytes) -> bool {
        self.prepare(std::iter::once(stored)).await;
        let providers = self.providers();
        match providers.as_ref().and_then(|providers| providers.first()) {
            None | Some(Provider::Identity) => stored.starts_with(ENCRYPTED),
            Some(provider) => provider.own(stored).is_none_or(|own| match provider {
                Provider::Kms { kms, .. } => !kms.is_current(key, own),
                _ => false,
            }),
        }
    }

    pub(super) fn key_value(&self, stored: KeyValue) -> KeyValue {
        KeyValue { value: self.decrypt(&stored.key, stored.value), ..stored }
    }

    /// Decrypts what a conflict shows.
    pub(super) async fn told<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Err(Error::Conflict { current: Some(current) }) => {
                self.prepare(std::iter::once(&current.value)).await;
                Err(Error::Conflict { current: Some(Box::new(self.key_value(*current))) })
            }
            result => result,
        }
    }
}
