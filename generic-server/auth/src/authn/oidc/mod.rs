//! Tokens of identity providers (OpenID Connect Core 1.0): whose they are, as their claims say and the configuration reads
//! them.

mod claims;
mod distributed;
pub mod expressions;
mod issuers;
mod keys;
mod mapping;
mod metrics;
mod provider;

use std::{sync::Arc, time::Instant};

use machinery::{
    Str, Value,
    codec::json,
    meta::{Timestamp, go_text},
};
use outbound::{Trust, egress::Network};
use tokio_util::sync::CancellationToken;

pub use expressions::{Expression, Expressions};
pub use issuers::{Issuers, IssuersError, IssuersOptions};
pub use metrics::OidcMetrics;
pub use provider::UnhealthyIssuer;

use super::config::JwtAuthenticator;
use crate::{
    TokenError, User,
    jwt::{self, Algorithm, Token},
};
use claims::IdToken;
use distributed::DistributedClaims;
use metrics::IssuerMetrics;
use provider::Provider;

/// What the tokens of a provider are judged by.
struct Verification {
    /// The provider's URL.
    issuer: Str,
    audiences: Vec<Str>,
    algorithms: Vec<Algorithm>,
}

/// The tokens of one identity provider.
struct IssuerTokens {
    config: JwtAuthenticator,
    expressions: Expressions,
    verification: Arc<Verification>,
    provider: Arc<Provider>,
    distributed: Option<DistributedClaims>,
    metrics: IssuerMetrics,
}

impl IssuerTokens {
    /// The tokens of a provider, which is looked for from now on until `cancel`.
    ///
    /// # Errors
    /// Its authorities cannot be read, or it is to be reached in a way that there is not.
    fn new(
        config: JwtAuthenticator,
        expressions: Expressions,
        options: &IssuersOptions,
        metrics: IssuerMetrics,
        cancel: &CancellationToken,
    ) -> Result<Self, IssuersError> {
        let issuer = &config.issuer;
        let network = match issuer.egress_selector_type.as_str() {
            "" => None,
            "cluster" => Some(Network::Cluster),
            _ => Some(Network::ControlPlane),
        };
        let dial = network.map(|network| options.egress.required(network)).transpose();
        let dial = dial?.flatten();
        let algorithms = options.algorithms.clone();
        let authority = issuer.certificate_authority.as_bytes();
        let trust = if authority.is_empty() { Trust::System } else { Trust::Bundle(authority) };
        let client = outbound::client_through(dial, trust, None, None)?;
        let verification =
            Arc::new(Verification { issuer: issuer.url.clone(), audiences: issuer.audiences.clone(), algorithms });
        let provider =
            Provider::start(issuer.url.clone(), issuer.discovery_url.clone(), client.clone(), metrics.clone(), cancel);
        let groups = &config.claim_mappings.groups.claim;
        let distributed = (!groups.is_empty()).then(|| {
            DistributedClaims::new(groups.clone(), client, verification.clone(), metrics.clone(), cancel.clone())
        });
        Ok(IssuerTokens { config, expressions, verification, provider, distributed, metrics })
    }

    /// The user of a token that says to be of this provider.
    async fn user(&self, text: &str) -> Result<User, TokenError> {
        let started = Instant::now();
        let user = self.judge(text).await;
        self.metrics.judged(user.is_ok(), started.elapsed());
        user
    }

    async fn judge(&self, text: &str) -> Result<User, TokenError> {
        let invalid = TokenError::Invalid;
        let claims = self.verification.verify(text, &self.provider).await.map_err(TokenError::Unavailable)?;
        let claims = claims.map_err(|why| invalid(format!("oidc: verify token: {why}")))?;
        let Value::Object(mut claims) = claims else {
            return Err(invalid("oidc: parse claims: no object".to_owned()));
        };
        if let Some(distributed) = &self.distributed {
            let expanded = distributed.expand(&mut claims).await;
            expanded.map_err(|why| invalid(format!("oidc: could not expand distributed claims: {why}")))?;
        }
        mapping::user_of(&self.config, &self.expressions, &claims).map_err(invalid)
    }
}

impl Verification {
    /// The claims of a token that is good.
    ///
    /// # Errors
    /// The provider is not there yet; or, within, what is wrong with the token.
    async fn verify(&self, text: &str, provider: &Provider) -> Result<Result<Value, String>, String> {
        let keys = provider.keys().ok_or("oidc: authenticator not initialized")?;
        let Some(token) = Token::parse(text) else { return Ok(Err(malformed(text))) };
        if !token.has_public_key() {
            let why = "oidc: malformed jwt: go-jose/go-jose: invalid embedded jwk, must be public key";
            return Ok(Err(why.to_owned()));
        }
        if !self.algorithms.iter().any(|algorithm| algorithm.name() == token.algorithm()) {
            let names: Vec<Str> = self.algorithms.iter().map(|algorithm| Str::new_static(algorithm.name())).collect();
            let got = go_text::quote(token.algorithm());
            let expected = claims::quoted(&names);
            return Ok(Err(format!("oidc: id token signed with unsupported algorithm, expected {expected} got {got}")));
        }
        if let Err(why) = keys.verify(&token).await {
            return Ok(Err(format!("failed to verify signature: {why}")));
        }
        let good = IdToken::of(&token.claims).and_then(|claims| {
            IdToken::check_sources(&token.claims)?;
            claims.check(&self.issuer, &self.audiences, Timestamp::now())
        });
        Ok(good.map(|()| token.claims))
    }
}

/// What is said of a text that is no token.
fn malformed(text: &str) -> String {
    match jwt::wrong_key_id(text) {
        Some(id) => format!(
            "oidc: malformed jwt: failed to unmarshal key ID: json: cannot unmarshal {} into Go value of type string: {}",
            go_text::json_type_name(&id),
            go_text::quote(&String::from_utf8_lossy(&json::encode(&id)))
        ),
        None => "oidc: malformed jwt".to_owned(),
    }
}
