//! The other API servers of the cluster, which may serve what this one does not (UnknownVersionInteroperabilityProxy): a request
//! for a resource that only they serve is handed on to one of them, once, and discovery tells what all of them serve.
//!
//! `addresses` are where they are reached, which each writes into the store; `learn` asks them what they serve.

mod addresses;
mod learn;
mod metrics;

use std::{
    collections::{BTreeMap, HashSet, hash_map::RandomState},
    hash::BuildHasher as _,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::{ArcSwap, Guard};
use async_trait::async_trait;
use generic_server::{
    discovery::Group,
    endpoint::Endpoint,
    proxy::{forward, headers_of},
    registry::{Backing, Lister},
    request::Request,
    response::{Response, text},
    table::ResourceTable,
    tasks::Task,
};
use http::{HeaderName, HeaderValue, StatusCode, Uri, uri::PathAndQuery};
use machinery::{
    Str,
    meta::{GroupVersionResource, status::Status},
    request::RequestInfo,
};
use outbound::{ClientError, HttpsClient, Identity, Trust, client_through, egress::Dial};

use self::{addresses::Addresses, metrics::PeerMetrics};
use crate::{backends::Backends, proxy::identify};

/// Set by the server that hands a request on: the next one serves it or nobody does.
const PROXIED: HeaderName = HeaderName::from_static("x-kubernetes-peer-proxied");
/// The name that serving certificates of API servers are for.
const SERVER_NAME: &str = "kubernetes.default.svc";

/// What it takes to know the other servers.
pub struct PeerOptions<'a> {
    /// What this server is called among them.
    pub name: String,
    /// Where they reach it; `None`: they cannot.
    pub address: Option<SocketAddr>,
    /// Their identity leases.
    pub leases: Arc<Lister>,
    /// Whose certificates they have, as PEM (`--peer-ca-file`); `None`: nothing is handed on.
    pub authorities: Option<Vec<u8>>,
    /// The certificate that is shown to them.
    pub identity: &'a Identity,
    /// How they are reached; `None`: as usual.
    pub dial: Option<&'a Dial>,
    /// What is counted.
    pub metrics: &'a prometheus::Registry,
}

/// What a peer serves.
#[derive(Debug, Default)]
struct Peer {
    resources: HashSet<GroupVersionResource>,
    groups: Vec<Group>,
}

/// The other servers.
pub(crate) struct Peers {
    name: String,
    leases: Arc<Lister>,
    addresses: Addresses,
    client: HttpsClient,
    /// What this server serves itself.
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    backends: Arc<Backends>,
    known: ArcSwap<BTreeMap<Str, Peer>>,
    generation: AtomicU64,
    metrics: PeerMetrics,
}

/// The tasks that tell the others where this server is, and learn what they serve; and who hands requests on to them.
///
/// # Errors
/// Certificates that cannot be used.
pub(crate) fn build(
    options: PeerOptions<'_>,
    backing: &Backing,
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
    backends: Arc<Backends>,
) -> Result<(Vec<Task>, Option<Arc<Peers>>), ClientError> {
    let addresses = Addresses::new(backing);
    let announced = options.address.map(|own| addresses::announce(addresses.clone(), options.name.clone(), own));
    let mut tasks: Vec<Task> = announced.into_iter().collect();
    let Some(authorities) = &options.authorities else { return Ok((tasks, None)) };
    let trust = Trust::Bundle(authorities);
    let client = client_through(options.dial, trust, Some(SERVER_NAME.to_owned()), Some(options.identity))?;
    let peers = Arc::new(Peers {
        name: options.name,
        leases: options.leases,
        addresses,
        client,
        tables,
        backends,
        known: ArcSwap::default(),
        generation: AtomicU64::default(),
        metrics: PeerMetrics::registered(options.metrics),
    });
    tasks.push(learn::task(peers.clone()));
    Ok((tasks, Some(peers)))
}

impl Peers {
    /// Who serves what is asked for, if this server does not and a peer does.
    pub(crate) fn endpoint(self: &Arc<Self>, request: &Request) -> Option<Arc<dyn Endpoint>> {
        let info = &request.info;
        if !info.is_resource || request.headers.get(PROXIED).is_some_and(|value| value == "true") || self.is_own(info) {
            return None;
        }
        let resource = GroupVersionResource::new(info.group.clone(), info.version.clone(), info.resource.clone());
        let known = self.known.load();
        let serve = known.iter().filter(|(_, peer)| peer.resources.contains(&resource));
        let servers: Vec<Str> = serve.map(|(name, _)| name.clone()).collect();
        (!servers.is_empty()).then(|| Arc::new(Reroute { peers: self.clone(), servers }) as Arc<dyn Endpoint>)
    }

    fn is_own(&self, info: &RequestInfo) -> bool {
        let has = |table: &Arc<ArcSwap<ResourceTable>>| {
            table.load().get(&info.group, &info.version, &info.resource).is_some()
        };
        self.tables.iter().any(has) || self.backends.get(&info.group, &info.version).is_some()
    }

    /// A number that changes with what they serve.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What they serve below `/apis`.
    pub(crate) fn groups(&self) -> Vec<Group> {
        self.known.load().values().flat_map(|peer| peer.groups.iter().cloned()).collect()
    }

    fn known(&self) -> Guard<Arc<BTreeMap<Str, Peer>>> {
        self.known.load()
    }

    fn set(&self, known: BTreeMap<Str, Peer>) {
        let before = self.known();
        let same = before.len() == known.len()
            && before
                .iter()
                .zip(&known)
                .all(|((a, old), (b, new))| a == b && old.resources == new.resources && old.groups == new.groups);
        if !same {
            self.known.store(Arc::new(known));
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// Hands a request on to one of these servers.
struct Reroute {
    peers: Arc<Peers>,
    servers: Vec<Str>,
}

#[async_trait]
impl Endpoint for Reroute {
    async fn serve(&self, mut request: Request) -> Result<Response, Status> {
        let Peers { addresses, client, metrics, .. } = &*self.peers;
        let info = request.info.clone();
        let labels = [info.group.as_str(), info.version.as_str(), info.resource.as_str()];
        let found = addresses.find(&self.servers).await.unwrap_or_default();
        let chosen = RandomState::new().hash_one(()) as usize % found.len().max(1);
        let Some(address) = found.get(chosen) else {
            metrics.failed("endpoint_resolution", labels);
            let why = "Error getting ip and port info of the remote server while proxying";
            return Err(Status::service_unavailable(why));
        };
        let path = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let uri: Uri = format!("https://{address}{path}").parse().map_err(Status::internal_error)?;
        let mut headers = headers_of(&request);
        if let Err(why) = identify(&mut headers, &request.user, true) {
            metrics.failed("proxy_transport", labels);
            return Ok(text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")));
        }
        headers.insert(PROXIED, HeaderValue::from_static("true"));
        if let Ok(id) = HeaderValue::from_str(&request.audit_id) {
            headers.insert("audit-id", id);
        }
        tracing::debug!(%address, path, "a request is handed on to a peer");
        let answer = match forward(client, &mut request, uri, headers).await {
            Ok(answer) => answer,
            Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        };
        metrics.rerouted(answer.status(), labels);
        Ok(answer)
    }
}
