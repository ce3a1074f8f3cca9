//! The remote APIServices: one backend each, kept in step with the objects.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use base64::{Engine, engine::general_purpose::STANDARD};
use generic_server::{Body, discovery::Resources, registry::Registry, server::Endpoint, tasks::Task};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use machinery::{Str, Value};
use rustls::{
    ClientConfig, RootCertStore,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use storage::cache::{Everything, Scope};

use crate::resolve::{Resolver, ServiceRef, Unavailable};

/// The certificate and key that aggregated servers know the front proxy by, as PEM.
#[derive(Clone, Default)]
pub struct ProxyClient {
    /// The certificate chain.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// A client of one backend. It keeps connections open between requests.
pub(crate) type BackendClient = Client<HttpsConnector<HttpConnector>, Body>;

/// One remote APIService.
pub(crate) struct Backend {
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(crate) service: ServiceRef,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    /// The spec that it was made from.
    spec: Value,
    /// None if the caBundle is no bundle: then nothing can be trusted.
    pub(crate) client: Result<BackendClient, String>,
    pub(crate) resolver: Arc<Resolver>,
    /// Whether it can be reached, as far as is known; not at first.
    pub(crate) state: ArcSwap<Result<(), Unavailable>>,
    /// What it said that it serves.
    pub(crate) resources: ArcSwapOption<Resources>,
    /// Held while it is being checked, so that a slow one is asked once at a time.
    pub(crate) checking: tokio::sync::Mutex<()>,
}

impl Backend {
    fn new(spec: &Value, resolver: &Arc<Resolver>, proxy: &ProxyClient) -> Option<Self> {
        let service = spec.get("service").filter(|s| s.as_object().is_some())?;
        let text = |value: &Value, key: &str| Str::from(value.str_at(&[key]).unwrap_or(""));
        let number = |key: &str| spec.get(key).and_then(Value::as_i64).unwrap_or(0);
        let port = service.get("port").and_then(Value::as_i64).and_then(|p| u16::try_from(p).ok()).unwrap_or(443);
        let service = ServiceRef { namespace: text(service, "namespace"), name: text(service, "name"), port };
        let unknown = Unavailable { reason: "Unknown", message: "not checked yet".to_owned() };
        Some(Backend {
            group: text(spec, "group"),
            version: text(spec, "version"),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
            client: client(spec, &service, proxy),
            service,
            spec: spec.clone(),
            resolver: resolver.clone(),
            state: ArcSwap::from_pointee(Err(unknown)),
            resources: ArcSwapOption::empty(),
            checking: tokio::sync::Mutex::new(()),
        })
    }

    /// The APIService's name.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}", self.version, self.group)
    }
}

/// All remote APIServices.
pub(crate) struct Backends {
    resolver: Arc<Resolver>,
    proxy: ProxyClient,
    all: ArcSwap<HashMap<(Str, Str), Arc<Backend>>>,
    generation: AtomicU64,
}

impl Backends {
    pub(crate) fn new(resolver: Resolver, proxy: ProxyClient) -> Self {
        Backends { resolver: Arc::new(resolver), proxy, all: ArcSwap::default(), generation: AtomicU64::new(0) }
    }

    /// Who serves a group version, if it is a remote server.
    pub(crate) fn get(&self, group: &str, version: &str) -> Option<Arc<dyn Endpoint>> {
        let all = self.all.load();
        if all.is_empty() {
            return None; // the usual case, on every request's way
        }
        all.get(&(Str::from(group), Str::from(version))).map(|b| b.clone() as Arc<dyn Endpoint>)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Backend>> {
        self.all.load().values().cloned().collect()
    }

    /// A number that changes with what discovery says of them.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Discovery has something new to say.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Brings the backends into step with the APIServices. One whose spec is the same stays, with its connections.
    fn set(&self, services: impl Iterator<Item = Value>) {
        let before = self.all.load_full();
        let mut after = HashMap::new();
        for service in services {
            let Some(spec) = service.get("spec") else { continue };
            let key =
                (Str::from(spec.str_at(&["group"]).unwrap_or("")), Str::from(spec.str_at(&["version"]).unwrap_or("")));
            let kept = before.get(&key).filter(|b| b.spec == *spec).cloned();
            if let Some(backend) = kept.or_else(|| Backend::new(spec, &self.resolver, &self.proxy).map(Arc::new)) {
                after.insert(key, backend);
            }
        }
        let same = before.len() == after.len()
            && after.iter().all(|(k, b)| before.get(k).is_some_and(|old| Arc::ptr_eq(old, b)));
        if !same {
            self.all.store(Arc::new(after));
            self.changed();
        }
    }
}

/// Keeps the backends in step with the APIServices.
pub(crate) fn follow(registry: Arc<Registry>, backends: Arc<Backends>) -> Task {
    Task::new("start-kube-aggregator-informers", move |cx| {
        let (registry, backends) = (registry.clone(), backends.clone());
        async move {
            let mut follower = registry.cache().follow(Scope::All, Arc::new(Everything));
            loop {
                let next = tokio::select! {
                    () = cx.cancelled() => return Ok(()),
                    next = follower.next() => next,
                };
                if next.is_none() {
                    return Ok(());
                }
                let snapshot = registry.cache().latest();
                // Local ones, which are most, are told by their bytes alone.
                let remote = snapshot
                    .range(registry.prefix(), None)
                    .filter_map(|e| e.object())
                    .filter(|o| machinery::codec::scan::field(o.bytes(), &["spec", "service"]).is_some())
                    .filter_map(|o| registry.decode(o.bytes()).ok());
                backends.set(remote);
                cx.ready();
            }
        }
    })
}

/// A client that trusts what the APIService says, and shows the front proxy's certificate.
fn client(spec: &Value, service: &ServiceRef, proxy: &ProxyClient) -> Result<BackendClient, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let insecure = spec.get("insecureSkipTLSVerify").and_then(Value::as_bool).unwrap_or(false);
    let builder = if insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnybody))
    } else {
        let bundle = STANDARD.decode(spec.str_at(&["caBundle"]).unwrap_or("")).map_err(|e| e.to_string())?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bundle) {
            roots.add(certificate.map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        }
        builder.with_root_certificates(roots)
    };
    let chain = CertificateDer::pem_slice_iter(&proxy.certificate).collect::<Result<Vec<_>, _>>();
    let config = match (chain, PrivateKeyDer::from_pem_slice(&proxy.key)) {
        (Ok(chain), Ok(key)) if !chain.is_empty() => {
            builder.with_client_auth_cert(chain, key).map_err(|e| e.to_string())?
        }
        _ => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from(service.server_name()).map_err(|e| e.to_string())?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(std::time::Duration::from_secs(5)));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_only()
        .with_server_name_resolver(FixedServerNameResolver::new(name))
        // Upgrades (exec, port-forward through an aggregated server) exist in HTTP/1.1 alone.
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(std::time::Duration::from_secs(60)).build(connector))
}

/// `insecureSkipTLSVerify`: any certificate will do, as long as the server holds its key.
#[derive(Debug)]
struct TrustAnybody;

impl ServerCertVerifier for TrustAnybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
