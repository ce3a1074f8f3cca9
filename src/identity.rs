//! Who clients are: what authentication is made of, and the keys of service account tokens.

mod tokens;

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use auth::{
    TokenAuthenticators,
    reload::{Followed, ReloadError},
};
use generic_server::{
    metrics::Metrics,
    pipeline::{Authentication, AuthenticationMetrics},
};
use kube_core::{
    authentication::Trust,
    service_accounts::{ExternalSigner, KeySource, Keys, TokenSettings},
};
use machinery::Str;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

pub(crate) use tokens::bearer_tokens;

use crate::{config::Config, pki::Pki};

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn texts(list: &[String]) -> Vec<Str> {
    list.iter().map(|text| Str::from(text.as_str())).collect()
}

/// Certificates, headers of a front proxy, and bearer tokens. The files of authorities are followed until `cancel`.
pub(crate) fn authentication(
    config: &Config,
    pki: &Pki,
    tokens: Arc<TokenAuthenticators>,
    metrics: &Metrics,
    cancel: &CancellationToken,
) -> Result<Authentication> {
    let header = &pki.request_header;
    let request_header = auth::RequestHeader {
        authorities: authorities("front proxies' authorities", &pki.front_proxy_ca, cancel)?,
        options: auth::RequestHeaderOptions {
            allowed_names: texts(&header.allowed_names),
            username_headers: texts(&header.username_headers),
            uid_headers: texts(&header.uid_headers),
            group_headers: texts(&header.group_headers),
            extra_prefixes: texts(&header.extra_header_prefixes),
        },
    };
    Ok(Authentication {
        request_header: Some(request_header),
        client_certificates: Some(authorities("clients' authorities", &pki.client_ca, cancel)?),
        certificates_name_uids: config.features.is_on("AllowParsingUserUIDFromCertAuth"),
        tokens,
        loopback_token: Str::default(),
        anonymous: config.authentication.anonymous.clone(),
        metrics: AuthenticationMetrics::new(metrics.registry()),
    })
}

/// Those whose certificates are believed, as a file says now and later.
fn authorities(what: &'static str, path: &Path, cancel: &CancellationToken) -> Result<Arc<auth::ClientCertificates>> {
    let content = read(path)?;
    let found = auth::ClientCertificates::from_pem(&content);
    let found = Arc::new(found.map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?);
    let current = found.clone();
    let reload = move |content: Vec<u8>| {
        let replaced = current.replace(&content);
        std::future::ready(replaced.map_err(|why| ReloadError::Invalid(why.to_string())))
    };
    tokio::spawn(Followed::new(what, path.to_owned(), content).follow(None, cancel.clone(), reload));
    Ok(found)
}

/// The same, as aggregated servers are told.
pub(crate) fn trust(config: &Config, pki: &Pki) -> Result<Trust> {
    let bundle = |path: &Path| String::from_utf8(read(path)?).with_context(|| path.display().to_string());
    let header = &pki.request_header;
    Ok(Trust {
        client_ca: bundle(&pki.client_ca)?,
        proxy_ca: bundle(&pki.front_proxy_ca)?,
        allowed_names: texts(&header.allowed_names),
        username_headers: texts(&header.username_headers),
        uid_headers: config.features.is_on("RemoteRequestHeaderUID").then(|| texts(&header.uid_headers)),
        group_headers: texts(&header.group_headers),
        extra_prefixes: texts(&header.extra_header_prefixes),
    })
}

/// Where clients reach this server, as host and port: what the flags say, or else where it listens (`address`).
pub(crate) fn public_address(config: &Config, address: SocketAddr) -> Str {
    let serving = &config.serving;
    if !serving.external_hostname.is_empty() {
        return Str::from(format!("{}:{}", serving.external_hostname, address.port()));
    }
    let ip = serving.public_address().unwrap_or(address.ip());
    Str::from(SocketAddr::new(ip, address.port()).to_string())
}

/// How service account tokens are made and checked. A key of our own that is not there yet is made meanwhile; an external
/// signer is waited for.
pub(crate) async fn service_accounts(config: &Config, pki: &Pki, metrics: &Metrics) -> Result<TokenSettings> {
    let given = &config.authentication.service_accounts;
    let endpoint = &given.signing_endpoint;
    let mut settings = TokenSettings {
        issuers: texts(&given.issuers),
        audiences: texts(&given.audiences).into(),
        keys: KeySource::Files(Arc::new(SetOnce::new())),
        jwks_uri: given.jwks_uri.as_str().into(),
        max_expiration_seconds: given.max_expiration.map_or(0, |max| max.as_secs() as i64),
        extended_seconds: given.extend_expiration.then_some(YEAR),
        lookup: given.lookup,
    };
    if endpoint.is_empty() {
        let KeySource::Files(keys) = &settings.keys else { return Ok(settings) };
        keys_of_files(config, pki, keys.clone())?;
    } else {
        let signer = ExternalSigner::connect(endpoint, metrics.registry()).await?;
        let bears = signer.max_expiration();
        let duration =
            |seconds: i64| machinery::meta::GoDuration { nanoseconds: seconds.saturating_mul(1_000_000_000) };
        match settings.max_expiration_seconds {
            0 => settings.max_expiration_seconds = bears,
            max if max > bears => anyhow::bail!(
                "service-account-max-token-expiration cannot be set longer than the token expiration supported by \
                 service-account-signing-endpoint: {} > {}",
                duration(max),
                duration(bears)
            ),
            _ => {}
        }
        settings.extended_seconds = settings.extended_seconds.map(|extended| extended.min(bears));
        settings.keys = KeySource::External(signer);
    }
    warn_of_expiration(&settings, !endpoint.is_empty());
    Ok(settings)
}

/// In seconds: for how long tokens are good that pods get, and what they ask for.
const YEAR: i64 = 365 * 24 * 3600;
const POD_TOKEN: i64 = 3607;

/// Says which flags are in each other's way.
fn warn_of_expiration(settings: &TokenSettings, is_external: bool) {
    let max = settings.max_expiration_seconds;
    if settings.extended_seconds.is_none() || max == 0 {
        return;
    }
    let bounded = if is_external {
        "token lifetime supported by external-jwt-signer"
    } else {
        "service-account-max-token-expiration"
    };
    if max < POD_TOKEN {
        tracing::warn!(
            "service-account-extend-token-expiration is true, in order to correctly trigger safe transition logic, {bounded} \
             must be set longer than {POD_TOKEN} seconds (currently {max} seconds)"
        );
    }
    if max < YEAR {
        let valid = if is_external { max } else { YEAR };
        tracing::warn!(
            "service-account-extend-token-expiration is true, tokens of pods are valid up to {valid} seconds ({bounded} is \
             {max} seconds)"
        );
    }
}

fn keys_of_files(config: &Config, pki: &Pki, keys: Arc<SetOnce<Keys>>) -> Result<()> {
    let given = &config.authentication.service_accounts;
    let (signing, checking) = (pki.service_account_signing_key.clone(), pki.service_account_keys.clone());
    let read_keys = move || Keys::read(signing.as_deref(), &checking);
    let own = pki.service_account_signing_key.as_ref().filter(|_| given.signing_key.is_none() && given.keys.is_empty());
    if own.is_none_or(|path| path.exists()) {
        let _ = keys.set(read_keys()?); // nobody else sets it
        return Ok(());
    }
    let config = config.clone();
    tokio::task::spawn_blocking(move || {
        let made = Pki::make_service_account_key(&config).map_err(anyhow::Error::from);
        match made.and_then(|()| Ok(read_keys()?)) {
            Ok(made) => drop(keys.set(made)),
            Err(error) => tracing::error!("no service account tokens: {error:#}"),
        }
    });
    Ok(())
}
