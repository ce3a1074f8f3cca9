//! KMS v1 (the gate KMSv1): each value has a key of its own, which the plugin encrypts when the value is written and decrypts
//! when a server that does not know it reads the value.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, join_all};
use prost::Message;

use super::{
    Reached,
    keys::{LastKeys, ValueKey},
    thread::{Connection, Thread, lock},
};
use crate::encrypt::{
    error::{EncryptionFault, KmsError, ObjectError},
    keys::random,
};

const SERVICE: &str = "v1beta1.KeyManagementService";
const VERSION: &str = "v1beta1";
/// How often a plugin that is well, or not, is asked to encrypt a word.
const POLL: Duration = Duration::from_secs(20);
const POLL_FAILED: Duration = Duration::from_secs(3);
/// Bytes of a value's key.
const KEY: usize = 32;
/// So many keys are asked for at once.
const AT_ONCE: usize = 32;
/// So many keys are kept, however few are asked to be: those of a part of a list, and of a write until caches have it.
/// Differs: upstream keeps no more than it is told; its caches need no key either for what they have.
const LEAST_KEYS: usize = 1024;
/// So long a plugin that is away is not asked again for keys.
const AWAY_FOR: Duration = Duration::from_secs(2);

#[derive(Clone, PartialEq, Message)]
struct VersionRequest {
    #[prost(string, tag = "1")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct VersionResponse {
    #[prost(string, tag = "1")]
    version: String,
}

/// EncryptRequest and DecryptRequest.
#[derive(Clone, PartialEq, Message)]
struct CryptRequest {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(bytes = "vec", tag = "2")]
    text: Vec<u8>,
}

/// EncryptResponse and DecryptResponse.
#[derive(Clone, PartialEq, Message)]
struct CryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    text: Vec<u8>,
}

/// A plugin.
pub(in crate::encrypt) struct KmsV1 {
    thread: Thread,
    shared: Arc<Shared>,
    keys: i32,
}

struct Shared {
    /// Whether the plugin has said that it speaks this protocol.
    checked: AtomicBool,
    health: Mutex<Result<(), KmsError>>,
    keys: Mutex<LastKeys>,
    /// When the plugin did not answer, and why.
    away: Mutex<Option<(Instant, KmsError)>>,
}

impl KmsV1 {
    /// Starts to talk to the plugin. `keys` is the file's `cachesize`.
    pub(super) fn start(reached: Reached<'_>, keys: i32) -> Result<KmsV1, EncryptionFault> {
        let most = usize::try_from(keys).unwrap_or_default().max(LEAST_KEYS);
        let shared = Arc::new(Shared {
            checked: AtomicBool::new(false),
            health: Mutex::new(Err(KmsError::NotAsked)),
            keys: Mutex::new(LastKeys::new(most)),
            away: Mutex::default(),
        });
        let (polled, provider) = (shared.clone(), reached.name.to_owned());
        let thread = Thread::start(reached, move |connection| {
            let (shared, provider) = (polled.clone(), provider.clone());
            async move {
                let result = shared.probe(&connection).await;
                if let Err(error) = &result {
                    tracing::warn!(provider, %error, "the KMS provider is not well");
                }
                let pause = if result.is_ok() { POLL } else { POLL_FAILED };
                *lock(&shared.health) = result;
                pause
            }
        })?;
        Ok(KmsV1 { thread, shared, keys })
    }

    /// The plugin's thread.
    pub(super) fn thread(&self) -> &Thread {
        &self.thread
    }

    /// The file's `cachesize`.
    pub(super) fn keys(&self) -> i32 {
        self.keys
    }

    /// Whether the plugin is well; why not.
    pub(super) fn health(&self) -> Result<(), KmsError> {
        lock(&self.shared.health).clone()
    }

    /// Appends the encrypted value to `out`, behind its key as the plugin has encrypted it.
    pub(super) async fn encrypt(&self, path: &str, value: &[u8], out: &mut Vec<u8>) -> Result<(), KmsError> {
        let bytes: [u8; KEY] = random()?;
        let key = Arc::new(ValueKey::new(&bytes)?);
        let shared = self.shared.clone();
        let wrap = move |connection: Connection| async move { shared.crypt(&connection, "Encrypt", &bytes).await };
        let wrapped = self.thread.ask(wrap).await?;
        let length = u16::try_from(wrapped.len()).map_err(|_| ObjectError::Source(wrapped.len()))?;
        lock(&self.shared.keys).put(&wrapped, key.clone());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&wrapped);
        Ok(key.encrypt(path, value, out)?)
    }

    /// Whether a stored value was written as values are written now; those before v1.25 were not.
    pub(super) fn is_current(&self, path: &str, stored: &[u8]) -> bool {
        let Ok((wrapped, text)) = split(stored) else { return false };
        self.known(wrapped).is_none_or(|key| key.wrote(path, text))
    }

    /// Has the keys of stored values decrypted that are not known yet.
    pub(super) async fn prepare(&self, stored: impl Iterator<Item = &[u8]> + Send) {
        let wrapped = stored.filter_map(|stored| split(stored).ok()).map(|(wrapped, _)| wrapped);
        let missing: HashSet<&[u8]> = wrapped.filter(|wrapped| self.known(wrapped).is_none()).collect();
        let missing: Vec<&[u8]> = missing.into_iter().collect();
        for part in missing.chunks(AT_ONCE) {
            if self.shared.is_away().is_some() {
                return; // the decryption itself tells it
            }
            let asked = part.iter().map(|wrapped| self.thread.ask(self.shared.clone().fetching(wrapped.to_vec())));
            join_all(asked).await;
        }
    }

    /// Decrypts a stored value. Waits for the plugin if the value's key is not known.
    pub(super) fn decrypt(&self, path: &str, stored: &[u8]) -> Result<Vec<u8>, KmsError> {
        let (wrapped, text) = split(stored)?;
        let key = match self.known(wrapped) {
            Some(key) => key,
            None => match self.shared.is_away() {
                Some(error) => return Err(error),
                None => self.thread.ask_blocking(self.shared.clone().fetching(wrapped.to_vec()))?,
            },
        };
        let opened = key.decrypt(path, text);
        if opened.is_err() {
            lock(&self.shared.keys).forget(wrapped); // the plugin may not have told the truth
        }
        Ok(opened?)
    }

    fn known(&self, wrapped: &[u8]) -> Option<Arc<ValueKey>> {
        lock(&self.shared.keys).get(wrapped)
    }
}

/// A stored value's key, and what follows it.
fn split(stored: &[u8]) -> Result<(&[u8], &[u8]), ObjectError> {
    let (length, rest) = stored.split_first_chunk::<2>().ok_or(ObjectError::NoKey)?;
    rest.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(ObjectError::NoKey)
}

impl Shared {
    /// Has a word encrypted and decrypted.
    async fn probe(&self, connection: &Connection) -> Result<(), KmsError> {
        let failed = |section| move |error| KmsError::Probe { section, error: Box::new(error) };
        let made = self.crypt(connection, "Encrypt", b"ping").await.map_err(failed("encrypt"))?;
        self.crypt(connection, "Decrypt", &made).await.map(drop).map_err(failed("decrypt"))
    }

    /// The work that gets a value's key which is not known.
    fn fetching(
        self: Arc<Self>,
        wrapped: Vec<u8>,
    ) -> impl FnOnce(Connection) -> BoxFuture<'static, Result<Arc<ValueKey>, KmsError>> + Send {
        move |connection| {
            Box::pin(async move {
                let bytes = self.crypt(&connection, "Decrypt", &wrapped).await;
                let away = |error: &KmsError| matches!(error, KmsError::Away(_) | KmsError::Timeout { .. });
                *lock(&self.away) =
                    bytes.as_ref().err().filter(|why| away(why)).map(|why| (Instant::now(), why.clone()));
                let key = Arc::new(ValueKey::new(&bytes?)?);
                lock(&self.keys).put(&wrapped, key.clone());
                Ok(key)
            })
        }
    }

    /// Why the plugin need not be asked now.
    fn is_away(&self) -> Option<KmsError> {
        lock(&self.away).as_ref().filter(|(since, _)| since.elapsed() < AWAY_FOR).map(|(_, error)| error.clone())
    }

    async fn crypt(&self, connection: &Connection, method: &'static str, text: &[u8]) -> Result<Vec<u8>, KmsError> {
        if !self.checked.load(Relaxed) {
            let asked = VersionRequest { version: VERSION.into() };
            let told: VersionResponse = connection.call(SERVICE, "Version", asked).await?;
            if told.version != VERSION {
                return Err(KmsError::FirstVersion(told.version));
            }
            self.checked.store(true, Relaxed);
        }
        let request = CryptRequest { version: VERSION.into(), text: text.to_vec() };
        let answer: CryptResponse = connection.call(SERVICE, method, request).await?;
        Ok(answer.text)
    }
}
