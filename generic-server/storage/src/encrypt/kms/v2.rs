//! KMS v2: values are encrypted with keys that are derived from a seed. The plugin sees the seed alone, once when it is made
//! and once when a server that does not know it reads a value.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use aws_lc_rs::digest;
use futures_util::future::BoxFuture;
use prost::Message;

use super::{
    Reached,
    thread::{Connection, Thread, lock},
};
use crate::encrypt::{
    data_key::{DataKey, Kept, SEED, TYPE_KEY, TYPE_SEED, derive},
    error::{CipherError, EncryptionFault, KmsError, ObjectError, UnwellPlugin},
    keys::random,
};
use crate::tally::{DATA_KEY_FAILURES, DATA_KEY_MISSES, DATA_KEYS};

const SERVICE: &str = "v2.KeyManagementService";

/// How often a plugin that is well, or not, is asked for its status.
const POLL: Duration = Duration::from_secs(60);
const POLL_FAILED: Duration = Duration::from_secs(10);
/// How long a seed is used to write after the last good status.
const WRITE_FOR: Duration = Duration::from_secs(180);
/// Bounds on what a plugin says.
const MOST_KEY_ID: usize = 1024;
const MOST_SOURCE: usize = 1024;
const MOST_ANNOTATIONS: usize = 32 * 1024;
/// So long a failed decryption of a data key is the answer for all values that have the key.
const FAILED_FOR: Duration = Duration::from_secs(2);
/// Data keys kept in memory.
const MOST_KEYS: usize = 4096;

/// What is stored after a KMS provider's prefix.
#[derive(Clone, PartialEq, Message)]
struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    data: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    source_type: i32,
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

/// The seed that values are written with.
struct Current {
    seed: Vec<u8>,
    /// What is stored with each value, but for its data.
    object: EncryptedObject,
    until: Instant,
}

/// A plugin.
pub(in crate::encrypt) struct KmsV2 {
    thread: Thread,
    shared: Arc<Shared>,
}

struct Shared {
    current: Mutex<Option<Arc<Current>>>,
    health: Mutex<Result<(), KmsError>>,
    keys: Mutex<HashMap<Vec<u8>, Arc<Kept>>>,
    /// Keys that could not be decrypted lately, when and why not: thousands of values may have the same one.
    failures: Mutex<HashMap<Vec<u8>, (Instant, KmsError)>>,
}

impl KmsV2 {
    /// Starts to talk to the plugin.
    pub(super) fn start(reached: Reached<'_>) -> Result<KmsV2, EncryptionFault> {
        let shared = Arc::new(Shared {
            current: Mutex::default(),
            health: Mutex::new(Err(KmsError::NotAsked)),
            keys: Mutex::default(),
            failures: Mutex::default(),
        });
        let (polled, provider) = (shared.clone(), reached.name.to_owned());
        let thread = Thread::start(reached, move |connection| {
            let (shared, provider) = (polled.clone(), provider.clone());
            async move {
                let result = shared.poll(&connection).await;
                if let Err(error) = &result {
                    tracing::warn!(provider, %error, "the KMS provider is not well");
                }
                let pause = if result.is_ok() { POLL } else { POLL_FAILED };
                *lock(&shared.health) = result;
                pause
            }
        })?;
        Ok(KmsV2 { thread, shared })
    }

    /// The plugin's thread.
    pub(super) fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Whether the plugin is well; why not.
    pub(super) fn health(&self) -> Result<(), KmsError> {
        lock(&self.shared.health).clone()
    }

    /// Appends the encrypted value to `out`.
    pub(super) fn encrypt(&self, path: &str, value: &[u8], out: &mut Vec<u8>) -> Result<(), KmsError> {
        let current = lock(&self.shared.current).clone();
        let current = current.ok_or_else(|| {
            let error = self.health().err().unwrap_or(KmsError::NotAsked);
            KmsError::NeverWell(Box::new(UnwellPlugin { name: self.thread.name().to_owned(), error }))
        })?;
        if current.until < Instant::now() {
            return Err(KmsError::Expired(self.thread.name().to_owned()));
        }
        let mut object = current.object.clone();
        let salt: [u8; SEED] = random()?;
        object.data.extend_from_slice(&salt);
        derive(&current.seed, &salt)?.encrypt(path, value, &mut object.data)?;
        object.encode(out).map_err(|error| ObjectError::Encode(error).into())
    }

    /// Whether a stored value was written with the current key.
    pub(super) fn is_current(&self, stored: &[u8]) -> bool {
        let Ok(object) = EncryptedObject::decode(stored) else { return false };
        let current = lock(&self.shared.current);
        current.as_ref().is_some_and(|current| {
            current.object.key_id == object.key_id && current.object.source_type == object.source_type
        })
    }

    /// Has the data keys of stored values decrypted that are not known yet, each once.
    pub(super) async fn prepare(&self, stored: impl Iterator<Item = &[u8]> + Send) {
        let mut missing = HashMap::new();
        for object in stored.filter_map(|stored| decode(stored).ok()) {
            let name = fingerprint(&object);
            if lock(&self.shared.keys).contains_key(&name) {
                continue;
            }
            missing.entry(name).or_insert_with(|| keyless(object));
        }
        for object in missing.into_values() {
            // The decryption itself tells what went wrong.
            let _ = self.thread.ask(self.shared.clone().fetching(object)).await;
        }
    }

    /// Decrypts a stored value. Waits for the plugin if the value's data key is not known.
    pub(super) fn decrypt(&self, path: &str, stored: &[u8]) -> Result<Vec<u8>, KmsError> {
        let object = decode(stored)?;
        if let Some(key) = self.shared.known(&object) {
            return self.shared.open(&key, path, &object);
        }
        if let Some(error) = self.shared.recent_failure(&object) {
            return Err(error);
        }
        let key = self.thread.ask_blocking(self.shared.clone().fetching(keyless(object.clone())))?;
        self.shared.open(&key, path, &object)
    }
}

fn decode(stored: &[u8]) -> Result<EncryptedObject, ObjectError> {
    let object = EncryptedObject::decode(stored).map_err(ObjectError::Decode)?;
    check(&object)?;
    if object.data.is_empty() {
        return Err(ObjectError::NoData);
    }
    Ok(object)
}

/// The object without the value's data, which a plugin never sees.
fn keyless(object: EncryptedObject) -> EncryptedObject {
    EncryptedObject { data: Vec::new(), ..object }
}

fn check(object: &EncryptedObject) -> Result<(), ObjectError> {
    if ![TYPE_KEY, TYPE_SEED].contains(&object.source_type) {
        return Err(ObjectError::SourceType(object.source_type));
    }
    if object.source.is_empty() || object.source.len() > MOST_SOURCE {
        return Err(ObjectError::Source(object.source.len()));
    }
    check_key_id(&object.key_id)?;
    let annotations: usize = object.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
    if annotations > MOST_ANNOTATIONS {
        return Err(ObjectError::Annotations(annotations));
    }
    Ok(())
}

fn check_key_id(key_id: &str) -> Result<(), ObjectError> {
    if key_id.is_empty() || key_id.len() > MOST_KEY_ID {
        return Err(ObjectError::KeyId(key_id.len()));
    }
    Ok(())
}

impl Shared {
    fn known(&self, object: &EncryptedObject) -> Option<Arc<Kept>> {
        lock(&self.keys).get(&fingerprint(object)).cloned()
    }

    /// Decrypts a value. A data key that does not fit, and never did, is asked for again next time.
    fn open(&self, kept: &Kept, path: &str, object: &EncryptedObject) -> Result<Vec<u8>, KmsError> {
        let opened = kept.decrypt(path, &object.data);
        if opened.is_err() && !kept.fits() {
            lock(&self.keys).remove(&fingerprint(object));
        }
        opened
    }

    fn recent_failure(&self, object: &EncryptedObject) -> Option<KmsError> {
        let failures = lock(&self.failures);
        failures.get(&fingerprint(object)).filter(|(at, _)| at.elapsed() < FAILED_FOR).map(|(_, error)| error.clone())
    }

    fn note_failure(&self, object: &EncryptedObject, error: &KmsError) {
        let mut failures = lock(&self.failures);
        if failures.len() >= MOST_KEYS {
            failures.clear();
        }
        failures.insert(fingerprint(object), (Instant::now(), error.clone()));
    }

    fn keep(&self, object: &EncryptedObject, key: Arc<Kept>) {
        let mut keys = lock(&self.keys);
        if keys.len() >= MOST_KEYS {
            keys.clear();
        }
        keys.insert(fingerprint(object), key);
    }
}

/// Names a data key by all that its decryption depends on.
fn fingerprint(object: &EncryptedObject) -> Vec<u8> {
    let named = EncryptedObject { data: Vec::new(), ..object.clone() };
    digest::digest(&digest::SHA256, &named.encode_to_vec()).as_ref().to_vec()
}

impl Shared {
    /// Asks for the status, and makes a new seed when the plugin's key has changed.
    async fn poll(&self, connection: &Connection) -> Result<(), KmsError> {
        let status: StatusResponse = connection.call(SERVICE, "Status", StatusRequest {}).await?;
        if !["v2", "v2beta1"].contains(&&*status.version) {
            return Err(KmsError::Version(status.version));
        }
        if status.healthz != "ok" {
            return Err(KmsError::Healthz(status.healthz));
        }
        check_key_id(&status.key_id)?;
        let until = Instant::now() + WRITE_FOR;
        let current = lock(&self.current).clone();
        if let Some(current) = current.filter(|current| current.object.key_id == status.key_id) {
            let next = Current { seed: current.seed.clone(), object: current.object.clone(), until };
            *lock(&self.current) = Some(Arc::new(next));
            return Ok(());
        }
        let made = self.make(connection, until).await;
        if made.is_err() {
            DATA_KEY_FAILURES.add();
        }
        made
    }

    /// Makes a new seed, which is used to write until then.
    async fn make(&self, connection: &Connection, until: Instant) -> Result<(), KmsError> {
        let begun = Instant::now();
        let seed: [u8; SEED] = random()?;
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uid()? };
        let made: EncryptResponse = connection.call(SERVICE, "Encrypt", request).await?;
        let object = EncryptedObject {
            data: Vec::new(),
            key_id: made.key_id,
            source: made.ciphertext,
            annotations: made.annotations,
            source_type: TYPE_SEED,
        };
        check(&object)?;
        self.keep(&object, Kept::own(DataKey::new(seed.to_vec(), TYPE_SEED)?));
        *lock(&self.current) = Some(Arc::new(Current { seed: seed.to_vec(), object, until }));
        DATA_KEYS.note(begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// The work that gets a data key which is not known.
    fn fetching(
        self: Arc<Self>,
        object: EncryptedObject,
    ) -> impl FnOnce(Connection) -> BoxFuture<'static, Result<Arc<Kept>, KmsError>> + Send {
        move |connection| {
            Box::pin(async move {
                DATA_KEY_MISSES.add();
                let result = self.fetch(&connection, &object).await;
                if let Err(error) = &result {
                    self.note_failure(&object, error);
                }
                result
            })
        }
    }

    async fn fetch(&self, connection: &Connection, object: &EncryptedObject) -> Result<Arc<Kept>, KmsError> {
        if let Some(key) = self.known(object) {
            return Ok(key);
        }
        let request = DecryptRequest {
            ciphertext: object.source.clone(),
            uid: uid()?,
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let answer: Result<DecryptResponse, KmsError> = connection.call(SERVICE, "Decrypt", request).await;
        let bytes = answer.map_err(|error| KmsError::DataKey(Box::new(error)))?.plaintext;
        let key = Kept::told(DataKey::new(bytes, object.source_type)?);
        self.keep(object, key.clone());
        Ok(key)
    }
}

/// Names a request in the plugin's logs.
fn uid() -> Result<String, CipherError> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
