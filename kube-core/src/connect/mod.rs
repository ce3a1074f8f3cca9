//! Requests that are handed on: to kubelets (logs, exec, attach, port-forward), and to what nodes, pods and services serve.

mod container;
mod kubelet;
mod log;
mod metrics;
mod options;
mod proxy;
mod rewrite;
mod stream;
mod target;
mod websocket;

use std::sync::Arc;

use generic_server::{
    endpoint::Endpoint,
    options::WriteOptions,
    registry::{Lister, Registries, Registry, Write},
    request::Request,
    response::{self, Response},
};
use http::StatusCode;
use machinery::{Str, meta::status::Status};
use outbound::{ClientError, HttpsClient, Identity, Trust, client_through, egress::Dial, plain_client};

use streaming::throttle::Rate;

use kubelet::Kubelets;
use log::Logs;
pub use metrics::StreamMetrics;
use proxy::{Proxied, Proxy};
use stream::{Stream, Streamed};

/// How kubelets are reached.
#[derive(Clone, Default)]
pub struct KubeletSettings {
    /// What this server shows them.
    pub identity: Identity,
    /// Whose certificates they have, as PEM; none: they are not checked.
    pub authorities: Option<Vec<u8>>,
    /// How kubelets, and what is proxied to, are reached; `None`: as usual.
    pub dial: Option<Dial>,
    /// Which of a node's addresses to use, best first.
    pub address_types: Vec<Str>,
    /// Whether streams that are upgraded by GET need the permission to create as those by POST do.
    pub streams_need_create: bool,
    /// Whether one of the streams of a container's log may be asked for (PodLogsQuerySplitStreams).
    pub splits_logs: bool,
    /// Who speaks WebSocket.
    pub websockets: Websockets,
    /// What an upgraded connection carries a second in each direction (`--max-connection-bytes-per-sec`).
    pub rate: Option<Rate>,
    /// What is counted of streams.
    pub metrics: StreamMetrics,
}

/// Who speaks WebSocket with clients: the gates about it.
#[derive(Clone, Copy, Default)]
pub struct Websockets {
    /// This server translates commands (TranslateStreamCloseWebsocketRequests).
    pub translates: bool,
    /// This server has a tunnel for forwarded ports (PortForwardWebsockets).
    pub tunnels: bool,
    /// Kubelets that say that they can do either do it themselves (ExtendWebSocketsToKubelet).
    pub extends: bool,
}

/// What all of them need.
struct Outlets {
    pods: Arc<Registry>,
    services: Arc<Registry>,
    nodes: Arc<Registry>,
    endpoints: Arc<Lister>,
    kubelets: Kubelets,
    /// For what pods, services and nodes serve beside the kubelet.
    plain: HttpsClient,
    /// What an upgraded connection carries a second in each direction.
    rate: Option<Rate>,
}

/// A subresource of the core group, as `resource/subresource`, and who serves it.
pub(crate) type Served = (&'static str, Arc<dyn Endpoint>);

/// Who serves what.
///
/// # Errors
/// Certificates that cannot be used.
pub(crate) fn endpoints(registries: &Registries, settings: &KubeletSettings) -> Result<Vec<Served>, ClientError> {
    let lister = |plural: &str| registries.of("", plural).lister().clone();
    let trust = settings.authorities.as_deref().map_or(Trust::Anybody, Trust::Bundle);
    let dial = settings.dial.as_ref();
    let kubelets = Kubelets {
        nodes: lister("nodes"),
        client: client_through(dial, trust, None, Some(&settings.identity))?,
        unchecked: client_through(dial, Trust::Anybody, None, Some(&settings.identity))?,
        address_types: settings.address_types.clone(),
    };
    let outlets = Arc::new(Outlets {
        pods: registries.of("", "pods").clone(),
        services: registries.of("", "services").clone(),
        nodes: registries.of("", "nodes").clone(),
        endpoints: lister("endpoints"),
        kubelets,
        plain: plain_client(dial)?,
        rate: settings.rate,
    });
    let stream = |what| -> Arc<dyn Endpoint> {
        Arc::new(Stream {
            what,
            outlets: outlets.clone(),
            needs_create: settings.streams_need_create,
            websockets: settings.websockets,
            metrics: settings.metrics.clone(),
        })
    };
    let proxy = |what| -> Arc<dyn Endpoint> { Arc::new(Proxy { what, outlets: outlets.clone() }) };
    Ok(vec![
        ("pods/log", Arc::new(Logs { outlets: outlets.clone(), splits: settings.splits_logs })),
        ("pods/exec", stream(Streamed::Exec)),
        ("pods/attach", stream(Streamed::Attach)),
        ("pods/portforward", stream(Streamed::PortForward)),
        ("pods/proxy", proxy(Proxied::Pod)),
        ("services/proxy", proxy(Proxied::Service)),
        ("nodes/proxy", proxy(Proxied::Node)),
    ])
}

/// Lets admission judge the request, by its options, which are of this kind.
async fn admit(registry: &Registry, request: &Request, kind: &str, warnings: &mut Vec<String>) -> Result<(), Status> {
    let write_options = WriteOptions::default();
    let mut write = Write {
        row: &registry.row,
        namespace: &request.info.namespace,
        subresource: &request.info.subresource,
        user: &request.user,
        audit: &request.audit,
        options: &write_options,
        warnings,
    };
    let mut document = options::document(kind, request);
    registry.admit_connect(&mut write, &request.info.name, &mut document).await
}

/// The answer with the warnings of admission. Those of an upgrade are lost, as upstream's: what follows is the backend's.
fn warned(answer: Result<Response, Status>, request: &Request, warnings: &[String]) -> Result<Response, Status> {
    match answer {
        answer if warnings.is_empty() => answer,
        Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
        Ok(answer) => Ok(response::add_warnings(answer, warnings)),
        Err(status) => Ok(response::add_warnings(response::error(&status, response::wanted(request)), warnings)),
    }
}
