//! The chain: aggregator → kube-core → apiextensions → 404, built last first.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use arc_swap::ArcSwap;
use audit::Auditor;
use generic_server::{
    admission::{self, AdmissionMetrics, AlwaysAdmit, AlwaysDeny},
    flow_control::{Dumps, FlowControl},
    health::{CachesFilled, Check, Health, KmsProvider, NotShuttingDown, Slis, StoreAnswers, TasksReady},
    metrics::{Metrics, MetricsEndpoint},
    openapi::Published,
    pages::{Flagz, Index, NothingHere, OpenApi, Profiles, Snapshots, Statusz, Verbosity, Version},
    pipeline::{Concurrency, Cors, Impersonation, Pipeline},
    registry::{Backing, Registry, Settings, register_storage_operations},
    serve::Lifecycle,
    table::{CacheMetrics, ResourceTable, StorageMetrics},
    tasks::{Task, Tasks},
};
use kube_core::admission::NamespaceLifecycle;
use kube_core::{
    node_authorizer::NodeAuthorizer,
    rbac::{Rbac, no_escalation},
    service_network::{self, Reconciler},
};
use machinery::{
    Str,
    codec::json::scan::{self, Step},
    meta::ip::Cidr,
};
use policies::{Policies, Tables};
use storage::{
    Store,
    cache::Cache,
    embedded::{self, Embedded},
    encrypt::Encryption,
    etcd,
};

use crate::{VERSION, auditing, authorization, config::Config, identity, pki::Pki, version};

/// How often the encryption file is looked at, when it is followed (upstream: the same).
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// The chain, ready to serve, and what must be ended with it.
pub struct Chain {
    /// The way in.
    pub pipeline: Arc<Pipeline>,
    /// What runs beside the requests.
    pub tasks: Tasks,
    /// Who did what; its backends are emptied when no request is left.
    pub auditor: Option<Arc<Auditor>>,
    /// Closed last.
    pub store: Arc<dyn Store>,
}

/// Opens the store, builds the servers and links them.
pub async fn build(config: &Config, pki: &Pki, lifecycle: Lifecycle, address: SocketAddr) -> Result<Chain> {
    let (store, embedded) = open_store(config).await?;
    let admission = Arc::new(admission::Chain::default());
    let encryption = open_encryption(config).await?;
    let backing = Backing {
        store: store.clone(),
        encryption: encryption.clone(),
        root: config.storage.prefix.as_str().into(),
        admission: admission.clone(),
        settings: settings(config),
    };

    let rbac = Arc::new(Rbac::default());
    let nodes = Arc::new(NodeAuthorizer::default());
    kube_core::capabilities::allow_privileged(config.allow_privileged);
    let metrics = Metrics::new();
    version::build(&config.version).describe(&metrics);
    let auditor = auditing::auditor(config, &audit::Metrics::new(metrics.registry()))?;
    let host = Str::from(crate::pki::host_name().unwrap_or_else(|| "localhost".to_owned()));
    let server = kube_core::server_name(&host);
    let following = lifecycle.stopped_listening();
    let registry = metrics.registry();
    let authorizer = authorization::authorizer(config, &rbac, &nodes, registry, &server, following)?;
    let flow_control = flow_control(config, &metrics);
    let services = Arc::new(outbound::Services::default());
    let extensions = apiextensions::build(&backing, &services);
    let network = service_network(config, address.port());
    let core = kube_core::build(kube_core::Options {
        backing: &backing,
        authorizer: &authorizer,
        rbac: &rbac,
        delegate: extensions.server,
        network: &network,
        tokens: identity::bearer_tokens(config, &metrics, &server, following)?,
        service_accounts: identity::service_accounts(config, pki, &metrics).await?,
        trust: identity::trust(pki)?,
        kubelets: kubelets(config, pki)?,
        address: identity::public_address(config, address),
        host,
        flow_control: flow_control.as_ref(),
    })
    .map_err(|why| anyhow::anyhow!("kubelet certificates: {why}"))?;
    nodes.attach(&core.registries);
    let namespaces = core.registries[&(Str::default(), Str::new_static("namespaces"))].clone();
    let registry = |group: &'static str, plural: &'static str| {
        core.registries[&(Str::new_static(group), Str::new_static(plural))].clone()
    };
    let resolver = {
        let (services, slices) = (registry("", "services"), registry("discovery.k8s.io", "endpointslices"));
        Arc::new(outbound::Resolver {
            services: services.cache().clone(),
            service_prefix: services.prefix().into(),
            slices: slices.cache().clone(),
            slice_prefix: slices.prefix().into(),
            to_endpoints: config.proxying.route_to_endpoints,
        })
    };
    services.set(resolver.clone());
    let aggregator = aggregator::build(aggregator::Options {
        backing: &backing,
        delegate: core.server.clone(),
        core: core.table.clone(),
        custom: extensions.table.clone(),
        resolver,
        client: proxy_client(pki)?,
        address: identity::public_address(config, address),
        rejects_redirects: config.proxying.reject_redirects,
    });
    let tables = [&aggregator.table, &core.table, &extensions.table].map(Clone::clone);
    let tables = Tables(tables.to_vec());
    let policies = Policies::new(&core.registries, tables.clone(), authorizer.clone(), services.clone());
    let surroundings = kube_core::admission::Surroundings {
        registries: &core.registries,
        authorizer: &authorizer,
        tables: &tables,
        settings: &config.admission.settings,
    };
    let plugin = |name: &&str| -> Result<Arc<dyn admission::Admission>> {
        let found: Option<Arc<dyn admission::Admission>> = match *name {
            "AlwaysAdmit" => Some(Arc::new(AlwaysAdmit)),
            "AlwaysDeny" => Some(Arc::new(AlwaysDeny)),
            "NamespaceLifecycle" => Some(Arc::new(NamespaceLifecycle::new(namespaces.clone()))),
            name => policies.plugin(name).or_else(|| kube_core::admission::plugin(name, &surroundings)),
        };
        // What the table of plugins calls built is built, or nothing starts.
        found.with_context(|| format!("nobody makes the admission plugin {name:?}"))
    };
    let plugin = |name: &&'static str| Ok((*name, plugin(name)?));
    let mut plugins: Vec<_> = config.admission.plugins.iter().map(plugin).collect::<Result<_>>()?;
    plugins.push(("NoEscalation", no_escalation(rbac, authorizer.clone())));
    admission.set(plugins, Some(&AdmissionMetrics::new(metrics.registry())));

    let openapi = OpenApi::new(
        vec![aggregator.table.clone(), core.table.clone(), extensions.table.clone()],
        published(extensions.definitions.clone()),
    );
    let mut caches: Vec<_> = core.registries.values().map(|r| r.cache().clone()).collect();
    caches.extend([&extensions.definitions, &aggregator.registry].map(|r| r.cache().clone()));
    extensions.metrics.register(metrics.registry());
    policies.register(metrics.registry());
    let tables = vec![aggregator.table.clone(), core.table.clone(), extensions.table];
    let available = aggregator::Availability::new(aggregator.registry.cache().clone());
    metrics.registry().register(Box::new(available)).context("metrics of APIServices")?;
    register_storage_operations(metrics.registry());
    let caches_seen = CacheMetrics::new(tables.clone());
    metrics.registry().register(Box::new(caches_seen)).context("metrics of the caches")?;
    let storage_metrics = StorageMetrics::new(metrics.registry(), store.clone(), tables.clone());
    let own = [
        storage_metrics.task(config.storage.count_period, config.storage.size_period),
        storage_readiness(caches.clone(), config.storage.initialization_timeout),
    ];
    let storage_versions = core
        .registries
        .get(&(Str::new_static("internal.apiserver.k8s.io"), Str::new_static("storageversions")))
        .filter(|_| config.features.is_on("StorageVersionAPI"))
        .map(|registry| {
            let host = crate::pki::host_name().unwrap_or_else(|| "localhost".to_owned());
            kube_core::apiserverinternal::storage_versions(registry, Tables(tables.clone()), &host)
        });
    let tasks: Vec<_> = core
        .tasks
        .into_iter()
        .chain(extensions.tasks)
        .chain(aggregator.tasks)
        .chain(own)
        .chain(storage_versions)
        .collect();
    let tasks = Tasks::start(tasks).context("tasks")?;
    let index = Arc::new(Index::default());
    let health =
        Healths { config, lifecycle: &lifecycle, store: &store, encryption: encryption.as_ref(), tasks: &tasks };
    let slis = Arc::new(Slis::new());
    let (healthz, livez, readyz) = (health.healthz(&slis), health.livez(&slis), health.readyz(&slis, caches));
    let version = Arc::new(Version::new(&version::build(&config.version)));
    let nothing = Arc::new(NothingHere);
    let mut front = aggregator
        .builder
        .unlisted("/", index.clone())
        .unlisted("/index.html", index.clone())
        .path("/healthz", healthz.clone())
        .prefix("/healthz/", healthz)
        .path("/livez", livez.clone())
        .prefix("/livez/", livez)
        .path("/readyz", readyz.clone())
        .prefix("/readyz/", readyz)
        .path("/version", version.clone())
        .unlisted("/version/", version)
        .prefix("/version/", nothing.clone())
        .path("/openapi/v2", openapi.clone())
        .path("/openapi/v3", openapi.clone())
        .prefix("/openapi/v3/", openapi)
        .path("/metrics", Arc::new(MetricsEndpoint(metrics.clone(), config.shown_metrics.clone())))
        .path("/metrics/slis", slis)
        .path("/statusz", Arc::new(Statusz::new(VERSION, index.clone())))
        .path("/flagz", Arc::new(Flagz(config.flags.clone())));
    if let Some(store) = embedded {
        let snapshots = Snapshots::new(store, &config.data_dir);
        front = front.unlisted("/debug/storage/snapshot", Arc::new(snapshots));
    }
    if let Some(control) = &flow_control {
        front = front.prefix("/debug/api_priority_and_fairness/", Arc::new(Dumps(control.clone())));
    }
    if config.profiling {
        let verbosity = Arc::new(Verbosity(crate::logging::set_verbosity));
        front = front
            .unlisted("/debug/pprof", Arc::new(Profiles))
            .prefix("/debug/pprof/", Arc::new(Profiles))
            .unlisted("/debug/flags", verbosity.clone())
            .prefix("/debug/flags/", verbosity);
    }
    let front = front.build();
    index.set(&front);
    let pipeline = Pipeline {
        front,
        auditor: auditor.clone(),
        authentication: identity::authentication(config, pki, core.tokens, &metrics, following)?,
        impersonation: Impersonation::new(config.features.is_on("ConstrainedImpersonation"), metrics.registry()),
        authorizer,
        concurrency: concurrency(config, flow_control, tables),
        cors: cors(config)?,
        request_timeout: request_timeout(config),
        compress: config.features.is_on("APIResponseCompression"),
        metrics,
        lifecycle,
    };
    Ok(Chain { pipeline: Arc::new(pipeline), tasks, auditor, store })
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

/// The hooks that upstream has a check for, in its order, and the tasks that do their work here.
const HOOKS: [(&str, &[&str]); 31] = [
    ("start-apiserver-admission-initializer", &["storage-readiness"]),
    ("generic-apiserver-start-informers", &["storage-readiness"]),
    ("priority-and-fairness-config-consumer", &["priority-and-fairness-config-consumer"]),
    ("priority-and-fairness-filter", &["priority-and-fairness-config-consumer"]),
    ("storage-object-count-tracker-hook", &["storage-object-count-tracker-hook"]),
    ("start-apiextensions-informers", &["start-apiextensions-informers"]),
    ("start-apiextensions-controllers", &["start-apiextensions-controllers"]),
    ("crd-informer-synced", &["crd-informer-synced"]),
    ("start-system-namespaces-controller", &["start-system-namespaces-controller"]),
    ("peer-endpoint-reconciler-controller", &["start-kube-apiserver-identity-lease-controller"]),
    ("start-cluster-authentication-info-controller", &["start-cluster-authentication-info-controller"]),
    ("start-kube-apiserver-identity-lease-controller", &["start-kube-apiserver-identity-lease-controller"]),
    (
        "start-kube-apiserver-identity-lease-garbage-collector",
        &["start-kube-apiserver-identity-lease-garbage-collector"],
    ),
    ("storage-readiness", &["storage-readiness"]),
    ("start-legacy-token-tracking-controller", &["start-legacy-token-tracking-controller"]),
    (
        "start-service-ip-repair-controllers",
        &["start-service-ip-repair-controllers", "start-service-node-port-repair-controllers"],
    ),
    ("rbac/bootstrap-roles", &["rbac/bootstrap-roles"]),
    ("scheduling/bootstrap-system-priority-classes", &["scheduling/bootstrap-system-priority-classes"]),
    ("priority-and-fairness-config-producer", &["priority-and-fairness-config-producer"]),
    ("bootstrap-controller", &["bootstrap-controller"]),
    ("start-kubernetes-service-cidr-controller", &["start-kubernetes-service-cidr-controller"]),
    ("aggregator-reload-proxy-client-cert", &["start-kube-aggregator-informers"]),
    ("start-kube-aggregator-informers", &["start-kube-aggregator-informers"]),
    ("apiservice-status-local-available-controller", &["kube-apiserver-autoregistration"]),
    ("apiservice-status-remote-available-controller", &["apiservice-status-remote-available-controller"]),
    ("apiservice-registration-controller", &["start-kube-aggregator-informers"]),
    ("apiservice-wait-for-first-sync", &["start-kube-aggregator-informers"]),
    ("apiservice-discovery-controller", &["start-kube-aggregator-informers"]),
    ("kube-apiserver-autoregistration", &["kube-apiserver-autoregistration"]),
    ("apiservice-openapi-controller", &["start-kube-aggregator-informers"]),
    ("apiservice-openapiv3-controller", &["start-kube-aggregator-informers"]),
];

/// Upstream's check that what is built in has been registered; it stands behind this hook.
const AUTOREGISTRATION: &str = "kube-apiserver-autoregistration";

/// What the health paths are made of.
struct Healths<'a> {
    config: &'a Config,
    lifecycle: &'a Lifecycle,
    store: &'a Arc<dyn Store>,
    encryption: Option<&'a Arc<Encryption>>,
    tasks: &'a Tasks,
}

impl Healths<'_> {
    fn healthz(&self, slis: &Arc<Slis>) -> Arc<Health> {
        let health = self.store_answers(self.providers(Health::new("healthz").alive()));
        Arc::new(self.hooks(health).counted(slis.clone()))
    }

    fn livez(&self, slis: &Arc<Slis>) -> Arc<Health> {
        let health = self.hooks(self.store_answers(Health::new("livez").alive()));
        Arc::new(health.lenient_for(self.config.requests.livez_grace_period).counted(slis.clone()))
    }

    fn readyz(&self, slis: &Arc<Slis>, caches: Vec<Arc<Cache>>) -> Arc<Health> {
        let ready = StoreAnswers(self.store.clone(), self.config.storage.ready_timeout);
        let health = self
            .store_answers(self.providers(Health::new("readyz")))
            .with("etcd-readiness", Arc::new(ready))
            .with("informer-sync", Arc::new(CachesFilled(caches)));
        let not_ending = Arc::new(NotShuttingDown(self.lifecycle.clone()));
        Arc::new(self.hooks(health).last("shutdown", not_ending).counted(slis.clone()))
    }

    fn providers(&self, health: Health) -> Health {
        kms_checks(self.config, self.encryption)
            .into_iter()
            .fold(health, |health, (name, check)| health.with(name, check))
    }

    fn store_answers(&self, health: Health) -> Health {
        health.with("etcd", Arc::new(StoreAnswers(self.store.clone(), self.config.storage.health_timeout)))
    }

    /// A check for each of upstream's hooks, and for each task that is none of them.
    fn hooks(&self, mut health: Health) -> Health {
        for (name, tasks) in HOOKS {
            let running: Vec<_> = tasks.iter().copied().filter(|task| self.tasks.state(task).is_some()).collect();
            if running.is_empty() {
                continue; // flags have switched it off
            }
            let check = Arc::new(TasksReady(self.tasks.clone(), running));
            health = health.with(format!("poststarthook/{name}"), check.clone());
            if name == AUTOREGISTRATION {
                health = health.with("autoregister-completion", check);
            }
        }
        let known: Vec<&str> = HOOKS.iter().flat_map(|(_, tasks)| tasks.iter().copied()).collect();
        health.tasks(self.tasks.clone(), known)
    }
}

/// What services take their addresses and ports from.
fn service_network(config: &Config, port: u16) -> service_network::Settings {
    let address = config.serving.public_address();
    let ranges = config.services.cluster_ip_ranges.iter();
    service_network::Settings {
        ranges: ranges.map(|range| Cidr { ip: range.network, prefix: range.prefix }).collect(),
        node_ports: config.services.node_ports,
        // An address that nobody else could use is not written down as one of the service's.
        reconciler: if address.is_some() { config.services.reconciler } else { Reconciler::None },
        address: address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        port,
        kubernetes_node_port: config.services.kubernetes_node_port,
    }
}

/// The store; and the embedded one once more, if it is that.
async fn open_store(config: &Config) -> Result<(Arc<dyn Store>, Option<Arc<Embedded>>)> {
    if let Some(remote) = &config.storage.etcd {
        let options = etcd::EtcdOptions {
            servers: remote.servers.clone(),
            ca: remote.ca.clone(),
            identity: remote.certificate.as_ref().map(|files| (files.certificate.clone(), files.key.clone())),
            prefix: config.storage.prefix.clone(),
            compaction_interval: config.storage.compaction_interval,
            lease_reuse: config.storage.lease_reuse,
            health_timeout: config.storage.health_timeout.max(config.storage.ready_timeout),
            ..etcd::EtcdOptions::default()
        };
        return Ok((etcd::Etcd::connect(options).await.context("cannot reach etcd")?, None));
    }
    let dir = config.data_dir.join("store");
    let options =
        embedded::Options { compaction_interval: config.storage.compaction_interval, ..embedded::Options::default() };
    let store = Embedded::open(&dir, options).with_context(|| format!("cannot open the store in {}", dir.display()))?;
    Ok((store.clone(), Some(store)))
}

/// Reads how values are encrypted. KMS plugins that are not there in a moment are waited for by readyz.
async fn open_encryption(config: &Config) -> Result<Option<Arc<Encryption>>> {
    let Some(options) = &config.storage.encryption else { return Ok(None) };
    let encryption = Encryption::load(&options.file).map_err(anyhow::Error::msg)?;
    if let Err(error) = encryption.wait_until_well(Duration::from_secs(3)).await {
        tracing::warn!(error, "starting without a KMS provider");
    }
    if options.reload {
        encryption.reload_automatically(RELOAD_EVERY);
    }
    Ok(Some(encryption))
}

/// One check a KMS provider; one for all if they may change.
fn kms_checks(config: &Config, encryption: Option<&Arc<Encryption>>) -> Vec<(String, Arc<dyn Check>)> {
    let Some(encryption) = encryption else { return Vec::new() };
    let check = |at| Arc::new(KmsProvider(encryption.clone(), at)) as Arc<dyn Check>;
    if config.storage.encryption.as_ref().is_some_and(|options| options.reload) {
        return vec![("kms-providers".to_owned(), check(None))];
    }
    (0..encryption.kms_health().len()).map(|at| (format!("kms-provider-{at}"), check(Some(at)))).collect()
}

/// What flags say of all stored resources.
fn settings(config: &Config) -> Settings {
    Settings {
        event_ttl: config.storage.event_ttl,
        min_watch_timeout: config.requests.min_watch_timeout,
        apis: config.apis.clone(),
        collects_garbage: config.collects_garbage,
        features: config.features.features(),
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

/// Finds the schemas of custom resources where they were written: in their definitions.
fn published(definitions: Arc<Registry>) -> Published {
    Arc::new(move |row| {
        let key = definitions.key("", &format!("{}.{}", row.plural, row.group));
        let snapshot = definitions.cache().latest();
        let text = snapshot.get(&key)?.object()?.bytes();
        let versions =
            (0..).map_while(|i| scan::at(text, &[Step::Member("spec"), Step::Member("versions"), Step::Item(i)]));
        let version =
            versions.into_iter().find(|v| scan::text(v, &["name"]).is_some_and(|name| row.version == *name))?;
        scan::field(version, &["schema", "openAPIV3Schema"]).map(|schema| text.slice_ref(schema))
    })
}

/// How kubelets are reached.
fn kubelets(config: &Config, pki: &Pki) -> Result<kube_core::connect::Settings> {
    let read = |path: &std::path::Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let files = &pki.kubelet_client;
    Ok(kube_core::connect::Settings {
        identity: outbound::Identity { certificate: read(&files.certificate)?, key: read(&files.key)? },
        authorities: config.kubelet.ca.as_deref().map(read).transpose()?,
        address_types: config.kubelet.address_types.iter().map(|kind| Str::from(kind.as_str())).collect(),
        streams_need_create: config.features.is_on("AuthorizePodWebsocketUpgradeCreatePermission"),
    })
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
