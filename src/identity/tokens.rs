//! Bearer tokens: those of a file, of bootstrapping nodes and of identity providers.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use auth::{
    StaticTokens, TokenAuthenticator,
    authn::{
        CacheMetrics, CachedTokens,
        config::{AuthenticationConfiguration, IssuerRules, all_of, validate},
        oidc::{Issuers, IssuersOptions, OidcMetrics},
        webhook::WebhookTokens,
    },
    reload::{Followed, ReloadError, ReloadMetrics},
};
use generic_server::metrics::Metrics;
use kube_core::authentication::BearerTokens;
use machinery::meta::FieldError;
use outbound::{
    KubeconfigWebhook,
    egress::{Egress, Network},
};
use tokio_util::sync::CancellationToken;

use super::{read, texts};
use crate::config::{Config, IdentityProviders};

/// Who knows bearer tokens, besides those of service accounts. Files are followed until `cancel`. `server` is this server's
/// name in metrics.
pub(crate) fn bearer_tokens(
    config: &Config,
    metrics: &Metrics,
    (server, egress): (&str, &Egress),
    cancel: &CancellationToken,
) -> Result<BearerTokens> {
    let cache_metrics = CacheMetrics::new(metrics.registry());
    let mut remote: Vec<Arc<dyn TokenAuthenticator>> = Vec::new();
    let providers = &config.authentication.identity_providers;
    if providers.file.is_some() || !providers.config.jwt.is_empty() {
        remote.push(issuers(config, providers, metrics, (server, egress), cancel)?);
    }
    if let Some(given) = &config.authentication.token_webhook {
        let webhook = KubeconfigWebhook::load_through(&given.file, egress.to(Network::ControlPlane))?;
        let audiences = texts(&config.authentication.service_accounts.audiences).into();
        let tokens = WebhookTokens::new(webhook, given.version, audiences)?;
        let ttl = given.cache_ttl;
        let cached = CachedTokens::new(vec![Arc::new(tokens)], ttl, ttl, cache_metrics.clone());
        remote.push(Arc::new(cached?));
    }
    Ok(BearerTokens {
        local: static_tokens(config, cancel)?.into_iter().collect(),
        bootstrap: config.authentication.bootstrap_tokens,
        remote,
        metrics: cache_metrics,
    })
}

/// The tokens of `--token-auth-file`.
fn static_tokens(config: &Config, cancel: &CancellationToken) -> Result<Option<Arc<dyn TokenAuthenticator>>> {
    let Some(path) = &config.authentication.token_file else { return Ok(None) };
    let file = path.display().to_string();
    let content = read(path)?;
    let text = String::from_utf8(content.clone()).with_context(|| file.clone())?;
    let audiences = texts(&config.authentication.service_accounts.audiences).into();
    let tokens = Arc::new(StaticTokens::parse(&file, &text, audiences)?);
    let current = tokens.clone();
    let reload = move |content: Vec<u8>| {
        let text = String::from_utf8(content).map_err(|error| error.to_string());
        let replaced = text.and_then(|text| current.replace(&file, &text).map_err(|why| why.to_string()));
        std::future::ready(replaced.map_err(ReloadError::Invalid))
    };
    tokio::spawn(Followed::new("token file", path.clone(), content).follow(None, cancel.clone(), reload));
    Ok(Some(tokens))
}

/// The tokens of identity providers.
fn issuers(
    config: &Config,
    providers: &IdentityProviders,
    metrics: &Metrics,
    (server, egress): (&str, &Egress),
    cancel: &CancellationToken,
) -> Result<Arc<Issuers>> {
    let own = &config.authentication.service_accounts;
    let options = IssuersOptions {
        algorithms: providers.algorithms.clone(),
        audiences: texts(&own.audiences).into(),
        own_issuers: texts(&own.issuers),
        metrics: OidcMetrics::new(metrics.registry(), server),
        egress: egress.clone(),
    };
    let egress = config.features.is_on("StructuredAuthenticationConfigurationEgressSelector");
    let rules = IssuerRules { own_issuers: options.own_issuers.clone(), egress };
    let issuers = Issuers::new(options, providers.config.jwt.clone(), providers.compiled.clone());
    let issuers = issuers?;
    if let Some((path, content)) = &providers.file {
        let controller = "authentication_config_controller";
        let metrics = ReloadMetrics::new(metrics.registry(), controller, server, content);
        let (current, first) = (issuers.clone(), providers.config.clone());
        let reload = move |content: Vec<u8>| replace(current.clone(), first.clone(), rules.clone(), content);
        let followed = Followed::new("authentication configuration", path.clone(), content.clone());
        tokio::spawn(followed.follow(Some(metrics), cancel.clone(), reload));
    }
    Ok(issuers)
}

/// Takes another configuration's providers. Who may be anonymous stays as it was `first`.
async fn replace(
    issuers: Arc<Issuers>,
    first: AuthenticationConfiguration,
    rules: IssuerRules,
    content: Vec<u8>,
) -> Result<(), ReloadError> {
    let config = AuthenticationConfiguration::read(&content).map_err(|why| ReloadError::Invalid(why.to_string()))?;
    let (compiled, mut errors) = match validate(&config, &rules) {
        Ok(compiled) => (compiled, Vec::new()),
        Err(errors) => (Vec::new(), errors),
    };
    if config.anonymous != first.anonymous {
        errors.push(FieldError::forbidden("anonymous", "changed from initial configuration file"));
    }
    if !errors.is_empty() {
        return Err(ReloadError::Invalid(all_of(&errors)));
    }
    issuers.replace(config.jwt, compiled).await.map_err(|why| ReloadError::NotYet(why.to_string()))
}
