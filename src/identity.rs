//! Who clients are: what authentication is made of, and the keys of service account tokens.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use auth::TokenAuthenticators;
use generic_server::pipeline::Authentication;
use kube_core::{
    authentication::Trust,
    service_accounts::{Keys, Settings},
};
use machinery::Str;
use tokio::sync::SetOnce;

use crate::{config::Config, pki::Pki};

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn texts(list: &[String]) -> Vec<Str> {
    list.iter().map(|text| Str::from(text.as_str())).collect()
}

/// Certificates, headers of a front proxy, and bearer tokens.
pub(crate) fn authentication(config: &Config, pki: &Pki, tokens: Arc<TokenAuthenticators>) -> Result<Authentication> {
    let authorities = |path: &Path| {
        auth::ClientCertificates::from_pem(&read(path)?).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
    };
    let header = &pki.request_header;
    let request_header = auth::RequestHeader {
        authorities: authorities(&pki.front_proxy_ca)?,
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
        client_certificates: Some(Arc::new(authorities(&pki.client_ca)?)),
        certificates_name_uids: config.features.is_on("AllowParsingUserUIDFromCertAuth"),
        tokens,
        loopback_token: Str::default(),
        anonymous: config.authentication.anonymous,
    })
}

/// The same, as aggregated servers are told.
pub(crate) fn trust(pki: &Pki) -> Result<Trust> {
    let bundle = |path: &Path| String::from_utf8(read(path)?).with_context(|| path.display().to_string());
    let header = &pki.request_header;
    Ok(Trust {
        client_ca: bundle(&pki.client_ca)?,
        proxy_ca: bundle(&pki.front_proxy_ca)?,
        allowed_names: texts(&header.allowed_names),
        username_headers: texts(&header.username_headers),
        uid_headers: texts(&header.uid_headers),
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

/// The tokens of `--token-auth-file`.
pub(crate) fn static_tokens(config: &Config) -> Result<auth::StaticTokens> {
    let Some(path) = &config.authentication.token_file else { return Ok(auth::StaticTokens::default()) };
    let text = String::from_utf8(read(path)?).with_context(|| path.display().to_string())?;
    let audiences = texts(&config.authentication.service_accounts.audiences).into();
    auth::StaticTokens::parse(&text, audiences).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

/// How service account tokens are made and checked. A key of our own that is not there yet is made meanwhile.
pub(crate) fn service_accounts(config: &Config, pki: &Pki) -> Result<Settings> {
    let given = &config.authentication.service_accounts;
    let keys = Arc::new(SetOnce::new());
    let settings = Settings {
        issuers: texts(&given.issuers),
        audiences: texts(&given.audiences).into(),
        keys: keys.clone(),
        jwks_uri: given.jwks_uri.as_str().into(),
        max_expiration_seconds: given.max_expiration.map_or(0, |max| max.as_secs() as i64),
        extend_expiration: given.extend_expiration,
        lookup: given.lookup,
    };
    let (signing, checking) = (pki.service_account_signing_key.clone(), pki.service_account_keys.clone());
    let read_keys = move || Keys::read(signing.as_deref(), &checking);
    let own = pki.service_account_signing_key.as_ref().filter(|_| given.signing_key.is_none() && given.keys.is_empty());
    if own.is_none_or(|path| path.exists()) {
        let _ = keys.set(read_keys()?); // nobody else sets it
        return Ok(settings);
    }
    let config = config.clone();
    tokio::task::spawn_blocking(move || {
        let made = Pki::make_service_account_key(&config).map_err(anyhow::Error::from);
        match made.and_then(|()| Ok(read_keys()?)) {
            Ok(made) => drop(keys.set(made)),
            Err(error) => tracing::error!("no service account tokens: {error:#}"),
        }
    });
    Ok(settings)
}
