//! TLS with servers that this one calls: whom it believes, and what it shows them.

use std::sync::{Arc, LazyLock};

use rustls::{ClientConfig, pki_types::ServerName, sign::SingleCertAndKey};
use x509::{BundleError, Roots, ServerVerifier};

use crate::certificates::ServerCertificates;

/// Whose certificates are believed.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those that these authorities (PEM) have signed.
    Bundle(&'a [u8]),
    /// Those that the machine believes.
    System,
    /// Any, as long as the server holds its key.
    Anybody,
}

/// A certificate and key by which others know this server, as PEM.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The certificate chain.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// Why there can be no client of a server.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// TLS cannot be spoken as configured.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The bundle holds no authority that can be trusted.
    #[error(transparent)]
    Authorities(#[from] BundleError),
    /// This server's own certificate and key cannot be shown; the text says which of the two is wrong, and how.
    #[error("{0}")]
    Identity(String),
    /// The name that the other certificate must have is neither a DNS name nor an IP address.
    #[error("invalid dns name")]
    ServerName(String),
}

/// The name that a certificate must have, as TLS takes it.
pub(crate) fn server_name(name: &str) -> Result<ServerName<'static>, ClientError> {
    ServerName::try_from(name.to_owned()).map_err(|_| ClientError::ServerName(name.to_owned()))
}

/// The TLS configuration of a client that trusts and shows this, and notes what is wrong with the server's certificates.
pub(crate) fn tls_config(
    trust: Trust<'_>,
    identity: Option<&Identity>,
    certificates: Option<&ServerCertificates>,
) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let verifier = match trust {
        Trust::Anybody => ServerVerifier::insecure(&provider),
        Trust::System => ServerVerifier::new(SYSTEM.clone(), &provider),
        Trust::Bundle(pem) => ServerVerifier::new(Arc::new(Roots::from_bundle(pem)?), &provider),
    };
    let verifier = match certificates {
        Some(certificates) => verifier.noting(certificates.shown.clone()),
        None => verifier,
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(match identity.filter(|own| !own.certificate.is_empty()) {
        Some(own) => {
            let key = x509::certified_key(&own.certificate, &own.key, &provider);
            let key = key.map_err(|error| ClientError::Identity(error.to_string()))?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
        }
        None => builder.with_no_client_auth(),
    })
}

/// The authorities that the machine believes; read when they are first needed.
static SYSTEM: LazyLock<Arc<Roots>> =
    LazyLock::new(|| Arc::new(Roots::from_der(&rustls_native_certs::load_native_certs().certs)));

fn provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
