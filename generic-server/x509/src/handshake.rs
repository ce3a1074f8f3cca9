//! What rustls needs to judge certificates as this crate does: whose signature a handshake carries, who a server or a
//! client is, and certificates of our own, whatever their version.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, PeerMisbehaved, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    server::danger::{ClientCertVerified, ClientCertVerifier},
    sign::{CertifiedKey, SigningKey},
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
    pem::{self, PemObject},
};
use webpki::RawPublicKeyEntity;

use super::{Certificate, Flaws, Purpose, Roots, RootsError, X509Error};

/// What both sides say of a handshake's signature: it is by the key of the certificate, whatever its version.
macro_rules! handshake_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, certificate, signature, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

/// Believes servers whose certificates lead to these roots, for their names; or any server.
#[derive(Debug)]
pub struct ServerVerifier {
    roots: Option<Arc<Roots>>,
    algorithms: WebPkiSupportedAlgorithms,
    /// Where it is noted what is wrong with certificates that are let pass.
    flaws: Option<Arc<Flaws>>,
}

impl ServerVerifier {
    /// With the signatures that a provider knows.
    pub fn new(roots: Arc<Roots>, provider: &CryptoProvider) -> Self {
        ServerVerifier { roots: Some(roots), algorithms: provider.signature_verification_algorithms, flaws: None }
    }

    /// Any certificate will do, as long as the server holds its key.
    pub fn insecure(provider: &CryptoProvider) -> Self {
        ServerVerifier { roots: None, algorithms: provider.signature_verification_algorithms, flaws: None }
    }

    /// The same, which notes what is wrong with certificates that it lets pass.
    #[must_use]
    pub fn noting(self, flaws: Arc<Flaws>) -> Self {
        ServerVerifier { flaws: Some(flaws), ..self }
    }

    /// Judges the certificates that a server shows.
    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &str,
        now: UnixTime,
    ) -> Result<(), X509Error> {
        let leaf = Certificate::parse(end_entity)?;
        let others = intermediates.iter().map(|der| Certificate::parse(der)).collect::<Result<Vec<_>, _>>()?;
        if let Some(roots) = &self.roots {
            roots.verify(&leaf, &others, Purpose::Server(name), seconds(now))?;
        }
        if let Some(flaws) = &self.flaws {
            flaws.note(&leaf, &others);
        }
        Ok(())
    }
}

fn bad(why: X509Error) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = || self.judge(end_entity, intermediates, &server_name.to_str(), now);
        match &self.roots {
            Some(_) => judged().map_err(bad)?,
            // What cannot be read is let pass like all else.
            None => drop(self.flaws.is_some().then(judged)),
        }
        Ok(ServerCertVerified::assertion())
    }

    handshake_signatures!();
}

/// Asks clients for certificates: those that lead to these roots, or any, which are judged after the handshake.
#[derive(Debug)]
pub struct ClientVerifier {
    roots: Option<Roots>,
    /// Whose certificates a client may choose from.
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    /// A client must show a certificate that leads to a root.
    pub fn required(roots: Roots, provider: &CryptoProvider) -> Self {
        let algorithms = provider.signature_verification_algorithms;
        ClientVerifier { roots: Some(roots), hints: Vec::new(), algorithms }
    }

    /// Whatever a client shows is taken, or nothing: whoever reads the certificate judges it.
    pub fn requested(hints: Vec<DistinguishedName>, provider: &CryptoProvider) -> Self {
        ClientVerifier { roots: None, hints, algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.roots.is_some()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Some(roots) = &self.roots else { return Ok(ClientCertVerified::assertion()) };
        let leaf = Certificate::parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let others: Vec<_> = intermediates.iter().filter_map(|der| Certificate::parse(der).ok()).collect();
        // A client learns no more of it than that nobody known has signed it.
        roots.verify(&leaf, &others, Purpose::Client, seconds(now)).map_err(|why| {
            tracing::info!(%why, "a client's certificate is refused");
            CertificateError::UnknownIssuer
        })?;
        Ok(ClientCertVerified::assertion())
    }

    handshake_signatures!();
}

/// The key of a certificate, of any version.
fn key_of(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    Ok(SubjectPublicKeyInfoDer::from(Certificate::parse(certificate).map_err(bad)?.raw_key))
}

/// Checks that whoever shows a certificate holds its key, by a handshake of TLS 1.3.
fn verify_tls13_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature_with_raw_key(message, &key_of(certificate)?, signature, algorithms)
}

/// The same, by a handshake of TLS 1.2, whose schemes do not name the curve.
fn verify_tls12_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let known = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signature.scheme);
    let (_, possible) = known.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    let key = key_of(certificate)?;
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
    let is_good =
        possible.iter().any(|algorithm| key.verify_signature(*algorithm, message, signature.signature()).is_ok());
    if is_good { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
}

/// Why a certificate and a key are no pair that a server or a client can show: which of the two is wrong.
#[derive(Debug, thiserror::Error)]
pub enum CertifiedKeyError {
    /// The certificate.
    #[error(transparent)]
    Certificate(RootsError),
    /// The key.
    #[error(transparent)]
    Key(PrivateKeyError),
}

/// What is wrong with a private key.
#[derive(Debug, thiserror::Error)]
pub enum PrivateKeyError {
    /// It cannot be found in its PEM.
    #[error("no private key: {0}")]
    Pem(pem::Error),
    /// The provider of cryptography does not take it.
    #[error(transparent)]
    Unusable(Error),
    /// It is the key of another certificate.
    #[error("private key does not match public key")]
    NoMatch,
}

/// A certificate chain and its key, from PEM, checked that they go together.
///
/// # Errors
/// Which of the two is wrong, and how.
pub fn certified_key(
    chain: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, CertifiedKeyError> {
    let chain = certificates(chain).map_err(CertifiedKeyError::Certificate)?;
    let leaf = Certificate::parse(&chain[0]).map_err(|why| CertifiedKeyError::Certificate(why.into()))?;
    let key = private_key(key, &leaf, provider).map_err(CertifiedKeyError::Key)?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

/// The certificates of a PEM text, of which there is one at least.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, RootsError> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(RootsError::Pem)?;
    if chain.is_empty() { Err(RootsError::NoCertificate) } else { Ok(chain) }
}

/// The key of a certificate.
fn private_key(
    pem: &[u8],
    certificate: &Certificate,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, PrivateKeyError> {
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(PrivateKeyError::Pem)?;
    let key = provider.key_provider.load_private_key(key).map_err(PrivateKeyError::Unusable)?;
    // Keys that do not say what their public half is are found out by the first handshake.
    if key.public_key().is_some_and(|public| *public != *certificate.raw_key) {
        return Err(PrivateKeyError::NoMatch);
    }
    Ok(key)
}
