//! Certificates and keys. Each that the flags name is used as it is; each that they do not is made once in the data folder,
//! kept, reused, and renewed before it expires.

mod authority;
mod kubeconfig;
mod store;

use std::{net::IpAddr, path::PathBuf};

use generic_server::serve::{CertificateFiles, TlsOptions};

use crate::config::{Config, RequestHeader};
use authority::{Authority, Leaf, Use};
use store::Folder;
pub use store::PkiError;

/// The files to serve and to authenticate with.
#[derive(Clone, Debug)]
pub struct Pki {
    /// What the listener shows.
    pub tls: TlsOptions,
    /// Authorities of client certificates.
    pub client_ca: PathBuf,
    /// Authorities of front proxies.
    pub front_proxy_ca: PathBuf,
    /// Which front proxies to believe when they name a user in headers.
    pub request_header: RequestHeader,
    /// What this server shows aggregated servers and webhooks.
    pub proxy_client: CertificateFiles,
    /// What this server shows kubelets.
    pub kubelet_client: CertificateFiles,
    /// Signs service account tokens; `None` when only keys to check them with were given. A key of our own is not there
    /// before [`Pki::make_service_account_key`]: it takes longer than all the rest.
    pub service_account_signing_key: Option<PathBuf>,
    /// Check service account tokens (public keys, or private ones whose public half counts).
    pub service_account_keys: Vec<PathBuf>,
    /// What clients need to trust the serving certificate.
    pub server_ca: PathBuf,
    /// The authority that signs requests for certificates, if it is this server's own: clients with what it issues are known here.
    pub signer: Option<CertificateFiles>,
    admin: Option<CertificateFiles>,
    kubeconfig: PathBuf,
}

impl Pki {
    /// Finds or makes every piece. Calling it again renews what is about to expire, under the same paths.
    ///
    /// # Errors
    /// A folder or file that cannot be read or written, or does not hold what it should.
    pub fn ensure(config: &Config) -> Result<Self, PkiError> {
        let folder = Folder::open(&config.data_dir.join("pki"))?;
        let ca = Authority::ensure(&folder, "ca", "kubernetes")?;
        let front_proxy_ca = Authority::ensure(&folder, "front-proxy-ca", "front-proxy-ca")?;
        let (default, server_ca) = match given_serving_certificate(config) {
            Some(given) => (given.clone(), given.certificate),
            None => (serving_certificate(config, &folder, &ca)?, ca.certificate_path()),
        };
        let client_ca = config.authentication.client_ca.clone();
        let admin = match &client_ca {
            None => Some(ca.issue(&folder, "admin", &Leaf::client("admin", Some("system:masters")))?),
            Some(_) => None,
        };
        let mut request_header = config.authentication.request_header.clone();
        if request_header.client_ca.is_none() && request_header.allowed_names.is_empty() {
            request_header.allowed_names = vec![FRONT_PROXY_CLIENT.to_owned()];
        }
        let proxy_client = match &config.proxying.certificate {
            Some(given) => given.clone(),
            None => {
                // A name that aggregated servers are told to believe.
                let name = request_header.allowed_names.first().map_or(FRONT_PROXY_CLIENT, String::as_str);
                front_proxy_ca.issue(&folder, FRONT_PROXY_CLIENT, &Leaf::client(name, None))?
            }
        };
        let kubelet_client = match &config.kubelet.certificate {
            Some(given) => given.clone(),
            None => ca.issue(&folder, KUBELET_CLIENT, &Leaf::client(KUBELET_CLIENT, Some("system:masters")))?,
        };
        let given = request_header.client_ca.clone();
        let front_proxy_ca = given.unwrap_or_else(|| front_proxy_ca.certificate_path());
        let (service_account_signing_key, service_account_keys) = service_account_keys(config, &folder);
        let own = || CertificateFiles { certificate: ca.certificate_path(), key: folder.path("ca.key") };
        let signer = client_ca.is_none().then(own);
        let client_ca = client_ca.unwrap_or_else(|| ca.certificate_path());
        Ok(Self {
            tls: TlsOptions {
                default,
                sni: config.serving.sni.clone(),
                client_ca_files: vec![client_ca.clone(), front_proxy_ca.clone()],
                only_tls13: config.serving.only_tls13,
                cipher_suites: config.serving.cipher_suites.clone(),
                curves: config.serving.curves.clone(),
                http2: config.serving.http2,
            },
            client_ca,
            front_proxy_ca,
            request_header,
            proxy_client,
            kubelet_client,
            service_account_signing_key,
            service_account_keys,
            server_ca,
            signer,
            admin,
            kubeconfig: config.data_dir.join("admin.kubeconfig"),
        })
    }

    /// Makes the key of our own that signs service account tokens, if there is none yet: RSA, which everybody who trusts
    /// such tokens can check.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn make_service_account_key(config: &Config) -> Result<(), PkiError> {
        let folder = Folder::open(&config.data_dir.join("pki"))?;
        authority::service_account_key(&folder).map(|_| ())
    }

    /// Writes the admin's kubeconfig for a server that listens on this address. `None` when `--client-ca-file` names
    /// another authority: then the admin's certificate is that authority's to make.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn write_kubeconfig(&self, address: IpAddr, port: u16) -> Result<Option<PathBuf>, PkiError> {
        let Some(admin) = &self.admin else { return Ok(None) };
        let host = if address.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { address };
        let text = kubeconfig::admin(&std::net::SocketAddr::new(host, port).to_string(), &self.server_ca, admin)?;
        store::write_if_changed(&self.kubeconfig, text.as_bytes())?;
        Ok(Some(std::path::absolute(&self.kubeconfig).unwrap_or_else(|_| self.kubeconfig.clone())))
    }
}

/// The common name of serving certificates that this server makes; others it never replaces.
const SERVER: &str = "kube-apiserver (own)";
const FRONT_PROXY_CLIENT: &str = "front-proxy-client";
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// The certificate of the flags, or the one that somebody put into `--cert-dir` (test environments do).
fn given_serving_certificate(config: &Config) -> Option<CertificateFiles> {
    if let Some(given) = &config.serving.certificate {
        return Some(given.clone());
    }
    let dir = config.serving.certificate_dir.as_ref()?;
    let files = CertificateFiles { certificate: dir.join("apiserver.crt"), key: dir.join("apiserver.key") };
    let is_theirs = files.key.exists() && authority::common_name(&files.certificate).is_some_and(|name| name != SERVER);
    is_theirs.then_some(files)
}

fn serving_certificate(config: &Config, folder: &Folder, ca: &Authority) -> Result<CertificateFiles, PkiError> {
    let mut names: Vec<String> = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        .into_iter()
        .chain(["kubernetes.default.svc.cluster.local"])
        .map(str::to_owned)
        .collect();
    names.extend(host_name());
    names.extend(Some(config.serving.external_hostname.clone()).filter(|name| !name.is_empty()));
    let mut addresses = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)];
    addresses.extend(config.services.api_server_ip());
    addresses.extend(config.serving.advertise_address);
    addresses.extend(Some(config.serving.bind.address).filter(|address| !address.is_unspecified()));
    let leaf = Leaf { common_name: SERVER.to_owned(), organization: None, names, addresses, used_for: Use::Server };
    match &config.serving.certificate_dir {
        Some(dir) => ca.issue(&Folder::open(dir)?, "apiserver", &leaf),
        None => ca.issue(folder, "apiserver", &leaf),
    }
}

fn service_account_keys(config: &Config, folder: &Folder) -> (Option<PathBuf>, Vec<PathBuf>) {
    let given = &config.authentication.service_accounts;
    let signing = match &given.signing_key {
        Some(key) => Some(key.clone()),
        None if given.keys.is_empty() => Some(folder.path(authority::SERVICE_ACCOUNT_KEY)),
        None => None,
    };
    let keys = if given.keys.is_empty() { signing.clone().into_iter().collect() } else { given.keys.clone() };
    (signing, keys)
}

/// The host's name, where the system tells it and it can be in a certificate.
pub(crate) fn host_name() -> Option<String> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname")
        .or_else(|| read("/etc/hostname"))
        .or_else(|| std::env::var("HOSTNAME").ok())?;
    let name = name.trim().to_ascii_lowercase();
    let is_name = |label: &str| {
        !label.is_empty() && label.len() <= 63 && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    name.split('.').all(is_name).then_some(name)
}

#[cfg(test)]
mod tests;
