//! HTTPS clients for servers that this one calls: aggregated API servers, webhooks.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use traces::Dial;

use crate::{
    certificates::ServerCertificates,
    connector::Connector,
    tls::{ClientError, Identity, Trust, server_name, tls_config},
};

/// A client of one server. It keeps connections open between requests.
pub type HttpsClient = Client<HttpsConnector<Connector>, OutboundBody>;

/// The body of a request to another server, whatever it is made of.
pub type OutboundBody = UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>;

/// A body that is whole.
pub fn full(bytes: impl Into<Bytes>) -> OutboundBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// A client that shows `identity` if the server asks for it. The server's certificate must be of `server_name`, or else of
/// the host in the URL.
///
/// # Errors
/// The authorities, the certificate or the name cannot be used.
pub fn client(
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
) -> Result<HttpsClient, ClientError> {
    client_through(None, trust, server_name, identity)
}

/// [`client`], whose connections are opened by `dial`, if there is one.
///
/// # Errors
/// As [`client`].
pub fn client_through(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
) -> Result<HttpsClient, ClientError> {
    build(dial, trust, server_name, identity, Kind { plain: false, certificates: None })
}

/// [`client_through`], which notes what is wrong with the server's certificates.
///
/// # Errors
/// As [`client`].
pub fn client_noting(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
    certificates: &ServerCertificates,
) -> Result<HttpsClient, ClientError> {
    build(dial, trust, server_name, identity, Kind { plain: false, certificates: Some(certificates) })
}

/// A client of one webhook, which may send on to another place, with TLS or without it.
pub(crate) fn webhook_client(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    server_name: Option<String>,
    identity: Option<&Identity>,
    certificates: &ServerCertificates,
) -> Result<HttpsClient, ClientError> {
    build(dial, trust, server_name, identity, Kind { plain: true, certificates: Some(certificates) })
}

/// A client for what is served within the cluster: with TLS or without it, as the URL says, and whoever serves it. `dial`
/// opens the connections, if it is there.
///
/// # Errors
/// TLS cannot be spoken here.
pub fn plain_client(dial: Option<&Dial>) -> Result<HttpsClient, ClientError> {
    build(dial, Trust::Anybody, None, None, Kind { plain: true, certificates: None })
}

/// What kinds of clients differ in.
struct Kind<'a> {
    /// It goes without TLS where the URL says so.
    plain: bool,
    /// Where it is noted what is wrong with the server's certificates.
    certificates: Option<&'a ServerCertificates>,
}

fn build(
    dial: Option<&Dial>,
    trust: Trust<'_>,
    name: Option<String>,
    identity: Option<&Identity>,
    Kind { plain, certificates }: Kind<'_>,
) -> Result<HttpsClient, ClientError> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls_config(trust, identity, certificates)?);
    let builder = if plain { builder.https_or_http() } else { builder.https_only() };
    let builder = match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(server_name(&name)?)),
        None => builder,
    };
    // Upgrades (exec, port-forward through an aggregated server) exist in HTTP/1.1 alone, and a connection a request
    // spreads over the endpoints of a service.
    let connector = builder.enable_http1().wrap_connector(Connector::new(dial.cloned(), CONNECT));
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector))
}
