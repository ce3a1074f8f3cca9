//! The keys of an identity provider: fetched ahead, when a token names one that is not known, and never more often than the
//! provider bears. Tokens of known keys wait for nobody.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use machinery::codec::json;
use outbound::HttpsClient;
use tokio::time::Instant;

use super::metrics::IssuerMetrics;
use crate::{
    flight::{Budget, Flight},
    jwt::{Token, VerifyingKey, keys_of_set},
};

/// The largest document that is read of a provider, in bytes.
pub(super) const MAX_DOCUMENT: usize = 1 << 20;
/// How long a provider may take for one.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Keys that are good for no longer than this are as good as stale.
const EXPIRY_DELTA: Duration = Duration::from_secs(30);

/// Keys, and until when the provider says that they are all.
struct KeySet {
    keys: Vec<VerifyingKey>,
    fresh_until: Instant,
}

/// The keys behind a URL.
pub(super) struct RemoteKeys {
    url: String,
    client: HttpsClient,
    metrics: IssuerMetrics,
    cached: ArcSwap<KeySet>,
    flight: Flight<Result<Arc<KeySet>, String>>,
    budget: Budget,
}

impl RemoteKeys {
    pub(super) fn new(url: String, client: HttpsClient, metrics: IssuerMetrics) -> Arc<Self> {
        Arc::new(RemoteKeys {
            url,
            client,
            metrics,
            cached: ArcSwap::from_pointee(KeySet { keys: Vec::new(), fresh_until: Instant::now() }),
            flight: Flight::default(),
            budget: Budget::default(),
        })
    }

    /// Whether one of the keys signed the token.
    ///
    /// # Errors
    /// None did, or the keys cannot be had.
    pub(super) async fn verify(self: &Arc<Self>, token: &Token<'_>) -> Result<(), String> {
        const FAILED: &str = "failed to verify id token signature";
        let cached = self.cached.load_full();
        if cached.has_signed(token) {
            return Ok(());
        }
        let unknown = !cached.keys.iter().any(|key| key.id == token.key_id());
        if !unknown && cached.fresh_until > Instant::now() + EXPIRY_DELTA {
            return Err(FAILED.to_owned());
        }
        let keys = self.fetch().await.map_err(|why| format!("fetching keys {why}"))?;
        if keys.has_signed(token) { Ok(()) } else { Err(FAILED.to_owned()) }
    }

    /// Fetches the keys before somebody asks for them.
    pub(super) async fn prefetch(self: &Arc<Self>) -> Result<(), String> {
        self.fetch().await.map(|_| ())
    }

    /// The provider's keys of now. Who asks while a fetch is under way gets what that brings.
    async fn fetch(self: &Arc<Self>) -> Result<Arc<KeySet>, String> {
        let begin = || {
            if !self.budget.take() {
                return Err("oidc: keys were fetched too often, try again later".to_owned());
            }
            let keys = self.clone();
            Ok(async move { keys.get().await.inspect(|found| keys.cached.store(found.clone())) })
        };
        self.flight.join(begin).await?.unwrap_or_else(|| Err("the fetch was given up".to_owned()))
    }

    async fn get(&self) -> Result<Arc<KeySet>, String> {
        let call = outbound::Call { timeout: TIMEOUT, limit: MAX_DOCUMENT };
        let found = outbound::get(&self.client, &self.url, None, call).await;
        let found = found.inspect_err(|_| self.metrics.keys_failed());
        let document = found.map_err(|why| format!("oidc: get keys failed {why}"))?;
        if document.status != 200 {
            self.metrics.keys_failed();
            return Err(format!("oidc: get keys failed: {}", document.said()));
        }
        let keys = json::decode(&document.body)
            .map_err(|e| e.to_string())
            .and_then(|set| keys_of_set(&set).map_err(|e| e.to_string()));
        let keys = keys.inspect_err(|_| self.metrics.keys_failed());
        let keys = keys.map_err(|why| format!("oidc: failed to decode keys: {why}"))?;
        self.metrics.keys_fetched(&document.body);
        let fresh_until = Instant::now() + document.max_age.unwrap_or_default();
        Ok(Arc::new(KeySet { keys, fresh_until }))
    }
}

impl KeySet {
    fn has_signed(&self, token: &Token<'_>) -> bool {
        let id = token.key_id();
        self.keys.iter().filter(|key| id.is_empty() || key.id == id).any(|key| token.is_signed_by(key))
    }
}
