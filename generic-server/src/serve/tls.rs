//! TLS: versions, cipher suites, which certificate is shown for which name, and certificates that are replaced on disk.
//!
//! A client certificate is asked for and never judged here, beyond proof that the client holds its key: whether it is
//! good is for authentication to say, with a 401 instead of a broken connection.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    CipherSuite, DistinguishedName, ServerConfig, SupportedCipherSuite,
    crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs},
    server::{ClientHello, ProducesTickets, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use tokio_util::sync::CancellationToken;

use x509::{Certificate, CertifiedKeyError};

/// How often the files are looked at. A replaced certificate is shown to new connections within this time.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{path}: {message}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The options do not go together.
    #[error("{0}")]
    Options(String),
}

/// A name that is no cipher suite.
#[derive(Debug, thiserror::Error)]
#[error("Cipher suite {0} not supported or doesn't exist")]
pub struct CipherSuiteError(pub String);

/// A certificate (with its chain) and its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then its intermediates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// A certificate for some names (`--tls-sni-cert-key`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniCertificate {
    /// The files.
    pub files: CertificateFiles,
    /// The names (`*.example.com` covers one label); none: those of the certificate itself.
    pub names: Vec<String>,
}

/// What the TLS flags say.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// Shown when no SNI certificate fits.
    pub default: CertificateFiles,
    /// Shown for their names; the first that fits.
    pub sni: Vec<SniCertificate>,
    /// Their subjects are sent to clients as a hint which certificate to choose.
    pub client_ca_files: Vec<PathBuf>,
    /// TLS 1.3 and nothing older.
    pub only_tls13: bool,
    /// Names of the TLS 1.2 cipher suites to allow; empty: all. TLS 1.3's are always allowed, as upstream does.
    pub cipher_suites: Vec<String>,
    /// IANA numbers of the key exchange groups to allow; empty: all.
    pub curves: Vec<u16>,
    /// Offer HTTP/2.
    pub http2: bool,
}

/// The TLS side of the listener: the current configuration, replaced when its files change.
pub struct Tls {
    options: TlsOptions,
    tickets: Arc<dyn ProducesTickets>,
    current: ArcSwap<Loaded>,
}

struct Loaded {
    files: Vec<(PathBuf, Vec<u8>)>,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files and checks that everything goes together.
    ///
    /// # Errors
    /// A file that is missing or wrong, a key that is not its certificate's, names that do not exist.
    pub fn load(options: TlsOptions) -> Result<Arc<Self>, TlsError> {
        let tickets = aws_lc_rs::Ticketer::new().map_err(|error| TlsError::Options(error.to_string()))?;
        let files = read_files(&options)?;
        let config = configure(&options, &files, Arc::clone(&tickets))?;
        Ok(Arc::new(Self { options, tickets, current: ArcSwap::from_pointee(Loaded { files, config }) }))
    }

    /// The configuration for a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// Looks at the files; true when they changed and the new ones are in use. What is wrong with new files is said, and
    /// the old ones stay in use.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn reload(&self) -> Result<bool, TlsError> {
        let files = read_files(&self.options)?;
        if files == self.current.load().files {
            return Ok(false);
        }
        let config = configure(&self.options, &files, Arc::clone(&self.tickets))?;
        self.current.store(Arc::new(Loaded { files, config }));
        Ok(true)
    }

    /// Reloads changed files until cancelled.
    pub async fn watch_files(self: Arc<Self>, cancel: CancellationToken) {
        let mut said = String::new();
        while cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            match self.reload() {
                Ok(true) => tracing::info!("the serving certificates were replaced"),
                Ok(false) => said.clear(),
                Err(error) if error.to_string() != said => {
                    said = error.to_string();
                    tracing::warn!(%error, "cannot use the new serving certificates, keeping the old ones");
                }
                Err(_) => {}
            }
        }
    }
}

fn read_files(options: &TlsOptions) -> Result<Vec<(PathBuf, Vec<u8>)>, TlsError> {
    let pairs = std::iter::once(&options.default).chain(options.sni.iter().map(|sni| &sni.files));
    let paths = pairs.flat_map(|pair| [&pair.certificate, &pair.key]).chain(&options.client_ca_files);
    let read = |path: &PathBuf| match std::fs::read(path) {
        Ok(content) => Ok((path.clone(), content)),
        Err(source) => Err(TlsError::Read { path: path.clone(), source }),
    };
    paths.map(read).collect()
}

fn configure(
    options: &TlsOptions,
    files: &[(PathBuf, Vec<u8>)],
    tickets: Arc<dyn ProducesTickets>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(provider(options)?);
    let default = certified_key(&options.default, files, &provider)?;
    let mut by_name = Vec::new();
    for sni in &options.sni {
        let key = certified_key(&sni.files, files, &provider)?;
        let names = if sni.names.is_empty() { own_names(&key) } else { sni.names.clone() };
        by_name.extend(names.into_iter().map(|name| (name.to_ascii_lowercase(), Arc::clone(&key))));
    }
    let mut hints = Vec::new();
    for path in &options.client_ca_files {
        hints.extend(subjects(path, content(files, path))?);
    }
    let versions: &[_] = if options.only_tls13 {
        &[&rustls::version::TLS13]
    } else {
        &[&rustls::version::TLS13, &rustls::version::TLS12]
    };
    let verifier = x509::ClientVerifier::requested(hints, &provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| TlsError::Options(error.to_string()))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(ByName { default, by_name }));
    config.alpn_protocols =
        if options.http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    config.ticketer = tickets;
    // One ticket serves a client that reconnects; every further one costs each new connection a record.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

fn content<'a>(files: &'a [(PathBuf, Vec<u8>)], path: &Path) -> &'a [u8] {
    files.iter().find(|(read, _)| read == path).map_or(&[], |(_, content)| content)
}

fn provider(options: &TlsOptions) -> Result<CryptoProvider, TlsError> {
    let mut provider = aws_lc_rs::default_provider();
    if !options.cipher_suites.is_empty() {
        let wanted = |suite: &SupportedCipherSuite| {
            suite.tls13().is_some() || options.cipher_suites.iter().any(|name| *name == iana_name(suite.suite()))
        };
        provider.cipher_suites.retain(wanted);
        let has_tls12 = provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
        if !has_tls12 && !options.only_tls13 {
            let message = "none of the given cipher suites can be used with TLS 1.2";
            tracing::warn!("{message}: only TLS 1.3 clients can connect");
        }
    }
    if !options.curves.is_empty() {
        let order = |group: &&'static dyn SupportedKxGroup| {
            options.curves.iter().position(|curve| *curve == u16::from(group.name()))
        };
        provider.kx_groups.retain(|group| order(group).is_some());
        provider.kx_groups.sort_by_key(order);
        if provider.kx_groups.is_empty() {
            return Err(TlsError::Options("none of the given curves is supported".to_owned()));
        }
    }
    Ok(provider)
}

/// The name that Go and IANA give a cipher suite.
fn iana_name(suite: CipherSuite) -> String {
    // rustls writes TLS 1.3's with a prefix of its own.
    suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

/// The names of the cipher suites that this server can use, TLS 1.3's included.
pub fn known_cipher_suites() -> Vec<String> {
    aws_lc_rs::ALL_CIPHER_SUITES.iter().map(|suite| iana_name(suite.suite())).collect()
}

fn certified_key(
    pair: &CertificateFiles,
    files: &[(PathBuf, Vec<u8>)],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let (certificate, key) = (content(files, &pair.certificate), content(files, &pair.key));
    x509::certified_key(certificate, key, provider).map_err(|error| {
        let path = match error {
            CertifiedKeyError::Certificate(_) => &pair.certificate,
            CertifiedKeyError::Key(_) => &pair.key,
        };
        TlsError::Invalid { path: path.clone(), message: error.to_string() }
    })
}

/// The subjects of the certificates in a file.
fn subjects(path: &Path, pem: &[u8]) -> Result<Vec<DistinguishedName>, TlsError> {
    let invalid = |message: String| TlsError::Invalid { path: path.to_path_buf(), message };
    let mut subjects = Vec::new();
    for der in CertificateDer::pem_slice_iter(pem) {
        let certificate = Certificate::parse(&der.map_err(|error| invalid(error.to_string()))?);
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        subjects.push(DistinguishedName::from(certificate.raw_subject().to_vec()));
    }
    if subjects.is_empty() { Err(invalid("no certificate in it".to_owned())) } else { Ok(subjects) }
}

/// The names in a certificate: its DNS names, else its common name.
fn own_names(key: &CertifiedKey) -> Vec<String> {
    let own = key.cert.first().and_then(|der| Certificate::parse(der).ok());
    own.map(|certificate| certificate.server_names()).unwrap_or_default()
}

/// Chooses the certificate by the name that the client asks for.
#[derive(Debug)]
struct ByName {
    default: Arc<CertifiedKey>,
    by_name: Vec<(String, Arc<CertifiedKey>)>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let find = |name: &str| self.by_name.iter().find(|(known, _)| known == name).map(|(_, key)| key);
        let named = hello.server_name().and_then(|name| {
            let name = name.to_ascii_lowercase();
            find(&name).or_else(|| find(&format!("*.{}", name.split_once('.')?.1)))
        });
        Some(Arc::clone(named.unwrap_or(&self.default)))
    }
}
