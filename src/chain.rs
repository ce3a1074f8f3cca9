//! The chain: aggregator → kube-core → apiextensions → 404, built last first.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use generic_server::{
    admission::{self, NamespaceLifecycle},
    auth::{self, Authorizer, SystemMasters},
    health::{CachesFilled, Check, Health, KmsProvider, NotShuttingDown, StoreAnswers},
    index::{Index, NothingHere, Version},
    metrics::{Metrics, MetricsEndpoint, StorageMetrics},
    openapi::{OpenApi, Published},
    pipeline::{Authentication, Cors, Pipeline},
    registry::{Backing, Registry, Settings},
    serve::Lifecycle,
    tasks::{Task, Tasks},
};
use machinery::{Str, codec::json};
use storage::{Store, cache::Cache, embedded, encrypt::Encryption, etcd};

use crate::{
    VERSION,
    config::{AuthorizationMode, Config},
    pki::Pki,
};

/// How often the encryption file is looked at, when it is followed (upstream: the same).
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// The chain, ready to serve, and what must be ended with it.
pub struct Chain {
    /// The way in.
    pub pipeline: Arc<Pipeline>,
    /// What runs beside the requests.
    pub tasks: Tasks,
    /// Closed last.
    pub store: Arc<dyn Store>,
}

/// Opens the store, builds the servers and links them.
pub async fn build(config: &Config, pki: &Pki, lifecycle: Lifecycle, address: Str) -> Result<Chain> {
    let store = open_store(config).await?;
    let admission = Arc::new(admission::Chain::default());
    let encryption = open_encryption(config).await?;
    let backing = Backing {
        store: store.clone(),
        encryption: encryption.clone(),
        root: config.storage.prefix.as_str().into(),
        admission: admission.clone(),
        settings: settings(config),
    };

    let authorizer = authorizer(config);
    let extensions = apiextensions::build(&backing);
    let core = kube_core::build(&backing, &authorizer, extensions.server);
    let namespaces = core.registries[&(Str::default(), Str::new_static("namespaces"))].clone();
    let settings = kube_core::admission::Settings {
        not_ready_toleration_seconds: config.admission.not_ready_toleration_seconds,
        unreachable_toleration_seconds: config.admission.unreachable_toleration_seconds,
    };
    let plugin = |name: &&str| -> Option<Arc<dyn admission::Admission>> {
        match *name {
            "NamespaceLifecycle" => Some(Arc::new(NamespaceLifecycle { namespaces: namespaces.clone() })),
            name => kube_core::admission::plugin(name, &core.registries, &settings),
        }
    };
    admission.set(config.admission.plugins.iter().filter_map(plugin).collect());

    let registry = |group: &'static str, plural: &'static str| {
        core.registries[&(Str::new_static(group), Str::new_static(plural))].clone()
    };
    let aggregator = aggregator::build(aggregator::Options {
        backing: &backing,
        delegate: core.server.clone(),
        core: core.table.clone(),
        custom: extensions.table.clone(),
        services: registry("", "services"),
        endpoint_slices: registry("discovery.k8s.io", "endpointslices"),
        client: proxy_client(pki)?,
        route_to_endpoints: config.proxying.route_to_endpoints,
        address,
    });
    let openapi = OpenApi::new(
        vec![aggregator.table.clone(), core.table.clone(), extensions.table.clone()],
        published(extensions.definitions.clone()),
    );
    let mut caches: Vec<_> = core.registries.values().map(|r| r.cache().clone()).collect();
    caches.extend([&extensions.definitions, &aggregator.registry].map(|r| r.cache().clone()));
    let metrics = Metrics::new();
    let tables = vec![aggregator.table.clone(), core.table.clone(), extensions.table];
    let storage_metrics = StorageMetrics::new(metrics.registry(), store.clone(), tables);
    let own = [
        storage_metrics.task(config.storage.count_period, config.storage.size_period),
        storage_readiness(caches.clone(), config.storage.initialization_timeout),
    ];
    let tasks: Vec<_> = core.tasks.into_iter().chain(extensions.tasks).chain(aggregator.tasks).chain(own).collect();
    let tasks = Tasks::start(tasks).context("tasks")?;
    let index = Arc::new(Index::default());
    let store_check = Arc::new(StoreAnswers(store.clone(), config.storage.health_timeout));
    let livez = || Health::new("livez").with("etcd", store_check.clone()).tasks(tasks.clone());
    let kms = kms_checks(config, encryption.as_ref());
    let with_kms = |health: Health| kms.iter().fold(health, |health, (name, check)| health.with(name, check.clone()));
    let healthz = with_kms(Health::new("healthz")).with("etcd", store_check.clone()).tasks(tasks.clone());
    let readyz = with_kms(Health::new("readyz"))
        .with("etcd", store_check.clone())
        .with("etcd-readiness", Arc::new(StoreAnswers(store.clone(), config.storage.ready_timeout)))
        .with("informer-sync", Arc::new(CachesFilled(caches)))
        .tasks(tasks.clone())
        .last("shutdown", Arc::new(NotShuttingDown(lifecycle.clone())));
    let (healthz, livez, readyz) = (Arc::new(healthz), Arc::new(livez()), Arc::new(readyz));
    let version = Arc::new(Version::new(VERSION));
    let nothing = Arc::new(NothingHere);
    let front = aggregator
        .builder
        .path("/", index.clone())
        .path("/index.html", index.clone())
        .path("/healthz", healthz.clone())
        .prefix("/healthz/", healthz)
        .path("/livez", livez.clone())
        .prefix("/livez/", livez)
        .path("/readyz", readyz.clone())
        .prefix("/readyz/", readyz)
        .path("/version", version.clone())
        .path("/version/", version)
        .prefix("/version/", nothing.clone())
        .path("/openapi/v2", openapi.clone())
        .path("/openapi/v3", openapi.clone())
        .prefix("/openapi/v3/", openapi)
        .path("/metrics", Arc::new(MetricsEndpoint(metrics.clone())))
        .build();
    index.set(&front);
    let pipeline = Pipeline {
        front,
        authentication: authentication(config, pki)?,
        authorizer,
        cors: cors(config)?,
        request_timeout: if config.requests.timeout.is_zero() {
            Duration::from_secs(60)
        } else {
            config.requests.timeout
        },
        compress: config.features.is_on("APIResponseCompression"),
        metrics,
        lifecycle,
    };
    Ok(Chain { pipeline: Arc::new(pipeline), tasks, store })
}

async fn open_store(config: &Config) -> Result<Arc<dyn Store>> {
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
        return Ok(etcd::Etcd::connect(options).await.context("cannot reach etcd")?);
    }
    let dir = config.data_dir.join("store");
    let options =
        embedded::Options { compaction_interval: config.storage.compaction_interval, ..embedded::Options::default() };
    Ok(embedded::Embedded::open(&dir, options)
        .with_context(|| format!("cannot open the store in {}", dir.display()))?)
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
        let definition = json::decode(definitions.cache().latest().get(&key)?.object()?.bytes()).ok()?;
        let versions = definition.at(&["spec", "versions"])?.as_array()?;
        let version = versions.iter().find(|v| v.str_at(&["name"]) == Some(&row.version))?;
        version.at(&["schema", "openAPIV3Schema"]).cloned().map(Arc::new)
    })
}

/// The certificate that aggregated servers know this one by.
fn proxy_client(pki: &Pki) -> Result<aggregator::ProxyClient> {
    let read = |path: &std::path::Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let files = &pki.proxy_client;
    Ok(aggregator::ProxyClient { certificate: read(&files.certificate)?, key: read(&files.key)? })
}

fn authentication(config: &Config, pki: &Pki) -> Result<Authentication> {
    let read = |path: &std::path::Path| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let authorities = |path: &std::path::Path| {
        auth::ClientCertificates::from_pem(&read(path)?).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
    };
    let tokens = match &config.authentication.token_file {
        None => auth::StaticTokens::default(),
        Some(path) => {
            let text = String::from_utf8(read(path)?).with_context(|| path.display().to_string())?;
            auth::StaticTokens::parse(&text).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?
        }
    };
    let names = |names: &[String]| names.iter().map(|n| Str::from(n.as_str())).collect();
    let header = &pki.request_header;
    let request_header = auth::RequestHeader {
        authorities: authorities(&header.client_ca)?,
        options: auth::RequestHeaderOptions {
            allowed_names: names(&header.allowed_names),
            username_headers: names(&header.username_headers),
            uid_headers: names(&header.uid_headers),
            group_headers: names(&header.group_headers),
            extra_prefixes: names(&header.extra_header_prefixes),
        },
    };
    Ok(Authentication {
        request_header: Some(request_header),
        client_certificates: Some(Arc::new(authorities(&pki.client_ca)?)),
        tokens,
        loopback_token: Str::default(),
        anonymous: config.authentication.anonymous,
    })
}

/// system:masters first, then the modes in order. What is not built yet lets nobody in but to the public paths.
fn authorizer(config: &Config) -> Arc<dyn Authorizer> {
    let modes = config.authorization.modes.iter().map(|mode| {
        let mode = match mode {
            AuthorizationMode::AlwaysAllow => auth::Mode::AlwaysAllow,
            AuthorizationMode::AlwaysDeny => auth::Mode::AlwaysDeny,
            _ => auth::Mode::PublicPathsOnly,
        };
        Arc::new(mode) as Arc<dyn Authorizer>
    });
    Arc::new(SystemMasters(modes.collect()))
}

fn cors(config: &Config) -> Result<Option<Cors>> {
    let origins = &config.requests.cors_allowed_origins;
    if origins.is_empty() {
        return Ok(None);
    }
    Cors::new(origins).map(Some).map_err(|why| anyhow::anyhow!("--cors-allowed-origins: {why}"))
}
