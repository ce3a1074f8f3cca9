//! The chain: aggregator → kube-core → apiextensions → 404, built last first.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use audit::Auditor;
use auth::{
    Authorizer,
    reload::{Followed, ReloadError, ReloadMetrics},
};
use generic_server::{
    admission::{self, Admission, AdmissionMetrics, AlwaysAdmit, AlwaysDeny, OwnChain},
    features::Minor,
    flow_control::FlowControl,
    metrics::Metrics,
    openapi::Described,
    pages::{OpenApi, register_discovery},
    pipeline::{Concurrency, Cors, Impersonation, Pipeline},
    registry::{Backing, Listers, Placement, Registries, RegistrySettings, register_storage_operations},
    serve::Lifecycle,
    table::{CacheMetrics, ResourceTable, StorageMetrics, StoreMetrics},
    tasks::{Task, Tasks},
};
use kube_core::{
    node_authorizer::NodeAuthorizer,
    rbac::{Rbac, no_escalation},
    service_network::{self, Reconciler},
};
use machinery::{Str, meta::ip::Cidr};
use outbound::egress::{Egress, EgressMetrics, Network};
use policies::{Manifests, Policies, Tables};
use storage::{
    Store,
    cache::Cache,
    encrypt::{Encryption, EncryptionError, EncryptionRules},
};
use tokio_util::sync::CancellationToken;

use crate::{
    auditing, authorization,
    config::Config,
    controllers::controllers,
    health::Healths,
    identity, pages,
    pki::Pki,
    stores,
    tracer::{self, Exporting},
    version,
};

/// The chain, ready to serve, and what must be ended with it.
pub struct Chain {
    /// The way in.
    pub pipeline: Arc<Pipeline>,
    /// What runs beside the requests.
    pub tasks: Tasks,
    /// Who did what; its backends are emptied when no request is left.
    pub auditor: Option<Arc<Auditor>>,
    /// Sends traces; ended when no request is left.
    pub exporting: Option<Exporting>,
    /// Closed last.
    pub store: Arc<dyn Store>,
    /// Those of single resources, closed with it.
    pub others: Vec<Arc<dyn Store>>,
}

/// The tables of the three servers: they exist before the servers do, and change while these run.
#[derive(Clone, Default)]
struct ServerTables {
    aggregator: Arc<ArcSwap<ResourceTable>>,
    core: Arc<ArcSwap<ResourceTable>>,
    custom: Arc<ArcSwap<ResourceTable>>,
}

impl ServerTables {
    /// In the order of the chain.
    fn all(&self) -> Vec<Arc<ArcSwap<ResourceTable>>> {
        vec![self.aggregator.clone(), self.core.clone(), self.custom.clone()]
    }
}

/// Opens the store, builds the servers and links them: what reads first, then who decides, then what writes.
pub async fn build(config: &Config, pki: &Pki, lifecycle: Lifecycle, address: SocketAddr) -> Result<Chain> {
    if config.features.is_on("NativeHistograms") {
        histograms::enable_native();
    }
    let metrics = Metrics::new();
    let registry = metrics.registry();
    version::build(&config.version, config.versions).describe(&metrics);
    config.features.describe(registry);
    let following = lifecycle.stopped_listening();
    let host = Str::from(crate::pki::host_name().unwrap_or_else(|| "localhost".to_owned()));
    let server = kube_core::server_name(&host);
    kube_core::capabilities::allow_privileged(config.allow_privileged);

    // How others are reached.
    let egress = egress(config, registry)?;

    // What reads.
    let stores = stores::open(config, &egress).await?;
    let store = stores.main.clone();
    let encryption = open_encryption(config, (&server, registry), following).await?;
    let backing = Backing {
        store: store.clone(),
        encryption: encryption.clone(),
        root: config.storage.prefix.as_str().into(),
        settings: settings(config, stores.placement.clone()),
    };
    let listers = Listers::start(&kube_core::resources_as(&backing.settings), &backing);
    let resolver = listers.services(config.proxying.route_to_endpoints, egress.clone());

    // Who decides.
    let rbac = Arc::new(Rbac::new(&listers));
    let nodes = Arc::new(NodeAuthorizer::new(&listers, &backing.settings.features));
    let authorizer = authorization::authorizer(config, &rbac, &nodes, registry, (&server, &egress), following)?;
    let tables = ServerTables::default();
    let policies = Policies::new(&listers, Tables(tables.all()), authorizer.clone(), resolver.clone());
    policies.register(registry);
    let configs = config.admission.configs.clone();
    let manifests = Manifests::new(configs, kube_core::resources(), registry, &server, following.clone());
    let deciding = (&policies, &manifests);
    let admission = admission_chain(config, &listers, &tables, deciding, (rbac, &authorizer), registry)?;
    let flow_control = flow_control(config, &metrics);

    // What writes: the servers, last one first.
    let extensions = apiextensions::build(apiextensions::Options {
        backing: &backing,
        admission: &admission,
        services: &resolver,
        table: &tables.custom,
    });
    extensions.metrics.register(registry);
    let core = kube_core::build(kube_core::Options {
        backing: &backing,
        listers: &listers,
        admission: &admission,
        authorizer: &authorizer,
        table: &tables.core,
        delegate: extensions.server,
        network: &service_network(config, address.port()),
        tokens: identity::bearer_tokens(config, &metrics, (&server, &egress), following)?,
        service_accounts: identity::service_accounts(config, pki, &metrics).await?,
        metrics: registry,
        trust: identity::trust(config, pki)?,
        kubelets: kubelets(config, pki, &egress, registry)?,
        address: identity::public_address(config, address),
        peer_address: peer_address(config, address.port()),
        host,
        leadership: config.leadership,
        flow_control: flow_control.as_ref(),
    })
    .map_err(|why| anyhow::anyhow!("kubelet certificates: {why}"))?;
    let front_proxy = proxy_client(pki)?;
    let aggregator = aggregator::build(aggregator::Options {
        backing: &backing,
        admission: &admission,
        table: tables.aggregator.clone(),
        delegate: core.server,
        core: tables.core.clone(),
        custom: tables.custom.clone(),
        resolver,
        client: front_proxy.clone(),
        address: identity::public_address(config, address),
        rejects_redirects: config.proxying.reject_redirects,
        peers: peers(config, &listers, &egress, (&server, &front_proxy, address.port()), registry)?,
    })
    .map_err(|why| anyhow::anyhow!("--peer-ca-file: {why}"))?;

    // What runs beside the requests.
    let mut caches: Vec<_> = listers.values().map(|lister| lister.cache().clone()).collect();
    caches.extend([&extensions.definitions, &aggregator.registry].map(|r| r.cache().clone()));
    let storage_metrics = observe_storage(registry, &store, &tables, &aggregator)?;
    let own = [
        storage_metrics.task(config.storage.count_period, config.storage.size_period),
        storage_readiness(caches.clone(), config.storage.initialization_timeout),
    ];
    let storage_versions = storage_versions(config, &core.registries, &tables);
    let (controllers, door) =
        controllers(config, pki, (&listers, extensions.definitions.lister(), tables.all()), registry)?;
    let tasks = core.tasks.into_iter().chain(extensions.tasks).chain(aggregator.tasks).chain(own);
    let tasks = tasks.chain(storage_versions).chain(controllers);
    let tasks = Tasks::start(tasks.collect::<Vec<_>>()).context("tasks")?;

    // The way in.
    let health =
        Healths { config, lifecycle: &lifecycle, store: &store, encryption: encryption.as_ref(), tasks: &tasks };
    let pages = pages::Sources {
        config,
        metrics: &metrics,
        flow_control: flow_control.as_ref(),
        embedded: stores.embedded.clone(),
        tables: tables.all(),
        openapi: OpenApi::new(
            tables.all(),
            pages::published(extensions.definitions.lister().clone()),
            Described {
                version: Minor(config.versions.emulated),
                cbor: serves_cbor(config),
                enums: config.features.is_on("OpenAPIEnums"),
            },
        ),
        checks: health.checks(caches),
    };
    let front = pages.attach(aggregator.builder);
    let auditor = auditing::auditor(config, &egress, &audit::Metrics::new(registry))?;
    let (tracer, exporting) = tracer::tracer(config, &server, egress.to(Network::ControlPlane).cloned(), registry);
    let pipeline = Pipeline {
        front,
        tracer,
        auditor: auditor.clone(),
        authentication: identity::authentication(config, pki, core.tokens, &metrics, following)?,
        impersonation: Impersonation::new(config.features.is_on("ConstrainedImpersonation"), registry),
        authorizer,
        concurrency: concurrency(config, flow_control, tables.all()),
        ready: config.requests.refused_until_ready.then(|| first_ready(&tasks)),
        cors: cors(config)?,
        request_timeout: request_timeout(config),
        compress: config.features.is_on("APIResponseCompression"),
        serves_cbor: serves_cbor(config),
        parts_with_strangers: config.features.is_on("UnauthenticatedHTTP2DOSMitigation"),
        metrics: metrics.clone(),
        lifecycle,
    };
    let pipeline = Arc::new(pipeline);
    door.open(&pipeline);
    let others = stores.others();
    Ok(Chain { pipeline, tasks, auditor, exporting, store, others })
}

/// Is cancelled when all tasks are ready for the first time.
fn first_ready(tasks: &Tasks) -> CancellationToken {
    let (ready, tasks) = (CancellationToken::new(), tasks.clone());
    let told = ready.clone();
    tokio::spawn(async move {
        tasks.wait_ready().await;
        told.cancel();
    });
    ready
}

/// Through which proxies connections leave.
fn egress(config: &Config, metrics: &prometheus::Registry) -> Result<Egress> {
    let Some(selections) = &config.egress else { return Ok(Egress::default()) };
    Ok(Egress::new(selections, &EgressMetrics::registered(metrics))?)
}

/// Whether documents may be CBOR.
fn serves_cbor(config: &Config) -> bool {
    config.features.is_on("CBORServingAndStorage")
}

/// The admission plugins that the configuration names, in its order. Some write objects themselves, which the whole chain admits.
fn admission_chain(
    config: &Config,
    listers: &Listers,
    tables: &ServerTables,
    (policies, manifests): (&Policies, &Manifests),
    (rbac, authorizer): (Arc<Rbac>, &Arc<dyn Authorizer>),
    registry: &prometheus::Registry,
) -> Result<Arc<dyn Admission>> {
    let tables = Tables(tables.all());
    let mut wrong = None;
    let chain = Arc::new_cyclic(|chain| {
        let surroundings = kube_core::admission::Surroundings {
            listers,
            chain: OwnChain(chain.clone()),
            authorizer,
            tables: &tables,
            settings: &config.admission.settings,
        };
        let plugin = |name: &str| -> Result<Arc<dyn Admission>> {
            let found: Option<Arc<dyn Admission>> = match name {
                "AlwaysAdmit" => Some(Arc::new(AlwaysAdmit)),
                "AlwaysDeny" => Some(Arc::new(AlwaysDeny)),
                name => {
                    let found = policies.plugin(name, manifests);
                    let found = found.map_err(|why| anyhow::anyhow!("admission plugin {name:?}: {why}"))?;
                    found.or_else(|| kube_core::admission::plugin(name, &surroundings))
                }
            };
            // What the table of plugins calls built is built, or nothing starts.
            found.with_context(|| format!("nobody makes the admission plugin {name:?}"))
        };
        let mut plugins = Vec::new();
        for name in &config.admission.plugins {
            match plugin(name) {
                Ok(plugin) => plugins.push((*name, plugin)),
                Err(why) => drop(wrong.get_or_insert(why)),
            }
        }
        plugins.push(("NoEscalation", no_escalation(rbac, authorizer.clone())));
        admission::Chain::new(plugins, Some(&AdmissionMetrics::new(registry)))
    });
    wrong.map_or(Ok(chain), Err)
}

/// Adds what is counted of the store, of caches and of aggregated servers to what the server shows.
fn observe_storage(
    registry: &prometheus::Registry,
    store: &Arc<dyn Store>,
    tables: &ServerTables,
    aggregator: &aggregator::Aggregator,
) -> Result<StorageMetrics> {
    let available = aggregator::Availability::new(aggregator.registry.cache().clone());
    registry.register(Box::new(available)).context("metrics of APIServices")?;
    register_storage_operations(registry);
    register_discovery(registry);
    outbound::register_requests(registry);
    registry.register(Box::new(CacheMetrics::new(tables.all()))).context("metrics of the caches")?;
    registry.register(Box::new(StoreMetrics::default())).context("metrics of the store")?;
    Ok(StorageMetrics::new(registry, store.clone(), tables.all()))
}

/// Writes which versions this server reads and writes, where that is served.
fn storage_versions(config: &Config, registries: &Registries, tables: &ServerTables) -> Option<Task> {
    let registry = registries.get("internal.apiserver.k8s.io", "storageversions")?;
    let host = crate::pki::host_name().unwrap_or_else(|| "localhost".to_owned());
    let task = || kube_core::apiserverinternal::storage_versions(registry, Tables(tables.all()), &host);
    config.features.is_on("StorageVersionAPI").then(task)
}

fn request_timeout(config: &Config) -> Duration {
    Some(config.requests.timeout).filter(|timeout| !timeout.is_zero()).unwrap_or(Duration::from_secs(60))
}

/// Priority levels share the places of both limits.
fn flow_control(config: &Config, metrics: &Metrics) -> Option<Arc<FlowControl>> {
    let requests = &config.requests;
    let total = requests.max_reads.saturating_add(requests.max_writes);
    let levels = || flowcontrol::Levels::new(total, flowcontrol::Metrics::new(metrics.registry()));
    requests.priority_and_fairness.then(|| Arc::new(FlowControl::new(levels())))
}

/// How many requests run at once, and which.
fn concurrency(
    config: &Config,
    flow_control: Option<Arc<FlowControl>>,
    tables: Vec<Arc<ArcSwap<ResourceTable>>>,
) -> Concurrency {
    match flow_control {
        Some(control) => Concurrency::Fair { control, tables, patience: request_timeout(config) / 4 },
        None => Concurrency::in_flight(config.requests.max_reads, config.requests.max_writes),
    }
}

/// What services take their addresses and ports from.
fn service_network(config: &Config, port: u16) -> service_network::NetworkSettings {
    let address = config.serving.public_address();
    let ranges = config.services.cluster_ip_ranges.iter();
    service_network::NetworkSettings {
        ranges: ranges.map(|range| Cidr { ip: range.network, prefix: range.prefix }).collect(),
        node_ports: config.services.node_ports,
        // An address that nobody else could use is not written down as one of the service's.
        reconciler: if address.is_some() { config.services.reconciler } else { Reconciler::None },
        address: address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port,
        kubernetes_node_port: config.services.kubernetes_node_port,
    }
}

/// Reads how values are encrypted, and follows that until `cancel` if it is asked for. KMS plugins that are not there in a
/// moment are waited for by readyz. `server` is this server's name in metrics.
async fn open_encryption(
    config: &Config,
    (server, registry): (&str, &prometheus::Registry),
    cancel: &CancellationToken,
) -> Result<Option<Arc<Encryption>>> {
    let Some(options) = &config.storage.encryption else { return Ok(None) };
    let allowed = EncryptionRules { kms_v1: config.features.is_on("KMSv1"), reload: options.reload };
    let encryption = Encryption::load(&options.file, allowed)?;
    if let Err(error) = encryption.wait_until_well(Duration::from_secs(3)).await {
        tracing::warn!(%error, "starting without a KMS provider");
    }
    let content = encryption.text().into_bytes();
    let metrics = ReloadMetrics::new(registry, "encryption_config_controller", server, &content);
    if options.reload {
        let current = encryption.clone();
        let reload = move |content: Vec<u8>| replace_encryption(current.clone(), content);
        let followed = Followed::new("encryption configuration", options.file.clone(), content);
        tokio::spawn(followed.follow(Some(metrics), cancel.clone(), reload));
    }
    Ok(Some(encryption))
}

async fn replace_encryption(encryption: Arc<Encryption>, content: Vec<u8>) -> Result<(), ReloadError> {
    let text = String::from_utf8(content).map_err(|error| ReloadError::Invalid(error.to_string()))?;
    encryption.replace(text).await.map_err(|error| match error {
        EncryptionError::File { .. } => ReloadError::Invalid(error.to_string()),
        EncryptionError::Plugin(_) => ReloadError::NotYet(error.to_string()),
    })
}

/// What flags say of all stored resources.
fn settings(config: &Config, placement: Placement) -> RegistrySettings {
    RegistrySettings {
        event_ttl: config.storage.event_ttl,
        min_watch_timeout: config.requests.min_watch_timeout,
        apis: config.apis.clone(),
        collects_garbage: config.collects_garbage,
        features: config.features.features(),
        versions: config.versions,
        placement,
        deletes_unreadable: config.features.is_on("AllowUnsafeMalformedObjectDeletion"),
        delete_collection_workers: usize::try_from(config.requests.delete_collection_workers).unwrap_or(usize::MAX),
    }
}

/// Is done when the caches are filled, or have had their time (`--storage-initialization-timeout`).
fn storage_readiness(caches: Vec<Arc<Cache>>, patience: Duration) -> Task {
    Task::new("storage-readiness", move |_| {
        let caches = caches.clone();
        async move {
            let all = async {
                for cache in &caches {
                    // A cache that was stopped has nothing to wait for.
                    let _ = cache.ready().await;
                }
            };
            if tokio::time::timeout(patience, all).await.is_err() {
                tracing::warn!("some watch caches are not filled yet, going on without them");
            }
            Ok(())
        }
    })
}

/// How kubelets are reached.
fn kubelets(
    config: &Config,
    pki: &Pki,
    egress: &Egress,
    metrics: &prometheus::Registry,
) -> Result<kube_core::connect::KubeletSettings> {
    let read = |path: &std::path::Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let files = &pki.kubelet_client;
    Ok(kube_core::connect::KubeletSettings {
        identity: outbound::Identity { certificate: read(&files.certificate)?, key: read(&files.key)? },
        dial: egress.to(Network::Cluster).cloned(),
        authorities: config.kubelet.ca.as_deref().map(read).transpose()?,
        address_types: config.kubelet.address_types.iter().map(|kind| Str::from(kind.as_str())).collect(),
        streams_need_create: config.features.is_on("AuthorizePodWebsocketUpgradeCreatePermission"),
        splits_logs: config.features.is_on("PodLogsQuerySplitStreams"),
        websockets: kube_core::connect::Websockets {
            translates: config.features.is_on("TranslateStreamCloseWebsocketRequests"),
            tunnels: config.features.is_on("PortForwardWebsockets"),
            extends: config.features.is_on("ExtendWebSocketsToKubelet"),
        },
        rate: config.kubelet.rate,
        metrics: kube_core::connect::StreamMetrics::registered(metrics),
    })
}

/// Where other API servers reach this one, if there may be any that can.
fn peer_address(config: &Config, port: u16) -> Option<SocketAddr> {
    let public = || config.serving.public_address().map(|address| SocketAddr::new(address, port));
    config.peers.advertised.or_else(public).filter(|_| config.peers.meets)
}

/// What it takes to know the other API servers. Nobody else has the embedded store.
fn peers<'a>(
    config: &Config,
    listers: &Listers,
    egress: &'a Egress,
    (name, identity, port): (&str, &'a outbound::Identity, u16),
    metrics: &'a prometheus::Registry,
) -> Result<Option<aggregator::PeerOptions<'a>>> {
    if !config.peers.meets || config.storage.etcd.is_none() {
        return Ok(None);
    }
    let read =
        |path: &std::path::PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    Ok(Some(aggregator::PeerOptions {
        name: name.to_owned(),
        address: peer_address(config, port),
        leases: listers.of("coordination.k8s.io", "leases").clone(),
        authorities: config.peers.authorities.as_ref().map(read).transpose()?,
        identity,
        dial: egress.to(Network::ControlPlane),
        metrics,
    }))
}

/// The certificate that aggregated servers know this one by.
fn proxy_client(pki: &Pki) -> Result<outbound::Identity> {
    let read = |path: &std::path::Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let files = &pki.proxy_client;
    Ok(outbound::Identity { certificate: read(&files.certificate)?, key: read(&files.key)? })
}

fn cors(config: &Config) -> Result<Option<Cors>> {
    let origins = &config.requests.cors_allowed_origins;
    if origins.is_empty() {
        return Ok(None);
    }
    Cors::new(origins).map(Some).map_err(|why| anyhow::anyhow!("--cors-allowed-origins: {why}"))
}
