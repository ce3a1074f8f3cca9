//! TLS for clients: the server's certificate, and certificates that clients must show.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, aws_lc_rs},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    sign::SingleCertAndKey,
};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio_rustls::TlsAcceptor;
use x509::{Certificate, Purpose, Roots};

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
    let key = key.map_err(|(is_the_keys, why)| {
        let path = if is_the_keys { &files.key } else { &files.certificate };
        anyhow::anyhow!("{}: {why}", path.display())
    })?;
    let algorithms = provider.signature_verification_algorithms;
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match &files.client_ca {
        None => versions.with_no_client_auth(),
        Some(path) => {
            let roots = Roots::from_pem(&read(path)?).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
            versions.with_client_cert_verifier(Arc::new(Clients { roots, algorithms }))
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Clients must show a certificate that leads to a root.
#[derive(Debug)]
struct Clients {
    roots: Roots,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let parse = |der: &CertificateDer<'_>| Certificate::parse(der).map_err(|_| CertificateError::BadEncoding);
        let leaf = parse(certificate)?;
        let intermediates: Vec<Certificate> = intermediates.iter().filter_map(|der| parse(der).ok()).collect();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        match self.roots.verify(&leaf, &intermediates, Purpose::Client, now) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            Err(why) => {
                tracing::info!(%why, "a client's certificate is refused");
                Err(CertificateError::UnknownIssuer.into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        x509::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        x509::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
