//! TLS for clients: the server's certificate, and certificates that clients must show.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use rustls::{ServerConfig, crypto::aws_lc_rs, sign::SingleCertAndKey};
use tokio_rustls::TlsAcceptor;
use x509::{CertifiedKeyError, ClientVerifier, Roots};

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then its intermediates (`--cert-file`).
    pub certificate: PathBuf,
    /// Its key (`--key-file`).
    pub key: PathBuf,
    /// Who must have signed clients' certificates; `None`: clients show none (`--trusted-ca-file`, `--client-cert-auth`).
    pub client_ca: Option<PathBuf>,
}

pub(super) fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let key = x509::certified_key(&read(&files.certificate)?, &read(&files.key)?, &provider);
    let key = key.map_err(|error| {
        let path = match error {
            CertifiedKeyError::Certificate(_) => &files.certificate,
            CertifiedKeyError::Key(_) => &files.key,
        };
        anyhow::anyhow!("{}: {error}", path.display())
    })?;
    let versions = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match &files.client_ca {
        None => versions.with_no_client_auth(),
        Some(path) => {
            let roots = Roots::from_pem(&read(path)?).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
            versions.with_client_cert_verifier(Arc::new(ClientVerifier::required(roots, &provider)))
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
