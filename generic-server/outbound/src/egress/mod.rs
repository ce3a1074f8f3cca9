//! Through which proxies connections leave (`--egress-selector-config-file`): HTTP CONNECT over TCP (with TLS) or over a
//! socket, or a konnectivity server (gRPC) over a socket. What is not configured is dialed as usual.

mod connect;
mod metrics;
mod packet;
mod tunnel;

use std::{fmt, io, path::PathBuf, sync::Arc, time::Instant};

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
pub use traces::{Dial, Stream};

pub use self::metrics::EgressMetrics;
use crate::{
    failure::EgressError,
    tls::{ClientError, Identity, Trust, server_name, tls_config},
};

/// A part of the world that this server calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Webhooks that are named by a URL, other API servers, collectors.
    ControlPlane,
    /// The storage.
    Etcd,
    /// What runs in the cluster: kubelets, pods, services, and the servers and webhooks behind services.
    Cluster,
}

impl Network {
    /// As configurations call it.
    pub fn name(self) -> &'static str {
        match self {
            Network::ControlPlane => "controlplane",
            Network::Etcd => "etcd",
            Network::Cluster => "cluster",
        }
    }

    /// The network of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Network::ControlPlane, Network::Etcd, Network::Cluster].into_iter().find(|network| network.name() == name)
    }
}

/// How a connection through a proxy comes about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// `CONNECT`, over TCP to `host:port`.
    ConnectTcp {
        /// Where the proxy listens.
        address: String,
        /// How TLS is spoken with it, if it is.
        tls: Option<ProxyTls>,
    },
    /// `CONNECT`, over a socket of the host.
    ConnectSocket(PathBuf),
    /// A stream of a konnectivity server, over a socket of the host.
    Konnectivity(PathBuf),
}

/// How a proxy is believed, and what it is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyTls {
    /// Authorities of its certificate, PEM; empty: those that the machine believes.
    pub bundle: Vec<u8>,
    /// This server's certificate.
    pub identity: Identity,
    /// The name in the proxy's certificate; `None`: its host.
    pub server_name: Option<String>,
}

impl fmt::Debug for ProxyTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// What opens the connections to a network; `None`: they are opened as usual.
type Selection = (Network, Option<Dial>);

/// Why connections cannot leave as they are configured to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EgressConfigError {
    /// A proxy cannot be called.
    #[error("failed to create dialer for egressSelection \"{}\": {why}", network.name())]
    Dialer {
        /// Whose connections it is for.
        network: Network,
        /// What is wrong with its certificates or its name.
        why: ClientError,
    },
    /// No network is configured at all, and one is asked for.
    #[error("egress lookup required with egress selector type \"{}\"", .0.name())]
    NothingConfigured(Network),
    /// This one is not.
    #[error("egress lookup for \"{}\" is not configured", .0.name())]
    NotConfigured(Network),
}

/// How connections leave to each network.
#[derive(Clone, Default)]
pub struct Egress {
    /// Of each network that is configured what opens connections; `None` there: they are opened as usual. `None` as a whole:
    /// nothing is configured.
    selections: Option<Arc<[Selection]>>,
}

impl Egress {
    /// Connections to these networks leave through proxies, or (`None`) expressly do not.
    ///
    /// # Errors
    /// A certificate that cannot be used.
    pub fn new(selections: &[(Network, Option<Proxy>)], metrics: &EgressMetrics) -> Result<Self, EgressConfigError> {
        let selections = selections.iter().map(|(network, proxy)| {
            let failed = |why| EgressConfigError::Dialer { network: *network, why };
            let dialer = proxy.clone().map(|proxy| Dialer::new(proxy, metrics.clone())).transpose().map_err(failed)?;
            Ok((*network, dialer.map(Dialer::dial)))
        });
        Ok(Egress { selections: Some(selections.collect::<Result<_, EgressConfigError>>()?) })
    }

    fn selection(&self, network: Network) -> Option<Option<&Dial>> {
        let found = self.selections.as_ref()?.iter().find(|(known, _)| *known == network);
        found.map(|(_, dial)| dial.as_ref())
    }

    /// How connections to a network are opened; `None`: as usual.
    pub fn to(&self, network: Network) -> Option<&Dial> {
        self.selection(network).flatten()
    }

    /// The same for those who may only be reached as it is configured.
    ///
    /// # Errors
    /// It is not.
    pub fn required(&self, network: Network) -> Result<Option<&Dial>, EgressConfigError> {
        if self.selections.is_none() {
            return Err(EgressConfigError::NothingConfigured(network));
        }
        self.selection(network).ok_or(EgressConfigError::NotConfigured(network))
    }
}

fn failed(why: impl Into<String>) -> io::Error {
    io::Error::other(EgressError(why.into()))
}

struct Dialer {
    proxy: Proxy,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    metrics: EgressMetrics,
}

impl Dialer {
    fn new(proxy: Proxy, metrics: EgressMetrics) -> Result<Arc<Self>, ClientError> {
        let tls = match &proxy {
            Proxy::ConnectTcp { address, tls: Some(tls) } => {
                let trust = if tls.bundle.is_empty() { Trust::System } else { Trust::Bundle(&tls.bundle) };
                let config = tls_config(trust, Some(&tls.identity), None)?;
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let name = server_name(tls.server_name.as_deref().unwrap_or(host))?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
            _ => None,
        };
        Ok(Arc::new(Dialer { proxy, tls, metrics }))
    }

    fn dial(self: Arc<Self>) -> Dial {
        Arc::new(move |address| {
            let dialer = self.clone();
            Box::pin(async move { dialer.connect(&address).await })
        })
    }

    /// As metrics call protocol and transport.
    fn labels(&self) -> [&'static str; 2] {
        match self.proxy {
            Proxy::ConnectTcp { .. } => ["http_connect", "tcp"],
            Proxy::ConnectSocket(_) => ["http_connect", "uds"],
            Proxy::Konnectivity(_) => ["grpc", "uds"],
        }
    }

    async fn connect(&self, address: &str) -> io::Result<Box<dyn Stream>> {
        let labels = self.labels();
        let [protocol, transport] = labels;
        let span =
            traces::span(format!("Proxy via {protocol} protocol over {transport}"), |a| a.text("address", address));
        let begun = Instant::now();
        self.metrics.started(labels);
        let connected = match self.reach().await {
            Ok(reached) => reached,
            Err(error) => {
                self.metrics.failed(labels, "connect");
                span.failed(&error.to_string());
                return Err(error);
            }
        };
        let opened = match connected {
            Reached::Proxy(stream, name) => connect::ask(stream, &name, address).await,
            Reached::Tunnel(tunnel) => tunnel.open(address, &self.metrics).await,
        };
        match opened {
            Ok(stream) => {
                self.metrics.took(labels, begun.elapsed());
                Ok(stream)
            }
            Err(error) => {
                self.metrics.failed(labels, "proxy");
                span.failed(&error.to_string());
                Err(error)
            }
        }
    }

    /// Connects to the proxy itself.
    async fn reach(&self) -> io::Result<Reached> {
        let unix = |error: io::Error, path: &PathBuf| {
            failed(format!("dial unix {}: connect: {}", path.display(), go_io_error(&error)))
        };
        Ok(match &self.proxy {
            Proxy::ConnectTcp { address, .. } => {
                let stream = TcpStream::connect(address).await;
                let stream = stream.map_err(|error| failed(format!("dial tcp {address}: {}", go_io_error(&error))))?;
                stream.set_nodelay(true)?;
                let stream: Box<dyn Stream> = match &self.tls {
                    Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await.map_err(|error| {
                        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                        failed(crate::failure::transport(&error, host, address))
                    })?),
                    None => Box::new(stream),
                };
                Reached::Proxy(stream, address.clone())
            }
            Proxy::ConnectSocket(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| unix(error, path))?;
                Reached::Proxy(Box::new(stream), path.display().to_string())
            }
            Proxy::Konnectivity(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| unix(error, path))?;
                Reached::Tunnel(Box::new(tunnel::Tunnel::begin(TokioIo::new(stream), &self.metrics).await?))
            }
        })
    }
}

enum Reached {
    Proxy(Box<dyn Stream>, String),
    Tunnel(Box<tunnel::Tunnel>),
}

/// What the system said, in Go's words.
fn go_io_error(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.clone(), |(plain, _)| plain.to_lowercase())
}

#[cfg(test)]
mod tests;
