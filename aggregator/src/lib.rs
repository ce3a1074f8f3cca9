//! The front server: APIServices, what is proxied to aggregated servers, and discovery of the whole chain.
//!
//! `row` and `rules` describe the APIService kind; `local` registers what the chain itself serves; `backends` keeps the
//! remote ones, `proxy` hands requests on, `availability` tells whether they answer, and
//! `remote_discovery` what they serve; `peers` are the other API servers on the same store.
//!
//! ```
//! let row = aggregator::api_services();
//! assert_eq!((row.api_version().as_str(), row.kind.as_str()), ("apiregistration.k8s.io/v1", "APIService"));
//! assert!(!row.namespaced && row.subresource("status").is_some());
//! ```

mod availability;
mod backends;
mod local;
mod metrics;
mod peers;
mod proxy;
mod remote_discovery;
mod row;
mod rules;

pub use metrics::Availability;
pub use peers::PeerOptions;
pub use row::api_services;
use std::sync::Arc;

use arc_swap::ArcSwap;
use generic_server::{
    admission::Admission,
    discovery::Group,
    endpoint::{Endpoint, VersionEndpoints},
    pages::{Discovery, DiscoveryPaths, RemoteGroups},
    registry::{Backing, Listers, Registries, Registry},
    request::Request,
    server::{Builder, GenericServer, ServerScope},
    table::{Endpoints, ResourceTable, entries},
    tasks::Task,
};
use machinery::Str;
use outbound::{ClientError, Identity, Resolver};

use backends::{Backends, Proxied};
use peers::Peers;

/// What the server is built from.
pub struct Options<'a> {
    /// Where its objects are kept.
    pub backing: &'a Backing,
    /// Who admits writes.
    pub admission: &'a Arc<dyn Admission>,
    /// Where its rows are put.
    pub table: Arc<ArcSwap<ResourceTable>>,
    /// The next server of the chain.
    pub delegate: Arc<GenericServer>,
    /// The table of the built-in groups.
    pub core: Arc<ArcSwap<ResourceTable>>,
    /// The table of custom resources.
    pub custom: Arc<ArcSwap<ResourceTable>>,
    /// Finds services.
    pub resolver: Arc<Resolver>,
    /// The certificate that the front proxy shows to aggregated servers.
    pub client: Identity,
    /// Where clients find this server.
    pub address: Str,
    /// `--aggregator-reject-forwarding-redirect`: a server that sends a client elsewhere is answered for with an error.
    pub rejects_redirects: bool,
    /// What it takes to know the other API servers on the same store; `None`: there are none.
    pub peers: Option<PeerOptions<'a>>,
}

/// The server, but for the paths that the binary adds.
pub struct Aggregator {
    /// The server in the making.
    pub builder: Builder,
    /// The APIServices.
    pub registry: Arc<Registry>,
    /// What runs beside the requests.
    pub tasks: Vec<Task>,
    /// Discovery of the whole chain.
    pub discovery: Arc<Discovery>,
}

/// Builds the front server.
///
/// # Errors
/// Certificates that cannot be used.
pub fn build(options: Options<'_>) -> Result<Aggregator, ClientError> {
    let features = &options.backing.settings.features;
    let mut rows = vec![row::api_services()];
    rows.iter_mut().for_each(|row| row.show_hash(features));
    let proxied =
        Proxied { rejects_redirects: options.rejects_redirects, sends_uids: features.is_on("RemoteRequestHeaderUID") };
    let registries = Registries::new(&Listers::start(&rows, options.backing), options.admission);
    let registry = registries.of(row::GROUP, "apiservices").clone();
    let entries = entries(rows, &options.backing.settings, &registries, &Endpoints::new());
    options.table.store(Arc::new(ResourceTable::new(entries)));
    let backends = Arc::new(Backends::new(options.resolver, options.client, proxied));
    let tables = vec![options.table.clone(), options.core.clone(), options.custom.clone()];
    let mut discovery = Discovery::new(tables.clone(), backends.clone(), options.address.clone());
    let mut tasks = vec![
        local::registration(registry.clone(), options.core, options.custom),
        backends::follow(registry.lister().clone(), backends.clone()),
        availability::control(registry.clone(), backends.clone()),
    ];
    let peers = options.peers.map(|peers| peers::build(peers, options.backing, tables.clone(), backends.clone()));
    let (more, peers) = peers.transpose()?.unwrap_or_default();
    tasks.extend(more);
    if let Some(peers) = &peers {
        let all = Arc::new(Everybody { backends: backends.clone(), peers: peers.clone() });
        discovery = discovery.within(Discovery::new(tables, all, options.address));
    }
    let versions = Versions { backends, peers, discovery: DiscoveryPaths(discovery.clone()) };
    let builder = Builder::new("aggregator", ServerScope::Groups)
        .table(options.table)
        .versions(Arc::new(versions))
        .delegate(options.delegate);
    Ok(Aggregator { builder, registry, tasks, discovery })
}

/// Who serves what beside the chain: registered servers, and peers.
struct Everybody {
    backends: Arc<Backends>,
    peers: Arc<Peers>,
}

impl RemoteGroups for Everybody {
    fn generation(&self) -> u64 {
        self.backends.generation() + self.peers.generation() // both only rise
    }

    fn groups(&self) -> Vec<Group> {
        self.backends.groups()
    }

    fn others(&self) -> Vec<Group> {
        self.peers.groups()
    }
}

/// Group versions of remote servers first, then what only peers serve, then discovery of what is ours.
struct Versions {
    backends: Arc<Backends>,
    peers: Option<Arc<Peers>>,
    discovery: DiscoveryPaths,
}

impl VersionEndpoints for Versions {
    fn endpoint(&self, request: &Request) -> Option<Arc<dyn Endpoint>> {
        let mut parts = request.info.path.strip_prefix("/apis/").into_iter().flat_map(|rest| rest.split('/'));
        if let (Some(group), Some(version)) = (parts.next(), parts.next())
            && let Some(backend) = self.backends.get(group, version)
        {
            return Some(backend);
        }
        if let Some(peer) = self.peers.as_ref().and_then(|peers| peers.endpoint(request)) {
            return Some(peer);
        }
        self.discovery.endpoint(request)
    }
}
