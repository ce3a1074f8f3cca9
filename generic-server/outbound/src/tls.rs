//! TLS with servers that this one calls: whom it believes, and what it shows them.

use std::sync::{Arc, LazyLock};

use rustls::{ClientConfig, client::danger::ServerCertVerifier, sign::SingleCertAndKey};
use x509::{Roots, ServerVerifier};

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

/// How TLS is spoken with a server that is believed so.
pub(crate) fn tls_config(trust: Trust<'_>, identity: Option<&Identity>) -> Result<ClientConfig, String> {
    let provider = Arc::new(provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(ServerVerifier::insecure(&provider)),
        Trust::System => Arc::new(ServerVerifier::new(SYSTEM.clone(), &provider)),
        Trust::Bundle(pem) => {
            let roots = Roots::from_bundle(pem).map_err(|e| e.to_string())?;
            Arc::new(ServerVerifier::new(Arc::new(roots), &provider))
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    Ok(match identity.filter(|own| !own.certificate.is_empty()) {
        Some(own) => {
            let key = x509::certified_key(&own.certificate, &own.key, &provider).map_err(|e| e.to_string())?;
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
