//! An identity provider, which describes itself (OpenID Connect Discovery 1.0): it is asked until it answers, and beside the
//! requests.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use machinery::{Str, codec::json, meta::go_text};
use outbound::HttpsClient;
use tokio_util::sync::CancellationToken;

use super::{
    keys::{MAX_DOCUMENT, RemoteKeys, TIMEOUT},
    metrics::IssuerMetrics,
};

/// How long after a failure a provider is asked again.
const RETRY_EVERY: Duration = Duration::from_secs(10);

/// A provider.
pub(super) struct Provider {
    issuer: Str,
    /// Where it describes itself.
    discovery_url: String,
    client: HttpsClient,
    metrics: IssuerMetrics,
    keys: OnceLock<Arc<RemoteKeys>>,
    /// Why there are no keys.
    trouble: Mutex<String>,
}

/// A provider that has not told its keys yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("oidc: authenticator for issuer {} is not healthy: {why}", go_text::quote(issuer))]
pub struct UnhealthyIssuer {
    /// The provider's URL.
    pub issuer: Str,
    /// What came of asking it.
    pub why: String,
}

impl Provider {
    /// A provider that is asked from now on, until it has answered or `cancel` comes.
    pub(super) fn start(
        issuer: Str,
        discovery_url: Str,
        client: HttpsClient,
        metrics: IssuerMetrics,
        cancel: &CancellationToken,
    ) -> Arc<Self> {
        let discovery_url = match discovery_url.as_str() {
            "" => format!("{}/.well-known/openid-configuration", issuer.strip_suffix('/').unwrap_or(&issuer)),
            url => url.to_owned(),
        };
        let trouble =
            Mutex::new(format!("oidc: authenticator for issuer {} is not initialized", go_text::quote(&issuer)));
        let provider = Arc::new(Provider { issuer, discovery_url, client, metrics, keys: OnceLock::new(), trouble });
        tokio::spawn({
            let (provider, cancel) = (provider.clone(), cancel.clone());
            async move { cancel.run_until_cancelled(provider.find()).await }
        });
        provider
    }

    /// Its keys, as soon as it is known where they are.
    pub(super) fn keys(&self) -> Option<&Arc<RemoteKeys>> {
        self.keys.get()
    }

    /// Whether tokens can be judged.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn health(&self) -> Result<(), UnhealthyIssuer> {
        if self.keys.get().is_some() {
            return Ok(());
        }
        let why = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(UnhealthyIssuer { issuer: self.issuer.clone(), why })
    }

    async fn find(self: Arc<Self>) {
        loop {
            match self.discover().await {
                Ok(url) => {
                    let keys = RemoteKeys::new(url, self.client.clone(), self.metrics.clone());
                    let keys = self.keys.get_or_init(|| keys);
                    if let Err(error) = keys.prefetch().await {
                        tracing::warn!(
                            issuer = self.issuer.as_str(),
                            error,
                            "cannot fetch an identity provider's keys"
                        );
                    }
                    return;
                }
                Err(error) => {
                    tracing::error!(issuer = self.issuer.as_str(), error, "cannot ask an identity provider");
                    *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = error;
                }
            }
            tokio::time::sleep(RETRY_EVERY).await;
        }
    }

    /// Where the keys are.
    async fn discover(&self) -> Result<String, String> {
        let call = outbound::Call { timeout: TIMEOUT, limit: MAX_DOCUMENT };
        let found =
            outbound::get(&self.client, &self.discovery_url, None, call).await.map_err(|why| why.to_string())?;
        if found.status != 200 {
            return Err(found.said());
        }
        let document = json::decode(&found.body)
            .map_err(|why| format!("oidc: failed to decode provider discovery object: {why}"))?;
        let text = |name: &str| document.str_at(&[name]).unwrap_or_default();
        if text("issuer") != self.issuer {
            let (expected, got) = (go_text::quote(&self.issuer), go_text::quote(text("issuer")));
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {expected} got {got}"
            ));
        }
        match text("jwks_uri") {
            "" => Err("provider did not return JWKS URL".to_owned()),
            url => Ok(url.to_owned()),
        }
    }
}
