//! HTTPS clients for servers that this one calls: aggregated API servers, webhooks.

use std::{
    error::Error,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustls::{ClientConfig, client::danger::ServerCertVerifier, pki_types::ServerName, sign::SingleCertAndKey};
use traces::Dial;
use x509::{Roots, ServerVerifier};

use crate::connector::Connector;

/// A client of one server. It keeps connections open between requests.
pub type HttpsClient = Client<HttpsConnector<Connector>, OutboundBody>;

/// The body of a request to another server, whatever it is made of.
pub type OutboundBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A body that is whole.
pub fn full(bytes: impl Into<Bytes>) -> OutboundBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

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

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// A client that shows `identity` if the server asks for it. The server's certificate must be of `server_name`, or else of
/// the host in the URL.
pub fn client(
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
) -> Result<HttpsClient, String> {
    client_through(None, trust, server_name, identity)
}

/// [`client`], whose connections are opened by `dial`, if there is one.
pub fn client_through(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
) -> Result<HttpsClient, String> {
    build(dial, trust, server_name, identity, false)
}

/// A client of one webhook, which may send on to another place, with TLS or without it.
pub(crate) fn webhook_client(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
) -> Result<HttpsClient, String> {
    build(dial, trust, server_name, identity, true)
}

/// A client for what is served within the cluster: with TLS or without it, as the URL says, and whoever serves it. `dial`
/// opens the connections, if it is there.
pub fn plain_client(dial: Option<&Dial>) -> Result<HttpsClient, String> {
    build(dial, Trust::Anybody, None, None, true)
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

fn build(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
    plain: bool,
) -> Result<HttpsClient, String> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls_config(trust, identity)?);
    let builder = if plain { builder.https_or_http() } else { builder.https_only() };
    let builder = match server_name {
        Some(name) => {
            let name = ServerName::try_from(name).map_err(|e| e.to_string())?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    // Upgrades (exec, port-forward through an aggregated server) exist in HTTP/1.1 alone, and a connection a request
    // spreads over the endpoints of a service.
    let connector = builder.enable_http1().wrap_connector(Connector::new(dial.cloned(), CONNECT));
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector))
}

/// The authorities that the machine believes; read when they are first needed.
static SYSTEM: LazyLock<Arc<Roots>> =
    LazyLock::new(|| Arc::new(Roots::from_der(&rustls_native_certs::load_native_certs().certs)));

fn provider() -> rustls::crypto::CryptoProvider {
    rustls::crypto::aws_lc_rs::default_provider()
}
