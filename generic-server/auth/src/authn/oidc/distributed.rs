//! Distributed claims (OpenID Connect Core 1.0, 5.6.2): a token that does not hold the groups says where they are.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use machinery::{Map, Str, Value, meta::go_text};
use outbound::HttpsClient;
use tokio_util::sync::CancellationToken;

use super::{
    Verification,
    keys::{MAX_DOCUMENT, TIMEOUT},
    metrics::IssuerMetrics,
    provider::Provider,
};
use crate::jwt;

/// So many issuers of distributed claims are known at once.
const MAX_ISSUERS: usize = 16;

/// Finds a claim that is elsewhere.
pub(super) struct DistributedClaims {
    claim: Str,
    client: HttpsClient,
    verification: Arc<Verification>,
    metrics: IssuerMetrics,
    cancel: CancellationToken,
    /// Those who have issued such claims.
    providers: Mutex<HashMap<Str, Arc<Provider>>>,
}

impl DistributedClaims {
    pub(super) fn new(
        claim: Str,
        client: HttpsClient,
        verification: Arc<Verification>,
        metrics: IssuerMetrics,
        cancel: CancellationToken,
    ) -> Self {
        DistributedClaims { claim, client, verification, metrics, cancel, providers: Mutex::default() }
    }

    /// Adds the claim to verified claims, if they say where it is.
    ///
    /// # Errors
    /// It is not to be had there.
    pub(super) async fn expand(&self, claims: &mut Map) -> Result<(), String> {
        let Some((url, token)) = self.endpoint(claims)? else { return Ok(()) };
        let value = self.resolve(&url, token.as_deref()).await?;
        claims.insert(self.claim.clone(), value);
        Ok(())
    }

    /// The endpoint that has the claim, and the token that it wants.
    fn endpoint(&self, claims: &Map) -> Result<Option<(Str, Option<Str>)>, String> {
        if claims.get(&self.claim).is_some() {
            return Ok(None);
        }
        let Some(names) = claims.get("_claim_names") else { return Ok(None) };
        let wrong = |what: &str, value: &Value| format!("oidc: {what}: json: cannot unmarshal {}", value.type_name());
        let names = names.as_object().ok_or_else(|| wrong("error parsing distributed claim names", names))?;
        let sources = claims.get("_claim_sources").ok_or("oidc: no claim sources")?;
        let sources = sources.as_object().ok_or_else(|| wrong("could not parse claim sources", sources))?;
        let Some(source) = names.get(&self.claim).and_then(Value::as_shared_str) else { return Ok(None) };
        let endpoint = sources
            .get(source)
            .ok_or_else(|| format!("id token _claim_names contained a source {source} missing in _claims_sources"))?;
        let text = |name: &str| endpoint.get(name).and_then(Value::as_shared_str).filter(|t| !t.is_empty()).cloned();
        Ok(text("endpoint").map(|url| (url, text("access_token"))))
    }

    async fn resolve(&self, url: &str, token: Option<&str>) -> Result<Value, String> {
        let call = outbound::Call { timeout: TIMEOUT, limit: MAX_DOCUMENT };
        let claim = go_text::quote(&self.claim);
        let found = outbound::get(&self.client, url, token, call).await;
        let found = found.map_err(|why| format!("while getting distributed claim {claim}: {why}"))?;
        if !(200..=226).contains(&found.status) {
            let status = found.status_line();
            return Err(format!(
                "while getting distributed claim {claim}: error while getting distributed claim JWT: {status}"
            ));
        }
        let text = String::from_utf8_lossy(&found.body);
        let issuer = jwt::claimed_issuer(&text).ok_or_else(|| {
            format!("getting untrusted issuer from endpoint {url} failed for claim {claim}: malformed token")
        })?;
        let provider = self.provider(&issuer)?;
        let uninitialized = || {
            let why = format!("verifier not initialized for issuer: {}", go_text::quote(&issuer));
            format!("verifying untrusted issuer {issuer} failed: {why}")
        };
        let verification = Verification {
            issuer: issuer.clone(),
            audiences: self.verification.audiences.clone(),
            algorithms: self.verification.algorithms.clone(),
        };
        let verified = verification.verify(&text, &provider).await.map_err(|_| uninitialized())?;
        let claims = verified.map_err(|why| format!("verify distributed claim token: {why}"))?;
        claims.get(&self.claim).cloned().ok_or_else(|| {
            let url = go_text::quote(url);
            format!("jwt returned by distributed claim endpoint {url} did not contain claim: {}", self.claim)
        })
    }

    fn provider(&self, issuer: &Str) -> Result<Arc<Provider>, String> {
        let mut providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(provider) = providers.get(issuer) {
            return Ok(provider.clone());
        }
        if providers.len() >= MAX_ISSUERS {
            return Err(format!("verifying untrusted issuer {issuer} failed: there are too many issuers"));
        }
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let provider = Provider::start(issuer.clone(), Str::default(), client, metrics, &self.cancel);
        providers.insert(issuer.clone(), provider.clone());
        Ok(provider)
    }
}
