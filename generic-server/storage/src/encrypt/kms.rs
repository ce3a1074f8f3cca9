//! KMS v2 plugins: data keys that a plugin encrypts, over gRPC on a unix socket.
//!
//! Values are encrypted with keys that are derived from a seed; the plugin sees the seed alone, once when it is made and
//! once when a server that does not know it reads a value. All calls are made by a thread with a runtime of its own, so
//! that a sink, which must not wait for the runtime it runs on, can have a seed decrypted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use aws_lc_rs::digest;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::{net::UnixStream, sync::oneshot};
use tonic::transport::{Channel, Endpoint};

use super::{
    data_key::{DataKey, Kept, SEED, TYPE_KEY, TYPE_SEED, derive},
    error::{CipherError, EncryptionFault, KmsError, ObjectError, UnwellPlugin},
    keys::random,
};
use crate::tally::{DATA_KEY_FAILURES, DATA_KEY_MISSES, DATA_KEYS};

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
pub(super) struct Kms {
    pub(super) name: String,
    endpoint: String,
    timeout: Duration,
    shared: Arc<Shared>,
    calls: tokio::sync::mpsc::UnboundedSender<Call>,
}

struct Shared {
    current: Mutex<Option<Arc<Current>>>,
    health: Mutex<Result<(), KmsError>>,
    keys: Mutex<HashMap<Vec<u8>, Arc<Kept>>>,
    /// Keys that could not be decrypted lately, when and why not: thousands of values may have the same one.
    failures: Mutex<HashMap<Vec<u8>, (Instant, KmsError)>>,
}

/// A data key to be decrypted, and whom to tell.
struct Call {
    object: EncryptedObject,
    tell: Box<dyn FnOnce(Result<Arc<Kept>, KmsError>) + Send>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kms {
    /// Starts to talk to the plugin at a socket (`unix:///path`, or `unix:///@name` for an abstract one).
    pub(super) fn start(name: &str, endpoint: &str, timeout: Duration) -> Result<Arc<Kms>, EncryptionFault> {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        let path =
            path.strip_prefix("/@").or(path.strip_prefix('@')).map_or(path.to_owned(), |name| format!("\0{name}"));
        let shared = Arc::new(Shared {
            current: Mutex::default(),
            health: Mutex::new(Err(KmsError::NotAsked)),
            keys: Mutex::default(),
            failures: Mutex::default(),
        });
        let (calls, called) = tokio::sync::mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| EncryptionFault::Client { what: "runtime", error })?;
        let worker = Worker { path, timeout, shared: shared.clone(), provider: name.to_owned() };
        let thread = std::thread::Builder::new().name("storage-kms".into());
        let started = thread.spawn(move || runtime.block_on(worker.run(called)));
        started.map_err(|error| EncryptionFault::Client { what: "thread", error })?;
        Ok(Arc::new(Kms { name: name.into(), endpoint: endpoint.into(), timeout, shared, calls }))
    }

    /// Whether it is this plugin, reached in this way.
    pub(super) fn is(&self, name: &str, endpoint: &str, timeout: Duration) -> bool {
        self.name == name && self.endpoint == endpoint && self.timeout == timeout
    }

    /// Whether the plugin is well; why not.
    pub(super) fn health(&self) -> Result<(), KmsError> {
        lock(&self.shared.health).clone()
    }

    /// Why it is not well, if it is not.
    pub(super) fn unwell(&self) -> Option<UnwellPlugin> {
        self.health().err().map(|error| UnwellPlugin { name: self.name.clone(), error })
    }

    /// Appends the encrypted value to `out`.
    pub(super) fn encrypt(&self, path: &str, value: &[u8], out: &mut Vec<u8>) -> Result<(), KmsError> {
        let current = lock(&self.shared.current).clone();
        let current = current.ok_or_else(|| {
            let error = self.health().err().unwrap_or(KmsError::NotAsked);
            KmsError::NeverWell(Box::new(UnwellPlugin { name: self.name.clone(), error }))
        })?;
        if current.until < Instant::now() {
            return Err(KmsError::Expired(self.name.clone()));
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
            let (tell, told) = oneshot::channel();
            let call = Call { object, tell: Box::new(move |result| drop(tell.send(result))) };
            if self.calls.send(call).is_ok() {
                // The decryption itself tells what went wrong.
                let _ = told.await;
            }
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
        let (tell, told) = mpsc::sync_channel(1);
        let call = Call { object: keyless(object.clone()), tell: Box::new(move |result| drop(tell.send(result))) };
        self.calls.send(call).map_err(|_| KmsError::ThreadEnded)?;
        let patience = self.timeout + Duration::from_secs(1);
        let key = told.recv_timeout(patience).map_err(|_| KmsError::NoAnswer)??;
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

struct Worker {
    path: String,
    timeout: Duration,
    shared: Arc<Shared>,
    provider: String,
}

impl Worker {
    async fn run(self, mut called: tokio::sync::mpsc::UnboundedReceiver<Call>) {
        let path = self.path.clone();
        // The connector ignores the address; a plugin that is not there yet is tried at each call.
        let channel =
            Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
                let path = path.clone();
                async move { UnixStream::connect(path).await.map(TokioIo::new) }
            }));
        let mut poll_at = tokio::time::Instant::now();
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(poll_at) => {
                    let result = self.poll(&channel).await;
                    if let Err(error) = &result {
                        tracing::warn!(provider = self.provider, %error, "the KMS provider is not well");
                    }
                    poll_at = tokio::time::Instant::now() + if result.is_ok() { POLL } else { POLL_FAILED };
                    *lock(&self.shared.health) = result;
                }
                call = called.recv() => {
                    let Some(Call { object, tell }) = call else { return };
                    DATA_KEY_MISSES.add();
                    let (shared, channel, timeout) = (self.shared.clone(), channel.clone(), self.timeout);
                    tokio::spawn(async move {
                        let result = data_key(&shared, &channel, timeout, &object).await;
                        if let Err(error) = &result {
                            shared.note_failure(&object, error);
                        }
                        tell(result);
                    });
                }
            }
        }
    }

    /// Asks for the status, and makes a new seed when the plugin's key has changed.
    async fn poll(&self, channel: &Channel) -> Result<(), KmsError> {
        let status: StatusResponse = call(channel, self.timeout, "Status", StatusRequest {}).await?;
        if !["v2", "v2beta1"].contains(&&*status.version) {
            return Err(KmsError::Version(status.version));
        }
        if status.healthz != "ok" {
            return Err(KmsError::Healthz(status.healthz));
        }
        check_key_id(&status.key_id)?;
        let until = Instant::now() + WRITE_FOR;
        let current = lock(&self.shared.current).clone();
        if let Some(current) = current.filter(|current| current.object.key_id == status.key_id) {
            let next = Current { seed: current.seed.clone(), object: current.object.clone(), until };
            *lock(&self.shared.current) = Some(Arc::new(next));
            return Ok(());
        }
        let made = self.make(channel, until).await;
        if made.is_err() {
            DATA_KEY_FAILURES.add();
        }
        made
    }

    /// Makes a new seed, which is used to write until then.
    async fn make(&self, channel: &Channel, until: Instant) -> Result<(), KmsError> {
        let begun = Instant::now();
        let seed: [u8; SEED] = random()?;
        let request = EncryptRequest { plaintext: seed.to_vec(), uid: uid()? };
        let made: EncryptResponse = call(channel, self.timeout, "Encrypt", request).await?;
        let object = EncryptedObject {
            data: Vec::new(),
            key_id: made.key_id,
            source: made.ciphertext,
            annotations: made.annotations,
            source_type: TYPE_SEED,
        };
        check(&object)?;
        self.shared.keep(&object, Kept::own(DataKey::new(seed.to_vec(), TYPE_SEED)?));
        *lock(&self.shared.current) = Some(Arc::new(Current { seed: seed.to_vec(), object, until }));
        DATA_KEYS.note(begun.elapsed().as_secs_f64());
        Ok(())
    }
}

async fn data_key(
    shared: &Shared,
    channel: &Channel,
    timeout: Duration,
    object: &EncryptedObject,
) -> Result<Arc<Kept>, KmsError> {
    if let Some(key) = shared.known(object) {
        return Ok(key);
    }
    let request = DecryptRequest {
        ciphertext: object.source.clone(),
        uid: uid()?,
        key_id: object.key_id.clone(),
        annotations: object.annotations.clone(),
    };
    let answer: Result<DecryptResponse, KmsError> = call(channel, timeout, "Decrypt", request).await;
    let bytes = answer.map_err(|error| KmsError::DataKey(Box::new(error)))?.plaintext;
    let key = Kept::told(DataKey::new(bytes, object.source_type)?);
    shared.keep(object, key.clone());
    Ok(key)
}

async fn call<Q, A>(channel: &Channel, timeout: Duration, method: &'static str, request: Q) -> Result<A, KmsError>
where
    Q: Message + Default + Clone + 'static,
    A: Message + Default + 'static,
{
    let path = format!("/v2.KeyManagementService/{method}");
    let path = PathAndQuery::try_from(path).map_err(|error| KmsError::Call(error.to_string()))?;
    let answer = async {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.map_err(|error| KmsError::Call(error.to_string()))?;
        let codec: tonic_prost::ProstCodec<Q, A> = tonic_prost::ProstCodec::default();
        let answer = client.unary(tonic::Request::new(request), path, codec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| KmsError::Call(status.message().to_owned()))
    };
    let answer = tokio::time::timeout(timeout, answer).await;
    answer.unwrap_or(Err(KmsError::Timeout { method, timeout }))
}

/// Names a request in the plugin's logs.
fn uid() -> Result<String, CipherError> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
