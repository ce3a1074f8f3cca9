//! `--service-account-signing-endpoint`: a process beside this server signs its tokens and says by which keys they are
//! checked, over gRPC on a unix socket (KEP-740).

use std::{
    sync::Arc,
    time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use auth::{
    flight::{Budget, Flight},
    jwt::{Token, VerifyingKey},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use machinery::{Value, codec::json, meta::go_text::quote};
use prost::Message;
use tokio::{net::UnixStream, time::Instant};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use super::{
    external_metrics::ExternalMetrics,
    jwt::{NO_KEYS, NOT_SIGNED},
};

/// How long the signer may take until it gives its keys, when the server starts and later.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to say what it can, and to sign.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long after a failure keys are asked for again, and how often a signer is looked for that is not there yet.
const RETRY_SYNC: Duration = Duration::from_secs(10);
const RETRY_CONNECT: Duration = Duration::from_millis(200);
/// The longest name of a key, and the shortest validity that a signer must bear, in seconds.
const MAX_KEY_ID: usize = 1024;
const MIN_EXPIRATION: i64 = 600;
const SERVICE: &str = "/v1.ExternalJWTSigner";

#[derive(Clone, PartialEq, Message)]
struct SignRequest {
    #[prost(string, tag = "1")]
    claims: String,
}

#[derive(Clone, PartialEq, Message)]
struct SignResponse {
    #[prost(string, tag = "1")]
    header: String,
    #[prost(string, tag = "2")]
    signature: String,
}

#[derive(Clone, PartialEq, Message)]
struct FetchKeysRequest {}

#[derive(Clone, PartialEq, Message)]
struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<KeyMessage>,
    #[prost(message, optional, tag = "2")]
    data_timestamp: Option<TimeMessage>,
    #[prost(int64, tag = "3")]
    refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct KeyMessage {
    #[prost(string, tag = "1")]
    key_id: String,
    /// A SubjectPublicKeyInfo.
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bool, tag = "3")]
    exclude_from_oidc_discovery: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct TimeMessage {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct MetadataRequest {}

#[derive(Clone, PartialEq, Message)]
struct MetadataResponse {
    #[prost(int64, tag = "1")]
    max_token_expiration_seconds: i64,
}

/// The signer's keys, as it gave them last.
pub(super) struct ExternalKeys {
    /// Each key, and whether it is kept from those who ask for keys.
    pub(super) keys: Vec<(VerifyingKey, bool)>,
    /// When they are to be asked for again.
    pub(super) refresh_at: Instant,
}

/// Why an external signer cannot be used. Shown, it is what upstream says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// It has given no keys, or none that can be used; why.
    #[error(
        "while setting up external-jwt-signer: while initially filling key cache: while performing initial cache fill: while \
         fetching token verification keys: {0}"
    )]
    Keys(String),
    /// It does not say what it can do; what the call came to.
    #[error("while setting up external-jwt-signer: {0}")]
    Metadata(String),
    /// Its tokens are good for too short a time, in seconds.
    #[error("max token life supported by external-jwt-signer ({0}s) is less than acceptable (min {MIN_EXPIRATION}s)")]
    Expiration(i64),
}

/// An external signer.
pub struct ExternalSigner {
    channel: Channel,
    keys: ArcSwap<ExternalKeys>,
    flight: Flight<Result<(), String>>,
    budget: Budget,
    metrics: ExternalMetrics,
    max_expiration: i64,
}

impl ExternalSigner {
    /// The signer at a socket (`/path`, or `@name` for an abstract one), as soon as it has given its keys.
    ///
    /// # Errors
    /// It is not there in time, or says what it must not.
    pub async fn connect(socket: &str, registry: &prometheus::Registry) -> Result<Arc<Self>, SignerError> {
        let metrics = ExternalMetrics::new(registry);
        let channel = channel(socket);
        let fill = async {
            loop {
                match fetch(&channel, &metrics).await {
                    // As a call that waits until the signer is there.
                    Err((_, Some(Code::Unavailable))) => tokio::time::sleep(RETRY_CONNECT).await,
                    other => return other.map_err(|(why, _)| why),
                }
            }
        };
        let keys = tokio::time::timeout(SYNC_TIMEOUT, fill).await.unwrap_or_else(|_| {
            Err("while getting externally supported jwt signing keys: rpc error: code = DeadlineExceeded desc = context \
                 deadline exceeded"
                .to_owned())
        });
        let keys = keys.map_err(SignerError::Keys)?;
        let metadata = MetadataRequest {};
        let metadata: Result<MetadataResponse, _> = call(&channel, "Metadata", metadata, CALL_TIMEOUT, &metrics).await;
        let metadata = metadata.map_err(|status| SignerError::Metadata(rpc_error(&status)))?;
        let max_expiration = metadata.max_token_expiration_seconds;
        if max_expiration < MIN_EXPIRATION {
            return Err(SignerError::Expiration(max_expiration));
        }
        let signer = Arc::new(ExternalSigner {
            channel,
            keys: ArcSwap::from_pointee(keys),
            flight: Flight::default(),
            budget: Budget::default(),
            metrics,
            max_expiration,
        });
        tokio::spawn(refresh(Arc::downgrade(&signer)));
        Ok(signer)
    }

    /// The longest validity of a token that it signs, in seconds.
    pub fn max_expiration(&self) -> i64 {
        self.max_expiration
    }

    pub(super) fn current(&self) -> Arc<ExternalKeys> {
        self.keys.load_full()
    }

    /// Checks that one of its keys signed a token. A key that is not known is asked for.
    pub(super) async fn check_signature(self: &Arc<Self>, token: &Token<'_>) -> Result<(), &'static str> {
        let keys = self.keys_of(token.key_id()).await;
        if keys.of(token.key_id()).next().is_none() {
            return Err(NO_KEYS);
        }
        let signed = keys.of(token.key_id()).any(|(key, _)| token.is_signed_by(key));
        if signed { Ok(()) } else { Err(NOT_SIGNED) }
    }

    /// The keys of now, after a look for one that is not known.
    async fn keys_of(self: &Arc<Self>, id: &str) -> Arc<ExternalKeys> {
        let current = self.current();
        if current.of(id).next().is_some() {
            return current;
        }
        if let Err(error) = self.sync().await {
            tracing::error!(error, "cannot ask the external signer for its keys");
        }
        self.current()
    }

    async fn sync(self: &Arc<Self>) -> Result<(), String> {
        let begin = || {
            if !self.budget.take() {
                return Err("it was asked too often".to_owned());
            }
            let signer = self.clone();
            Ok(async move {
                let fetched = tokio::time::timeout(SYNC_TIMEOUT, fetch(&signer.channel, &signer.metrics)).await;
                let fetched = fetched.map_err(|_| "context deadline exceeded".to_owned())?;
                signer.keys.store(Arc::new(fetched.map_err(|(why, _)| why)?));
                Ok(())
            })
        };
        self.flight.join(begin).await?.unwrap_or_else(|| Err("the call was given up".to_owned()))
    }

    /// A token with these claims.
    pub(super) async fn sign(self: &Arc<Self>, claims: &Value) -> Result<String, String> {
        let payload = BASE64.encode(json::encode(claims));
        let request = SignRequest { claims: payload.clone() };
        let signed: Result<SignResponse, Status> =
            call(&self.channel, "Sign", request, CALL_TIMEOUT, &self.metrics).await;
        self.metrics.signed(signed.as_ref().map_or_else(Status::code, |_| Code::Ok));
        let signed = signed.map_err(|status| format!("while signing jwt: {}", rpc_error(&status)))?;
        self.check_header(&signed.header).await.map_err(|why| format!("while validating header: {why}"))?;
        if signed.signature.is_empty() {
            return Err("empty signature returned".to_owned());
        }
        Ok(format!("{}.{payload}.{}", signed.header, signed.signature))
    }

    /// A header says what signed, and nothing else.
    async fn check_header(self: &Arc<Self>, header: &str) -> Result<(), String> {
        let id = read_header(header)?;
        let keys = self.keys_of(&id).await;
        if keys.of(&id).any(|(_, excluded)| *excluded) {
            return Err(format!("key used for signing JWT (kid: {id}) is excluded from OIDC discovery docs"));
        }
        Ok(())
    }
}

/// The key that a header names.
fn read_header(header: &str) -> Result<String, String> {
    let bytes = BASE64.decode(header).map_err(|why| format!("while unwrapping header: {why}"))?;
    let header = json::decode(&bytes).map_err(|why| format!("while parsing header JSON: {why}"))?;
    let members = header.as_object().ok_or("while parsing header JSON: it is no object")?;
    if let Some(unknown) = members.keys().find(|name| !matches!(name.as_str(), "alg" | "kid" | "typ")) {
        return Err(format!("while parsing header JSON: json: unknown field {}", quote(unknown)));
    }
    let text = |name: &str| header.str_at(&[name]).unwrap_or_default();
    if text("typ") != "JWT" {
        return Err("bad type".to_owned());
    }
    match text("kid").len() {
        0 => return Err("key id missing".to_owned()),
        1..=MAX_KEY_ID => {}
        _ => return Err("key id longer than 1 kb".to_owned()),
    }
    match text("alg") {
        "RS256" | "ES256" | "ES384" | "ES512" => Ok(text("kid").to_owned()),
        other => Err(format!("bad signing algorithm {}", quote(other))),
    }
}

impl ExternalKeys {
    /// The key of a name, or all of them.
    fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a (VerifyingKey, bool)> {
        self.keys.iter().filter(move |(key, _)| id.is_empty() || key.id == id)
    }
}

/// Asks for keys again when the signer has said that it is time, as long as somebody has it.
async fn refresh(signer: std::sync::Weak<ExternalSigner>) {
    let Some(mut next) = signer.upgrade().map(|signer| signer.current().refresh_at) else { return };
    loop {
        tokio::time::sleep_until(next).await;
        let Some(signer) = signer.upgrade() else { return };
        next = match signer.sync().await {
            Ok(()) => signer.current().refresh_at,
            Err(error) => {
                tracing::error!(error, "cannot ask the external signer for its keys, the old ones stay");
                Instant::now() + RETRY_SYNC
            }
        };
    }
}

fn channel(socket: &str) -> Channel {
    let path = socket.strip_prefix('@').map_or_else(|| socket.to_owned(), |name| format!("\0{name}"));
    // The connector ignores the address; a signer that is not there yet is tried at each call.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }))
}

async fn fetch(channel: &Channel, metrics: &ExternalMetrics) -> Result<ExternalKeys, (String, Option<Code>)> {
    let answer: Result<FetchKeysResponse, Status> =
        call(channel, "FetchKeys", FetchKeysRequest {}, SYNC_TIMEOUT, metrics).await;
    let keys = match answer {
        Ok(answer) => {
            let data_time = answer.data_timestamp;
            read_keys(answer).map(|keys| (keys, data_time)).map_err(|why| (why, None))
        }
        Err(status) => {
            let why = format!("while getting externally supported jwt signing keys: {}", rpc_error(&status));
            Err((why, Some(status.code())))
        }
    };
    metrics.fetched(keys.as_ref().map(|_| ()).map_err(|(_, code)| *code));
    let (keys, data_time) = keys?;
    if let Some(at) = data_time {
        metrics.data_of(at.seconds as f64 + f64::from(at.nanos) / 1e9);
    }
    Ok(keys)
}

fn read_keys(answer: FetchKeysResponse) -> Result<ExternalKeys, String> {
    let hint = answer.refresh_hint_seconds;
    let hint = u64::try_from(hint).ok().filter(|hint| *hint > 0);
    let hint = hint.ok_or_else(|| format!("found invalid refresh hint ({}s)", answer.refresh_hint_seconds))?;
    if answer.keys.is_empty() {
        return Err("found no keys".to_owned());
    }
    if answer.data_timestamp.is_none_or(|at| !(0..1_000_000_000).contains(&at.nanos)) {
        return Err("invalid data timestamp: it is nil, or no time".to_owned());
    }
    let mut keys = Vec::with_capacity(answer.keys.len());
    for key in answer.keys {
        if key.key_id.is_empty() || key.key_id.len() > MAX_KEY_ID {
            return Err(format!("found invalid public key id {}", quote(&key.key_id)));
        }
        if key.key.is_empty() {
            return Err("found empty public key".to_owned());
        }
        let parsed = VerifyingKey::of_spki(key.key_id.as_str().into(), &key.key);
        let parsed = parsed.map_err(|why| format!("while parsing external public keys: {why}"))?;
        keys.push((parsed, key.exclude_from_oidc_discovery));
    }
    // A year is as good as never.
    let refresh_at = Instant::now() + Duration::from_secs(hint.min(365 * 24 * 3600));
    Ok(ExternalKeys { keys, refresh_at })
}

/// Calls the signer.
async fn call<Q, A>(
    channel: &Channel,
    method: &'static str,
    request: Q,
    timeout: Duration,
    metrics: &ExternalMetrics,
) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let path = format!("{SERVICE}/{method}");
    let started = StdInstant::now();
    let answer = async {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec: tonic_prost::ProstCodec<Q, A> = tonic_prost::ProstCodec::default();
        let uri: PathAndQuery = path.parse().map_err(|_| Status::internal("the method has no path"))?;
        client.unary(tonic::Request::new(request), uri, codec).await.map(tonic::Response::into_inner)
    };
    let answer = tokio::time::timeout(timeout, answer).await;
    let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("context deadline exceeded")));
    let code = answer.as_ref().map_or_else(Status::code, |_| Code::Ok);
    metrics.called(&path, code, started.elapsed());
    answer
}

/// A failure as Go's gRPC library prints it.
fn rpc_error(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}

#[cfg(test)]
mod tests;
