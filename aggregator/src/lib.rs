//! The front server: APIServices, what is proxied to aggregated servers, and discovery of the whole chain.
//!
//! `row` and `rules` describe the APIService kind; `local` registers what the chain itself serves; `backends` keeps the
//! remote ones, `proxy` hands requests on, `availability` tells whether they answer, and
//! `remote_discovery` what they serve.
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
mod proxy;
mod remote_discovery;
mod row;
mod rules;

pub use metrics::Availability;
pub use row::api_services;
use std::sync::Arc;

use arc_swap::ArcSwap;
use generic_server::{
    admission::Admission,
    endpoint::{Endpoint, VersionEndpoints},
    pages::{Discovery, DiscoveryPaths},
    registry::{Backing, Listers, Registries, Registry},
    request::Request,
    server::{Builder, GenericServer, ServerScope},
    table::{Endpoints, ResourceTable, entries},
    tasks::Task,
};
use machinery::Str;
use outbound::{Identity, Resolver};

use backends::Backends;

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
pub fn build(options: Options<'_>) -> Aggregator {
    let rows = vec![row::api_services()];
    let registries = Registries::new(&Listers::start(&rows, options.backing), options.admission);
    let registry = registries.of(row::GROUP, "apiservices").clone();
    let entries = entries(rows, &options.backing.settings, &registries, &Endpoints::new());
    options.table.store(Arc::new(ResourceTable::new(entries)));
    let backends = Arc::new(Backends::new(options.resolver, options.client, options.rejects_redirects));
    let tables = vec![options.table.clone(), options.core.clone(), options.custom.clone()];
    let discovery = Discovery::new(tables, backends.clone(), options.address);
    let tasks = vec![
        local::registration(registry.clone(), options.core, options.custom),
        backends::follow(registry.lister().clone(), backends.clone()),
        availability::control(registry.clone(), backends.clone()),
    ];
    let versions = Versions { backends, discovery: DiscoveryPaths(discovery.clone()) };
    let builder = Builder::new("aggregator", ServerScope::Groups)
        .table(options.table)
        .versions(Arc::new(versions))
        .delegate(options.delegate);
    Aggregator { builder, registry, tasks, discovery }
}

/// Group versions of remote servers first, then discovery of what is ours.
struct Versions {
    backends: Arc<Backends>,
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
        self.discovery.endpoint(request)
    }
}
