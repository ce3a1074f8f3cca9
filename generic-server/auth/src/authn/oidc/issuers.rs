//! All identity providers of a configuration, which can be replaced while the server runs.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use machinery::{Str, meta::field_error::FieldError};
use outbound::{
    ClientError,
    egress::{Egress, EgressConfigError},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    super::config::{Authenticators, JwtAuthenticator, check_issuer},
    IssuerTokens, OidcMetrics,
    claims::is_issuer,
    provider::UnhealthyIssuer,
};
use crate::{
    TokenAuthenticator, TokenError, TokenOwner, aggregate,
    jwt::{self, Algorithm},
    token::audiences_of,
};

/// How long providers of a new configuration may take until they are well, and how often they are asked whether they are.
const WELL_WITHIN: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long after a change those who judge tokens by the old configuration may need it.
const GRACE: Duration = Duration::from_secs(60);

/// Why identity providers cannot be used. Shown, it is what upstream's server says.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum IssuersError {
    /// One's configuration is wrong.
    #[error(transparent)]
    Config(#[from] FieldError),
    /// One is to be reached through a proxy that is not configured.
    #[error("oidc: {0}")]
    Egress(#[from] EgressConfigError),
    /// One cannot be called: its authorities cannot be used.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Tokens of these cannot be judged yet.
    #[error("{}", all_of(.0))]
    Unhealthy(Vec<UnhealthyIssuer>),
}

fn all_of(sick: &[UnhealthyIssuer]) -> String {
    let errors: Vec<String> = sick.iter().map(ToString::to_string).collect();
    aggregate(&errors).unwrap_or_default()
}

/// What all providers have in common.
#[derive(Clone)]
pub struct IssuersOptions {
    /// The algorithms that tokens may be signed with.
    pub algorithms: Vec<Algorithm>,
    /// The server's audiences, which such a token is for whatever it says itself.
    pub audiences: Arc<[Str]>,
    /// The server's own issuers: nobody else may be one of them.
    pub own_issuers: Vec<Str>,
    /// What is counted.
    pub metrics: OidcMetrics,
    /// Through which proxies providers are reached that are to be reached through some.
    pub egress: Egress,
}

/// The tokens of all identity providers.
pub struct Issuers {
    options: IssuersOptions,
    current: ArcSwap<Generation>,
}

/// The providers of one configuration.
struct Generation {
    issuers: Vec<IssuerTokens>,
    /// Ends what they do beside the requests.
    _cancel: DropGuard,
}

impl Issuers {
    /// The providers of a configuration that has been validated, each with its compiled expressions. They are asked from now
    /// on, beside the requests.
    ///
    /// # Errors
    /// One that cannot be used.
    pub fn new(
        options: IssuersOptions,
        config: Vec<JwtAuthenticator>,
        compiled: Authenticators,
    ) -> Result<Arc<Self>, IssuersError> {
        let current = ArcSwap::from_pointee(Generation::new(&options, config, compiled)?);
        Ok(Arc::new(Issuers { options, current }))
    }

    /// Whether tokens of all providers can be judged.
    ///
    /// # Errors
    /// Which cannot, and why.
    pub fn health(&self) -> Result<(), IssuersError> {
        self.current.load().health()
    }

    /// Takes the providers of another configuration, as soon as they are well.
    ///
    /// # Errors
    /// One cannot be used, or is not well in time; then the old ones stay.
    pub async fn replace(&self, config: Vec<JwtAuthenticator>, compiled: Authenticators) -> Result<(), IssuersError> {
        let next = Generation::new(&self.options, config, compiled)?;
        let well = async {
            while next.health().is_err() {
                tokio::time::sleep(ASK_EVERY).await;
            }
        };
        if tokio::time::timeout(WELL_WITHIN, well).await.is_err() {
            next.health()?;
        }
        let old = self.current.swap(Arc::new(next));
        let kept: Vec<Str> = self.current.load().issuers.iter().map(|i| i.config.issuer.url.clone()).collect();
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            for gone in old.issuers.iter().filter(|issuer| !kept.contains(&issuer.config.issuer.url)) {
                gone.metrics.remove();
            }
        });
        Ok(())
    }
}

impl Generation {
    fn new(
        options: &IssuersOptions,
        config: Vec<JwtAuthenticator>,
        compiled: Authenticators,
    ) -> Result<Self, IssuersError> {
        let cancel = CancellationToken::new();
        let guard = cancel.clone().drop_guard();
        let mut issuers = Vec::with_capacity(config.len());
        for (config, expressions) in config.into_iter().zip(compiled) {
            check_issuer(&config.issuer, &options.own_issuers)?;
            let metrics = options.metrics.of(&config.issuer.url);
            issuers.push(IssuerTokens::new(config, expressions, options, metrics, &cancel)?);
        }
        Ok(Generation { issuers, _cancel: guard })
    }

    fn health(&self) -> Result<(), IssuersError> {
        let sick: Vec<_> = self.issuers.iter().filter_map(|issuer| issuer.provider.health().err()).collect();
        if sick.is_empty() { Ok(()) } else { Err(IssuersError::Unhealthy(sick)) }
    }
}

#[async_trait]
impl TokenAuthenticator for Issuers {
    async fn authenticate(&self, token: &str, audiences: Option<&[Str]>) -> Result<Option<TokenOwner>, TokenError> {
        let Some(audiences) = audiences_of(&self.options.audiences, audiences) else { return Ok(None) };
        let current = self.current.load_full();
        if current.issuers.is_empty() {
            return Ok(None);
        }
        let Some(named) = jwt::claimed_issuer(token) else { return Ok(None) };
        let issuer = current.issuers.iter().find(|issuer| is_issuer(&issuer.config.issuer.url, &named));
        let Some(issuer) = issuer else { return Ok(None) };
        let user = issuer.user(token).await?;
        Ok(Some(TokenOwner::new(Arc::new(user.authenticated()), audiences)))
    }
}
